/** Two texts as two columns of words with lines between them: the stronger the pair, the wider the line. */

import { diverging } from "../colours";
import { type Cell, isLineOn, strongest } from "../explained";
import { short } from "../numbers";

interface Props {
  left: string[];
  right: string[];
  values: number[][];
  pointed: Cell | null;
  onPoint: (cell: Cell | null) => void;
}

const [HIGH, WIDE, SIDE, THICK, LETTERS] = [24, 560, 150, 9, 20];
/** Lines of less than this share of the strongest say nothing and hide the others, and so do more of them than this. */
const [FAINTEST, MOST] = [0.03, 600];

export function Lines({ left, right, values, pointed, onPoint }: Props) {
  const scale = strongest(...values);
  const high = Math.max(left.length, right.length) * HIGH + 8;
  const y = (index: number, count: number) => (high - count * HIGH) / 2 + (index + 0.5) * HIGH;
  const drawn = values
    .flatMap((row, i) => row.map((value, j) => ({ i, j, value })))
    .filter(({ value }) => Math.abs(value) >= FAINTEST * scale)
    .sort((a, b) => Math.abs(a.value) - Math.abs(b.value))
    .slice(-MOST);
  return (
    <div class="scroll">
      <svg
        class="lines"
        role="img"
        aria-label="lines between the words of both texts"
        width={WIDE}
        height={high}
        viewBox={`0 0 ${WIDE} ${high}`}
        onPointerLeave={() => onPoint(null)}
      >
        {drawn.map(({ i, j, value }) => {
          const [from, to] = [y(i, left.length), y(j, right.length)];
          const share = Math.abs(value) / scale;
          return (
            <path
              key={`${i},${j}`}
              d={`M${SIDE},${from} C${WIDE / 2},${from} ${WIDE / 2},${to} ${WIDE - SIDE},${to}`}
              fill="none"
              stroke={diverging(value, scale * 0.8)}
              stroke-width={1 + share * THICK}
              stroke-opacity={isLineOn(pointed, i, j) ? 0.35 + 0.6 * share : 0.06}
              onPointerEnter={() => onPoint({ row: i, column: j })}
            >
              <title>{`${left[i]} × ${right[j]}: ${value.toFixed(4)}`}</title>
            </path>
          );
        })}
        {left.map((word, i) => (
          <text
            key={`l${i}`}
            class={pointed?.row === i ? "name on" : "name"}
            x={SIDE - 8}
            y={y(i, left.length)}
            text-anchor="end"
            dominant-baseline="central"
            onPointerEnter={() => onPoint({ row: i, column: -1 })}
          >
            {short(word, LETTERS)}
          </text>
        ))}
        {right.map((word, j) => (
          <text
            key={`r${j}`}
            class={pointed?.column === j ? "name on" : "name"}
            x={WIDE - SIDE + 8}
            y={y(j, right.length)}
            dominant-baseline="central"
            onPointerEnter={() => onPoint({ row: -1, column: j })}
          >
            {short(word, LETTERS)}
          </text>
        ))}
      </svg>
    </div>
  );
}
