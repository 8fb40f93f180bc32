/** Two texts: how similar they are, and why. */

import { useMemo, useState } from "preact/hooks";
import { choice, set, setting } from "../address";
import { api } from "../api";
import { type Cell, type ExplainedPair, sentence, shownValues, type Side, strongest } from "../explained";
import { signed } from "../numbers";
import { Coloured } from "../parts/coloured";
import { Check, Choose, TextArea } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { Ledger } from "../parts/ledger";
import { Lines } from "../parts/lines";
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

function pairRequest(prefix = ""): PairRequest {
  return {
    ...poolingRequest(prefix),
    left: setting("left"),
    right: setting("right"),
    method: choice("method", "bilrp"),
    granularity: choice("granularity", "word"),
    bias: choice("bias", "separate"),
    reference: choice("reference", "filler"),
  };
}

/** Relevance with the biases as a last row and column. */
function withBias({ relevance, bias }: PairResponse): number[][] {
  return [...relevance.map((row, unit) => [...row, bias.left[unit]]), [...bias.right, bias.both]];
}

const layerName = (layer: string) => (layer === "-1" ? "last layer" : `layer ${layer}`);

/** The response as the drawings take it. */
function explainedPair(found: PairResponse, values: number[][]): ExplainedPair {
  return {
    units: [found.left.units, found.right.units],
    shares: [found.shares.left, found.shares.right],
    value: (row, column) => values[row][column],
    rest: found.relative_to === "none" ? "bias" : "reference",
  };
}

function Readout({ pair, pointed }: { pair: ExplainedPair; pointed: Cell | null }) {
  if (!pointed) return <p class="readout">Point at a word or a cell to see what it adds.</p>;
  return (
    <p class="readout">
      {sentence(pair, pointed).map((part, index) =>
        "words" in part ? (
          part.words
        ) : "unit" in part ? (
          <b key={index}>{part.unit}</b>
        ) : (
          <span key={index}>{signed(part.number)}</span>
        ),
      )}
    </p>
  );
}

const NUMBERED = 40;
const SIDES: [Side, string][] = [
  [0, "left text"],
  [1, "right text"],
];

function Explained({ found, name }: { found: PairResponse; name: string }) {
  const [chosen, setPointed] = useState<Cell | null>(null);
  const { left, right, relevance } = found;
  const values = useMemo(() => withBias(found), [found]);
  const pair = useMemo(() => explainedPair(found, values), [found, values]);
  // The cell may be of texts that were longer.
  const fits = chosen && chosen.row < values.length && chosen.column < values[0].length;
  const pointed = fits ? chosen : null;
  const [shareScale, pairScale] = [strongest(found.shares.left, found.shares.right), strongest(...relevance)];
  const shown = SIDES.map(([side]) => shownValues(pair, side, pointed));
  const label = (units: string[], unit: number) => units[unit] ?? `(${pair.rest})`;
  const rows = () => [
    ["left", "right", "relevance"],
    ...values.flatMap((line, i) => line.map((value, j) => [label(left.units, i), label(right.units, j), value])),
  ];
  const cut = left.truncated || right.truncated;
  return (
    <div class="explained">
      <p class="score">
        <b data-testid="similarity">{found.similarity.toFixed(4)}</b> {found.measure} · {found.model} · {found.pooling}{" "}
        · {layerName(found.layer)} · {found.method}
      </p>
      {cut && <p class="note">A text is longer than the model reads; what comes after its limit is not seen by it.</p>}
      {!found.complete && (
        <p class="note">This method does not add up to the similarity; the gap in the ledger is what it leaves out.</p>
      )}
      {SIDES.map(([side, label]) => (
        <Coloured
          key={side}
          words={pair.units[side]}
          shares={shown[side]}
          scale={shown[side] === pair.shares[side] ? shareScale : pairScale}
          numbered={pair.units[side].length < NUMBERED}
          on={side === 0 ? pointed?.row : pointed?.column}
          label={label}
          onPoint={unit =>
            setPointed(unit === null ? null : side === 0 ? { row: unit, column: -1 } : { row: -1, column: unit })
          }
        />
      ))}
      <Readout pair={pair} pointed={pointed} />
      <div class="panels">
        <Figure
          title="Matrix"
          name={`${name}-matrix`}
          data={() => found}
          rows={rows}
          note={`Red adds to the similarity, blue takes away; the ${pair.rest} has a scale of its own.`}
        >
          <HeatMap
            rows={[...left.units, pair.rest]}
            columns={[...right.units, pair.rest]}
            values={values}
            pointed={pointed}
            onPoint={setPointed}
            label={`relevance of ${left.units.length} by ${right.units.length} pairs`}
            apart
          />
        </Figure>
        <Figure title="Lines" name={`${name}-lines`} data={() => found} rows={rows}>
          <Lines left={left.units} right={right.units} values={relevance} pointed={pointed} onPoint={setPointed} />
        </Figure>
        <Figure
          title="Ledger"
          name={`${name}-ledger`}
          data={() => found.ledger}
          rows={() => [["term", "value"], ...Object.entries(found.ledger), ["similarity", found.similarity]]}
        >
          <Ledger terms={found.ledger} similarity={found.similarity} />
        </Figure>
      </div>
    </div>
  );
}

/** A model; in full, its pooling and layer too. */
const poolingTitle = ({ model, pooling, layer }: CompareResponse["first"], full: boolean) =>
  full ? `${model} (${pooling}, ${layerName(layer)})` : model;

function Changed({ found }: { found: CompareResponse }) {
  const [pointed, setPointed] = useState<Cell | null>(null);
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
      <HeatMap
        rows={units.left}
        columns={units.right}
        values={difference}
        pointed={pointed}
        onPoint={setPointed}
        label="difference of two models"
      />
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
  const two = setting("second") === "on";
  const first = usePair("", true);
  const second = usePair("other-", two);
  const both = two && first.value && second.value ? JSON.stringify([pairRequest(), poolingRequest("other-")]) : null;
  const change = useQuery(
    both,
    signal =>
      api.compare(
        { ...poolingRequest(), left: setting("left"), right: setting("right"), other: poolingRequest("other-") },
        signal,
      ),
    TYPING,
  );
  const answers = two ? [first, second] : [first];
  return (
    <>
      <div class="form texts">
        <TextArea
          name="left text"
          value={setting("left")}
          onInput={put("left")}
          limit={limits.characters}
          placeholder="A text …"
        />
        <TextArea
          name="right text"
          value={setting("right")}
          onInput={put("right")}
          limit={limits.characters}
          placeholder="… and another"
        />
      </div>
      <div class="form">
        <Choose name="method" value={setting("method", "bilrp")} choices={methods} onChange={put("method")} />
        <Choose
          name="granularity"
          value={setting("granularity", "word")}
          choices={LEVELS}
          onChange={put("granularity")}
        />
        <Choose name="biases" value={setting("bias", "separate")} choices={BIASES} onChange={put("bias")} />
        <Choose
          name="relative to"
          value={setting("reference", "filler")}
          choices={REFERENCES}
          onChange={put("reference")}
        />
        <ChoosePooling />
        <Check name="compare with a second model" value={two} onChange={on => set({ second: on ? "on" : null })} />
      </div>
      {two && (
        <div class="form second">
          <ChoosePooling prefix="other-" name="second model" />
        </div>
      )}
      <div class="examples" role="group" aria-label="examples">
        {examples.pairs.map(([left, right]) => (
          <button key={left} class="chip" onClick={() => set({ left, right })}>
            {left} / {right}
          </button>
        ))}
      </div>
      {!setting("left") && !setting("right") && (
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
