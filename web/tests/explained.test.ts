import { describe, expect, it } from "vitest";
import {
  type ExplainedPair,
  isLineOn,
  type Part,
  partners,
  sentence,
  shownValues,
  strength,
  strongest,
  strongestPairs,
} from "../src/explained";

const PAIR: ExplainedPair = {
  units: [
    ["a", "b"],
    ["c", "d"],
  ],
  shares: [
    [0.31, -0.08],
    [0.63, -0.36],
  ],
  kind: "words",
  values: [
    [0.4, -0.1, 0.01],
    [0.2, -0.3, 0.02],
    [0.03, 0.04, 0.05],
  ],
  rest: "bias",
  ledger: { "words × words": 0.2, gap: null, similarity: 0.35 },
  strongest: [],
};
const text = (parts: Part[]) =>
  parts.map(part => ("words" in part ? part.words : "unit" in part ? `<${part.unit}>` : String(part.number))).join("");

describe("an explained pair", () => {
  it("has scales that leave out what is no number", () => {
    expect([strongest([0.5, -2, null, NaN]), strongest([]), strongest([0])]).toEqual([2, 1, 1]);
    expect([strength(-1, 2), strength(5, 2), strength(NaN, 2), strength(null, 2), strength(1, 0)]).toEqual([
      0.5, 1, 0, 0, 0,
    ]);
  });

  it("colours a text by its shares, or by its relevance with a unit of the other text", () => {
    expect(shownValues(PAIR, 0, null)).toBe(PAIR.shares[0]);
    expect(shownValues(PAIR, 1, { row: 1, column: -1 })).toEqual([0.2, -0.3]);
    expect(shownValues(PAIR, 0, { row: -1, column: 0 })).toEqual([0.4, 0.2]);
    expect(shownValues(PAIR, 0, { row: 1, column: -1 })).toBe(PAIR.shares[0]);
    expect(shownValues(PAIR, 0, { row: 1, column: 1 })).toBe(PAIR.shares[0]);
  });

  it("orders partners by strength", () => {
    expect(partners(PAIR, 0, 1)).toEqual([
      [1, -0.3],
      [0, 0.2],
    ]);
    expect(partners(PAIR, 1, 0).map(([unit]) => unit)).toEqual([0, 1]);
  });

  it("has strongest pairs, a missing value last", () => {
    const found = strongestPairs(PAIR.units, [
      [0.4, NaN],
      [0.2, -0.3],
    ]);
    expect(found.map(([, , left, right]) => left + right)).toEqual(["ac", "bd", "bc", "ad"]);
    expect(found[1]).toEqual([1, 1, "b", "d", -0.3]);
  });

  it("lights the lines of a unit or a cell", () => {
    expect([isLineOn(null, 0, 0), isLineOn({ row: 0, column: -1 }, 0, 1)]).toEqual([true, true]);
    expect([isLineOn({ row: 0, column: 1 }, 0, 0), isLineOn({ row: -1, column: 1 }, 0, 0)]).toEqual([false, false]);
  });

  it("is told in a sentence", () => {
    expect(text(sentence(PAIR, { row: 1, column: 0 }))).toBe("<b> × <c> 0.2");
    expect(text(sentence(PAIR, { row: 2, column: 1 }))).toBe("bias × <d> 0.04");
    expect(text(sentence(PAIR, { row: 1, column: -1 }))).toBe(
      "<b> adds -0.08, of which 0.02 with the other text's bias. Strongest with <d> -0.3, <c> 0.2.",
    );
    expect(text(sentence(PAIR, { row: -1, column: 0 }))).toContain("<c> adds 0.63, of which 0.03 with");
  });
});
