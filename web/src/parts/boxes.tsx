/** Box plots: the least, the quartiles and the most of each group. */

import { scaleLinear } from "d3-scale";

interface Props {
  groups: { name: string; colour: string; quartiles: number[] }[];
  label: string;
}

const [WIDE, HIGH, LEFT, BOTTOM] = [300, 190, 44, 30];

export function Boxes({ groups, label }: Props) {
  const all = groups.flatMap(group => group.quartiles).filter(Number.isFinite);
  const y = scaleLinear([Math.min(...all), Math.max(...all)], [HIGH - BOTTOM, 10]).nice();
  const step = (WIDE - LEFT) / Math.max(1, groups.length);
  const half = Math.min(18, step * 0.35);
  return (
    <svg
      class="boxes"
      role="img"
      aria-label={`box plots of ${label}`}
      width={WIDE}
      height={HIGH}
      viewBox={`0 0 ${WIDE} ${HIGH}`}
    >
      {y.ticks(5).map(tick => (
        <g key={tick}>
          <line class="rule" x1={LEFT} x2={WIDE} y1={y(tick)} y2={y(tick)} />
          <text class="name" x={LEFT - 6} y={y(tick)} text-anchor="end" dominant-baseline="central">
            {y.tickFormat(5)(tick)}
          </text>
        </g>
      ))}
      {groups.map(({ name, colour, quartiles: [least, first, middle, third, most] }, index) => {
        const x = LEFT + (index + 0.5) * step;
        return (
          <g key={name}>
            <line class="whisker" x1={x} x2={x} y1={y(least)} y2={y(most)} />
            <rect
              class="box"
              x={x - half}
              y={y(third)}
              width={half * 2}
              height={Math.max(1, y(first) - y(third))}
              fill={colour}
              fill-opacity={0.55}
            />
            <line class="whisker" x1={x - half} x2={x + half} y1={y(middle)} y2={y(middle)} />
            <text class="name" x={x} y={HIGH - 12} text-anchor="middle">
              {name}
            </text>
            <title>{`${label}, ${name}: ${[least, first, middle, third, most].map(each => each?.toFixed(3)).join(", ")}`}</title>
          </g>
        );
      })}
    </svg>
  );
}
