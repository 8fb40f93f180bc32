/**
 * The script of an explained pair in pages and notebooks: Python writes the drawing, which shows without a script too;
 * this links its parts by pointing at them. It is built into likewise/plotting/explained.js.
 */

import {
  type Cell,
  type ExplainedPair,
  isLineOn,
  partners,
  sentence,
  shownValues,
  type Side,
  strength,
  strongest,
} from "./explained";

const LEVELS = 32767;
const SIDES: Side[] = [0, 1];

/** Numbers of a data attribute: a scale, and 16-bit levels in base64. */
function decoded(text: string): { values: Float64Array; scale: number } {
  const [scale, body] = text.split(";");
  const bytes = Uint8Array.from(atob(body), character => character.charCodeAt(0));
  const levels = new Int16Array(bytes.buffer);
  const values = Float64Array.from(levels, level => (level < -LEVELS ? NaN : (level / LEVELS) * Number(scale)));
  return { values, scale: Number(scale) };
}

const signed = (value: number, digits = 4) => (value < 0 ? "" : "+") + value.toFixed(digits);

const element = (tag: string, text: string) => Object.assign(document.createElement(tag), { textContent: text });

/** The matrix, as a table or on a canvas. */
interface Matrix {
  /** the cell at a pointer */
  at: (event: PointerEvent) => Cell | null;
  mark: (cell: Cell | null) => void;
}

function link(root: HTMLElement): void {
  root.dataset.live = "1";
  const [relevance, bias, shares] = [root.dataset.relevance!, root.dataset.bias!, root.dataset.shares!].map(decoded);
  const spans = [...root.querySelectorAll(".text")].map(text => [...text.children] as HTMLElement[]);
  const [n, m] = spans.map(side => side.length);
  const names = spans.map(side => side.map(span => span.firstChild!.nodeValue ?? ""));
  const pair: ExplainedPair = {
    units: [names[0], names[1]],
    shares: [shares.values.subarray(0, n), shares.values.subarray(n)],
    value: (i, j) =>
      i === n ? bias.values[j === m ? n + m : n + j] : j === m ? bias.values[i] : relevance.values[i * m + j],
    rest: root.dataset.rest!,
  };
  const scales = { pairs: relevance.scale, rest: strongest(bias.values.subarray(0, n + m)) };
  const readout = root.querySelector<HTMLElement>(".readout")!;
  const idle = readout.textContent;
  const table = root.querySelector<HTMLTableElement>(".map");
  const canvas = root.querySelector("canvas");
  const lines = [...root.querySelectorAll<SVGPathElement>(".lines path")];
  const matrix = canvas ? drawnMatrix(root, canvas, pair, scales) : tableMatrix(table!);

  const paint = (span: HTMLElement, value: number, scale: number) => {
    const share = strength(value, scale);
    span.className = (value < 0 ? "n" : "p") + (share > 0.6 ? " x" : "");
    span.style.setProperty("--s", share.toFixed(3));
    const number = span.querySelector("small");
    if (number) number.textContent = signed(value, 3);
  };
  const reveal = (span: HTMLElement) => {
    const box = span.parentElement!;
    const [low, high] = [span.offsetTop, span.offsetTop + span.offsetHeight];
    if (low < box.scrollTop || high > box.scrollTop + box.clientHeight) box.scrollTop = low - box.clientHeight / 2;
  };
  const show = (pointed: Cell | null) => {
    const at = pointed ? [pointed.row, pointed.column] : [-1, -1];
    for (const side of SIDES) {
      const values = shownValues(pair, side, pointed);
      const scale = values === pair.shares[side] ? shares.scale : relevance.scale;
      spans[side].forEach((span, unit) => paint(span, values[unit], scale));
      const on = spans[side][at[side]];
      on?.classList.add("on");
      // A unit stays under the pointer; its strongest partner, or both units of a cell, may be out of sight.
      if (on && at[1 - side] >= 0) reveal(on);
      if (on && at[1 - side] < 0) reveal(spans[1 - side][partners(pair, side, at[side])[0][0]]);
    }
    lines.forEach(line =>
      line.classList.toggle("off", !isLineOn(pointed, Number(line.dataset.i), Number(line.dataset.j))),
    );
    matrix.mark(pointed);
    if (!pointed) readout.textContent = idle;
    else
      readout.replaceChildren(
        ...sentence(pair, pointed).map(part =>
          "words" in part ? part.words : "unit" in part ? element("bdi", part.unit) : element("b", signed(part.number)),
        ),
      );
  };
  let focused: Cell | null = null;
  const rest = () => show(focused);
  const unitCell = (side: Side, unit: number): Cell => (side ? { row: -1, column: unit } : { row: unit, column: -1 });

  for (const side of SIDES)
    spans[side].forEach((span, unit) => {
      span.tabIndex = unit ? -1 : 0;
      span.addEventListener("pointerenter", () => show(unitCell(side, unit)));
      span.addEventListener("pointerleave", rest);
      span.addEventListener("focus", () => {
        for (const other of spans[side]) other.tabIndex = other === span ? 0 : -1;
        focused = unitCell(side, unit);
        rest();
      });
      span.addEventListener("blur", () => {
        focused = null;
        rest();
      });
      span.addEventListener("keydown", event => {
        const forward = getComputedStyle(span.parentElement!).direction === "rtl" ? -1 : 1;
        const last = spans[side].length - 1;
        const arrows: Record<string, number> = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: 1, ArrowUp: -1 };
        const step = { ...arrows, Home: -unit, End: last - unit }[event.key];
        if (event.key === "Escape") span.blur();
        if (step === undefined) return;
        event.preventDefault();
        (spans[side][unit + step] ?? span).focus();
      });
    });
  for (const item of root.querySelectorAll<HTMLElement>(".pairs li")) {
    item.addEventListener("pointerenter", () => show({ row: Number(item.dataset.i), column: Number(item.dataset.j) }));
    item.addEventListener("pointerleave", rest);
  }
  const target: HTMLElement = canvas ?? table!;
  const point = (event: PointerEvent) => show(matrix.at(event) ?? focused);
  target.addEventListener("pointermove", point);
  target.addEventListener("pointerdown", point);
  target.addEventListener("pointerleave", rest);
}

