/** A button that starts a job and tells what is wrong if it cannot. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { words } from "../asked";
import type { Job } from "../types";
import { Wrong } from "./states";

interface Props { children: ComponentChildren; ask: () => Promise<Job>; onStart: (job: Job) => void; disabled?: boolean }

export function StartButton({ children, ask, onStart, disabled }: Props) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const start = async () => {
    setBusy(true);
    setError("");
    try {
      onStart(await ask());
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
