/** Hits as a drawing that stands alone: rank, score, and words coloured by what they add. */

import { diverging, inkOn } from "../colours";
import { escaped, svgFile } from "../exports";
import { theme } from "../theme";
import type { Hit } from "../types";

const [WIDE, LEFT, LINE, SPACE, PAD] = [760, 96, 24, 4, 3];
const FONT = "13px system-ui, sans-serif";

function measured(): (text: string) => number {
  const pen = document.createElement("canvas").getContext("2d")!;
  pen.font = FONT;
  return text => pen.measureText(text).width;
}

export function hitsDrawing(hits: Hit[], scale: number): string {
  const width = measured();
  const { color: ink, backgroundColor: paper } = getComputedStyle(document.body);
  const parts: string[] = [];
  let y = LINE;
  const text = (words: string, x: number, fill: string) =>
    `<text x="${x}" y="${y}" fill="${fill}">${escaped(words)}</text>`;
  for (const hit of hits) {
    parts.push(text(`${hit.rank}.  ${hit.score.toFixed(3)}`, 8, ink));
    let x = LEFT;
    const words = hit.explanation?.words ?? hit.text.split(/\s+/).map(word => ({ text: word, share: 0 }));
    for (const word of words) {
      const wide = width(word.text) + 2 * PAD;
      if (x > LEFT && x + wide > WIDE) {
        x = LEFT;
        y += LINE;
      }
      const fill = word.share ? diverging(word.share, scale, theme.value) : paper;
      parts.push(
        `<rect x="${x}" y="${y - 14}" width="${wide}" height="19" rx="4" fill="${fill}"/>`,
        text(word.text, x + PAD, word.share ? inkOn(fill) : ink),
      );
      x += wide + SPACE;
    }
    y += LINE + 8;
  }
  return svgFile(WIDE + 16, y, parts, paper, FONT);
}
