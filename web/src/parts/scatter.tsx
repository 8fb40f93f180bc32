/** Points on a canvas; marked ones are ringed in the colours of their marks, none is taken away. */

import { extent } from "d3-array";
import { scaleLinear } from "d3-scale";
import { useEffect, useRef } from "preact/hooks";
import { escaped, svgFile } from "../exports";
import { useStable } from "../stable";
import { theme } from "../theme";

export interface Dots {
  points: [number, number][];
  /** of each point; one for all where it is a text */
  colours: string | string[];
  /** for each point the colours of the marks it carries */
  marks?: string[][];
  picked?: number | null;
}

interface Drawn extends Dots {
  wide: number;
  high: number;
  axes?: { x: string; y: string; line?: { slope: number; shift: number } | null; identity?: boolean };
}

interface Props extends Drawn {
  label: string;
  onPick?: (index: number) => void;
  /** the tooltip of a point */
  describe?: (index: number) => string;
}

/** What draws: on a canvas of the page, or into an SVG. */
interface Pen {
  dot(x: number, y: number, size: number, colour: string, opacity: number): void;
  ring(x: number, y: number, size: number, colour: string): void;
  line(from: [number, number], to: [number, number], colour: string, dashed: boolean): void;
  text(words: string, x: number, y: number, anchor: "start" | "middle" | "end", turned: boolean): void;
}

const EDGE = 8;
const AXES = { left: 52, bottom: 40 };

function scales({ points, wide, high, axes }: Drawn) {
  const [left, bottom] = axes ? [AXES.left, AXES.bottom] : [EDGE, EDGE];
  const [xs, ys] = [extent(points, point => point[0]), extent(points, point => point[1])];
  const both = axes?.identity ? extent([...xs, ...ys].filter(each => each !== undefined)) : null;
  const domain = (found: [number, number] | [undefined, undefined]) =>
    found[0] === undefined ? [0, 1] : found[0] === found[1] ? [found[0] - 1, found[0] + 1] : found;
  return {
    x: scaleLinear(domain(both ?? xs), [left, wide - EDGE]),
    y: scaleLinear(domain(both ?? ys), [high - bottom, EDGE]),
  };
}

function draw(props: Drawn, pen: Pen, ink: string): void {
  const { points, colours, marks, picked, axes, wide, high } = props;
  const { x, y } = scales(props);
  const size = points.length > 1500 ? 1.6 : wide < 220 ? 2 : 3;
  const lit = marks?.some(each => each.length > 0) ?? false;
  if (axes) {
    for (const tick of x.ticks(5)) pen.text(String(tick), x(tick), high - AXES.bottom + 16, "middle", false);
    for (const tick of y.ticks(5)) pen.text(String(tick), AXES.left - 6, y(tick) + 4, "end", false);
    pen.text(axes.x, (AXES.left + wide) / 2, high - 4, "middle", false);
    pen.text(axes.y, 12, (high - AXES.bottom) / 2, "middle", true);
    const [from, to] = x.domain();
    if (axes.identity) pen.line([x(from), y(from)], [x(to), y(to)], ink, true);
    if (axes.line)
      pen.line(
        [x(from), y(axes.line.slope * from + axes.line.shift)],
        [x(to), y(axes.line.slope * to + axes.line.shift)],
        ink,
        false,
      );
  }
  const isLit = (index: number) => !lit || marks![index].length > 0;
  points.forEach(([px, py], index) =>
    pen.dot(x(px), y(py), size, typeof colours === "string" ? colours : colours[index], isLit(index) ? 0.85 : 0.25),
  );
  points.forEach(([px, py], index) =>
    marks?.[index].forEach((colour, depth) => pen.ring(x(px), y(py), size + 2 + depth * 2, colour)),
  );
  if (picked !== null && picked !== undefined && points[picked])
    pen.ring(x(points[picked][0]), y(points[picked][1]), size + 5, ink);
}

