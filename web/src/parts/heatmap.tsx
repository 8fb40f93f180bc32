/** A matrix as coloured cells, in SVG; cells can be pointed at and walked with the arrow keys. */

import { useMemo, useState } from "preact/hooks";
import { diverging, inkOn, rising } from "../colours";
import { type Cell, strongest } from "../explained";
import { plain, short } from "../numbers";
import { type Theme, theme } from "../theme";

type Values = (number | null)[][];

interface Props {
  rows: string[];
  columns: string[];
  values: Values;
  /** signed values are coloured around 0; shares from 0 on */
  kind?: "signed" | "share";
  scale?: number;
  digits?: number;
  /** what is pointed at, where other drawings show it too */
  pointed?: Cell | null;
  onPoint?: (cell: Cell | null) => void;
  label: string;
  /** the last row and column stand apart and have their own scale */
  apart?: boolean;
}

const LETTERS = 18;
const NUMBERED = 16;
/** Matrices of more cells are one picture of a pixel a cell: thousands of shapes would slow the page down. */
const MOST_SHAPES = 2500;
const LETTER_WIDTH = 7;
const GAP = 8;
const MOVES: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** A picture of one pixel for each colour. */
function pixels(colours: string[][]): string {
  const canvas = Object.assign(document.createElement("canvas"), { width: colours[0].length, height: colours.length });
  const pen = canvas.getContext("2d")!;
  colours.forEach((line, row) =>
    line.forEach((colour, column) => {
      pen.fillStyle = colour;
      pen.fillRect(column, row, 1, 1);
    }),
  );
  return canvas.toDataURL();
}

type Colourer = (value: number | null, row: number, column: number) => string;

/** The colours of a matrix in a theme; where the last row and column stand apart, they have a scale of their own. */
function colourer(values: Values, kind: "signed" | "share", apart = false, scale?: number, look?: Theme): Colourer {
  const [lastRow, lastColumn] = [values.length - 1, (values[0]?.length ?? 0) - 1];
  const isOuter = (row: number, column: number) => apart && (row === lastRow || column === lastColumn);
  const isCorner = (row: number, column: number) => apart && row === lastRow && column === lastColumn;
  const where = (keep: (row: number, column: number) => boolean) =>
    strongest(values.flatMap((line, row) => line.filter((_, column) => keep(row, column))));
  const inner = scale ?? where((row, column) => !isOuter(row, column));
  const outer = where((row, column) => isOuter(row, column) && !isCorner(row, column));
  const paint = kind === "signed" ? diverging : rising;
  return (value, row, column) =>
    isCorner(row, column) ? "transparent" : paint(value, isOuter(row, column) ? outer : inner, look);
}

