/** Every job of the studio, in a drawer of the top bar. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, isFinished } from "../api";
import { time } from "../numbers";
import { errorText, useJobs } from "../queries";
import type { Job } from "../types";
import { Empty, Wrong } from "./states";

const stateOf = (job: Job) =>
  job.state === "running" && job.total ? `${Math.round((100 * job.done) / job.total)} %` : job.state;

export function JobsTray() {
  const [open, setOpen] = useState(false);
  const [opener, drawer] = [useRef<HTMLButtonElement>(null), useRef<HTMLDivElement>(null)];
  const { jobs, error } = useJobs(open);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    if (open) drawer.current?.focus();
  }, [open, drawer]);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  const act = (work: Promise<unknown>) => {
    work.then(
      () => setFailure(""),
      (reason: unknown) => setFailure(errorText(reason)),
    );
  };
  return (
    <div class="tray">
      <button ref={opener} aria-expanded={open} onClick={() => setOpen(!open)}>
        Jobs
      </button>
      {open && (
        <div
          ref={drawer}
          class="drawer"
          role="dialog"
          aria-label="jobs"
          tabIndex={-1}
          onKeyDown={event => event.key === "Escape" && close()}
        >
          {(error || failure) && <Wrong>{error || failure}</Wrong>}
          {jobs.length === 0 && <Empty>No job has been started yet.</Empty>}
          <ul>
            {jobs.map(job => (
              <li key={job.id}>
                <span>{job.title}</span>
                <em>{stateOf(job)}</em>
                <span class="note">{isFinished(job) ? time(job.seconds) : job.note}</span>
                {isFinished(job) ? (
                  <button aria-label={`Forget ${job.title}`} onClick={() => act(api.forget(job.id))}>
                    Forget
                  </button>
                ) : (
                  <button aria-label={`Cancel ${job.title}`} onClick={() => act(api.cancel(job.id))}>
                    Cancel
                  </button>
                )}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
