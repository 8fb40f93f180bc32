/** Light or dark: as the system has it, until the reader chooses. */

import { effect, signal } from "@preact/signals";

const KEY = "likewise-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

export type Theme = "light" | "dark";

export const theme = signal<Theme>((stored() ?? (dark.matches ? "dark" : "light")) === "dark" ? "dark" : "light");
dark.addEventListener("change", event => {
  if (stored() === null) theme.value = event.matches ? "dark" : "light";
});
effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function turnTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // then it is chosen for this page alone
  }
}
