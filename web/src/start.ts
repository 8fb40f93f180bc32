/** What the studio offers, asked for once when the page opens, and again when that may have changed. */

import { signal } from "@preact/signals";
import { api } from "./api";
import { words } from "./asked";
import type { Start } from "./types";

export const start = signal<Start | null>(null);
export const startError = signal("");

export async function renewStart(): Promise<void> {
  try {
    start.value = await api.start();
    startError.value = "";
  } catch (error) {
    startError.value = words(error);
  }
}

/** The start, for views that are only shown once it is there. */
export function offered(): Start {
  if (start.value === null) throw new Error("the start is not there yet");
  return start.value;
}
