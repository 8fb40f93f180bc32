/** A text whose words are coloured by what they add. */

import { diverging, inkOn } from "../colours";
import { strongest } from "../explained";
import { signed } from "../numbers";

interface Props {
  words: string[];
  shares: ArrayLike<number>;
  scale?: number;
  on?: number;
  onPoint?: (index: number | null) => void;
  numbered?: boolean;
  label: string;
}

export function Coloured({
  words,
  shares,
  scale = strongest(Array.from(shares)),
  on,
  onPoint,
  numbered,
  label,
}: Props) {
  return (
    <p class="coloured" role="group" aria-label={label} dir="auto" onPointerLeave={() => onPoint?.(null)}>
      {words.map((word, index) => (
        <>
          <span
            key={index}
            class={on === index ? "on" : ""}
            tabIndex={onPoint ? 0 : undefined}
            style={{ backgroundColor: diverging(shares[index], scale), color: inkOn(diverging(shares[index], scale)) }}
            title={signed(shares[index])}
            onPointerEnter={() => onPoint?.(index)}
            onFocus={() => onPoint?.(index)}
            onBlur={() => onPoint?.(null)}
          >
            {word}
            {numbered && <small>{signed(shares[index], 3)}</small>}
          </span>{" "}
        </>
      ))}
    </p>
  );
}
