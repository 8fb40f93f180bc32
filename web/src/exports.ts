/** Exports: a figure as SVG or PNG, its data as JSON or CSV; all made in the page, nothing is sent. */

const DRAWN = [
  "display",
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "fill-opacity",
  "stroke-opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

export type Cell = string | number | boolean | null | undefined;

function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const anchor = Object.assign(document.createElement("a"), { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const saveJson = (name: string, data: unknown) =>
  save(`${name}.json`, new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));

function cell(value: Cell): string {
  const words = value === null || value === undefined ? "" : String(value);
  // A text that begins like a formula would be run by a spreadsheet.
  const safe =
    typeof value === "string" && /^[=+\-@\t\r]/.test(words) && !Number.isFinite(Number(words)) ? `'${words}` : words;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const csv = (rows: Cell[][]) => rows.map(row => row.map(cell).join(",")).join("\r\n") + "\r\n";

export const saveCsv = (name: string, rows: Cell[][]) =>
  save(`${name}.csv`, new Blob([csv(rows)], { type: "text/csv" }));

/** A text inside a drawing that is written as text. */
export const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const SVG = "http://www.w3.org/2000/svg";

/** Parts of a drawing as an SVG file; a paper covers all of it. */
export function svgFile(wide: number, high: number, parts: string[], paper = "", font = "12px system-ui, sans-serif") {
  const size = `width="${wide}" height="${high}" viewBox="0 0 ${wide} ${high}"`;
  const covered = paper ? `<rect width="100%" height="100%" fill="${paper}"/>` : "";
  return `<svg xmlns="${SVG}" ${size} style="font: ${font}">${covered}${parts.join("")}</svg>`;
}

/** A drawing of the page as a text that stands alone: styles of the page are written into it. */
export function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const from = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const style = getComputedStyle(from[index]);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
    element.removeAttribute("tabindex");
  });
  const box = drawing.getBoundingClientRect();
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  const paper = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({
    width: "100%",
    height: "100%",
    fill: getComputedStyle(document.body).backgroundColor,
  }))
    paper.setAttribute(name, value);
  copy.prepend(paper);
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  return new XMLSerializer().serializeToString(copy);
}

export const saveSvg = (name: string, drawing: string) =>
  save(`${name}.svg`, new Blob([drawing], { type: "image/svg+xml" }));

/** A drawing as pixels, twice as fine as on the page. */
export async function savePng(name: string, drawing: string): Promise<void> {
  const url = URL.createObjectURL(new Blob([drawing], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
    const pen = canvas.getContext("2d")!;
    pen.fillStyle = "#fff"; // drawings that have a paper of their own cover it
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    const pixels = await new Promise<Blob | null>(done => canvas.toBlob(done));
    if (!pixels) throw new Error("the browser makes no picture of this size");
    save(`${name}.png`, pixels);
  } finally {
    URL.revokeObjectURL(url);
  }
}
