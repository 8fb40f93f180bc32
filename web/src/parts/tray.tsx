/** Every job of the studio, in a drawer of the top bar. */

import { useEffect, useRef, useState } from "preact/hooks";
import { api, isOver } from "../api";
import { words } from "../asked";
import { time } from "../numbers";
import type { Job } from "../types";
import { Empty, Wrong } from "./states";

const OFTEN = 1500;

export function JobsTray() {
  const [open, setOpen] = useState(false);
  const [opener, drawer] = [useRef<HTMLButtonElement>(null), useRef<HTMLDivElement>(null)];
  const [jobs, setJobs] = useState<Job[]>([]);
  const [error, setError] = useState("");
  const renew = () =>
    api.jobs().then(
      found => (setJobs(found), setError("")),
      failure => setError(words(failure)),
    );
  useEffect(() => {
    if (!open) return;
    drawer.current?.focus();
    renew();
    const timer = setInterval(renew, OFTEN);
    return () => clearInterval(timer);
  }, [open]);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  const act = (work: Promise<unknown>) => work.then(renew, failure => setError(words(failure)));
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
          {error && <Wrong>{error}</Wrong>}
          {jobs.length === 0 && <Empty>No job has been started yet.</Empty>}
          <ul>
            {jobs.map(job => (
              <li key={job.id}>
                <span>{job.title}</span>
                <em>
                  {job.state === "running" && job.total ? `${Math.round((100 * job.done) / job.total)} %` : job.state}
                </em>
                <span class="note">{isOver(job) ? time(job.seconds) : job.note}</span>
                {isOver(job) ? (
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
