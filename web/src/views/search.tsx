/** A corpus searched by meaning, each hit with the words that carry it, and the classic rankers. */

import { choice, link, set, setting, settings } from "../address";
import { api } from "../api";
import { type Query, useQuery, useJob } from "../queries";
import { series } from "../colours";
import { strongest } from "../explained";
import { plain, signed } from "../numbers";
import { StartButton } from "../parts/button";
import { Coloured } from "../parts/coloured";
import { ChooseCorpus } from "../parts/corpus";
import { type Curve, Curves, curvesDrawing, curvesRows } from "../parts/curves";
import { Choose, ChooseSome, Field } from "../parts/fields";
import { Figure } from "../parts/figure";
import { hitsDrawing } from "../parts/hits_drawing";
import { JobState } from "../parts/job";
import { ChoosePooling, poolingName, poolingRequest, poolingSettings } from "../parts/pooling";
import { Empty, Waiting, Wrong } from "../parts/states";
import { Table } from "../parts/table";
import { offered } from "../start";
import type { BaselineRequest, Hit, SearchResponse, Recall, IndexResult, RecallResult } from "../types";

/** What single precision leaves of a part that is nothing. */
const ROUNDING = 1e-6;
const TYPING = 400;
const EXAMPLE = "volcano erupted";
const MOST = ["5", "10", "20", "50"];
type Ranker = NonNullable<BaselineRequest["ranker"]>;
const RANKERS: [Ranker, string][] = [
  ["bm25", "BM25"],
  ["tfidf", "TF-IDF"],
];
const ENGINES: [string, string][] = [
  ["exact", "exact"],
  ["hnsw", "HNSW, approximate"],
];
const FEW = 4;

function Above({ hit }: { hit: Hit }) {
  const above = hit.explanation?.above_next;
  if (!above) return null;
  const causes = above.by
    .filter(one => Math.abs(one.difference) > ROUNDING)
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference))
    .slice(0, FEW);
  return (
    <p class="note">
      above the next by {signed(above.difference)}:{" "}
      {causes.map((cause, index) => (
        <span key={index}>
          {index > 0 && ", "}
          <b>{cause.query}</b> {signed(cause.difference)}
        </span>
      ))}
      {above.bias !== 0 && (
        <span>
          , {hit.explanation?.relative_to === "none" ? "bias" : "reference"} {signed(above.bias)}
        </span>
      )}
    </p>
  );
}

function Found({ hit, query, scale, read }: { hit: Hit; query: string; scale: number; read: Record<string, string> }) {
  const { explanation } = hit;
  return (
    <li data-hit={hit.id}>
      <div class="rank">
        <b>{hit.rank}</b> {hit.score.toFixed(3)}
        <a href={link("pair", { left: query, right: hit.text, ...read })}>why</a>
      </div>
      <div>
        {explanation ? (
          <Coloured words={explanation.words} scale={scale} label={`hit ${hit.rank}`} />
        ) : (
          <p class="coloured" dir="auto">
            {hit.text}
          </p>
        )}
        <Above hit={hit} />
      </div>
    </li>
  );
}

interface Listed {
  name: string;
  title: string;
  answer: Query<SearchResponse>;
  query: string;
  read: Record<string, string>;
}

function Ranked({ name, title, answer, query, read }: Listed) {
  const hits = answer.value?.hits ?? [];
  const scale = strongest(...hits.map(hit => hit.explanation?.words.map(word => word.share) ?? []));
  const rows = () => [["rank", "id", "score", "text"], ...hits.map(hit => [hit.rank, hit.id, hit.score, hit.text])];
  return (
    <div class={answer.waiting ? "old" : ""}>
      <Figure
        title={title}
        name={name}
        data={() => answer.value}
        rows={rows}
        drawing={hits.length ? () => hitsDrawing(hits, scale) : "none"}
      >
        {answer.error && <Wrong>{answer.error}</Wrong>}
        {answer.waiting && <Waiting />}
        {answer.value && hits.length === 0 && <Empty>No text shares a word with the query.</Empty>}
        <ol class="hits">
          {hits.map(hit => (
            <Found key={hit.id} hit={hit} query={query} scale={scale} read={read} />
          ))}
        </ol>
      </Figure>
    </div>
  );
}

function Baseline({
  corpus,
  query,
  k,
  ranker,
  title,
  read,
}: {
  corpus: string;
  query: string;
  k: number;
  ranker: Ranker;
  title: string;
  read: Record<string, string>;
}) {
  const body = { corpus, query, ranker, k };
  const answer = useQuery(query.trim() ? JSON.stringify(body) : null, signal => api.baseline(body, signal), TYPING);
  return <Ranked name={`search-${ranker}`} title={title} answer={answer} query={query} read={read} />;
}

