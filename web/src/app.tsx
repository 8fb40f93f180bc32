/** The frame of every view: where one is, what is under way, light or dark. */

import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { address, back, here, type View, VIEWS } from "./address";
import { JobsTray } from "./parts/tray";
import { Waiting, Wrong } from "./parts/states";
import { renewStart, start, startError } from "./start";
import { theme, turnTheme } from "./theme";
import { AttentionView } from "./views/attention";
import { CorpusView } from "./views/corpus";
import { LayersView } from "./views/layers";
import { PairView } from "./views/pair";
import { SearchView } from "./views/search";
import { TrainingView } from "./views/training";

const SHOWN: Record<View, ComponentType> = {
  pair: PairView,
  search: SearchView,
  layers: LayersView,
  attention: AttentionView,
  corpus: CorpusView,
  training: TrainingView,
};

/** A view that fails says so, and leaves the others alone. */
class Fenced extends Component<{ children: ComponentChildren }, { error: string }> {
  state = { error: "" };
  static getDerivedStateFromError(error: unknown) {
    return { error: String(error) };
  }
  render() {
    if (!this.state.error) return this.props.children;
    return <Wrong>This view cannot be shown ({this.state.error}). Choose another, or reload the page.</Wrong>;
  }
}

function useShortcuts() {
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      // On many keyboards Alt and a digit type another character, which a field must get.
      const types = typing && event.key.length === 1 && !/\d/.test(event.key);
      const view = event.altKey && !types && VIEWS[Number(event.code.replace("Digit", "")) - 1];
      if (view) {
        event.preventDefault();
        location.hash = back(view);
      } else if (event.key === "/" && !typing) {
        event.preventDefault();
        [...document.querySelectorAll<HTMLElement>("main textarea, main input, main select")]
          .find(each => each.offsetParent)
          ?.focus();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
}

function ShareButton() {
  const [said, setSaid] = useState("Copy link");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(here());
      setSaid("Copied");
    } catch {
      setSaid("Copy the address bar");
    }
    setTimeout(() => setSaid("Copy link"), 2000);
  };
  return <button onClick={copy}>{said}</button>;
}

export function App() {
  const { view } = address.value;
  useShortcuts();
  useEffect(() => void renewStart(), []);
  useEffect(() => {
    document.title = `${view} · Likewise studio`;
  }, [view]);
  const Shown = SHOWN[view];
  return (
    <>
      <header class="top">
        <strong class="brand">Likewise</strong>
        <nav aria-label="views">
          {VIEWS.map((each, index) => (
            <a
              key={each}
              href={back(each)}
              aria-current={each === view ? "page" : undefined}
              title={`Alt+${index + 1}`}
            >
              {each}
            </a>
          ))}
        </nav>
        <JobsTray />
        <ShareButton />
        <button onClick={turnTheme} aria-label={`turn ${theme.value === "dark" ? "light" : "dark"}`}>
          {theme.value === "dark" ? "☀" : "☾"}
        </button>
      </header>
      <main key={view} data-view={view}>
        {startError.value && <Wrong>{startError.value}</Wrong>}
        {start.value ? (
          <Fenced>
            <Shown />
          </Fenced>
        ) : (
          !startError.value && <Waiting>opening the studio …</Waiting>
        )}
      </main>
    </>
  );
}
