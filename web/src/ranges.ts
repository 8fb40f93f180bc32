/** Ranges of variables that light samples up, several at once, each its own colour; written into the address. */

import { MARKS } from "./colours";

export type Ends = [number, number];
/** For each variable the ends of what is wanted; a sample is lit where it lies within all of them. */
export type Wanted = Record<string, Ends>;

export const MOST_RANGES = MARKS.length;

/** From "similarity:3:5;length:4:9|structure:0:0.4", one range after the other. */
export function readRanges(text: string): Wanted[] {
  if (!text) return [];
  return text
    .split("|")
    .slice(0, MOST_RANGES)
    .map(part =>
      Object.fromEntries(
        part.split(";").flatMap(each => {
          const [name, low, high] = each.split(":");
          const ends: Ends = [Number(low), Number(high)];
          return name && ends.every(Number.isFinite) ? [[name, ends]] : [];
        }),
      ),
    );
}

export const writeRanges = (ranges: Wanted[]) =>
  ranges
    .map(range =>
      Object.entries(range)
        .map(([name, [low, high]]) => `${name}:${low}:${high}`)
        .join(";"),
    )
    .join("|");

/** The indices of the samples that a range lights up; an empty range lights none. */
export function litBy(range: Wanted, variables: Record<string, (number | null)[]>): number[] {
  const wanted = Object.entries(range).filter(([name]) => name in variables);
  if (wanted.length === 0) return [];
  const count = Object.values(variables)[0].length;
  return Array.from({ length: count }, (_, index) => index).filter(index =>
    wanted.every(([name, [low, high]]) => {
      const value = variables[name][index];
      return value !== null && low <= value && value <= high;
    }),
  );
}

/** For each sample the colours of the ranges that light it up. */
export function marks(ranges: Wanted[], variables: Record<string, (number | null)[]>, count: number): string[][] {
  const found: string[][] = Array.from({ length: count }, () => []);
  ranges.forEach((range, which) => litBy(range, variables).forEach(index => found[index].push(MARKS[which])));
  return found;
}
