/** What the studio offers, loaded when the page opens, and again after a change. */

import { signal } from "@preact/signals";
import { api } from "./api";
import { errorText } from "./queries";
import type { StartResponse } from "./types";

export const start = signal<StartResponse | null>(null);
export const startError = signal("");

export async function renewStart(): Promise<void> {
  try {
    start.value = await api.start();
    startError.value = "";
  } catch (error) {
    startError.value = errorText(error);
  }
}

/** The start, for views that are only shown once it is there. */
export function offered(): StartResponse {
  if (start.value === null) throw new Error("the start is not there yet");
  return start.value;
}
