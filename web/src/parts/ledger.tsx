/** The ledger as a waterfall: each bar begins where the one before it ended, the last is what they add up to. */

import { diverging } from "../colours";
import { signed } from "../numbers";

const [WIDE, HIGH, NAMES, NUMBERS] = [520, 26, 180, 80];

export function Ledger({ terms, similarity }: { terms: Record<string, number>; similarity: number }) {
  const names = Object.keys(terms);
  let sum = 0;
  const bars = names.map(name => {
    const from = sum;
    sum += terms[name];
    return { name, from, to: sum, value: terms[name] };
  });
  const ends = [0, similarity, ...bars.map(bar => bar.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const space = WIDE - NAMES - NUMBERS;
  const x = (value: number) => NAMES + ((value - low) / (high - low || 1)) * space;
  const all = [...bars, { name: "similarity", from: 0, to: similarity, value: similarity }];
  return (
    <svg
      class="ledger"
      role="img"
      aria-label={`the ledger adds up to ${similarity.toFixed(4)}`}
      width={WIDE}
      height={all.length * HIGH + 4}
      viewBox={`0 0 ${WIDE} ${all.length * HIGH + 4}`}
    >
      <line class="rule" x1={x(0)} x2={x(0)} y1={0} y2={all.length * HIGH} />
      {all.map(({ name, from, to, value }, index) => {
        const last = index === all.length - 1;
        const y = index * HIGH;
        return (
          <g key={name} class={last ? "total" : ""} data-term={name} data-value={value}>
            {last && <line class="rule" x1={0} x2={WIDE} y1={y} y2={y} />}
            <text class="name" x={0} y={y + HIGH / 2} dominant-baseline="central">
              {name}
            </text>
            <rect
              class={last ? "sum" : ""}
              x={Math.min(x(from), x(to))}
              y={y + 6}
              width={Math.max(1, Math.abs(x(to) - x(from)))}
              height={HIGH - 12}
              rx={2}
              fill={last ? undefined : diverging(value < 0 ? -0.8 : 0.8, 1)}
            />
            <text class="value" x={WIDE} y={y + HIGH / 2} text-anchor="end" dominant-baseline="central">
              {last ? value.toFixed(4) : signed(value)}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
