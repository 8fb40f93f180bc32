/** Colours for colour-blind readers: red above zero and blue below; Paul Tol's bright scheme for series. */

import { strength } from "./explained";
import type { Theme } from "./theme";

export const LOOKS: Theme[] = ["light", "dark"];

/** As drawing.css has them. */
export const ENDS = {
  light: { red: [178, 24, 43], blue: [33, 102, 172], paper: [255, 255, 255] },
  dark: { red: [226, 74, 84], blue: [74, 148, 224], paper: [13, 17, 23] },
};

export const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#777777"];
/** Of ranges: apart from the clusters' own colours, and dark enough for a ring on paper. */
export const MARKS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00"];

export const series = (index: number) => PALETTE[index % PALETTE.length];

function mixed(share: number, end: number[], paper: number[]): string {
  return `rgb(${end.map((part, index) => Math.round(paper[index] + (part - paper[index]) * share)).join(" ")})`;
}

/** The colour of a signed value; zero is the paper's, and both ends lie equally far from it. */
export function diverging(value: number | null, scale: number, look: Theme): string {
  const { red, blue, paper } = ENDS[look];
  return mixed(strength(value, scale), (value ?? 0) < 0 ? blue : red, paper);
}

/** The colour of a share, from the paper's to blue. */
export function rising(value: number | null, scale: number, look: Theme): string {
  const { blue, paper } = ENDS[look];
  return mixed(strength(value, scale), blue, paper);
}

/** From this strength on, an end of the scale needs the other ink; the same for light and dark papers. */
const STRONG = { p: 0.73, n: 0.84 };

/** Colours an element by a value: classes for its end of the scale and for the other ink, a variable for its strength. */
export function paint(
  element: Element & ElementCSSInlineStyle,
  value: number | null,
  scale: number,
  kind: "signed" | "share" = "signed",
): void {
  const [end, share] = [kind === "share" || (value ?? 0) < 0 ? "n" : "p", strength(value, scale)] as const;
  element.classList.remove("p", "n", "x");
  element.classList.add(end, ...(share > STRONG[end] ? ["x"] : []));
  element.style.setProperty("--s", share.toFixed(3));
}

const INKS = { light: "#fff", dark: "#1b1f24" };
/** Below this luminance white text has more contrast than dark text. */
const DARK = 0.2;

/** The text colour with the better contrast on a colour. */
export function inkOn(colour: string): string {
  const parts = (colour.match(/\d+/g) ?? [])
    .map(part => Number(part) / 255)
    .map(part => (part <= 0.04 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const [red = 0, green = 0, blue = 0] = parts;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < DARK ? INKS.light : INKS.dark;
}
