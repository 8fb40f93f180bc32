/**
 * The script of pages and notebooks: it draws the explained pairs that Python has embedded as JSON, in place of their
 * plain tables. It is built into likewise/plotting/explained.js.
 */

import drawingStyle from "./drawing.css?inline";
import { explainedDrawing, MOST_NUMBERED } from "./drawing";
import { html } from "./elements";
import type { ExplainedPair } from "./explained";
import { score } from "./numbers";
import pageStyle from "./page.css?inline";

/** What Python embeds (likewise/plotting/explained.py); numbers are a scale and 16-bit levels in base64. */
interface Embedded extends Omit<ExplainedPair, "shares" | "values"> {
  relevance: string;
  bias: string;
  shares: string;
  metadata: Record<string, string>;
  notes: string[];
}

const LEVELS = 32767;

function decoded(text: string): number[] {
  const [scale, body] = text.split(";");
  const bytes = Uint8Array.from(atob(body), character => character.charCodeAt(0));
  return Array.from(new Int16Array(bytes.buffer), level => (level < -LEVELS ? NaN : (level / LEVELS) * Number(scale)));
}

function explainedPair(data: Embedded): ExplainedPair {
  const [relevance, bias, shares] = [data.relevance, data.bias, data.shares].map(decoded);
  const [n, m] = data.units.map(side => side.length);
  const values = data.units[0].map((_, row) => [...relevance.slice(row * m, (row + 1) * m), bias[row]]);
  return { ...data, values: [...values, bias.slice(n)], shares: [shares.slice(0, n), shares.slice(n)] };
}

function draw(root: HTMLElement & { isDrawn?: boolean }): void {
  // Every explanation of a page brings the script.
  if (root.isDrawn) return;
  root.isDrawn = true;
  const data = JSON.parse(root.dataset.pair!) as Embedded;
  const { head, matrix, lines, ledger, pairs } = explainedDrawing(explainedPair(data));
  const section = (title: string, parts: Element[], name = "") =>
    html("section", { class: name }, html("h4", {}, title), ...parts);
  const terms = Object.entries(data.metadata).map(([name, value]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, value)),
  );
  const headline = html("p", { class: "score" }, html("b", {}, score(data.ledger.similarity)), " similarity");
  const most = Math.max(...data.units.map(side => side.length));
  root.firstElementChild!.replaceChildren(
    html("style", {}, drawingStyle + pageStyle),
    html("div", { class: "head" }, headline, html("dl", {}, ...terms)),
    ...data.notes.map(note => html("p", { class: "note" }, note)),
    ...head,
    html(
      "div",
      { class: "panels" },
      section("Matrix", matrix, most > MOST_NUMBERED ? "matrix long" : "matrix"),
      html(
        "div",
        { class: "lists" },
        ...(most > MOST_NUMBERED ? [] : [section("Lines", lines)]),
        section("Ledger", ledger),
        section("Strongest pairs", pairs),
      ),
    ),
  );
}

const system = matchMedia("(prefers-color-scheme: dark)");

/** Dark where the notebook is (Jupyter, VS Code), or else where the system is. */
function isDark(): boolean {
  const { dataset, classList } = document.body;
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "false";
  return classList.contains("vscode-dark") || (system.matches && !classList.contains("vscode-light"));
}

const roots = [...document.querySelectorAll<HTMLElement>(".likewise-explained")];
const dress = () => roots.forEach(root => (root.dataset.theme = isDark() ? "dark" : "light"));
roots.forEach(draw);
dress();
system.addEventListener("change", dress);
new MutationObserver(dress).observe(document.body, { attributeFilter: ["class", "data-jp-theme-light"] });
