/** A matrix as coloured cells, in SVG; cells can be pointed at and walked with the arrow keys. */

import { useState } from "preact/hooks";
import { diverging, isStrong, rising, strongest } from "../colours";
import { plain, short } from "../numbers";

export interface Cell { row: number; column: number }

interface Props {
  rows: string[];
  columns: string[];
  values: (number | null)[][];
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
const LETTER_WIDTH = 7;
const GAP = 8;
const MOVES: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function HeatMap({ rows, columns, values, kind = "signed", scale, digits = 2, label, apart, ...linked }: Props) {
  const [own, setOwn] = useState<Cell | null>(null);
  const pointed = linked.onPoint ? linked.pointed : own;
  const onPoint = linked.onPoint ?? setOwn;
  const numbered = Math.max(rows.length, columns.length) <= NUMBERED;
  const [wide, high] = numbered ? [46, 28] : rows.length > 60 ? [9, 9] : [20, 18];
  const longest = (labels: string[]) => Math.max(3, ...labels.map(each => Math.min(LETTERS, each.length))) * LETTER_WIDTH + 18;
  const upright = columns.some(each => each.length * LETTER_WIDTH > wide);
  const [left, top] = [longest(rows), upright ? longest(columns) : 22];
  const isApart = (row: number, column: number) => apart === true && (row === rows.length - 1 || column === columns.length - 1);
  const inner = values.map((row, i) => row.map((value, j) => (isApart(i, j) ? null : value)));
  const outer = values.map((row, i) => row.map((value, j) => (isApart(i, j) && !(i === rows.length - 1 && j === columns.length - 1) ? value : null)));
  const scales = [scale ?? strongest(...inner), apart ? strongest(...outer) : 1];
  const x = (column: number) => left + column * wide + (apart && column === columns.length - 1 ? GAP : 0);
  const y = (row: number) => top + row * high + (apart && row === rows.length - 1 ? GAP : 0);
  const paint = kind === "signed" ? diverging : rising;
  const every = Math.ceil(11 / high);

  const key = (event: KeyboardEvent) => {
    const at = pointed ?? { row: 0, column: 0 };
    const move = MOVES[event.key];
    if (event.key === "Escape") onPoint(null);
    if (!move) return;
    event.preventDefault();
    const within = (place: number, count: number) => Math.max(0, Math.min(count - 1, place));
    onPoint(pointed ? { row: within(at.row + move[0], rows.length), column: within(at.column + move[1], columns.length) } : at);
  };
  const told = pointed && rows[pointed.row] !== undefined && columns[pointed.column] !== undefined
    ? `${rows[pointed.row]} and ${columns[pointed.column]}: ${plain(values[pointed.row]?.[pointed.column], 4)}` : label;

  return (
    <div class="scroll">
      <svg
        class="heatmap" role="img" aria-label={told} tabindex={0}
        width={x(columns.length - 1) + wide + 2} height={y(rows.length - 1) + high + 2}
        onKeyDown={key} onPointerLeave={() => onPoint(null)}
      >
        {rows.map((name, row) => row % every === 0 && (
          <text key={`r${row}`} class={pointed?.row === row ? "name on" : "name"} x={left - 6} y={y(row) + high / 2} text-anchor="end" dominant-baseline="central">
            {short(name, LETTERS)}
          </text>
        ))}
        {columns.map((name, column) => column % every === 0 && (
          <text
            key={`c${column}`} class={pointed?.column === column ? "name on" : "name"} dominant-baseline={upright ? "central" : "auto"} text-anchor={upright ? "start" : "middle"}
            transform={upright ? `translate(${x(column) + wide / 2} ${top - 6}) rotate(-90)` : `translate(${x(column) + wide / 2} ${top - 8})`}
          >
            {short(name, LETTERS)}
          </text>
        ))}
        {values.map((line, row) => line.map((value, column) => {
          const most = scales[isApart(row, column) ? 1 : 0];
          const corner = apart && row === rows.length - 1 && column === columns.length - 1;
          const on = pointed?.row === row && pointed.column === column;
          return (
            <g
              key={`${row},${column}`} class={on ? "cell on" : "cell"} data-row={row} data-column={column}
              onPointerEnter={() => onPoint({ row, column })}
            >
              <rect x={x(column) + 1} y={y(row) + 1} width={wide - 2} height={high - 2} rx={3} fill={corner ? "transparent" : paint(value, most)} />
              {numbered && value !== null && (
                <text class={isStrong(value, most) && !corner ? "value strong" : "value"} x={x(column) + wide / 2} y={y(row) + high / 2} text-anchor="middle" dominant-baseline="central">
                  {plain(value, digits)}
                </text>
              )}
              <title>{`${rows[row]} × ${columns[column]}: ${plain(value, 4)}`}</title>
            </g>
          );
        }))}
      </svg>
    </div>
  );
}
