/** Attention maps as points of every layer; ranges of similarity, length and structure light samples up. */

import { useMemo } from "preact/hooks";
import { choice, set, setting, settings } from "../address";
import { api } from "../api";
import { useQuery, useJob } from "../queries";
import { MARKS, PALETTE, series } from "../colours";
import { chance, plain, short } from "../numbers";
import { Boxes } from "../parts/boxes";
import { Brush } from "../parts/brush";
import { StartButton } from "../parts/button";
import { ChooseCorpus } from "../parts/corpus";
import { Choose } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { JobState } from "../parts/job";
import { Scatter, scatterDrawing, sideBySide } from "../parts/scatter";
import { Empty, Waiting, Wrong } from "../parts/states";
import { Table } from "../parts/table";
import { litBy, marks, MOST_RANGES, readRanges, type Wanted, writeRanges } from "../ranges";
import { useStable } from "../stable";
import { offered } from "../start";
import type { ClustersResult, LayerClusters, MapsResponse, AttentionResult, BrushResponse } from "../types";
import { ClusterForm } from "./clusterings";

const REDUCERS: [string, string][] = [
  ["pca", "PCA"],
  ["lstm", "LSTM autoencoder"],
  ["umap", "UMAP"],
];
const SMALL = { wide: 150, high: 130 };
const NOISE = PALETTE[PALETTE.length - 1];

const layerPoints = (points: AttentionResult, layer: number) => points.view.map(sample => sample[layer]);
const labelColour = (label: number) => (label < 0 ? NOISE : series(label % (PALETTE.length - 1)));
const labelName = (label: number) => (label < 0 ? "noise" : String(label));

function changeRange(ranges: Wanted[], which: number, name: string, ends: [number, number] | null): void {
  const next = ranges.length ? ranges.map(each => ({ ...each })) : [{}];
  if (ends) next[which][name] = ends;
  else delete next[which][name];
  set({ ranges: writeRanges(next) || null });
}

function RangesPart({ points, ranges, active }: { points: AttentionResult; ranges: Wanted[]; active: number }) {
  const shown = ranges.length ? ranges : [{}];
  const take = (which: number) => set({ range: String(which) });
  const drop = (which: number) => {
    set({ ranges: writeRanges(ranges.filter((_, index) => index !== which)) || null, range: "0" });
  };
  return (
    <Figure
      title="Ranges: drag over a histogram, or type the ends"
      name="attention-ranges"
      drawing="none"
      data={() => shown.map(range => ({ range, rows: litBy(range, points.variables) }))}
      rows={() => [
        ["range", "row", "left", "right"],
        ...shown.flatMap((range, which) =>
          litBy(range, points.variables).map(row => [which + 1, row, ...points.pairs[row]]),
        ),
      ]}
    >
      <div class="chips" role="tablist" aria-label="ranges">
        {shown.map((range, which) => (
          <span key={which} class="range" style={{ "--mark": MARKS[which] }}>
            <button role="tab" aria-selected={which === active} onClick={() => take(which)}>
              range {which + 1}: {litBy(range, points.variables).length} pairs
            </button>
            {ranges.length > 0 && (
              <button aria-label={`remove range ${which + 1}`} onClick={() => drop(which)}>
                ×
              </button>
            )}
          </span>
        ))}
        {shown.length < MOST_RANGES && Object.keys(shown[shown.length - 1]).length > 0 && (
          <button onClick={() => set({ ranges: `${writeRanges(ranges)}|`, range: String(ranges.length) })}>
            Another range
          </button>
        )}
      </div>
      <div class="panels">
        {Object.entries(points.variables)
          .filter(([, values]) => values.some(value => value !== null))
          .map(([name, values]) => (
            <Brush
              key={name}
              name={name}
              values={values.filter(value => value !== null)}
              range={shown[active]?.[name] ?? null}
              colour={MARKS[active]}
              onChange={ends => changeRange(ranges, active, name, ends)}
            />
          ))}
      </div>
    </Figure>
  );
}

