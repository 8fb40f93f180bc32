/** A text whose words are coloured by what they add. */

import { diverging, inkOn, strongest } from "../colours";
import { signed } from "../numbers";

interface Props {
  words: string[];
  shares: number[];
  scale?: number;
  on?: number;
  onPoint?: (place: number | null) => void;
  numbered?: boolean;
  label: string;
}

export function Coloured({ words, shares, scale = strongest(shares), on, onPoint, numbered, label }: Props) {
  return (
    <p class="coloured" role="group" aria-label={label} dir="auto" onPointerLeave={() => onPoint?.(null)}>
      {words.map((word, place) => (
        <>
          <span
            key={place}
            class={on === place ? "on" : ""}
            tabIndex={onPoint ? 0 : undefined}
            style={{ backgroundColor: diverging(shares[place], scale), color: inkOn(diverging(shares[place], scale)) }}
            title={signed(shares[place])}
            onPointerEnter={() => onPoint?.(place)}
            onFocus={() => onPoint?.(place)}
            onBlur={() => onPoint?.(null)}
          >
            {word}
            {numbered && <small>{signed(shares[place], 3)}</small>}
          </span>{" "}
        </>
      ))}
    </p>
  );
}
