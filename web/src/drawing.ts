/**
 * The drawing of an explained pair without a framework: both texts, a sentence on what is pointed at, matrix, lines,
 * ledger and strongest pairs, linked by pointing. The studio shows it, and so do pages and notebooks (page.ts).
 */

import { paint } from "./colours";
import { html, svg } from "./elements";
import {
  type Cell,
  type ExplainedPair,
  isLineOn,
  partners,
  type Point,
  sentence,
  shownValues,
  type Side,
  SIDES,
  strength,
  strongest,
} from "./explained";
import { heatMap, type Linked } from "./heatmap";
import { score, short, signed } from "./numbers";

/** Units of longer texts have no numbers. */
export const MOST_NUMBERED = 40;

/** A text with a span for each word, and what colours them. */
export function colouredText(words: string[], label: string, numbered = false) {
  const spans = words.map(word => html("span", {}, word, ...(numbered ? [html("small")] : [])));
  const paintWords = (values: ArrayLike<number>, scale: number) =>
    spans.forEach((span, index) => {
      paint(span, values[index], scale);
      span.title = signed(values[index]);
      if (numbered) span.lastElementChild!.textContent = signed(values[index], 3);
    });
  const spaced = spans.flatMap(span => [span, " "]);
  return {
    element: html("p", { class: "coloured", role: "group", "aria-label": label, dir: "auto" }, ...spaced),
    spans,
    paintWords,
  };
}

/** The arrow keys walk through the words of a text, of which one at a time is a tab stop. */
function walkable(spans: HTMLElement[], onFocus: (word: number) => void, onBlur: () => void): void {
  spans.forEach((span, index) => {
    span.tabIndex = index ? -1 : 0;
    span.addEventListener("focus", () => {
      for (const other of spans) other.tabIndex = other === span ? 0 : -1;
      onFocus(index);
    });
    span.addEventListener("blur", onBlur);
    span.addEventListener("keydown", event => {
      const forward = getComputedStyle(span.parentElement!).direction === "rtl" ? -1 : 1;
      const arrows: Record<string, number> = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: 1, ArrowUp: -1 };
      const step = { ...arrows, Home: -index, End: spans.length - 1 - index }[event.key];
      if (event.key === "Escape") span.blur();
      if (step === undefined) return;
      event.preventDefault();
      (spans[index + step] ?? span).focus();
    });
  });
}

/** Scrolls a text, and not the page, until a word is in sight. */
function reveal(word: HTMLElement): void {
  const text = word.parentElement!;
  const [low, high] = [word.offsetTop, word.offsetTop + word.offsetHeight];
  if (low < text.scrollTop || high > text.scrollTop + text.clientHeight) text.scrollTop = low - text.clientHeight / 2;
}

function texts(pair: ExplainedPair, pairScale: number, shareScale: number, point: Point): Linked {
  const numbered = Math.max(...pair.units.map(side => side.length)) <= MOST_NUMBERED;
  const both = SIDES.map(side => colouredText(pair.units[side], side ? "Right text" : "Left text", numbered));
  const cellOf = (side: Side, unit: number): Cell => (side ? { row: -1, column: unit } : { row: unit, column: -1 });
  for (const side of SIDES) {
    const { spans } = both[side];
    spans.forEach((span, unit) => {
      span.addEventListener("pointerenter", () => point(cellOf(side, unit)));
      span.addEventListener("pointerleave", () => point(null));
    });
    walkable(
      spans,
      unit => point(cellOf(side, unit), true),
      () => point(null, true),
    );
  }
  const show = (pointed: Cell | null) => {
    const at = pointed ? [pointed.row, pointed.column] : [-1, -1];
    for (const side of SIDES) {
      const values = shownValues(pair, side, pointed);
      const { spans, paintWords } = both[side];
      paintWords(values, values === pair.shares[side] ? shareScale : pairScale);
      spans.forEach((span, unit) => span.classList.toggle("on", unit === at[side]));
      if (!spans[at[side]]) continue;
      // A unit stays under the pointer; its strongest partner, or both units of a cell, may be out of sight.
      const other = SIDES[1 - side];
      reveal(at[other] < 0 ? both[other].spans[partners(pair, side, at[side])[0][0]] : spans[at[side]]);
    }
  };
  return { element: html("div", {}, ...both.map(text => text.element)), show };
}

