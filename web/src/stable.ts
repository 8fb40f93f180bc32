/** A value that stays the same object as long as its content does, so that effects run only on real changes. */

import { useRef } from "preact/hooks";

export function useStable<T>(value: T): T {
  const stored = useRef({ value, text: JSON.stringify(value) });
  const text = JSON.stringify(value);
  if (text !== stored.current.text) stored.current = { value, text };
  return stored.current.value;
}