export function HeatMap({ rows, columns, values, kind = "signed", scale, digits = 2, label, apart, ...linked }: Props) {
  const [own, setOwn] = useState<Cell | null>(null);
  const pointed = linked.onPoint ? linked.pointed : own;
  const onPoint = linked.onPoint ?? setOwn;
  const numbered = Math.max(rows.length, columns.length) <= NUMBERED;
  const drawn = rows.length * columns.length <= MOST_SHAPES;
  const [wide, high] = numbered
    ? [46, 28]
    : Math.max(rows.length, columns.length) > 150
      ? [5, 5]
      : rows.length > 60
        ? [9, 9]
        : [20, 18];
  const longest = (labels: string[]) =>
    Math.max(3, ...labels.map(each => Math.min(LETTERS, each.length))) * LETTER_WIDTH + 18;
  const upright = columns.some(each => each.length * LETTER_WIDTH > wide);
  const [left, top] = [longest(rows), upright ? longest(columns) : 22];
  const look = theme.value;
  const colour = useMemo(() => colourer(values, kind, apart, scale, look), [values, kind, apart, scale, look]);
  const picture = useMemo(
    () => (drawn ? "" : pixels(values.map((line, row) => line.map((value, column) => colour(value, row, column))))),
    [values, drawn, colour],
  );
  const isCorner = (row: number, column: number) =>
    apart === true && row === rows.length - 1 && column === columns.length - 1;
  const gap = apart && drawn ? GAP : 0;
  const x = (column: number) => left + column * wide + (column === columns.length - 1 ? gap : 0);
  const y = (row: number) => top + row * high + (row === rows.length - 1 ? gap : 0);
  const over = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    onPoint({
      row: Math.min(rows.length - 1, Math.floor((event.clientY - box.top) / high)),
      column: Math.min(columns.length - 1, Math.floor((event.clientX - box.left) / wide)),
    });
  };
  const every = Math.ceil(11 / high);

  const key = (event: KeyboardEvent) => {
    const at = pointed ?? { row: 0, column: 0 };
    const move = MOVES[event.key];
    if (event.key === "Escape") onPoint(null);
    if (!move) return;
    event.preventDefault();
    const within = (index: number, count: number) => Math.max(0, Math.min(count - 1, index));
    onPoint(
      pointed
        ? { row: within(at.row + move[0], rows.length), column: within(at.column + move[1], columns.length) }
        : at,
    );
  };
  const description =
    pointed && rows[pointed.row] !== undefined && columns[pointed.column] !== undefined
      ? `${rows[pointed.row]} and ${columns[pointed.column]}: ${plain(values[pointed.row]?.[pointed.column], 4)}`
      : label;

  return (
    <div class="scroll">
      <svg
        class="heatmap"
        role="img"
        aria-label={description}
        tabindex={0}
        width={x(columns.length - 1) + wide + 2}
        height={y(rows.length - 1) + high + 2}
        onKeyDown={key}
        onPointerLeave={() => onPoint(null)}
      >
        {rows.map(
          (name, row) =>
            row % every === 0 && (
              <text
                key={`r${row}`}
                class={pointed?.row === row ? "name on" : "name"}
                x={left - 6}
                y={y(row) + high / 2}
                text-anchor="end"
                dominant-baseline="central"
              >
                {short(name, LETTERS)}
              </text>
            ),
        )}
        {columns.map(
          (name, column) =>
            column % every === 0 && (
              <text
                key={`c${column}`}
                class={pointed?.column === column ? "name on" : "name"}
                dominant-baseline={upright ? "central" : "auto"}
                text-anchor={upright ? "start" : "middle"}
                transform={
                  upright
                    ? `translate(${x(column) + wide / 2} ${top - 6}) rotate(-90)`
                    : `translate(${x(column) + wide / 2} ${top - 8})`
                }
              >
                {short(name, LETTERS)}
              </text>
            ),
        )}
        {!drawn && (
          <g>
            <image
              href={picture}
              x={left}
              y={top}
              width={columns.length * wide}
              height={rows.length * high}
              preserveAspectRatio="none"
              style="image-rendering: pixelated"
            />
            {pointed && pointed.row >= 0 && pointed.column >= 0 && (
              <rect class="on" x={x(pointed.column)} y={y(pointed.row)} width={wide} height={high} fill="none" />
            )}
            <rect
              class="over"
              x={left}
              y={top}
              width={columns.length * wide}
              height={rows.length * high}
              fill="transparent"
              onPointerMove={over}
            >
              <title>{description}</title>
            </rect>
          </g>
        )}
        {drawn &&
          values.map((line, row) =>
            line.map((value, column) => {
              const fill = colour(value, row, column);
              const on = pointed?.row === row && pointed.column === column;
              return (
                <g
                  key={`${row},${column}`}
                  class={on ? "cell on" : "cell"}
                  data-row={row}
                  data-column={column}
                  onPointerEnter={() => onPoint({ row, column })}
                >
                  <rect x={x(column) + 1} y={y(row) + 1} width={wide - 2} height={high - 2} rx={3} fill={fill} />
                  {numbered && value !== null && (
                    <text
                      class="value"
                      style={isCorner(row, column) ? undefined : { fill: inkOn(fill) }}
                      x={x(column) + wide / 2}
                      y={y(row) + high / 2}
                      text-anchor="middle"
                      dominant-baseline="central"
                    >
                      {plain(value, digits)}
                    </text>
                  )}
                  <title>{`${rows[row]} × ${columns[column]}: ${plain(value, 4)}`}</title>
                </g>
              );
            }),
          )}
      </svg>
    </div>
  );
}