function readout(pair: ExplainedPair): Linked {
  const element = html("p", { class: "readout", role: "status" });
  const show = (pointed: Cell | null) => {
    const parts = pointed ? sentence(pair, pointed) : [];
    const said = parts.map(part =>
      "words" in part ? part.words : "unit" in part ? html("bdi", {}, part.unit) : html("b", {}, signed(part.number)),
    );
    element.replaceChildren(
      ...(pointed ? said : [`Point at one of the ${pair.kind} or at a cell to see what it adds.`]),
    );
  };
  return { element, show };
}

/** The end of each colour scale. The rest has its own, because a strong one would blanch all pairs. */
function legend({ values, shares, rest }: ExplainedPair): Element {
  const inner = values.slice(0, -1);
  const drawn: [string, number[]][] = [
    ["pairs", inner.flatMap(line => line.slice(0, -1))],
    [rest, [...inner.map(line => line.at(-1)!), ...values.at(-1)!.slice(0, -1)]],
    ["texts", shares.flatMap(side => Array.from(side))],
  ];
  const bars = drawn
    .filter(([, all]) => all.some(value => value))
    .map(([name, all]) => {
      const end = Number(strongest(all).toPrecision(3));
      return html("span", {}, `${name} −${end}`, html("b"), `+${end}`);
    });
  return html("p", { class: "legend" }, ...bars);
}

const [LINE, WIDE, SIDE, THICK, LETTERS] = [24, 500, 150, 9, 20];
/** Lines of less than this share of the strongest say nothing and hide the others, and so do more of them than this. */
const [FAINTEST, MOST_LINES] = [0.03, 600];

/** Two columns of units with lines between them: the stronger the pair, the wider the line. */
function lines({ units: [left, right], values }: ExplainedPair, scale: number, point: Point): Linked {
  const high = Math.max(left.length, right.length) * LINE + 8;
  const y = (index: number, count: number) => (high - count * LINE) / 2 + (index + 0.5) * LINE;
  const found = left
    .flatMap((_, row) => right.map((_, column) => ({ row, column, value: values[row][column] })))
    .filter(({ value }) => Math.abs(value) >= FAINTEST * scale)
    .sort((a, b) => Math.abs(a.value) - Math.abs(b.value))
    .slice(-MOST_LINES);
  const pointing = (element: SVGElement, cell: Cell) => {
    element.addEventListener("pointerenter", () => point(cell));
    return element;
  };
  const paths = found.map(({ row, column, value }) => {
    const [from, to] = [y(row, left.length), y(column, right.length)];
    const path = svg(
      "path",
      {
        d: `M${SIDE},${from} C${WIDE / 2},${from} ${WIDE / 2},${to} ${WIDE - SIDE},${to}`,
        "stroke-width": 1 + strength(value, scale) * THICK,
      },
      svg("title", {}, `${left[row]} × ${right[column]}: ${signed(value)}`),
    );
    paint(path, value, scale);
    return pointing(path, { row, column });
  });
  const named = (labels: string[], x: number, anchor: string, cellOf: (unit: number) => Cell) =>
    labels.map((label, unit) => {
      const place = { x, y: y(unit, labels.length), "text-anchor": anchor, "dominant-baseline": "central" };
      return pointing(svg("text", { class: "name", ...place }, short(label, LETTERS)), cellOf(unit));
    });
  const names = [
    named(left, SIDE - 8, "end", row => ({ row, column: -1 })),
    named(right, WIDE - SIDE + 8, "start", column => ({ row: -1, column })),
  ];
  const drawn = svg(
    "svg",
    {
      class: "lines",
      role: "img",
      "aria-label": "lines between the units of both texts",
      width: WIDE,
      height: high,
      viewBox: `0 0 ${WIDE} ${high}`,
    },
    ...paths,
    ...names.flat(),
  );
  drawn.addEventListener("pointerleave", () => point(null));
  const show = (pointed: Cell | null) => {
    paths.forEach((path, index) =>
      path.classList.toggle("off", !isLineOn(pointed, found[index].row, found[index].column)),
    );
    names.forEach((side, index) =>
      side.forEach((name, unit) => name.classList.toggle("on", unit === (index ? pointed?.column : pointed?.row))),
    );
  };
  return { element: html("div", { class: "scroll" }, drawn), show };
}

