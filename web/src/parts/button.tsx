/** A button that starts a job and tells what is wrong if it cannot. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { setter } from "../address";
import { noteStart, words } from "../asked";
import type { Job } from "../types";
import { Wrong } from "./states";

interface Props {
  children: ComponentChildren;
  ask: () => Promise<Job>;
  /** the settings that the job changes, in the view where it was started */
  onStart: (job: Job) => Record<string, string | null>;
  disabled?: boolean;
}

export function StartButton({ children, ask, onStart, disabled }: Props) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const start = async () => {
    const put = setter();
    setBusy(true);
    setError("");
    try {
      const job = await ask();
      noteStart(job);
      put(onStart(job));
    } catch (failure) {
      setError(words(failure));
    }
    setBusy(false);
  };
  return (
    <>
      <button class="primary" disabled={disabled || busy} onClick={start}>
        {children}
      </button>
      {error && <Wrong>{error}</Wrong>}
    </>
  );
}
