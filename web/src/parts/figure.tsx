/** A figure with its title and the ways to take it along. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Cell, saveCsv, saveJson, savePng, saveSvg, standalone } from "../exports";
import { Wrong } from "./states";

interface Props {
  title: string;
  /** of the files that are exported */
  name: string;
  note?: ComponentChildren;
  children: ComponentChildren;
  data: () => unknown;
  rows: () => Cell[][];
  /** the drawing as SVG, where the page shows it otherwise; "none" where there is nothing to draw */
  drawing?: (() => string) | "none";
}

export function Figure({ title, name, note, children, data, rows, drawing }: Props) {
  const body = useRef<HTMLDivElement>(null);
  const made = () => {
    if (typeof drawing === "function") return drawing();
    const found = body.current?.querySelector("svg");
    return found ? standalone(found) : null;
  };
  const [wrong, setWrong] = useState("");
  const savedPng = (name: string, svg: string) =>
    savePng(name, svg).then(
      () => setWrong(""),
      () => setWrong("This is too large for a picture; take SVG."),
    );
  const withDrawing = (save: (name: string, drawing: string) => unknown) => () => {
    const svg = made();
    if (svg) save(name, svg);
  };
  return (
    <section class="figure" data-figure={name} aria-label={title}>
      <header>
        <h3>{title}</h3>
        <div class="exports" role="group" aria-label={`export ${title}`}>
          {drawing !== "none" && <button onClick={withDrawing(saveSvg)}>SVG</button>}
          {drawing !== "none" && <button onClick={withDrawing(savedPng)}>PNG</button>}
          <button onClick={() => saveJson(name, data())}>JSON</button>
          <button onClick={() => saveCsv(name, rows())}>CSV</button>
        </div>
      </header>
      {wrong && <Wrong>{wrong}</Wrong>}
      <div ref={body}>{children}</div>
      {note && <p class="note">{note}</p>}
    </section>
  );
}
