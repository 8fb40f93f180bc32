/** A button that starts a job and tells what is wrong if it cannot. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { setter } from "../address";
import { noteStart, errorText } from "../queries";
import type { Job } from "../types";
import { Wrong } from "./states";

interface Props {
  children: ComponentChildren;
  /** starts one job or several */
  ask: () => Promise<Job>[] | Promise<Job>;
  /** the settings that a job changes, in the view where it was started */
  onStart: (job: Job, index: number) => Record<string, string | null>;
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
      const answers = await Promise.allSettled([ask()].flat());
      answers
        .filter(each => each.status === "fulfilled")
        .forEach(({ value: job }, index) => {
          noteStart(job);
          put(onStart(job, index));
        });
      const failed = answers.find(each => each.status === "rejected");
      if (failed) throw failed.reason;
    } catch (failure) {
      setError(errorText(failure));
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