const [BAR, LETTER_WIDTH, BARS, NUMBERS] = [26, 6.4, 190, 70];

/** A waterfall: each bar begins where the one before it ended, the last is what they add up to. */
function ledger(pair: ExplainedPair): Element {
  const terms = Object.entries(pair.ledger);
  const last = terms.length - 1;
  const sumText = score(terms[last][1]);
  let sum = 0;
  const ends = terms.map(([, value], index) => {
    const from = index === last ? 0 : sum;
    sum = from + (value ?? 0);
    return [from, sum];
  });
  const [low, high] = [Math.min(0, ...ends.flat()), Math.max(0, ...ends.flat())];
  const left = Math.max(...terms.map(([name]) => name.length)) * LETTER_WIDTH + 12;
  const [width, height] = [left + BARS + NUMBERS, terms.length * BAR + 4];
  const x = (value: number) => left + ((value - low) / (high - low || 1)) * BARS;
  const rule = (x1: number, x2: number, y1: number, y2: number) => svg("line", { class: "rule", x1, x2, y1, y2 });
  const rows = terms.map(([name, value], index) => {
    const y = index * BAR;
    const [from, to] = ends[index];
    const middle = { y: y + BAR / 2, "dominant-baseline": "central" };
    const number = index === last ? sumText : signed(value);
    const [start, wide] = [Math.min(x(from), x(to)), Math.max(1, Math.abs(x(to) - x(from)))];
    return svg(
      "g",
      { class: index === last ? "total" : to < from ? "n" : "p", "data-term": name, "data-value": value ?? "" },
      svg("text", { class: "name", x: 0, ...middle }, name),
      svg("rect", { x: start, y: y + 6, width: wide, height: BAR - 12, rx: 2 }),
      svg("text", { class: "value", x: width, "text-anchor": "end", ...middle }, number),
    );
  });
  return svg(
    "svg",
    {
      class: "ledger",
      role: "img",
      "aria-label": `the ledger adds up to ${sumText}`,
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
    },
    rule(x(0), x(0), 0, height - 4),
    rule(0, width, last * BAR, last * BAR),
    ...rows,
  );
}

function pairs({ strongest: found }: ExplainedPair, point: Point): Element {
  const scale = strongest(found.map(each => each[4]));
  const items = found.map(([row, column, left, right, value]) => {
    const swatch = html("i");
    paint(swatch, value, scale);
    const names = html("span", {}, html("bdi", {}, left), " × ", html("bdi", {}, right));
    const item = html("li", {}, names, swatch, html("b", {}, signed(value)));
    item.addEventListener("pointerenter", () => point({ row, column }));
    item.addEventListener("pointerleave", () => point(null));
    return item;
  });
  return html("ol", { class: "pairs" }, ...items);
}

/** The parts of the drawing, each of which can be put anywhere; pointing at one is shown by all of them. */
export function explainedDrawing(pair: ExplainedPair) {
  const { units, values, rest } = pair;
  const pairScale = strongest(...values.slice(0, -1).map(line => line.slice(0, -1)));
  const shareScale = strongest(...pair.shares.map(side => Array.from(side)));
  let focused: Cell | null = null;
  const point: Point = (cell, keep = false) => {
    if (keep) focused = cell;
    linked.forEach(part => part.show(cell ?? focused));
  };
  const matrix = {
    rows: [...units[0], rest],
    columns: [...units[1], rest],
    values,
    digits: pairScale >= 0.1 ? 2 : pairScale >= 0.01 ? 3 : 4,
    label: `relevance of ${units[0].length} by ${units[1].length} pairs`,
    apart: true,
  };
  const linked = [
    texts(pair, pairScale, shareScale, point),
    readout(pair),
    heatMap(matrix, point),
    lines(pair, pairScale, point),
  ];
  point(null);
  const [bothTexts, said, heat, drawnLines] = linked.map(part => part.element);
  return {
    head: [bothTexts, said],
    matrix: [heat, legend(pair)],
    lines: [drawnLines],
    ledger: [ledger(pair)],
    pairs: [pairs(pair, point)],
  };
}
