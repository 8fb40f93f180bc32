/** An explained pair, and what its drawings show while the reader points at a unit or a cell. */

/** A row and a column; -1 stands for none, the number of units for the rest. */
export interface Cell {
  row: number;
  column: number;
}

/** Called with the cell that the pointer is at; with `keep`, it stays until the keyboard leaves it. */
export type Point = (cell: Cell | null, keep?: boolean) => void;

export type Side = 0 | 1;
export const SIDES: Side[] = [0, 1];

export type UnitPair = [row: number, column: number, left: string, right: string, value: number];

export interface ExplainedPair {
  /** the units of both texts */
  units: [string[], string[]];
  /** what the units are called: tokens, words, sentences */
  kind: string;
  /** what each unit adds to the similarity */
  shares: [ArrayLike<number>, ArrayLike<number>];
  /** what each pair of units adds; the last row and column are the rest */
  values: number[][];
  /** the name of the last row and column: bias or reference */
  rest: string;
  /** the terms of the similarity, and their sum as the last entry */
  ledger: Record<string, number | null>;
  strongest: UnitPair[];
}

/** The largest absolute value; 1 where there is none. */
export const strongest = (...values: Iterable<number | null>[]): number => {
  let most = 0;
  for (const list of values)
    for (const value of list) if (value !== null && Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most || 1;
};

/** How strong a colour is, from 0 to 1. */
export const strength = (value: number | null, scale: number): number =>
  value === null || !Number.isFinite(value) || scale === 0 ? 0 : Math.min(1, Math.abs(value) / scale);

const size = (value: number) => Math.abs(value) || 0;

/** The pairs of units with the strongest relevance, strongest first. */
export const strongestPairs = ([left, right]: ExplainedPair["units"], values: number[][], count = 10): UnitPair[] =>
  left
    .flatMap((name, row) => right.map((other, column): UnitPair => [row, column, name, other, values[row][column]]))
    .sort((a, b) => size(b[4]) - size(a[4]))
    .slice(0, count);

const across = ({ values }: ExplainedPair, side: Side, unit: number, other: number) =>
  side === 0 ? values[unit][other] : values[other][unit];

const units = (pair: ExplainedPair, side: Side) => pair.units[side].map((_, unit) => unit);

/** The unit that is pointed at, where it is not a cell. */
export function pointedUnit({ row, column }: Cell): [Side, number] | null {
  if (row >= 0 && column >= 0) return null;
  return row >= 0 ? [0, row] : column >= 0 ? [1, column] : null;
}

/** The values that colour a text: its shares, or its relevance with the unit of the other text that is pointed at. */
export function shownValues(pair: ExplainedPair, side: Side, pointed: Cell | null): ArrayLike<number> {
  const unit = pointed && pointedUnit(pointed);
  if (!unit || unit[0] === side) return pair.shares[side];
  return units(pair, side).map(each => across(pair, unit[0], unit[1], each));
}

/** Whether the line between two units belongs to what is pointed at. */
export const isLineOn = (pointed: Cell | null, row: number, column: number): boolean =>
  !pointed || ((pointed.row < 0 || pointed.row === row) && (pointed.column < 0 || pointed.column === column));

/** The units of the other text by the strength of their relevance with a unit. */
export function partners(pair: ExplainedPair, side: Side, unit: number): [other: number, value: number][] {
  const found = units(pair, side === 0 ? 1 : 0).map((other): [number, number] => [
    other,
    across(pair, side, unit, other),
  ]);
  return found.sort((a, b) => size(b[1]) - size(a[1]));
}

/** A part of a sentence: words, the name of a unit, or a number. */
export type Part = { words: string } | { unit: string } | { number: number };

const LISTED = 3;

/** The sentence about a unit or a cell. */
export function sentence(pair: ExplainedPair, pointed: Cell): Part[] {
  const { row, column } = pointed;
  const name = (side: Side, unit: number): Part =>
    unit < pair.units[side].length ? { unit: pair.units[side][unit] } : { words: pair.rest };
  const found = pointedUnit(pointed);
  if (!found)
    return [name(0, row), { words: " × " }, name(1, column), { words: " " }, { number: pair.values[row][column] }];
  const [side, unit] = found;
  const other: Side = side === 0 ? 1 : 0;
  const listed = partners(pair, side, unit).slice(0, LISTED);
  return [
    name(side, unit),
    { words: " adds " },
    { number: pair.shares[side][unit] },
    { words: ", of which " },
    { number: across(pair, side, unit, pair.units[other].length) },
    { words: ` with the other text's ${pair.rest}.` },
    ...listed.flatMap(([each, value], rank): Part[] => [
      { words: rank ? ", " : " Strongest with " },
      name(other, each),
      { words: " " },
      { number: value },
    ]),
    { words: "." },
  ];
}
