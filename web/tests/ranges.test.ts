import { describe, expect, it } from "vitest";
import { MARKS } from "../src/colours";
import { litBy, marks, MOST_RANGES, readRanges, type Wanted, writeRanges } from "../src/ranges";

const VARIABLES = { similarity: [0, 2, 4, null], length: [5, 6, 7, 8] };

describe("ranges", () => {
  it("come back from the address as they were written", () => {
    const ranges: Wanted[] = [{ similarity: [3, 5], length: [4, 9] }, {}];
    expect(writeRanges(ranges)).toBe("similarity:3:5;length:4:9|");
    expect(readRanges(writeRanges(ranges))).toEqual(ranges);
    expect(readRanges("")).toEqual([]);
  });

  it("leave out what is no range, and more than there are colours for", () => {
    expect(readRanges("similarity:a:5;length:1:2;:1:2")).toEqual([{ length: [1, 2] }]);
    expect(readRanges(Array(9).fill("length:1:2").join("|"))).toHaveLength(MOST_RANGES);
  });

  it("light samples that lie in all of them, ends included", () => {
    expect(litBy({ similarity: [2, 4] }, VARIABLES)).toEqual([1, 2]);
    expect(litBy({ similarity: [0, 4], length: [6, 6] }, VARIABLES)).toEqual([1]);
    expect(litBy({}, VARIABLES)).toEqual([]);
    expect(litBy({ unknown: [0, 9] }, VARIABLES)).toEqual([]);
  });

  it("mark each sample with the colours of its ranges", () => {
    const found = marks([{ similarity: [0, 2] }, { length: [6, 7] }], VARIABLES, 4);
    expect(found).toEqual([[MARKS[0]], [MARKS[0], MARKS[1]], [MARKS[1]], []]);
  });
});
