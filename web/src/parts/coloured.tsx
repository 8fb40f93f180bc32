/** A text with words coloured by what they add. */

import { useMemo } from "preact/hooks";
import { colouredText } from "../drawing";
import { Mounted } from "./mounted";

export function Coloured({
  words,
  scale,
  label,
}: {
  words: { text: string; share: number }[];
  scale: number;
  label: string;
}) {
  const parts = useMemo(() => {
    const text = colouredText(
      words.map(word => word.text),
      label,
    );
    text.paintWords(
      words.map(word => word.share),
      scale,
    );
    return [text.element];
  }, [words, scale, label]);
  return <Mounted parts={parts} />;
}
