/** A job under way: how far it has come, and a way to stop it. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { type Followed, errorText } from "../queries";
import type { Job } from "../types";
import { Waiting, Wrong } from "./states";

function Bar({ job }: { job: Job }) {
  return job.total ? (
    <progress value={job.done} max={job.total} aria-label={job.title} />
  ) : (
    <progress aria-label={job.title} />
  );
}

export function JobLine({ job }: { job: Job }) {
  const [error, setError] = useState("");
  const cancel = () => api.cancel(job.id).catch(failure => setError(errorText(failure)));
  if (job.state === "failed") return <Wrong>{job.error}</Wrong>;
  if (job.state === "cancelled") return <Wrong>“{job.title}” was cancelled; start it again to go on.</Wrong>;
  if (job.state === "done") return null;
  return (
    <div class="job" role="status" data-state={job.state}>
      <span class="title">{job.title}</span>
      {job.state === "waiting" ? <span>waits for its turn</span> : <Bar job={job} />}
      <span class="note">
        {job.note} {job.total ? `${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")}` : ""}
      </span>
      <button onClick={cancel}>Cancel</button>
      {error && <Wrong>{error}</Wrong>}
    </div>
  );
}

/** What is to be said of a job while there is no result. */
export function JobState({ id, found }: { id: string; found: Followed<unknown> }) {
  if (!id) return null;
  if (found.error) return <Wrong>{found.error}</Wrong>;
  if (found.job === null) return <Waiting />;
  if (found.job.state === "done" && found.result === null) return <Waiting>reading the result …</Waiting>;
  return <JobLine job={found.job} />;
}
