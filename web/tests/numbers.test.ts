import { describe, expect, it } from "vitest";
import { chance, plain, score, short, signed, time } from "../src/numbers";

describe("numbers", () => {
  it("show their sign, with a true minus", () => {
    expect([signed(0.25), signed(-0.25), signed(0), signed(0.5, 1)]).toEqual(["+0.2500", "−0.2500", "+0.0000", "+0.5"]);
    expect([signed(3e-7), signed(-3e-7)]).toEqual(["+3.0e-7", "−3.0e-7"]);
    expect([score(1), score(-0.25), score(null)]).toEqual(["1.0000", "−0.2500", "–"]);
    expect([signed(NaN), signed(null)]).toEqual(["–", "–"]);
  });

  it("are plain, and a dash where there is none", () => {
    expect([plain(0.12345), plain(7), plain(-0.5, 1)]).toEqual(["0.123", "7", "−0.5"]);
    expect(plain(-0.0001)).toBe("0.000");
    expect([plain(null), plain(NaN), plain("a"), plain(undefined)]).toEqual(["–", "–", "–", "–"]);
  });

  it("are p values, durations and cut texts", () => {
    expect([chance(0.0421), chance(0.00002), chance(null)]).toEqual(["0.042", "2e-5", "–"]);
    expect([time(3.14), time(42), time(600), time(9000)]).toEqual(["3.1 s", "42 s", "10 min", "2.5 h"]);
    expect([short("abcdef", 4), short("abcd", 4)]).toEqual(["abc…", "abcd"]);
  });
});