interface Shown {
  points: AttentionResult;
  lit: string[][];
  picked: number | null;
}

/** A whole number of the address, kept within bounds. */
const within = (text: string, low: number, high: number) =>
  Math.min(high, Math.max(low, Math.round(Number(text)) || low));

const pick = (row: number) => set({ pair: String(row) });

/** A pair in words, with its cluster: of many clusters some share a colour. */
function describe(points: AttentionResult, row: number, labels?: number[]): string {
  const cluster = labels ? `cluster ${labelName(labels[row])}\n` : "";
  const values = Object.entries(points.variables).map(([name, each]) => `${name} ${plain(each[row], 2)}`);
  return `${cluster}${points.pairs[row].map(text => short(text, 80)).join("\n")}\n${values.join(", ")}`;
}

const METRICS = ["silhouette", "davies_bouldin", "calinski_harabasz"] as const;

/** The layers of one clustering, or of none, in a row of small scatters. */
function LayersRow({
  points,
  lit,
  picked,
  title,
  id,
  clusters,
}: Shown & { title: string; id: string; clusters: ClustersResult | null }) {
  const chosen = setting("cell", "-:1");
  const depths = Array.from({ length: points.depth }, (_, layer) => layer);
  const colours = (layer: number) => (clusters ? clusters.layers[layer].labels.map(labelColour) : PALETTE[0]);
  const drawing = () =>
    sideBySide(
      depths.map(layer =>
        scatterDrawing({ ...SMALL, points: layerPoints(points, layer), colours: colours(layer), marks: lit, picked }),
      ),
      SMALL,
    );
  const scored = (all: ClustersResult) => [
    ["layer", "clusters", "noise", ...METRICS],
    ...all.layers.map(each => [each.layer, each.k, each.noise, ...METRICS.map(name => each[name])]),
  ];
  const placed = () => [
    ["layer", "row", "x", "y"],
    ...depths.flatMap(layer => layerPoints(points, layer).map(([x, y], row) => [layer + 1, row, x, y])),
  ];
  return (
    <div class="strip" data-clustering={title}>
      <Figure
        title={title}
        name={`attention-layers-${title.replaceAll(/[^a-z0-9]+/gi, "-")}`}
        drawing={drawing}
        data={() => clusters ?? points.view}
        rows={() => (clusters ? scored(clusters) : placed())}
        note={clusters ? "S silhouette, DB Davies-Bouldin, CH Calinski-Harabasz." : undefined}
      >
        <div class="cells">
          {depths.map(layer => {
            const found = clusters?.layers[layer];
            const name = `${id || "-"}:${layer + 1}`;
            return (
              <div key={layer} class={name === chosen ? "cell-box on" : "cell-box"}>
                <button onClick={() => set({ cell: name })}>
                  layer {layer + 1}
                  {found ? ` · ${found.k} clusters` : ""}
                </button>
                <LinkedScatter
                  points={points}
                  lit={lit}
                  picked={picked}
                  layer={layer}
                  colours={colours(layer)}
                  labels={found?.labels}
                  label={`${title}, layer ${layer + 1}`}
                />
                {found && (
                  <small>
                    S {plain(found.silhouette, 2)} · DB {plain(found.davies_bouldin, 2)} · CH{" "}
                    {plain(found.calinski_harabasz, 0)}
                  </small>
                )}
              </div>
            );
          })}
        </div>
      </Figure>
    </div>
  );
}

function LinkedScatter({
  points,
  lit,
  picked,
  layer,
  colours,
  labels,
  label,
}: Shown & { layer: number; colours: string | string[]; labels?: number[]; label: string }) {
  const coordinates = useMemo(() => layerPoints(points, layer), [points, layer]);
  const stable = useStable(colours);
  return (
    <Scatter
      {...SMALL}
      points={coordinates}
      colours={stable}
      marks={lit}
      picked={picked}
      onPick={pick}
      describe={row => describe(points, row, labels)}
      label={label}
    />
  );
}

