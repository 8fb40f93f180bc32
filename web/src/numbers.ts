/** Numbers in words. */

/** A number with its sign, in scientific notation where it is tiny; a dash for what is no number. */
export const signed = (value: number | null, digits = 4) => {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const isTiny = size > 0 && size < 0.5 * 10 ** -digits;
  return (value < 0 ? "−" : "+") + (isTiny ? size.toExponential(1) : size.toFixed(digits));
};

/** A number with a true minus, and none before what is rounded to nothing; a dash for what is no number. */
export const plain = (value: unknown, digits = 3) => {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const rounded = Number.isInteger(value) ? String(value) : value.toFixed(digits);
  return Number(rounded) === 0 ? rounded.replace("-", "") : rounded.replace("-", "−");
};

/** A score with four decimals. */
export const score = (value: number | null) => value?.toFixed(4).replace("-", "−") ?? "–";

/** A p value: small ones by their power of ten. */
export const chance = (value: number | null) =>
  value === null || !Number.isFinite(value) ? "–" : value < 0.001 ? value.toExponential(0) : value.toFixed(3);

export function time(seconds: number): string {
  if (seconds < 90) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

export const short = (text: string, characters: number) =>
  text.length > characters ? `${text.slice(0, characters - 1)}…` : text;