function RecallCurves({ results }: { results: Recall[] }) {
  const x = Object.keys(results[0].recall)
    .map(Number)
    .sort((a, b) => a - b);
  const curves: Curve[] = results.map((one, index) => ({
    name: one.ranker === "dense" ? (one.model ?? "dense") : one.ranker,
    colour: series(index),
    values: x.map(k => one.recall[k]),
    low: x.map(k => one.intervals.recall[k]?.[0] ?? null),
    high: x.map(k => one.intervals.recall[k]?.[1] ?? null),
  }));
  const shown = { x, curves, xName: "k", yName: "recall at k", range: [0, 1] as [number, number] };
  return (
    <Figure
      title="Recall at k"
      name="search-recall"
      data={() => results}
      rows={() => curvesRows(x, curves, "k")}
      drawing={() => curvesDrawing(shown)}
      note={`Each pair's first text searches for its second among ${results[0].texts} texts; bands are 95 % intervals over ${results[0].n} queries.`}
    >
      <Curves {...shown} />
      <Table
        head={["", "MRR", "nDCG", ...x.map(k => `recall@${k}`)]}
        rows={results.map((one, index) => [
          curves[index].name,
          plain(one.mrr),
          plain(one.ndcg),
          ...x.map(k => plain(one.recall[k])),
        ])}
      />
    </Figure>
  );
}

function RecallPart({ corpus }: { corpus: string }) {
  const id = setting("recall");
  const found = useJob<RecallResult>(id);
  const models = settings("recall-models", [offered().models[0]]);
  return (
    <section>
      <h2>How often the right text is found</h2>
      <div class="form">
        <ChooseSome
          name="models"
          value={models}
          choices={offered().models}
          most={4}
          onChange={value => set({ "recall-models": value.join(",") })}
        />
        <StartButton ask={() => api.recall({ corpus, models })} onStart={job => ({ recall: job.id })}>
          Measure recall
        </StartButton>
      </div>
      <JobState id={id} found={found} />
      {found.result && found.result.table.results.length > 0 && <RecallCurves results={found.result.table.results} />}
    </section>
  );
}

export function SearchView() {
  const corpus = setting("corpus", "sample/sentences");
  const [query, id, k] = [setting("query"), setting("index"), Number(setting("k", "10"))];
  const engine = choice<"exact" | "hnsw">("engine", "exact");
  const chosen = offered().corpora.find(each => each.id === corpus);
  const found = useJob<IndexResult>(id);
  const read = poolingSettings(found.job?.asked);
  const changed =
    found.job !== null &&
    JSON.stringify([read, found.job.asked.engine]) !== JSON.stringify([poolingSettings(poolingRequest()), engine]);
  const request = { index: id, query, k };
  const ready = found.result !== null && found.job?.asked.corpus === corpus && query.trim() !== "";
  const answer = useQuery(ready ? JSON.stringify(request) : null, signal => api.search(request, signal), TYPING);
  const put = (name: string) => (value: string) => set({ [name]: value || null });
  return (
    <>
      <div class="form">
        <ChooseCorpus value={corpus} onChange={value => set({ corpus: value, index: null, recall: null })} />
        <ChoosePooling names={["engine"]}>
          <Choose name="index" value={engine} choices={ENGINES} onChange={put("engine")} />
        </ChoosePooling>
        <StartButton
          disabled={!chosen}
          ask={() => api.index({ ...poolingRequest(), corpus, engine })}
          onStart={job => ({ index: job.id, corpus })}
        >
          Build the index
        </StartButton>
      </div>
      <JobState id={id} found={found} />
      {found.result && changed && (
        <p class="note" data-note="changed">
          The settings have changed since this index was built; build it again to search with them.
        </p>
      )}
      {!id && (
        <Empty>
          Press Build the index: the sample takes a few seconds. Then search it; or upload a file of your own first.
        </Empty>
      )}
      {found.result && (
        <>
          <div class="form">
            <Field name={`query, of ${found.result.texts.toLocaleString("en")} texts by ${found.result.model}`} wide>
              <input
                type="search"
                value={query}
                placeholder="What do you look for?"
                dir="auto"
                onInput={event => put("query")(event.currentTarget.value)}
              />
            </Field>
            <Choose name="hits" value={String(k)} choices={MOST} onChange={put("k")} />
          </div>
          {query.trim() === "" && (
            <Empty>
              Type a query, such as{" "}
              <button class="chip" onClick={() => put("query")(EXAMPLE)}>
                {EXAMPLE}
              </button>
            </Empty>
          )}
          {query.trim() !== "" && (
            <div class="columns three">
              <Ranked
                name="search-hits"
                title={`By meaning (${found.result.model}, ${poolingName(found.job?.asked)})`}
                answer={answer}
                query={query}
                read={read}
              />
              {RANKERS.map(([ranker, title]) => (
                <Baseline key={ranker} corpus={corpus} query={query} k={k} ranker={ranker} title={title} read={read} />
              ))}
            </div>
          )}
        </>
      )}
      {chosen?.pairs && <RecallPart corpus={corpus} />}
    </>
  );
}