function ClusteringRow({ id, ...shown }: Shown & { id: string }) {
  const found = useJob<ClustersResult>(id);
  const forget = () =>
    set({
      clusterings:
        settings("clusterings")
          .filter(each => each !== id)
          .join(",") || null,
    });
  const how = found.job?.asked as Record<string, string | number | null> | undefined;
  const title = how ? clusteringName(how) : "clustering";
  return (
    <div class="clustering">
      <JobState id={id} found={found} />
      {found.result && <LayersRow {...shown} title={title} id={id} clusters={found.result} />}
      <button class="drop" onClick={forget} aria-label={`put ${title} away`}>
        ×
      </button>
    </div>
  );
}

function clusteringName(how: Record<string, string | number | null>): string {
  const detail =
    {
      kmeans: "",
      dbscan: `${how.distance}, eps ${how.eps ?? "searched"}`,
      agglomerative: `${how.distance}, ${how.linkage}`,
      spectral: "",
      "gaussian-mixture": String(how.covariance),
    }[String(how.algorithm)] ?? "";
  return [how.algorithm, detail, how.algorithm === "dbscan" ? "" : `K ${how.least} to ${how.most}`]
    .filter(Boolean)
    .join(", ");
}

function ClusterTable({ found, variables }: { found: BrushResponse; variables: string[] }) {
  const head = [
    "cluster",
    "n",
    ...variables.flatMap(name => ["least", "median", "most"].map(which => `${name}, ${which}`)),
  ];
  const exact = found.clusters.map(one => [
    one.label,
    one.n,
    ...variables.flatMap(name => [0, 2, 4].map(index => one.quartiles[name]?.[index] ?? null)),
  ]);
  const rows = found.clusters.map(one => [
    labelName(one.label),
    one.n,
    ...variables.flatMap(name => [0, 2, 4].map(index => plain(one.quartiles[name]?.[index], 2))),
  ]);
  return (
    <Figure
      title="Each cluster"
      name="attention-clusters"
      data={() => found.clusters}
      rows={() => [head, ...exact]}
      drawing="none"
    >
      <Table head={head} rows={rows} />
    </Figure>
  );
}

function TestTable({ found, variables }: { found: BrushResponse; variables: string[] }) {
  const rows = variables.map(name => {
    const test = found.tests[name];
    return test
      ? [
          name,
          plain(test.h, 2),
          chance(test.kruskal_p),
          plain(test.epsilon2),
          plain(test.eta2),
          test.pairs.length,
          plain(test.pairs_significant, 2),
        ]
      : [name, "–", "–", "–", "–", "–", "–"];
  });
  const head = ["variable", "Kruskal-Wallis H", "p", "ε²", "η²", "pairs of clusters", "share that differs (Holm)"];
  return (
    <Figure
      title="Do the clusters differ?"
      name="attention-tests"
      data={() => found.tests}
      rows={() => [
        ["variable", "h", "p", "epsilon2", "eta2", "pairs", "significant"],
        ...variables.map(name => [
          name,
          found.tests[name]?.h,
          found.tests[name]?.kruskal_p,
          found.tests[name]?.epsilon2,
          found.tests[name]?.eta2,
          found.tests[name]?.pairs.length,
          found.tests[name]?.pairs_significant,
        ]),
      ]}
      drawing="none"
    >
      <Table head={head} rows={rows} />
    </Figure>
  );
}