function tableMatrix(table: HTMLTableElement): Matrix {
  const rows = [...table.rows];
  return {
    at(event) {
      const cell = (event.target as Element).closest("td");
      const row = cell ? (cell.parentElement as HTMLTableRowElement).rowIndex - 1 : -1;
      return cell && row >= 0 && cell.cellIndex ? { row, column: cell.cellIndex - 1 } : null;
    },
    mark(cell) {
      table.querySelectorAll(".on").forEach(each => each.classList.remove("on"));
      const { row, column } = cell ?? { row: -1, column: -1 };
      if (row >= 0) rows[row + 1].cells[0].classList.add("on");
      if (column >= 0) rows[0].cells[column + 1].classList.add("on");
      if (row >= 0 && column >= 0) rows[row + 1].cells[column + 1].classList.add("on");
    },
  };
}

const [GAP, FONT, MARGIN, LETTERS, LARGEST] = [6, 10, 96, 16, 14];
const short = (text: string) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

/** The matrix of long texts, on a canvas as wide as its panel. */
function drawnMatrix(
  root: HTMLElement,
  canvas: HTMLCanvasElement,
  pair: ExplainedPair,
  scales: { pairs: number; rest: number },
): Matrix {
  const panel = canvas.parentElement!;
  const base = document.createElement("canvas");
  const [n, m] = pair.units.map(side => side.length);
  let [size, left, top, thick] = [1, 0, 0, 6];
  let marked: Cell | null = null;
  panel.classList.add("long");
  const start = (unit: number, count: number, edge: number) => edge + unit * size + (unit === count ? GAP : 0);
  const length = (unit: number, count: number) => (unit === count ? thick : size);
  const ratio = () => window.devicePixelRatio || 1;
  const style = (name: string) => getComputedStyle(root).getPropertyValue(name).trim();
  const font = `${FONT}px system-ui, sans-serif`;

  const longest = (side: Side) => {
    const pen = base.getContext("2d")!;
    pen.font = font;
    const widths = pair.units[side].map(unit => pen.measureText(short(unit)).width);
    return Math.min(MARGIN, Math.ceil(Math.max(24, ...widths)) + 8);
  };

  function labels(pen: CanvasRenderingContext2D): void {
    const every = Math.max(1, Math.ceil((FONT + 1) / size));
    pen.fillStyle = style("--soft");
    pen.font = font;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let i = 0; i < n; i += every) pen.fillText(short(pair.units[0][i]), left - 5, start(i, n, top) + size / 2);
    pen.fillText(pair.rest, left - 5, start(n, n, top) + thick / 2);
    pen.textAlign = "left";
    const upright = (text: string, x: number) => {
      pen.save();
      pen.translate(x, top - 5);
      pen.rotate(-Math.PI / 2);
      pen.fillText(text, 0, 0);
      pen.restore();
    };
    for (let j = 0; j < m; j += every) upright(short(pair.units[1][j]), start(j, m, left) + size / 2);
    upright(pair.rest, start(m, m, left) + thick / 2);
  }

  function cells(pen: CanvasRenderingContext2D): void {
    const [red, blue] = ["--red", "--blue"].map(name => style(name).split(/\s+/).join(","));
    const inset = size > 5 ? 1 : 0;
    for (let i = 0; i <= n; i++)
      for (let j = 0; j <= m; j++) {
        if (i === n && j === m) continue;
        const value = pair.value(i, j);
        const share = strength(value, i < n && j < m ? scales.pairs : scales.rest);
        for (const colour of ["rgba(128,128,128,.06)", `rgba(${value < 0 ? blue : red},${share})`]) {
          pen.fillStyle = colour;
          pen.fillRect(start(j, m, left), start(i, n, top), length(j, m) - inset, length(i, n) - inset);
        }
      }
  }

  function draw(): void {
    const width = panel.clientWidth || 700;
    left = Math.min(longest(0), width / 4);
    top = longest(1);
    size = Math.max(1, Math.min(LARGEST, Math.floor((width - left - GAP - 14) / m)));
    thick = Math.max(size, 6);
    const [wide, high] = [start(m, m, left) + thick + 2, start(n, n, top) + thick + 2];
    for (const each of [canvas, base]) [each.width, each.height] = [wide * ratio(), high * ratio()];
    canvas.style.width = `${wide}px`;
    const pen = base.getContext("2d")!;
    pen.scale(ratio(), ratio());
    cells(pen);
    labels(pen);
    mark(marked);
  }

  function mark(cell: Cell | null): void {
    marked = cell;
    const { row, column } = cell ?? { row: -1, column: -1 };
    const pen = canvas.getContext("2d")!;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(base, 0, 0);
    pen.scale(ratio(), ratio());
    pen.strokeStyle = style("--ink");
    const [wide, high] = [start(m, m, left) + thick - left, start(n, n, top) + thick - top];
    if (row >= 0) pen.strokeRect(left - 0.5, start(row, n, top) - 0.5, wide, length(row, n) + 0.5);
    if (column >= 0) pen.strokeRect(start(column, m, left) - 0.5, top - 0.5, length(column, m) + 0.5, high);
  }

  function at(event: PointerEvent): Cell | null {
    const box = canvas.getBoundingClientRect();
    const zoom = parseFloat(canvas.style.width) / box.width;
    const unit = (distance: number, count: number) => {
      const found = Math.floor(distance / size);
      return found < count ? found : distance >= count * size + GAP ? count : -1;
    };
    const row = unit((event.clientY - box.top) * zoom - top, n);
    const column = unit((event.clientX - box.left) * zoom - left, m);
    return row >= 0 && column >= 0 ? { row, column } : null;
  }

  draw();
  let drawnAt = panel.clientWidth;
  new ResizeObserver(() => {
    if (panel.clientWidth === drawnAt) return;
    drawnAt = panel.clientWidth;
    draw();
  }).observe(panel);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { at, mark };
}

document.querySelectorAll<HTMLElement>(".likewise-explained:not([data-live])").forEach(link);
