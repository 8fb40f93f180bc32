/** The address: which view is open and how it is set, all in the part after #, so that reload and share restore it. */

import { effect, signal } from "@preact/signals";

export const VIEWS = ["pair", "search", "layers", "attention", "corpus", "training"] as const;
export type View = (typeof VIEWS)[number];

interface Address {
  view: View;
  settings: URLSearchParams;
}

function read(): Address {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const view = VIEWS.find(each => each === path) ?? "pair";
  return { view, settings: new URLSearchParams(query) };
}

/** How each view was left, so that coming back finds it so. */
const left = new Map<View, URLSearchParams>();

export const address = signal<Address>(read());
effect(() => void left.set(address.value.view, address.value.settings));
let timer: ReturnType<typeof setTimeout> | undefined;
function follow(): void {
  clearTimeout(timer);
  address.value = read();
}
addEventListener("popstate", follow);
addEventListener("hashchange", follow);

const written = ({ view, settings }: Address) => `#/${view}${settings.size ? `?${settings}` : ""}`;

/** The whole address of what is shown, which the browser's own may be a moment behind. */
export const here = () => location.origin + location.pathname + written(address.value);

/** The link to a view with some settings. */
export const link = (view: View, settings: Record<string, string> = {}) =>
  written({ view, settings: new URLSearchParams(settings) });

/** The link to a view as it was left. */
export const back = (view: View) => written({ view, settings: left.get(view) ?? new URLSearchParams() });

/** A setting of the view that is open. */
export const setting = (name: string, otherwise = "") => address.value.settings.get(name) ?? otherwise;

/** A setting that is one of some words; the server refuses any other. */
export const choice = <T extends string>(name: string, otherwise: T) => setting(name, otherwise) as T;

/** A setting that is a list. */
export const settings = (name: string, otherwise: string[] = []) => {
  const found = address.value.settings.get(name);
  return found === null ? otherwise : found.split(",").filter(Boolean);
};

type Changes = Record<string, string | null>;

function changed(settings: URLSearchParams, changes: Changes): URLSearchParams {
  const next = new URLSearchParams(settings);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  return next;
}

/** Browsers allow a hundred changes of the address in half a minute. After many changes they are made with pauses. */
const [AT_ONCE, WHILE, PAUSE] = [40, 30_000, 600];
let writes: number[] = [];

function write(): void {
  clearTimeout(timer);
  const now = Date.now();
  writes = writes.filter(when => now - when < WHILE);
  const wait = writes.length < AT_ONCE ? 0 : writes[writes.length - 1] + PAUSE - now;
  if (wait > 0) {
    timer = setTimeout(write, wait);
    return;
  }
  writes.push(now);
  history.replaceState(null, "", location.pathname + written(address.value));
}

/** Change settings of the view that is open; what is null is forgotten. */
export function set(changes: Changes): void {
  const { view, settings } = address.value;
  address.value = { view, settings: changed(settings, changes) };
  write();
}

/** The same for what comes later, when another view may be open: then it waits in the one it belongs to. */
export function setter(): (changes: Changes) => void {
  const { view } = address.value;
  return changes =>
    address.value.view === view
      ? set(changes)
      : left.set(view, changed(left.get(view) ?? new URLSearchParams(), changes));
}