/** One layer of one clustering: its points, its clusters and their tests, on what is brushed. */
function CellPart({ points, lit, picked, ranges, active }: Shown & { ranges: Wanted[]; active: number }) {
  const [id, number] = setting("cell", "-:1").split(":");
  const layer = within(number, 1, points.depth);
  const clustering = useJob<ClustersResult>(id === "-" ? "" : id);
  const layers: LayerClusters | undefined = clustering.result?.layers[layer - 1];
  const brushed = Object.keys(ranges[active] ?? {}).length > 0;
  const rows = brushed ? litBy(ranges[active], points.variables) : null;
  const body = { layer, rows };
  const answer = useQuery(layers ? `${id} ${JSON.stringify(body)}` : null, signal => api.brush(id, body, signal), 150);
  const variables = Object.keys(points.variables);
  const coordinates = useMemo(() => layerPoints(points, layer - 1), [points, layer]);
  const colours = useMemo(() => (layers ? layers.labels.map(labelColour) : PALETTE[0]), [layers]);
  const size = { wide: 520, high: 420 };
  return (
    <section data-part="cell">
      <h2>
        Layer {layer}
        {clustering.job ? `, ${clusteringName(clustering.job.asked as Record<string, string>)}` : ""}
      </h2>
      <div class="panels">
        <Figure
          title="Points"
          name={`attention-layer-${layer}`}
          drawing={() => scatterDrawing({ ...size, points: coordinates, colours, marks: lit, picked })}
          data={() => ({ layer, points: coordinates, labels: layers?.labels ?? null, variables: points.variables })}
          rows={() => [
            ["row", "x", "y", "cluster", ...variables],
            ...coordinates.map(([x, y], row) => [
              row,
              x,
              y,
              layers?.labels[row],
              ...variables.map(name => points.variables[name][row]),
            ]),
          ]}
          note="Click a point, or walk with the arrow keys, to see its pair."
        >
          <Scatter
            {...size}
            points={coordinates}
            colours={colours}
            marks={lit}
            picked={picked}
            onPick={pick}
            describe={row => describe(points, row, layers?.labels)}
            label={`points of layer ${layer}`}
          />
        </Figure>
        {answer.value && (
          <div class={`grow ${answer.waiting ? "old" : ""}`} data-tested={answer.value.n}>
            <p class="note">
              {brushed ? `Tested on the ${answer.value.n} pairs of range ${active + 1}.` : "Tested on all pairs."}
            </p>
            <ClusterTable found={answer.value} variables={variables} />
            <TestTable found={answer.value} variables={variables} />
            <div class="panels">
              {variables
                .filter(name => answer.value!.clusters.some(one => one.quartiles[name]?.every(Number.isFinite)))
                .map(name => (
                  <Figure
                    key={name}
                    title={name}
                    name={`attention-box-${name}`}
                    data={() =>
                      answer.value!.clusters.map(one => ({ cluster: one.label, quartiles: one.quartiles[name] }))
                    }
                    rows={() => [
                      ["cluster", "least", "first", "median", "third", "most"],
                      ...answer.value!.clusters.map(one => [one.label, ...(one.quartiles[name] ?? [])]),
                    ]}
                  >
                    <Boxes
                      label={name}
                      groups={answer.value!.clusters.flatMap(one => {
                        const quartiles = one.quartiles[name];
                        const group = { name: labelName(one.label), colour: labelColour(one.label) };
                        return quartiles ? [{ ...group, quartiles }] : [];
                      })}
                    />
                  </Figure>
                ))}
            </div>
          </div>
        )}
        {answer.error && <Wrong>{answer.error}</Wrong>}
        {layers && !answer.value && answer.waiting && <Waiting />}
      </div>
      {!layers && (
        <Empty>
          {id === "-"
            ? "Start a clustering and choose one of its layers to see its clusters and tests."
            : "Its clusters and tests are shown once the clustering is done."}
        </Empty>
      )}
    </section>
  );
}

