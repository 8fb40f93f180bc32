/** A matrix as coloured cells, in SVG; cells can be pointed at and walked with the arrow keys. */

import { diverging, LOOKS, paint, rising } from "./colours";
import { html, svg } from "./elements";
import { type Cell, type Point, strongest } from "./explained";
import { plain, short } from "./numbers";

export interface Matrix {
  rows: string[];
  columns: string[];
  values: (number | null)[][];
  /** signed values are coloured around 0; shares from 0 on */
  kind?: "signed" | "share";
  scale?: number;
  digits?: number;
  label: string;
  /** the last row and column stand apart and have their own scale */
  apart?: boolean;
}

/** A drawing that shows what is pointed at. */
export interface Linked {
  element: Element;
  show: (cell: Cell | null) => void;
}

const [LETTERS, LETTER_WIDTH, NUMBERED, GAP] = [18, 7, 16, 8];
/** Matrices of more cells are one picture of a pixel a cell: thousands of shapes would slow the page down. */
const MOST_SHAPES = 2500;
/** The width that cells without numbers share, and their smallest and largest size. */
const [ROOM, SMALLEST, LARGEST] = [800, 2, 20];
/** Cells up to this size have no space between them. */
const DENSE = 12;
const MOVES: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** Where everything is. */
function layout({ rows, columns, apart }: Matrix) {
  const most = Math.max(rows.length, columns.length);
  const numbered = most <= NUMBERED;
  const side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(ROOM / most)));
  const [wide, high] = numbered ? [46, 28] : [side, side];
  const longest = (labels: string[]) =>
    Math.max(3, ...labels.map(each => Math.min(LETTERS, each.length))) * LETTER_WIDTH + 18;
  const upright = columns.some(each => each.length * LETTER_WIDTH > wide);
  const [left, top, gap] = [longest(rows), upright ? longest(columns) : 22, apart ? GAP : 0];
  const x = (column: number) => left + column * wide + (column === columns.length - 1 ? gap : 0);
  const y = (row: number) => top + row * high + (row === rows.length - 1 ? gap : 0);
  const at = (distance: number, size: number, count: number) => {
    const last = (count - 1) * size;
    if (distance >= last) return distance >= last + gap && distance < last + gap + size ? count - 1 : -1;
    return Math.floor(distance / size);
  };
  /** The cell at a point, if there is one. */
  const cellAt = (across: number, down: number): Cell | null => {
    const [row, column] = [at(down - top, high, rows.length), at(across - left, wide, columns.length)];
    return row >= 0 && column >= 0 ? { row, column } : null;
  };
  const [width, height] = [x(columns.length - 1) + wide + 2, y(rows.length - 1) + high + 2];
  return { numbered, wide, high, left, top, upright, x, y, cellAt, width, height };
}

type Layout = ReturnType<typeof layout>;

/** The scale of a cell; none for the corner where the last row and column meet. */
function scales({ values, scale, apart }: Matrix): (row: number, column: number) => number {
  const [lastRow, lastColumn] = apart ? [values.length - 1, values[0].length - 1] : [Infinity, Infinity];
  const inner = scale ?? strongest(...values.slice(0, lastRow).map(line => line.slice(0, lastColumn)));
  const outer = apart
    ? strongest(
        values[lastRow].slice(0, -1),
        values.slice(0, -1).map(line => line[lastColumn]),
      )
    : inner;
  return (row, column) =>
    row === lastRow && column === lastColumn ? 0 : row < lastRow && column < lastColumn ? inner : outer;
}

function names({ rows, columns }: Matrix, { left, top, wide, high, upright, x, y }: Layout): [Element[], Element[]] {
  const every = Math.ceil(10 / high);
  const drawn = (labels: string[], where: (index: number) => Record<string, string | number>) =>
    labels.map((label, index) =>
      svg("text", { class: "name", ...where(index) }, index % every ? "" : short(label, LETTERS)),
    );
  return [
    drawn(rows, row => ({ x: left - 6, y: y(row) + high / 2, "text-anchor": "end", "dominant-baseline": "central" })),
    drawn(columns, column => ({
      "text-anchor": upright ? "start" : "middle",
      "dominant-baseline": upright ? "central" : "auto",
      transform: `translate(${x(column) + wide / 2} ${top - (upright ? 6 : 8)})${upright ? " rotate(-90)" : ""}`,
    })),
  ];
}

function cell(matrix: Matrix, { x, y, wide, high, numbered }: Layout, scale: number, row: number, column: number) {
  const value = matrix.values[row][column];
  const inset = high > DENSE ? 1 : 0;
  const [width, height] = [wide - 2 * inset, high - 2 * inset];
  const size = { x: x(column) + inset, y: y(row) + inset, width, height, rx: 3 * inset };
  const inside = {
    x: x(column) + wide / 2,
    y: y(row) + high / 2,
    "text-anchor": "middle",
    "dominant-baseline": "central",
  };
  const drawn = svg("g", { class: "cell", "data-row": row, "data-column": column }, svg("rect", size));
  if (numbered && value !== null)
    drawn.append(svg("text", { class: "value", ...inside }, plain(value, matrix.digits ?? 2)));
  drawn.append(svg("title", {}, `${matrix.rows[row]} × ${matrix.columns[column]}: ${plain(value, 4)}`));
  if (scale) paint(drawn, value, scale, matrix.kind);
  return drawn;
}

