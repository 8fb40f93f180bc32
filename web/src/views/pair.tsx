/** Two texts: how similar they are, and why. */

import { useMemo } from "preact/hooks";
import { address, choice, set, setting } from "../address";
import { api } from "../api";
import { explainedDrawing } from "../drawing";
import { type ExplainedPair, type Side, strongestPairs } from "../explained";
import { signed } from "../numbers";
import { Check, Choose, TextArea } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { Mounted } from "../parts/mounted";
import { ChoosePooling, poolingRequest } from "../parts/pooling";
import { Empty, Waiting, Wrong } from "../parts/states";
import { useQuery } from "../queries";
import { offered } from "../start";
import type { CompareResponse, PairRequest, PairResponse } from "../types";

const TYPING = 350;
const LEVELS = ["token", "word", "sentence"];
const BIASES: [string, string][] = [
  ["separate", "named"],
  ["local", "with the word at their position"],
  ["traced", "traced back by attention"],
  ["shared", "shared out to the words"],
];
const REFERENCES: [string, string][] = [
  ["filler", "a text that says nothing"],
  ["none", "nothing"],
];

const isNew = () => !address.value.settings.has("left") && !address.value.settings.has("right");

/** The texts in the address; where it has none, the first example. */
const texts = () => (isNew() ? offered().examples.pairs[0] : [setting("left"), setting("right")]);

function pairRequest(prefix = ""): PairRequest {
  const [left, right] = texts();
  return {
    ...poolingRequest(prefix),
    left,
    right,
    method: choice("method", "bilrp"),
    granularity: choice("granularity", "word"),
    bias: choice("bias", "separate"),
    reference: choice("reference", "filler"),
  };
}

const layerName = (layer: string) => (layer === "-1" ? "last layer" : `layer ${layer}`);

/** The response as the drawing takes it: the biases are the last row and column. */
function explainedPair({ left, right, relevance, bias, shares, by, ...found }: PairResponse): ExplainedPair {
  const units: ExplainedPair["units"] = [left.units, right.units];
  return {
    units,
    kind: `${by}s`,
    shares: [shares.left, shares.right],
    values: [...relevance.map((row, unit) => [...row, bias.left[unit]]), [...bias.right, bias.both]],
    rest: found.relative_to === "none" ? "bias" : "reference",
    ledger: { ...found.ledger, similarity: found.similarity },
    strongest: strongestPairs(units, relevance),
  };
}

/** What to look at first: the pair that adds most, and the one of different words that does. */
function Finding({ pair }: { pair: ExplainedPair }) {
  const [first] = pair.strongest;
  const other = pair.strongest.find(([, , left, right]) => left.toLowerCase() !== right.toLowerCase());
  if (!first) return null;
  const named = ([, , left, right, value]: typeof first) => (
    <>
      <b>
        <bdi>{left}</bdi> × <bdi>{right}</bdi>
      </b>{" "}
      ({signed(value)})
    </>
  );
  return (
    <p class="finding">
      {named(first)} {first[4] < 0 ? "takes away" : "adds"} most.
      {other && other !== first && <> Of pairs with different words it is {named(other)}.</>}
    </p>
  );
}

/** What to do after the first look. */
function NextStep() {
  const [, [left, right]] = offered().examples.pairs;
  return (
    <p class="note">
      Point at a word to see what it adds. Then change a word, or try two texts that mean the opposite:{" "}
      <button class="chip" onClick={() => set({ left, right })}>
        {left} / {right}
      </button>
    </p>
  );
}

function Explained({ found, name }: { found: PairResponse; name: string }) {
  const pair = useMemo(() => explainedPair(found), [found]);
  const drawing = useMemo(() => explainedDrawing(pair), [pair]);
  const label = (side: Side, unit: number) => pair.units[side][unit] ?? `(${pair.rest})`;
  const rows = () => [
    ["left", "right", "relevance"],
    ...pair.values.flatMap((line, i) => line.map((value, j) => [label(0, i), label(1, j), value])),
  ];
  const strongest = () => [["left", "right", "relevance"], ...pair.strongest.map(([, , ...named]) => named)];
  const terms = () => [["term", "value"], ...Object.entries(pair.ledger)];
  const cut = found.left.truncated || found.right.truncated;
  return (
    <div class="explained">
      <p class="score">
        <b data-testid="similarity">{found.similarity.toFixed(4)}</b> {found.measure} · {found.model} · {found.pooling}{" "}
        · {layerName(found.layer)} · {found.method}
      </p>
      {found.complete && <Finding pair={pair} />}
      {isNew() && <NextStep />}
      {cut && <p class="note">A text is longer than the model reads; what comes after its limit is not seen by it.</p>}
      {!found.complete && (
        <p class="note">This method does not add up to the similarity; the gap in the ledger is what it leaves out.</p>
      )}
      <Mounted parts={drawing.head} />
      <div class="panels">
        <Figure
          title="Matrix"
          name={`${name}-matrix`}
          data={() => found}
          rows={rows}
          note={`Red adds to the similarity, blue takes away; the ${pair.rest} has a scale of its own.`}
        >
          <Mounted parts={drawing.matrix} />
        </Figure>
        <Figure title="Lines" name={`${name}-lines`} data={() => found} rows={rows}>
          <Mounted parts={drawing.lines} />
        </Figure>
        <Figure title="Ledger" name={`${name}-ledger`} data={() => found.ledger} rows={terms}>
          <Mounted parts={drawing.ledger} />
        </Figure>
        <Figure title="Strongest pairs" name={`${name}-strongest`} data={() => found} rows={strongest} drawing="none">
          <Mounted parts={drawing.pairs} />
        </Figure>
      </div>
    </div>
  );
}

