/** Two texts: how similar they are, and why. */

import { useMemo, useState } from "preact/hooks";
import { set, setting } from "../address";
import { api, type PairAsked } from "../api";
import { useAnswer } from "../asked";
import { strongest } from "../colours";
import { signed } from "../numbers";
import { Coloured } from "../parts/coloured";
import { Check, Choose, TextArea } from "../parts/fields";
import { Figure } from "../parts/figure";
import { type Cell, HeatMap } from "../parts/heatmap";
import { Ledger } from "../parts/ledger";
import { Lines } from "../parts/lines";
import { ChooseReading, reading } from "../parts/reading";
import { Empty, Waiting, Wrong } from "../parts/states";
import { offered } from "../start";
import type { Comparison, Explanation } from "../types";

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

function asked(prefix = ""): PairAsked {
  return {
    ...reading(prefix),
    left: setting("left"),
    right: setting("right"),
    method: setting("method", "bilrp"),
    by: setting("by", "word"),
    bias: setting("bias", "separate"),
    reference: setting("reference", "filler"),
  };
}

/** Relevance with the biases as a last row and column. */
function withBias({ relevance, bias }: Explanation): number[][] {
  return [...relevance.map((row, place) => [...row, bias.left[place]]), [...bias.right, bias.both]];
}

/** What the last row and column hold: the biases, and the part of a reference. */
const restName = ({ relative_to }: Explanation) => (relative_to === "none" ? "bias" : "reference");

const layerName = (layer: string) => (layer === "-1" ? "last layer" : `layer ${layer}`);

function Told({ found, pointed }: { found: Explanation; pointed: Cell | null }) {
  if (!pointed) return <p class="told">Point at a word or a cell to see what it adds.</p>;
  const { left, right, shares, bias } = found;
  const { row, column } = pointed;
  const name = (units: string[], place: number) => units[place] ?? restName(found);
  if (row >= 0 && column >= 0) {
    const value = withBias(found)[row]?.[column];
    return (
      <p class="told">
        <b>{name(left.units, row)}</b> × <b>{name(right.units, column)}</b> {value === undefined ? "" : signed(value)}
      </p>
    );
  }
  const [mine, apart] = row >= 0 ? [shares.left[row], bias.left[row]] : [shares.right[column], bias.right[column]];
  if (mine === undefined) return <p class="told" />;
  return (
    <p class="told">
      <b>{row >= 0 ? name(left.units, row) : name(right.units, column)}</b> adds {signed(mine)}, of which{" "}
      {signed(apart)} with the other text's {restName(found)}
    </p>
  );
}

function Explained({ found, name }: { found: Explanation; name: string }) {
  const [pointed, setPointed] = useState<Cell | null>(null);
  const { left, right, relevance } = found;
  const shares = [found.shares.left, found.shares.right];
  const paired = (side: 0 | 1) => {
    if (!pointed) return shares[side];
    const other = side === 0 ? pointed.column : pointed.row;
    if (other < 0 || (side === 0 ? pointed.row : pointed.column) >= 0) return shares[side];
    return side === 0 ? relevance.map(row => row[other]) : relevance[other];
  };
  const scale = strongest(...shares);
  const values = useMemo(() => withBias(found), [found]);
  const rows = () => [
    ["left", "right", "relevance"],
    ...values.flatMap((line, i) =>
      line.map((value, j) => [
        left.units[i] ?? `(${restName(found)})`,
        right.units[j] ?? `(${restName(found)})`,
        value,
      ]),
    ),
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
      <Coloured
        words={left.units}
        shares={paired(0)}
        scale={scale}
        numbered={left.units.length < 40}
        on={pointed?.row}
        label="left text"
        onPoint={place => setPointed(place === null ? null : { row: place, column: -1 })}
      />
      <Coloured
        words={right.units}
        shares={paired(1)}
        scale={scale}
        numbered={right.units.length < 40}
        on={pointed?.column}
        label="right text"
        onPoint={place => setPointed(place === null ? null : { row: -1, column: place })}
      />
      <Told found={found} pointed={pointed} />
      <div class="panels">
        <Figure
          title="Matrix"
          name={`${name}-matrix`}
          data={() => found}
          rows={rows}
          note={`Red adds to the similarity, blue takes away; the ${restName(found)} has a scale of its own.`}
        >
          <HeatMap
            rows={[...left.units, restName(found)]}
            columns={[...right.units, restName(found)]}
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

/** A model; fully, how it is read too. */
const readingName = ({ model, pooling, layer }: Comparison["first"], full: boolean) =>
  full ? `${model} (${pooling}, ${layerName(layer)})` : model;

function Changed({ found }: { found: Comparison }) {
  const [pointed, setPointed] = useState<Cell | null>(null);
  const { units, difference, first, second } = found;
  const rows = () => [
    ["left", "right", "difference"],
    ...difference.flatMap((line, i) => line.map((value, j) => [units.left[i], units.right[j], value])),
  ];
  const full = first.model === second.model;
  return (
    <Figure
      title={`What changes from ${readingName(first, full)} to ${readingName(second, full)}: ${signed(found.change)}`}
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
  const body = asked(prefix);
  const ready = on && body.left.trim() !== "" && body.right.trim() !== "";
  return useAnswer(ready ? JSON.stringify(body) : null, signal => api.pair(body, signal), TYPING);
}

export function PairView() {
  const { examples, methods, limits } = offered();
  const put = (name: string) => (value: string) => set({ [name]: value || null });
  const two = setting("second") === "on";
  const first = usePair("", true);
  const second = usePair("other-", two);
  const both = two && first.value && second.value ? JSON.stringify([asked(), reading("other-")]) : null;
  const change = useAnswer(
    both,
    signal =>
      api.compare({ ...reading(), left: setting("left"), right: setting("right"), other: reading("other-") }, signal),
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
        <Choose name="by" value={setting("by", "word")} choices={LEVELS} onChange={put("by")} />
        <Choose name="biases" value={setting("bias", "separate")} choices={BIASES} onChange={put("bias")} />
        <Choose
          name="relative to"
          value={setting("reference", "filler")}
          choices={REFERENCES}
          onChange={put("reference")}
        />
        <ChooseReading />
        <Check name="a second model beside it" value={two} onChange={on => set({ second: on ? "on" : null })} />
      </div>
      {two && (
        <div class="form second">
          <ChooseReading prefix="other-" name="second model" />
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
        {answers.map((answer, place) => (
          <div key={place} class={answer.waiting ? "old" : ""}>
            {answer.error && <Wrong>{answer.error}</Wrong>}
            {answer.waiting && <Waiting />}
            {answer.value && <Explained found={answer.value} name={place ? "pair-second" : "pair"} />}
          </div>
        ))}
      </div>
      {change.error && <Wrong>{change.error}</Wrong>}
      {two && change.value && <Changed found={change.value} />}
    </>
  );
}
