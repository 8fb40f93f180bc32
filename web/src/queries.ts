/** Queries of the views to the server: the last one counts, an older one is cancelled. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, isFinished, type JobResult, Refused } from "./api";
import type { Job } from "./types";

export interface Query<T> {
  value: T | null;
  error: string;
  waiting: boolean;
}

const NOTHING = { value: null, error: "", waiting: false };

export const errorText = (error: unknown) =>
  error instanceof Refused ? error.message : `something went wrong in this page: ${String(error)}`;

/** The answer to a query; another key asks again, a null key disables the query. An old answer stays until the next. */
export function useQuery<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, delay = 0): Query<T> {
  const [query, setQuery] = useState<Query<T>>(NOTHING);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    if (key === null) {
      setQuery(NOTHING);
      return;
    }
    const stop = new AbortController();
    const run = async () => {
      try {
        const value = await latest.current(stop.signal);
        if (!stop.signal.aborted) setQuery({ value, error: "", waiting: false });
      } catch (error) {
        if (!stop.signal.aborted) setQuery({ value: null, error: errorText(error), waiting: false });
      }
    };
    setQuery(before => ({ ...before, waiting: true }));
    const timer = setTimeout(() => void run(), delay);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, delay]);
  return query;
}

export interface Followed<T> {
  job: Job | null;
  result: T | null;
  error: string;
}

/** How often this page started each job: a job that starts again has the same id and must be followed anew. */
const starts = signal<Record<string, number>>({});

export function noteStart(job: Job): void {
  starts.value = { ...starts.value, [job.id]: (starts.value[job.id] ?? 0) + 1 };
}

const UNKNOWN = { job: null, result: null, error: "" };

/** A job by its id, followed until it is finished, and its result. */
export function useJob<T extends JobResult>(id: string): Followed<T> {
  const [found, setFound] = useState<Followed<T>>(UNKNOWN);
  const started = starts.value[id] ?? 0;
  useEffect(() => {
    setFound(UNKNOWN);
    if (!id) return;
    let [gone, finished, newest] = [false, false, 0];
    const lost = (error: unknown) => {
      if (!gone) setFound(before => ({ ...before, error: errorText(error) }));
    };
    const changed = async (job: Job) => {
      // A stream may repeat the end of an earlier start.
      if (gone || finished || job.id !== id || job.began < newest) return;
      newest = job.began;
      finished = isFinished(job);
      setFound(before => ({ ...before, job, error: "" }));
      if (finished) stop();
      if (job.state !== "done") return;
      try {
        const result = await api.result<T>(id);
        if (!gone) setFound({ job, result, error: "" });
      } catch (error) {
        lost(error);
      }
    };
    let stop = () => {};
    api.job(id).then(
      async job => {
        await changed(job);
        if (!gone && !finished) stop = api.follow({ changed: each => void changed(each), lost });
      },
      (error: unknown) => lost(error),
    );
    return () => {
      gone = true;
      stop();
    };
  }, [id, started]);
  return found;
}

/** All jobs, the newest first, while they are followed. */
export function useJobs(follow: boolean): { jobs: Job[]; error: string } {
  const [jobs, setJobs] = useState<Record<string, Job>>({});
  const [error, setError] = useState("");
  useEffect(() => {
    if (!follow) return;
    const stop = api.follow({
      changed: job => {
        setError("");
        setJobs(before => ({ ...before, [job.id]: job }));
      },
      forgotten: id => setJobs(before => Object.fromEntries(Object.entries(before).filter(([each]) => each !== id))),
      lost: failure => setError(errorText(failure)),
    });
    // Not at the next start: a list of old jobs would be shown until the first events.
    return () => {
      stop();
      setJobs({});
    };
  }, [follow]);
  return { jobs: Object.values(jobs).sort((a, b) => b.began - a.began), error };
}