/** The cells with one scale as pictures of a pixel each, one for light pages and one for dark ones. */
function pictures({ values, kind, apart }: Matrix, { left, top, wide, high }: Layout, scale: number): Element[] {
  const inner = apart ? values.slice(0, -1).map(line => line.slice(0, -1)) : values;
  const [width, height] = [inner[0].length, inner.length];
  const colour = kind === "share" ? rising : diverging;
  const size = { x: left, y: top, width: width * wide, height: height * high };
  const sharp = { preserveAspectRatio: "none", style: "image-rendering: pixelated" };
  const images = LOOKS.map(look => {
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const pen = canvas.getContext("2d")!;
    inner.forEach((line, row) =>
      line.forEach((value, column) => {
        pen.fillStyle = colour(value, scale, look);
        pen.fillRect(column, row, 1, 1);
      }),
    );
    return svg("image", { class: look, ...size, ...sharp, href: canvas.toDataURL() });
  });
  return [svg("rect", { class: "frame", ...size }), ...images];
}

/** Pointer and arrow keys choose a cell. */
function pointable(
  { rows, columns }: Matrix,
  drawn: SVGElement,
  cellAt: Layout["cellAt"],
  shown: () => Cell | null,
  point: Point,
): void {
  const over = (event: PointerEvent) => {
    const box = drawn.getBoundingClientRect();
    const [cell, last] = [cellAt(event.clientX - box.left, event.clientY - box.top), shown()];
    if (cell?.row !== last?.row || cell?.column !== last?.column) point(cell);
  };
  const within = (index: number, count: number) => Math.max(0, Math.min(count - 1, index));
  drawn.addEventListener("pointermove", over);
  drawn.addEventListener("pointerdown", over);
  drawn.addEventListener("pointerleave", () => point(null));
  drawn.addEventListener("blur", () => point(null, true));
  drawn.addEventListener("keydown", event => {
    if (event.key === "Escape") point(null, true);
    const [move, last] = [MOVES[event.key], shown()];
    if (!move) return;
    event.preventDefault();
    const [row, column] = last ? [last.row + move[0], last.column + move[1]] : [0, 0];
    point({ row: within(row, rows.length), column: within(column, columns.length) }, true);
  });
}

/** A matrix that shows the cell that is pointed at; `point` lets other drawings show it as well. */
export function heatMap(matrix: Matrix, point?: Point): Linked {
  const { rows, columns, values, apart } = matrix;
  const [placed, scale] = [layout(matrix), scales(matrix)];
  const isPicture = rows.length * columns.length > MOST_SHAPES;
  const isDrawn = (row: number, column: number) =>
    !isPicture || (apart === true && (row === rows.length - 1 || column === columns.length - 1));
  const labels = names(matrix, placed);
  const cells = values.map((line, row) =>
    line.map((_, column) => (isDrawn(row, column) ? cell(matrix, placed, scale(row, column), row, column) : null)),
  );
  const { left, top, wide, high, width, height, x, y } = placed;
  const bands = [
    svg("rect", { class: "band", x: left, y: -height, width: width - left - 2, height: high }),
    svg("rect", { class: "band", x: -width, y: top, width: wide, height: height - top - 2 }),
  ];
  const drawn = svg(
    "svg",
    {
      class: placed.numbered ? "heatmap" : "heatmap dense",
      role: "img",
      "aria-label": matrix.label,
      tabindex: 0,
      width,
      height,
    },
    ...labels.flat(),
    ...(isPicture ? [...pictures(matrix, placed, scale(0, 0)), ...bands] : []),
    ...cells.flat().filter(each => each !== null),
  );
  let [shown, lit]: [Cell | null, Element[]] = [null, []];

  function show(pointed: Cell | null): void {
    shown = pointed;
    const { row, column } = pointed ?? { row: -1, column: -1 };
    for (const each of lit) each.classList.remove("on");
    lit = [labels[0][row], labels[1][column], cells[row]?.[column]].filter(each => !!each);
    for (const each of lit) each.classList.add("on");
    bands[0].setAttribute("y", String(row < 0 ? -height : y(row)));
    bands[1].setAttribute("x", String(column < 0 ? -width : x(column)));
    const said = row >= 0 && column >= 0 ? `${rows[row]} and ${columns[column]}: ${plain(values[row][column], 4)}` : "";
    drawn.setAttribute("aria-label", said || matrix.label);
  }

  pointable(matrix, drawn, placed.cellAt, () => shown, point ?? show);
  return { element: html("div", { class: "scroll" }, drawn), show };
}
