/** The address: which view is open and how it is set, all in the part after #, so that reload and share restore it. */

import { effect, signal } from "@preact/signals";

export const VIEWS = ["pair", "search", "layers", "attention", "corpus", "training"] as const;
export type View = (typeof VIEWS)[number];

interface Address { view: View; settings: URLSearchParams }

function read(): Address {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const view = VIEWS.find(each => each === path) ?? "pair";
  return { view, settings: new URLSearchParams(query) };
}

/** How each view was left, so that coming back finds it so. */
const left = new Map<View, URLSearchParams>();

export const address = signal<Address>(read());
effect(() => void left.set(address.value.view, address.value.settings));
addEventListener("popstate", () => (address.value = read()));
addEventListener("hashchange", () => (address.value = read()));

const written = ({ view, settings }: Address) => `#/${view}${settings.size ? `?${settings}` : ""}`;

/** The link to a view with some settings. */
export const link = (view: View, settings: Record<string, string> = {}) =>
  written({ view, settings: new URLSearchParams(settings) });

/** The link to a view as it was left. */
export const back = (view: View) => written({ view, settings: left.get(view) ?? new URLSearchParams() });

/** A setting of the view that is open. */
export const setting = (name: string, otherwise = "") => address.value.settings.get(name) ?? otherwise;

/** A setting that is a list. */
export const settings = (name: string, otherwise: string[] = []) => {
  const found = address.value.settings.get(name);
  return found === null ? otherwise : found.split(",").filter(Boolean);
};

/** Change settings of the view that is open; what is null is forgotten. */
export function set(changes: Record<string, string | null>): void {
  const now = address.value;
  const next = new URLSearchParams(now.settings);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  const changed = { view: now.view, settings: next };
  history.replaceState(null, "", location.pathname + written(changed));
  address.value = changed;
}
