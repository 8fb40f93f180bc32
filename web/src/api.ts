/** The only file that speaks HTTP. Every call is to the server that the page came from. */

import type {
  Comparison,
  Corpus,
  Explanation,
  Hits,
  Job,
  Maps,
  Report,
  Run,
  RunBrief,
  Start,
  Tested,
  Trajectories,
} from "./types";

const ROOT = "api/";

/** What the server says is wrong, in one line. */
export class Refused extends Error {}

async function told(answer: Response): Promise<string> {
  try {
    const body = await answer.json();
    return body.error ?? body.detail ?? answer.statusText;
  } catch {
    return `the server answered ${answer.status}`;
  }
}

const AWAY = "the studio does not answer; is it still running?";
/** How often a question is asked again that came when too many were waiting, and after how many milliseconds. */
const [TRIES, PAUSE] = [5, 600];

async function asked<T>(path: string, options: RequestInit = {}, tries = TRIES): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(ROOT + path, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(AWAY);
  }
  if (answer.status === 429 && options.signal && tries > 0) {
    await new Promise(done => setTimeout(done, PAUSE));
    if (!options.signal.aborted) return asked(path, options, tries - 1);
  }
  if (!answer.ok) throw new Refused(await told(answer));
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

const got = <T>(path: string, signal?: AbortSignal) => asked<T>(path, { signal });

const posted = <T>(path: string, body: unknown = {}, signal?: AbortSignal) =>
  asked<T>(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

const encoded = (name: string) => name.split("/").map(encodeURIComponent).join("/");

export interface Reading {
  model: string;
  pooling?: string;
  layer?: number;
  special_tokens?: boolean;
}

export interface PairAsked extends Reading {
  left: string;
  right: string;
  method: string;
  by: string;
  bias: string;
  reference: string;
}

export interface ClustersAsked {
  algorithm: string;
  least: number;
  most: number;
  distance: string;
  linkage: string;
  covariance: string;
  eps: number | null;
}

export interface TrainAsked {
  name: string;
  train: string;
  dev: string;
  model: string;
  aggregation: string;
  loss: string;
  epochs: number;
  batch: number;
  learning_rate: number;
}

export const api = {
  start: () => got<Start>("start"),
  upload: (file: File) =>
    asked<Corpus>("corpora", { method: "POST", headers: { "x-file-name": encodeURIComponent(file.name) }, body: file }),
  removeCorpus: (id: string) => asked<void>(`corpora/${id}`, { method: "DELETE" }),

  pair: (body: PairAsked, signal: AbortSignal) => posted<Explanation>("pair", body, signal),
  compare: (body: Reading & { left: string; right: string; other: Reading }, signal: AbortSignal) =>
    posted<Comparison>("pair/compare", body, signal),

  index: (body: Reading & { corpus: string; engine: string }) => posted<Job>("search/index", body),
  search: (body: { index: string; query: string; k: number }, signal: AbortSignal) =>
    posted<Hits>("search", body, signal),
  baseline: (body: { corpus: string; query: string; ranker: string; k: number }, signal: AbortSignal) =>
    posted<Hits>("search/baseline", body, signal),
  recall: (body: { corpus: string; models: string[] }) => posted<Job>("search/recall", body),

  layers: (body: { texts: string[]; words: string[]; models: string[] }, signal: AbortSignal) =>
    posted<{ results: Trajectories[] }>("layers", body, signal),
  geometry: (body: { corpus: string; models: string[]; min_contexts: number }) => posted<Job>("layers/geometry", body),

  attention: (body: { corpus: string; model: string; reducer: string }) => posted<Job>("attention", body),
  clusters: (study: string, body: ClustersAsked) => posted<Job>(`attention/${study}/clusters`, body),
  brushed: (clusters: string, body: { layer: number; rows: number[] | null }, signal: AbortSignal) =>
    posted<Tested>(`attention/clusters/${clusters}/brush`, body, signal),
  maps: (study: string, row: number, layer: number, signal: AbortSignal) =>
    got<Maps>(`attention/${study}/pairs/${row}?layer=${layer}`, signal),

  patterns: (body: { corpus: string; first: Reading; second: Reading | null }) => posted<Job>("corpus/patterns", body),
  lint: (body: Reading & { corpus: string }) => posted<Job>("corpus/lint", body),

  runs: () => got<RunBrief[]>("training/runs"),
  run: (name: string, signal: AbortSignal) => got<Run>(`training/runs/${encoded(name)}`, signal),
  reports: () => got<string[]>("training/reports"),
  report: (name: string, signal: AbortSignal) => got<Report>(`training/reports/${encoded(name)}`, signal),
  train: (body: TrainAsked) => posted<Job>("training", body),

  jobs: () => got<Job[]>("jobs"),
  job: (id: string) => got<Job>(`jobs/${id}`),
  result: <T>(id: string) => got<T>(`jobs/${id}/result`),
  cancel: (id: string) => posted<Job>(`jobs/${id}/cancel`),
  forget: (id: string) => asked<void>(`jobs/${id}`, { method: "DELETE" }),
  /** A job whenever it changes; call what comes back to stop listening. */
  follow: (id: string, follower: Follower): (() => void) => {
    const followers = followed.get(id) ?? new Set();
    followed.set(id, followers.add(follower));
    listen();
    return () => {
      followers.delete(follower);
      if (followers.size === 0) followed.delete(id);
      if (followed.size === 0) hush();
    };
  },
};

export interface Follower {
  changed: (job: Job) => void;
  lost: (error: Refused) => void;
}

/** One stream for all jobs: a browser has six connections to a server, and a page may follow more jobs than that. */
const followed = new Map<string, Set<Follower>>();
let events: EventSource | null = null;
/** Milliseconds until a stream that was refused is asked for again; one that breaks off the browser opens by itself. */
const AGAIN = 3000;

function listen(): void {
  if (events) return;
  events = new EventSource(`${ROOT}jobs/events`);
  events.onmessage = message => {
    const job: Job = JSON.parse(message.data);
    followed.get(job.id)?.forEach(follower => follower.changed(job));
  };
  events.onerror = () => {
    if (events?.readyState === EventSource.CLOSED) {
      hush();
      setTimeout(() => followed.size > 0 && listen(), AGAIN);
    }
    // The browser tries again by itself; whether anybody is there is asked apart.
    api.jobs().catch(() => followed.forEach(all => all.forEach(follower => follower.lost(new Refused(AWAY)))));
  };
}

function hush(): void {
  events?.close();
  events = null;
}

export const isOver = (job: Job) => job.state === "done" || job.state === "failed" || job.state === "cancelled";
