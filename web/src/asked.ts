/** Questions to the server from within a view: the last one counts, the one before it is given up. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { api, isOver, Refused } from "./api";
import type { Job } from "./types";

export interface Answer<T> {
  value: T | null;
  error: string;
  waiting: boolean;
}

const NOTHING = { value: null, error: "", waiting: false };

export const words = (error: unknown) =>
  error instanceof Refused ? error.message : `something went wrong in this page: ${error}`;

/** The answer to a question; its key says when it has changed, none asks nothing. An old answer stays until a new one is there. */
export function useAnswer<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, delay = 0): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>(NOTHING);
  useEffect(() => {
    if (key === null) {
      setAnswer(NOTHING);
      return;
    }
    const stop = new AbortController();
    setAnswer(before => ({ ...before, waiting: true }));
    const timer = setTimeout(async () => {
      try {
        const value = await ask(stop.signal);
        setAnswer({ value, error: "", waiting: false });
      } catch (error) {
        if (!stop.signal.aborted) setAnswer({ value: null, error: words(error), waiting: false });
      }
    }, delay);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  return answer;
}

export interface Followed<T> {
  job: Job | null;
  result: T | null;
  error: string;
}

/** How often each job was started from this page: one that is started again has the same id and must be followed anew. */
const starts = signal<Record<string, number>>({});

export function noteStart(job: Job): void {
  starts.value = { ...starts.value, [job.id]: (starts.value[job.id] ?? 0) + 1 };
}

const UNKNOWN = { job: null, result: null, error: "" };

/** A job by its id, followed until it is over, and what came of it. */
export function useJob<T>(id: string): Followed<T> {
  const [found, setFound] = useState<Followed<T>>(UNKNOWN);
  const started = starts.value[id] ?? 0;
  useEffect(() => {
    setFound(UNKNOWN);
    if (!id) return;
    let [gone, over] = [false, false];
    const lost = (error: unknown) => !gone && setFound(before => ({ ...before, error: words(error) }));
    const changed = async (job: Job) => {
      if (gone || over) return;
      over = isOver(job);
      if (over) stop();
      setFound(before => ({ ...before, job, error: "" }));
      if (job.state !== "done") return;
      try {
        const result = await api.result<T>(id);
        if (!gone) setFound({ job, result, error: "" });
      } catch (error) {
        lost(error);
      }
    };
    // Listened to before it is asked for, so that nothing is missed in between.
    const stop = api.follow(id, { changed, lost });
    api.job(id).then(changed, error => {
      stop();
      lost(error);
    });
    return () => {
      gone = true;
      stop();
    };
  }, [id, started]);
  return found;
}
