/** Words and sentences through the layers as one types, and the geometry of a whole corpus. */

import { set, setting, settings } from "../address";
import { api } from "../api";
import { useQuery, useJob } from "../queries";
import { series } from "../colours";
import { StartButton } from "../parts/button";
import { ChooseCorpus } from "../parts/corpus";
import { type Curve, Curves, curvesDrawing, curvesRows } from "../parts/curves";
import { Check, Choose, ChooseSome, NumberField, TextArea } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { JobState } from "../parts/job";
import { Empty, Waiting, Wrong } from "../parts/states";
import { offered } from "../start";
import type { Geometry, LayerGeometry, Trajectories, GeometryResult } from "../types";

const TYPING = 400;
const MEASURES: [string, string][] = [
  ["baseline", "anisotropy: mean cosine of random words"],
  ["self_similarity", "self-similarity of a word"],
  ["intra_similarity", "similarity within a sentence"],
  ["mev.formula", "maximum explainable variance"],
  ["mev.pca", "the same by PCA, centred"],
  ["mev.svd", "the same by SVD, as published"],
  ["isoscore", "IsoScore"],
  ["effective_rank", "effective rank"],
  ["intrinsic_dimension", "intrinsic dimension"],
  ["rogue.top1", "share of the strongest dimension"],
];
const ADJUSTABLE = ["self_similarity", "intra_similarity", "mev.formula", "mev.pca", "mev.svd"];
const CORRECTIONS = ["mean-removal", "standardisation", "all-but-the-top", "whitening"];

const lines = (text: string) =>
  text
    .split("\n")
    .map(line => line.trim())
    .filter(Boolean);

/** The values of a measure such as "mev.pca" in one layer; null where it has none. */
function at(found: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((inner, name) => (inner as Record<string, unknown> | undefined)?.[name], found);
}

function curveOf(
  layers: (LayerGeometry | undefined)[],
  path: string,
  from: (layer?: LayerGeometry) => unknown,
  name: string,
  index: number,
  dash = 0,
): Curve {
  const values = layers.map(layer => (at(from(layer), path) as number | undefined) ?? null);
  const ends = layers.map(
    layer => at((from(layer) as LayerGeometry | undefined)?.intervals, path) as [number, number] | undefined,
  );
  const known = ends.some(Boolean);
  return {
    name,
    colour: series(index),
    values,
    dash,
    ...(known ? { low: ends.map(each => each?.[0] ?? null), high: ends.map(each => each?.[1] ?? null) } : {}),
  };
}

function trajectoryCurves(results: Trajectories[]): { x: number[]; curves: Curve[] } {
  const deepest = results.reduce((most, one) => (one.layers.length > most.layers.length ? one : most));
  const curves = results.flatMap((one, which) =>
    one.pairs.map((pair, index) => ({
      name:
        (results.length > 1 ? `${one.model}: ` : "") +
        (pair.words
          ? `${pair.words[0]} (${pair.left + 1}) and ${pair.words[1]} (${pair.right + 1})`
          : `texts ${pair.left + 1} and ${pair.right + 1}`),
      colour: series(index),
      dash: which,
      values: deepest.layers.map((_, layer) => pair.cosine[layer] ?? null),
    })),
  );
  return { x: deepest.layers, curves };
}

function TrajectoryPart() {
  const { examples, models: offers } = offered();
  const [texts, words] = [setting("texts"), setting("words")];
  const models = settings("models", [offers[0]]);
  const request = {
    texts: lines(texts),
    words: words
      .split(",")
      .map(word => word.trim())
      .filter(Boolean),
    models,
  };
  const answer = useQuery(
    request.texts.length >= 2 ? JSON.stringify(request) : null,
    signal => api.layers(request, signal),
    TYPING,
  );
  const ofWords = answer.value?.results[0]?.pairs[0]?.words != null;
  const shown = answer.value && { ...trajectoryCurves(answer.value.results), xName: "layer", yName: "cosine" };
  return (
    <section>
      <h2>Through the layers</h2>
      <div class="form">
        <TextArea
          name="texts, one a line"
          lines={3}
          value={texts}
          onInput={value => set({ texts: value || null })}
          placeholder={"We will rob a bank next week!\nThe children skipped stones by the bank of the river."}
        />
        <TextArea
          name="words to follow, with commas between; none follows the sentences"
          lines={1}
          value={words}
          onInput={value => set({ words: value || null })}
          placeholder="bank"
        />
        <ChooseSome
          name="models"
          value={models}
          choices={offers}
          most={4}
          onChange={value => set({ models: value.join(",") })}
        />
      </div>
      <div class="examples" role="group" aria-label="examples">
        {Object.entries(examples.layers).map(([name, one]) => (
          <button
            key={name}
            class="chip"
            title={one.look_for}
            onClick={() => set({ texts: one.texts.join("\n"), words: one.words.join(", ") || null })}
          >
            {name}
          </button>
        ))}
      </div>
      {request.texts.length < 2 && <Empty>Type at least two texts, or choose an example.</Empty>}
      {answer.error && <Wrong>{answer.error}</Wrong>}
      {answer.waiting && <Waiting />}
      {shown && (
        <Figure
          title={ofWords ? "Cosine of the words in each layer" : "Cosine of the sentences in each layer"}
          name="layers-trajectories"
          data={() => answer.value}
          rows={() => curvesRows(shown.x, shown.curves, "layer")}
          drawing={() => curvesDrawing(shown)}
          note="Layer 0 is the embeddings."
        >
          <Curves {...shown} whole />
        </Figure>
      )}
    </section>
  );
}