function canvasPen(canvas: HTMLCanvasElement, ink: string): Pen {
  const pen = canvas.getContext("2d")!;
  const ratio = devicePixelRatio || 1;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.font = "11px system-ui, sans-serif";
  const circle = (x: number, y: number, size: number) => {
    pen.beginPath();
    pen.arc(x, y, size, 0, 2 * Math.PI);
  };
  return {
    dot(x, y, size, colour, opacity) {
      pen.globalAlpha = opacity;
      pen.fillStyle = colour;
      circle(x, y, size);
      pen.fill();
      pen.globalAlpha = 1;
    },
    ring(x, y, size, colour) {
      pen.strokeStyle = colour;
      pen.lineWidth = 1.3;
      circle(x, y, size);
      pen.stroke();
    },
    line(from, to, colour, dashed) {
      pen.strokeStyle = colour;
      pen.lineWidth = 1;
      pen.setLineDash(dashed ? [5, 4] : []);
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
      pen.setLineDash([]);
    },
    text(words, x, y, anchor, turned) {
      pen.save();
      pen.fillStyle = ink;
      pen.textAlign = anchor === "middle" ? "center" : anchor;
      pen.translate(x, y);
      if (turned) pen.rotate(-Math.PI / 2);
      pen.fillText(words, 0, 0);
      pen.restore();
    },
  };
}

function svgPen(parts: string[]): Pen {
  const round = (value: number) => value.toFixed(2);
  return {
    dot: (x, y, size, colour, opacity) =>
      parts.push(`<circle cx="${round(x)}" cy="${round(y)}" r="${size}" fill="${colour}" fill-opacity="${opacity}"/>`),
    ring: (x, y, size, colour) =>
      parts.push(
        `<circle cx="${round(x)}" cy="${round(y)}" r="${size}" fill="none" stroke="${colour}" stroke-width="1.3"/>`,
      ),
    line: (from, to, colour, dashed) => {
      const path = `M${from.map(round).join()}L${to.map(round).join()}`;
      parts.push(`<path d="${path}" stroke="${colour}" ${dashed ? 'stroke-dasharray="5 4"' : ""}/>`);
    },
    text: (words, x, y, anchor, turned) => {
      const where = `translate(${round(x)} ${round(y)})${turned ? " rotate(-90)" : ""}`;
      const look = `font-size="11" text-anchor="${anchor}" fill="#57606a"`;
      parts.push(`<text ${look} transform="${where}">${escaped(words)}</text>`);
    },
  };
}

/** The points as a drawing that stands alone. */
export function scatterDrawing(props: Drawn): string {
  const parts: string[] = [];
  draw(props, svgPen(parts), "#57606a");
  return svgFile(props.wide, props.high, parts);
}

/** Drawings of one size in a row. */
export function sideBySide(drawings: string[], { wide, high }: { wide: number; high: number }): string {
  const positioned = drawings.map((drawing, index) => drawing.replace("<svg ", `<svg x="${index * (wide + 8)}" `));
  return svgFile(drawings.length * (wide + 8), high, positioned);
}

const REACH = 12;

export function Scatter(props: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { points, colours, marks, wide, high, label, picked, onPick, describe } = props;
  const [look, axes] = [theme.value, useStable(props.axes)];
  useEffect(() => {
    const ink = getComputedStyle(canvas.current!).getPropertyValue("--soft");
    draw({ points, colours, marks, picked, wide, high, axes }, canvasPen(canvas.current!, ink), ink);
  }, [points, colours, marks, picked, wide, high, axes, look]);

  const nearest = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const [mx, my] = [event.clientX - box.left, event.clientY - box.top];
    const { x, y } = scales(props);
    let [best, least] = [-1, REACH ** 2];
    points.forEach(([px, py], index) => {
      const far = (x(px) - mx) ** 2 + (y(py) - my) ** 2;
      if (far < least) [best, least] = [index, far];
    });
    return best;
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined || !onPick || points.length === 0) return;
    event.preventDefault();
    onPick(((picked ?? (step > 0 ? -1 : 0)) + step + points.length) % points.length);
  };
  const ratio = devicePixelRatio || 1;
  return (
    <canvas
      ref={canvas}
      class={onPick ? "scatter live" : "scatter"}
      width={wide * ratio}
      height={high * ratio}
      style={{ width: `${wide}px`, height: `${high}px` }}
      role="img"
      aria-label={label}
      tabIndex={onPick ? 0 : undefined}
      onKeyDown={key}
      onPointerMove={event => {
        const found = describe ? nearest(event) : -1;
        event.currentTarget.title = found >= 0 ? describe!(found) : "";
      }}
      onClick={event => {
        const found = nearest(event);
        if (found >= 0) onPick?.(found);
      }}
    />
  );
}