/** A model; in full, its pooling and layer too. */
const poolingTitle = ({ model, pooling, layer }: CompareResponse["first"], full: boolean) =>
  full ? `${model} (${pooling}, ${layerName(layer)})` : model;

function Changed({ found }: { found: CompareResponse }) {
  const { units, difference, first, second } = found;
  const rows = () => [
    ["left", "right", "difference"],
    ...difference.flatMap((line, i) => line.map((value, j) => [units.left[i], units.right[j], value])),
  ];
  const full = first.model === second.model;
  return (
    <Figure
      title={`What changes from ${poolingTitle(first, full)} to ${poolingTitle(second, full)}: ${signed(found.change)}`}
      name="pair-change"
      data={() => found}
      rows={rows}
      note="By words, BiLRP; red where the second model finds more, blue where it finds less."
    >
      <HeatMap rows={units.left} columns={units.right} values={difference} label="difference of two models" />
    </Figure>
  );
}

function usePair(prefix: string, on: boolean) {
  const body = pairRequest(prefix);
  const ready = on && body.left.trim() !== "" && body.right.trim() !== "";
  return useQuery(ready ? JSON.stringify(body) : null, signal => api.pair(body, signal), TYPING);
}

export function PairView() {
  const { examples, methods, limits } = offered();
  const put = (name: string) => (value: string) => set({ [name]: value || null });
  const [left, right] = texts();
  const two = setting("second") === "on";
  const first = usePair("", true);
  const second = usePair("other-", two);
  const both = two && first.value && second.value ? JSON.stringify([pairRequest(), poolingRequest("other-")]) : null;
  const change = useQuery(
    both,
    signal => api.compare({ ...poolingRequest(), left, right, other: poolingRequest("other-") }, signal),
    TYPING,
  );
  const answers = two ? [first, second] : [first];
  return (
    <>
      <div class="form texts">
        <TextArea
          name="left text"
          value={left}
          onInput={value => set({ left: value, right })}
          limit={limits.characters}
          placeholder="A text …"
        />
        <TextArea
          name="right text"
          value={right}
          onInput={value => set({ left, right: value })}
          limit={limits.characters}
          placeholder="… and another"
        />
      </div>
      <div class="form">
        <Choose
          name="granularity"
          value={setting("granularity", "word")}
          choices={LEVELS}
          onChange={put("granularity")}
        />
        <ChoosePooling names={["method", "bias", "reference"]}>
          <Choose name="method" value={setting("method", "bilrp")} choices={methods} onChange={put("method")} />
          <Choose name="biases" value={setting("bias", "separate")} choices={BIASES} onChange={put("bias")} />
          <Choose
            name="relative to"
            value={setting("reference", "filler")}
            choices={REFERENCES}
            onChange={put("reference")}
          />
        </ChoosePooling>
        <Check name="compare with a second model" value={two} onChange={on => set({ second: on ? "on" : null })} />
      </div>
      {two && (
        <div class="form second">
          <ChoosePooling prefix="other-" name="second model" />
        </div>
      )}
      <div class="examples" role="group" aria-label="examples">
        {examples.pairs.map(([one, other]) => (
          <button key={one} class="chip" onClick={() => set({ left: one, right: other })}>
            {one} / {other}
          </button>
        ))}
      </div>
      {!left && !right && (
        <Empty>Type two texts, or choose an example. The page explains their similarity as you type.</Empty>
      )}
      <div class={two ? "columns" : ""}>
        {answers.map((answer, index) => (
          <div key={index} class={answer.waiting ? "old" : ""}>
            {answer.error && <Wrong>{answer.error}</Wrong>}
            {answer.waiting && <Waiting />}
            {answer.value && <Explained found={answer.value} name={index ? "pair-second" : "pair"} />}
          </div>
        ))}
      </div>
      {change.error && <Wrong>{change.error}</Wrong>}
      {two && change.value && <Changed found={change.value} />}
    </>
  );
}