function MapsPart({ study, row, depth }: { study: string; row: number; depth: number }) {
  const layer = within(setting("map-layer", "1"), 1, depth);
  const answer = useQuery<MapsResponse>(`${study} ${row} ${layer}`, signal => api.maps(study, row, layer, signal), 150);
  if (answer.error) return <Wrong>{answer.error}</Wrong>;
  if (!answer.value || answer.waiting) return <Waiting />;
  const { tokens, heads, mean, left, right } = answer.value;
  const head = within(setting("map-head", "0"), 0, heads.length);
  const values = head > 0 ? heads[head - 1] : mean;
  return (
    <section data-part="maps">
      <h2>Pair {row}</h2>
      <p class="coloured" dir="auto">
        {left}
      </p>
      <p class="coloured" dir="auto">
        {right}
      </p>
      <div class="form">
        <Choose
          name="layer"
          value={String(layer)}
          choices={Array.from({ length: depth }, (_, index) => String(index + 1))}
          onChange={value => set({ "map-layer": value })}
        />
        <Choose
          name="head"
          value={String(head)}
          choices={[
            ["0", "mean of all"],
            ...heads.map((_, index) => [String(index + 1), String(index + 1)] as [string, string]),
          ]}
          onChange={value => set({ "map-head": value })}
        />
      </div>
      <Figure
        title={`Attention of layer ${layer}, ${head ? `head ${head}` : "mean of all heads"}`}
        name={`attention-map-${row}`}
        data={() => answer.value}
        rows={() => [["", ...tokens], ...values.map((line, index) => [tokens[index], ...line])]}
        note="A row is a token that looks, a column one that is looked at."
      >
        <HeatMap rows={tokens} columns={tokens} values={values} kind="share" label="attention between tokens" />
      </Figure>
    </section>
  );
}

function Studied({ study, points }: { study: string; points: AttentionResult }) {
  const text = setting("ranges");
  const ranges = useMemo(() => readRanges(text), [text]);
  const active = Math.min(Math.max(0, ranges.length - 1), Number(setting("range", "0")) || 0);
  const lit = useMemo(() => marks(ranges, points.variables, points.pairs.length), [ranges, points]);
  const request = setting("pair");
  const row = Number(request);
  const picked = request !== "" && points.pairs[row] ? row : null;
  const clusterings = settings("clusterings");
  const shown = { points, lit, picked };
  return (
    <>
      <RangesPart points={points} ranges={ranges} active={active} />
      <h2>
        {points.pairs.length.toLocaleString("en")} pairs in {points.depth} layers of {points.model}: {points.corpus},
        points by {points.reducer}
      </h2>
      <ClusterForm
        study={study}
        onStart={(job, index) => ({
          clusterings: [...new Set([...settings("clusterings"), job.id])].join(","),
          ...(index ? {} : { cell: `${job.id}:1` }),
        })}
      />
      <LayersRow {...shown} title="no clustering" id="" clusters={null} />
      {clusterings.map(id => (
        <ClusteringRow key={id} id={id} {...shown} />
      ))}
      <CellPart {...shown} ranges={ranges} active={active} />
      {picked === null ? (
        <Empty>Click a point to see the pair and its attention maps.</Empty>
      ) : (
        <MapsPart study={study} row={picked} depth={points.depth} />
      )}
    </>
  );
}

export function AttentionView() {
  const { models } = offered();
  const id = setting("study");
  const found = useJob<AttentionResult>(id);
  const [corpus, model, reducer] = [
    setting("corpus", "sample/pairs"),
    setting("model", models[0]),
    choice<"pca" | "lstm" | "umap">("reducer", "pca"),
  ];
  return (
    <>
      <div class="form">
        <ChooseCorpus value={corpus} onChange={value => set({ corpus: value })} only={each => each.scored} />
        <Choose name="model" value={model} choices={models} onChange={value => set({ model: value })} />
        <Choose name="points by" value={reducer} choices={REDUCERS} onChange={value => set({ reducer: value })} />
        <StartButton
          ask={() => api.attention({ corpus, model, reducer })}
          onStart={job => ({ study: job.id, clusterings: null, cell: null, pair: null })}
        >
          Read the attention maps
        </StartButton>
      </div>
      <JobState id={id} found={found} />
      {!id && (
        <Empty>
          Press Read the attention maps. The maps of every layer become points; cluster them, brush them, or click one
          to see its pair.
        </Empty>
      )}
      {found.result && <Studied study={id} points={found.result} />}
    </>
  );
}
