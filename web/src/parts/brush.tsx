/** A histogram of one variable with a brush over it: drag a range, or type its ends. */

import { bin, extent, max } from "d3-array";
import { type D3BrushEvent, brushX } from "d3-brush";
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useStable } from "../stable";

export type Range = [number, number];

interface Props {
  name: string;
  values: number[];
  range: Range | null;
  colour: string;
  onChange: (range: Range | null) => void;
}

const [WIDE, HIGH, BOTTOM, EDGE] = [300, 84, 20, 14];

/** Rounded so that a sample at the very end stays in. */
const outwards = (value: number, round: (value: number) => number) => round(value * 1000) / 1000;

export function Brush({ name, values, range, colour, onChange }: Props) {
  const group = useRef<SVGGElement>(null);
  const [low = 0, high = 1] = extent(values);
  const x = useMemo(() => scaleLinear([low, high === low ? low + 1 : high], [EDGE, WIDE - EDGE]), [low, high]);
  const shown = useStable(range);
  const bins = bin()
    .domain(x.domain() as Range)
    .thresholds(24)(values);
  const y = scaleLinear([0, max(bins, each => each.length) ?? 1], [HIGH - BOTTOM, 4]);
  const latest = useRef(onChange);
  latest.current = onChange;

  useEffect(() => {
    const brush = brushX<unknown>().extent([
      [EDGE, 0],
      [WIDE - EDGE, HIGH - BOTTOM],
    ]);
    const selection = select(group.current!);
    // Moves by d3 itself have no source event; only those of the reader count.
    brush.on("end", (event: D3BrushEvent<unknown>) => {
      if (!event.sourceEvent) return;
      const ends = event.selection as Range | null;
      latest.current(ends ? [outwards(x.invert(ends[0]), Math.floor), outwards(x.invert(ends[1]), Math.ceil)] : null);
    });
    const within = (value: number) => Math.max(EDGE, Math.min(WIDE - EDGE, x(value)));
    brush(selection as never);
    brush.move(selection as never, shown ? [within(shown[0]), within(shown[1])] : null);
  }, [shown, x]);

  const typed = (end: 0 | 1) => (event: Event) => {
    const words = (event.currentTarget as HTMLInputElement).value;
    const next: Range = range ? [...range] : [low, high];
    next[end] = words === "" ? [low, high][end] : Number(words);
    onChange(next[0] <= next[1] ? next : [next[1], next[0]]);
  };
  return (
    <div class="brush" data-variable={name} style={{ "--mark": colour }}>
      <div class="ends">
        <b>{name}</b>
        <input
          type="number"
          step="any"
          aria-label={`${name} from`}
          value={range?.[0] ?? ""}
          placeholder={low.toPrecision(3)}
          onChange={typed(0)}
        />
        to
        <input
          type="number"
          step="any"
          aria-label={`${name} to`}
          value={range?.[1] ?? ""}
          placeholder={high.toPrecision(3)}
          onChange={typed(1)}
        />
        {range && (
          <button onClick={() => onChange(null)} aria-label={`clear ${name}`}>
            ×
          </button>
        )}
      </div>
      <svg width={WIDE} height={HIGH} role="img" aria-label={`histogram of ${name}`}>
        {bins.map((each, index) => (
          <rect
            key={index}
            class="bar"
            x={x(each.x0!) + 0.5}
            y={y(each.length)}
            width={Math.max(0, x(each.x1!) - x(each.x0!) - 1)}
            height={HIGH - BOTTOM - y(each.length)}
          />
        ))}
        {x.ticks(5).map(tick => (
          <text key={tick} class="name" x={x(tick)} y={HIGH - 6} text-anchor="middle">
            {x.tickFormat(5)(tick)}
          </text>
        ))}
        <g ref={group} class="brushed" />
      </svg>
    </div>
  );
}