function GeometryCurves({ results }: { results: Geometry[] }) {
  const measure = setting("measure", "self_similarity");
  const adjusted = setting("raw") !== "on" && ADJUSTABLE.includes(measure);
  const corrected = setting("corrected") === "on";
  const path = adjusted
    ? measure.startsWith("mev.")
      ? measure.replace("mev.", "mev_adjusted.")
      : `${measure}_adjusted`
    : measure;
  const deepest = results.reduce((most, one) => (one.layers.length > most.layers.length ? one : most));
  const x = deepest.layers.map(layer => layer.layer);
  // A model that is less deep has no values in the last layers.
  const padded = (layers: LayerGeometry[]) => x.map((_, index): LayerGeometry | undefined => layers[index]);
  const curves = results
    .flatMap((one, index) => [
      curveOf(padded(one.layers), path, layer => layer, one.model, index),
      ...(corrected
        ? CORRECTIONS.map((way, other) =>
            curveOf(
              padded(one.layers),
              path,
              layer => layer?.corrected?.[way],
              `${one.model}, ${way}`,
              results.length + other,
              index + 1,
            ),
          )
        : []),
    ])
    .filter(curve => curve.values.some(value => value !== null));
  const named = MEASURES.find(([name]) => name === measure)?.[1] ?? measure;
  const shown = { x, curves, xName: "layer", yName: named + (adjusted ? ", adjusted" : "") };
  return (
    <>
      <div class="form">
        <Choose name="measure" value={measure} choices={MEASURES} onChange={value => set({ measure: value })} />
        <Check
          name="raw, without the anisotropy baseline taken off"
          value={setting("raw") === "on"}
          onChange={on => set({ raw: on ? "on" : null })}
        />
        <Check
          name="with corrections of the space"
          value={corrected}
          onChange={on => set({ corrected: on ? "on" : null })}
        />
      </div>
      <Figure
        title={shown.yName}
        name="layers-geometry"
        data={() => results}
        rows={() => curvesRows(x, curves, "layer")}
        drawing={() => curvesDrawing(shown)}
        note={`${results[0].texts.toLocaleString("en")} texts, ${results[0].occurrences.toLocaleString("en")} words; bands are 95 % intervals.${corrected && curves.length === results.length ? " This measure is not computed for corrected spaces." : ""}`}
      >
        <Curves {...shown} whole />
      </Figure>
      <div class="panels">
        {results.map(one => (
          <Figure
            key={one.model}
            title={`How alike the layers are (CKA), ${one.model}`}
            name={`layers-cka-${one.model}`}
            data={() => one.cka}
            rows={() => one.cka}
          >
            <HeatMap
              rows={one.cka.map((_, layer) => String(layer))}
              columns={one.cka.map((_, layer) => String(layer))}
              values={one.cka}
              kind="share"
              scale={1}
              label="CKA of layers"
            />
          </Figure>
        ))}
      </div>
    </>
  );
}

function GeometryPart() {
  const { models: offers } = offered();
  const id = setting("geometry");
  const found = useJob<GeometryResult>(id);
  const corpus = setting("corpus", "sample/sentences");
  const models = settings("geometry-models", [offers[0]]);
  const contexts = setting("contexts", "5");
  return (
    <section>
      <h2>The geometry of a corpus</h2>
      <div class="form">
        <ChooseCorpus value={corpus} onChange={value => set({ corpus: value })} />
        <ChooseSome
          name="models"
          value={models}
          choices={offers}
          most={4}
          onChange={value => set({ "geometry-models": value.join(",") })}
        />
        <NumberField
          name="least contexts of a word"
          value={contexts}
          min={2}
          max={1000}
          onChange={value => set({ contexts: value || null })}
        />
        <StartButton
          ask={() => api.geometry({ corpus, models, min_contexts: Number(contexts) })}
          onStart={job => ({ geometry: job.id })}
        >
          Measure
        </StartButton>
      </div>
      <JobState id={id} found={found} />
      {!id && (
        <Empty>
          Press Measure: anisotropy, self-similarity and more, in every layer of the chosen corpus, with intervals.
        </Empty>
      )}
      {found.result && <GeometryCurves results={found.result.results} />}
    </section>
  );
}

export function LayersView() {
  return (
    <>
      <TrajectoryPart />
      <GeometryPart />
    </>
  );
}
