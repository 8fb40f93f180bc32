/** Questions to the server from within a view: the last one counts, the one before it is given up. */

import { useEffect, useState } from "preact/hooks";
import { api, isOver, Refused } from "./api";
import type { Job } from "./types";

export interface Answer<T> { value: T | null; error: string; waiting: boolean }

const NOTHING = { value: null, error: "", waiting: false };

export const words = (error: unknown) => (error instanceof Refused ? error.message : `something went wrong in this page: ${error}`);

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

export interface Followed<T> { job: Job | null; result: T | null; error: string }

/** A job by its id, followed until it is over, and what came of it. */
export function useJob<T>(id: string, again = 0): Followed<T> {
  const [found, setFound] = useState<Followed<T>>({ job: null, result: null, error: "" });
  useEffect(() => {
    setFound({ job: null, result: null, error: "" });
    if (!id) return;
    let gone = false;
    let stop = () => {};
    const changed = async (job: Job) => {
      if (gone) return;
      setFound(before => ({ ...before, job, error: "" }));
      if (!isOver(job)) return;
      if (job.state !== "done") return;
      try {
        const result = await api.result<T>(id);
        if (!gone) setFound({ job, result, error: "" });
      } catch (error) {
        if (!gone) setFound({ job, result: null, error: words(error) });
      }
    };
    const failed = (error: unknown) => {
      if (!gone) setFound({ job: null, result: null, error: words(error) });
    };
    api.job(id).then(async job => {
      if (gone) return;
      await changed(job);
      if (!isOver(job) && !gone) stop = api.follow(id, changed, () => failed(new Refused("the studio does not answer; is it still running?")));
    }, failed);
    return () => {
      gone = true;
      stop();
    };
  }, [id, again]);
  return found;
}
