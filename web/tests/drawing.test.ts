import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ENDS, paint } from "../src/colours";
import { explainedDrawing } from "../src/drawing";
import { html, svg } from "../src/elements";
import { type ExplainedPair, strongestPairs } from "../src/explained";
import { heatMap } from "../src/heatmap";

const HOSTILE = "<img src=x onerror=alert(1)>";
const VALUES = [
  [0.4, -0.1, 0.01],
  [0.2, -0.3, 0.02],
  [0.03, 0.04, 0.05],
];
const UNITS: ExplainedPair["units"] = [
  ["a", HOSTILE],
  ["c", "d"],
];
const PAIR: ExplainedPair = {
  units: UNITS,
  kind: "words",
  shares: [
    [0.5, -0.2],
    [0.63, -0.36],
  ],
  values: VALUES,
  rest: "bias",
  ledger: { "words × words": 0.5, bias: -0.2, gap: null, similarity: 0.3 },
  strongest: strongestPairs(UNITS, VALUES),
};

function drawn() {
  const drawing = explainedDrawing(PAIR);
  document.body.replaceChildren(...Object.values(drawing).flat());
  const all = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)];
  const texts = (selector: string) => all(selector).map(each => each.textContent);
  return { all, texts };
}

const over = (element: Element) => element.dispatchEvent(new Event("pointerenter"));

describe("the drawing of an explained pair", () => {
  it("colours words by their shares, numbered", () => {
    const { all, texts } = drawn();
    expect(texts(".coloured small")).toEqual(["+0.500", "−0.200", "+0.630", "−0.360"]);
    expect(all(".coloured span").map(each => each.className.trim())).toEqual(["p x", "n", "p x", "n"]);
    expect(all(".coloured span").map(each => each.tabIndex)).toEqual([0, -1, 0, -1]);
  });

  it("has texts as texts", () => {
    const { all, texts } = drawn();
    expect(all("img, script")).toEqual([]);
    expect(texts(".coloured span")[1]).toContain(HOSTILE);
  });

  it("links all of its parts", () => {
    const { all, texts } = drawn();
    expect(texts(".readout")[0]).toBe("Point at one of the words or at a cell to see what it adds.");
    over(all(".coloured span")[0]);
    expect(texts(".readout")[0]).toContain("a adds +0.5000, of which +0.0100 with the other text's bias.");
    expect(texts(".coloured small").slice(2)).toEqual(["+0.400", "−0.100"]);
    expect([all(".lines .off").length, texts(".lines .on"), texts(".heatmap .on")]).toEqual([2, ["a"], ["a"]]);
    over(all(".pairs li")[0]);
    expect(texts(".coloured .on small")).toEqual(["+0.500", "+0.630"]);
    expect(all(".cell.on").map(each => [each.dataset.row, each.dataset.column])).toEqual([["0", "0"]]);
  });

  it("is walked by keys, and goes back to what has the focus", () => {
    const { all, texts } = drawn();
    const matrix = all(".heatmap")[0];
    const press = (key: string) => matrix.dispatchEvent(new KeyboardEvent("keydown", { key }));
    press("ArrowDown");
    press("ArrowDown");
    expect(texts(".readout")[0]).toContain("× c +0.2000");
    over(all(".coloured span")[0]);
    all(".coloured span")[0].dispatchEvent(new Event("pointerleave"));
    expect(texts(".readout")[0]).toContain("× c +0.2000");
    press("Escape");
    expect(texts(".readout")[0]).toContain("Point at");
  });

  it("has a ledger that ends with the similarity", () => {
    const { all, texts } = drawn();
    expect(all(".ledger g").map(each => each.dataset.term)).toEqual(["words × words", "bias", "gap", "similarity"]);
    expect(texts(".ledger .value")).toEqual(["+0.5000", "−0.2000", "–", "0.3000"]);
  });

  it("names the end of each scale", () => {
    const { texts } = drawn();
    expect(texts(".legend span")).toEqual(["pairs −0.4+0.4", "bias −0.04+0.04", "texts −0.63+0.63"]);
  });
});

describe("a heat map", () => {
  it("has numbers in small matrices, and none for what is missing", () => {
    const { element } = heatMap({ rows: ["a"], columns: ["b", "c"], values: [[0.5, null]], label: "l" });
    expect([...element.querySelectorAll(".value")].map(each => each.textContent)).toEqual(["0.50"]);
    expect(element.querySelector(".heatmap")!.getAttribute("aria-label")).toBe("l");
  });

  it("shows the cell that it is walked to, without other drawings", () => {
    const { element } = heatMap({ rows: ["a"], columns: ["b", "c"], values: [[0.5, 0.1]], label: "l" });
    const drawn = element.querySelector(".heatmap")!;
    for (const key of ["ArrowRight", "ArrowRight"]) drawn.dispatchEvent(new KeyboardEvent("keydown", { key }));
    expect(drawn.getAttribute("aria-label")).toBe("a and c: 0.1000");
    expect(element.querySelectorAll(".cell.on").length).toBe(1);
    drawn.dispatchEvent(new Event("pointerleave"));
    expect(drawn.getAttribute("aria-label")).toBe("l");
  });
});

describe("elements", () => {
  it("have text nodes and attributes", () => {
    expect(html("p", { class: "a" }, "<b>", html("i")).outerHTML).toBe('<p class="a">&lt;b&gt;<i></i></p>');
    expect(svg("path", { d: 1 }).namespaceURI).toBe("http://www.w3.org/2000/svg");
  });
});

describe("colours", () => {
  it("are the same in pictures and in the style sheet", () => {
    const css = readFileSync("src/drawing.css", "utf8");
    for (const { red, blue } of Object.values(ENDS))
      expect(css).toMatch(new RegExp(`--red: ${red.join(" ")};\\s+--blue: ${blue.join(" ")};`));
  });

  it("change with the value", () => {
    const element = html("i");
    paint(element, -0.2, 0.4);
    expect([element.className, element.style.getPropertyValue("--s")]).toEqual(["n", "0.500"]);
    paint(element, 0.4, 0.4);
    expect(element.className).toBe("p x");
    paint(element, NaN, 0.4);
    expect([element.className, element.style.getPropertyValue("--s")]).toEqual(["p", "0.000"]);
  });
});
