import { describe, expect, it } from "vitest";
import { csv, escaped, standalone } from "../src/exports";

describe("csv", () => {
  it("quotes what would break a row", () => {
    expect(csv([["a", 1, null, undefined, true]])).toBe("a,1,,,true\r\n");
    expect(csv([['say "no"', "a,b", "two\nlines"]])).toBe('"say ""no""","a,b","two\nlines"\r\n');
  });

  it("keeps spreadsheets from running texts as formulas", () => {
    expect(csv([["=1+1", "@a", "-x", "+y"]])).toBe("'=1+1,'@a,'-x,'+y\r\n");
    expect(csv([["-0.5", "+2", -0.5]])).toBe("-0.5,+2,-0.5\r\n");
  });
});

describe("drawings", () => {
  it("escape texts", () => expect(escaped("<b>&</b>")).toBe("&lt;b&gt;&amp;&lt;/b&gt;"));

  it("stand alone: a paper, a size, no classes", () => {
    document.body.innerHTML = '<svg><g class="cell" tabindex="0"><text>a</text></g></svg>';
    const text = standalone(document.querySelector("svg")!);
    expect(text).toContain('xmlns="http://www.w3.org/2000/svg"');
    expect(text).toMatch(/<rect [^>]*width="100%"/);
    expect(text).not.toMatch(/class=|tabindex=/);
    expect(document.querySelector("svg g")!.getAttribute("class")).toBe("cell");
  });
});
