/** Curves with intervals: uPlot on the page, and the same as SVG for export. */

import { scaleLinear } from "d3-scale";
import { area, line } from "d3-shape";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { escaped, svgFile } from "../exports";
import { useStable } from "../stable";
import { theme } from "../theme";

export interface Curve {
  name: string;
  colour: string;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  /** which of the dashes; none is a solid line */ dash?: number;
}

interface Props {
  x: number[];
  curves: Curve[];
  xName: string;
  yName: string;
  high?: number;
  whole?: boolean;
  range?: [number, number];
}

const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [10, 5]];
/** The same around the squares of the legend, as near as a border can come. */
const BORDERS = ["solid", "dashed", "dotted", "dashed", "dashed"];
const dashOf = ({ dash = 0 }: Curve) => DASHES[dash % DASHES.length];
const faint = (colour: string) => `${colour}2e`;

export function Curves(props: Props) {
  const shown = useStable(props);
  const { curves, xName, yName } = shown;
  const container = useRef<HTMLDivElement>(null);
  const look = theme.value;
  useEffect(() => {
    const { x, curves, xName, yName, high = 320, whole, range } = shown;
    const box = container.current!;
    const ink = getComputedStyle(box).getPropertyValue("--soft");
    const rule = getComputedStyle(box).getPropertyValue("--line");
    const axis = (label: string): uPlot.Axis => ({
      label,
      stroke: ink,
      grid: { stroke: rule, width: 1 },
      ticks: { stroke: rule },
      font: "12px system-ui",
      labelFont: "12px system-ui",
      labelSize: 22,
    });
    const series: uPlot.Series[] = [{ label: xName }];
    const borders = ["solid"];
    const data: uPlot.AlignedData = [x];
    const bands: uPlot.Band[] = [];
    for (const curve of curves) {
      data.push(curve.values);
      borders.push(BORDERS[(curve.dash ?? 0) % BORDERS.length]);
      series.push({
        label: curve.name,
        stroke: curve.colour,
        width: 2,
        dash: dashOf(curve),
        spanGaps: true,
        points: { show: x.length < 40 },
        value: (_, value) => (value === null || value === undefined ? "–" : value.toFixed(4)),
      });
      if (curve.low && curve.high) {
        for (const edge of [curve.high, curve.low]) {
          data.push(edge);
          borders.push("solid");
          series.push({ label: "", stroke: "transparent", width: 0, points: { show: false }, class: "edge" });
        }
        bands.push({ series: [series.length - 2, series.length - 1], fill: faint(curve.colour) });
      }
    }
    const wide = () => Math.max(320, box.clientWidth);
    const plot = new uPlot(
      {
        width: wide(),
        height: high,
        series,
        bands,
        scales: { x: { time: false }, y: range ? { range } : {} },
        axes: [
          { ...axis(xName), ...(whole ? { incrs: [1, 2, 5, 10, 20, 50, 100] } : {}) },
          { ...axis(yName), size: 64 },
        ],
        legend: { live: true, markers: { width: 2, dash: (_, index) => borders[index] } },
        cursor: { points: { size: 7 } },
      },
      data,
      box,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: wide(), height: high }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [shown, look]);
  return (
    <div
      class="curves"
      ref={container}
      role="img"
      aria-label={`${yName} by ${xName}: ${curves.map(curve => curve.name).join(", ")}`}
    />
  );
}

/** The same curves as a drawing that stands alone. */
export function curvesDrawing({ x, curves, xName, yName, range }: Props): string {
  const [wide, high, left, bottom, top, right] = [720, 420 + curves.length * 18, 70, 48 + curves.length * 18, 16, 20];
  const known = curves
    .flatMap(curve => [curve.values, curve.low ?? [], curve.high ?? []])
    .flat()
    .filter(value => value !== null);
  const across = scaleLinear([Math.min(...x), Math.max(...x)], [left, wide - right]);
  const up = scaleLinear(range ?? [Math.min(...known), Math.max(...known)], [high - bottom, top]).nice();
  const at = (index: number) => across(x[index]);
  const path = line<number | null>()
    .defined(value => value !== null)
    .x((_, index) => at(index))
    .y(value => up(value!));
  const text = (words: string, tx: number, ty: number, more = "") =>
    `<text x="${tx}" y="${ty}" font-size="12" fill="#57606a" ${more}>${escaped(words)}</text>`;
  const parts = up
    .ticks(6)
    .flatMap(tick => [
      `<line x1="${left}" x2="${wide - right}" y1="${up(tick)}" y2="${up(tick)}" stroke="#d8dee4"/>`,
      text(up.tickFormat(6)(tick), left - 8, up(tick) + 4, 'text-anchor="end"'),
    ]);
  parts.push(
    ...across
      .ticks(Math.min(x.length, 12))
      .map(tick => text(across.tickFormat(12)(tick), across(tick), high - bottom + 18, 'text-anchor="middle"')),
  );
  curves.forEach((curve, index) => {
    if (curve.low && curve.high) {
      const { low, high: edge } = curve;
      const band = area<number>()
        .defined(each => low[each] !== null && edge[each] !== null)
        .x(at)
        .y0(each => up(low[each]!))
        .y1(each => up(edge[each]!));
      parts.push(`<path d="${band(x.map((_, each) => each))}" fill="${curve.colour}" fill-opacity="0.18"/>`);
    }
    const pen = `stroke="${curve.colour}" stroke-width="2" stroke-dasharray="${dashOf(curve).join(" ") || "none"}"`;
    parts.push(`<path d="${path(curve.values)}" fill="none" ${pen}/>`);
    const ty = high - bottom + 58 + index * 18;
    parts.push(
      `<line x1="${left}" x2="${left + 24}" y1="${ty - 4}" y2="${ty - 4}" ${pen}/>`,
      text(curve.name, left + 32, ty),
    );
  });
  parts.push(
    text(xName, (left + wide) / 2, high - bottom + 38, 'text-anchor="middle"'),
    text(yName, 0, 0, `text-anchor="middle" transform="translate(16 ${(high - bottom) / 2}) rotate(-90)"`),
  );
  return svgFile(wide, high + 20, parts, "#fff");
}

/** The rows of a table of the curves. */
export const curvesRows = (x: number[], curves: Curve[], xName: string) => [
  [
    xName,
    ...curves.flatMap(curve => [curve.name, ...(curve.low ? [`${curve.name}, low`, `${curve.name}, high`] : [])]),
  ],
  ...x.map((value, index) => [
    value,
    ...curves.flatMap(curve => [curve.values[index], ...(curve.low ? [curve.low[index], curve.high?.[index]] : [])]),
  ]),
];
