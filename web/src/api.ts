/** The only file that calls HTTP. Its types come from the server's OpenAPI document: run `npm run types`. */

import type {
  AttentionRequest,
  BaselineRequest,
  BrushRequest,
  ClustersRequest,
  CompareRequest,
  GeometryRequest,
  IndexRequest,
  Job,
  LayersRequest,
  LintRequest,
  PairRequest,
  paths,
  PosRelevanceRequest,
  RecallRequest,
  SearchRequest,
  TrainRequest,
} from "./types";

/** An error of the server, in one line. */
export class Refused extends Error {}

type Path = keyof paths;
type Method = "get" | "post" | "delete";
type Success<Responses> = Responses extends Partial<Record<200 | 201 | 202, infer Content>> ? Content : never;
/** What a route answers. */
type Answer<P extends Path, M extends Method> = paths[P][M] extends { responses: infer Responses }
  ? Success<Responses> extends { content: { "application/json": infer Value } }
    ? Value
    : void
  : never;

interface Options {
  /** of the path, by name */
  params?: Record<string, string | number>;
  query?: Record<string, string | number>;
  body?: unknown;
  signal?: AbortSignal;
}

const OFFLINE = "the studio does not answer; is it still running?";
/** A busy server is asked again so many times, after so many milliseconds. */
const [TRIES, PAUSE] = [5, 600];

async function errorOf(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: string; detail?: string };
    return body.error ?? body.detail ?? response.statusText;
  } catch {
    return `the server answered ${response.status}`;
  }
}

async function fetched(url: string, init: RequestInit, tries = TRIES): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(OFFLINE);
  }
  if (response.status === 429 && init.signal && tries > 0) {
    await new Promise(done => setTimeout(done, PAUSE));
    if (!init.signal.aborted) return fetched(url, init, tries - 1);
  }
  if (!response.ok) throw new Refused(await errorOf(response));
  return response;
}

/** The address of a route, relative to the page; slashes of a name stay. */
function urlOf(path: Path, { params = {}, query = {} }: Options): string {
  const encode = (name: string) => String(params[name]).split("/").map(encodeURIComponent).join("/");
  const filled = path.slice(1).replace(/\{(\w+)\}/g, (_, name: string) => encode(name));
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.length ? `${filled}?${pairs.join("&")}` : filled;
}

async function call<P extends Path, M extends Method>(
  method: M,
  path: P,
  options: Options = {},
): Promise<Answer<P, M>> {
  const { body, signal } = options;
  const json =
    body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetched(urlOf(path, options), { method: method.toUpperCase(), signal, ...json });
  return (response.status === 204 ? undefined : await response.json()) as Answer<P, M>;
}

async function upload(file: File): Promise<Answer<"/api/corpora", "post">> {
  const headers = { "x-file-name": encodeURIComponent(file.name) };
  const response = await fetched(urlOf("/api/corpora", {}), { method: "POST", headers, body: file });
  return (await response.json()) as Answer<"/api/corpora", "post">;
}

export const api = {
  start: () => call("get", "/api/start"),
  upload,
  removeCorpus: (corpus: string) => call("delete", "/api/corpora/{corpus}", { params: { corpus } }),

  pair: (body: PairRequest, signal: AbortSignal) => call("post", "/api/pair", { body, signal }),
  compare: (body: CompareRequest, signal: AbortSignal) => call("post", "/api/pair/compare", { body, signal }),

  index: (body: IndexRequest) => call("post", "/api/search/index", { body }),
  search: (body: SearchRequest, signal: AbortSignal) => call("post", "/api/search", { body, signal }),
  baseline: (body: BaselineRequest, signal: AbortSignal) => call("post", "/api/search/baseline", { body, signal }),
  recall: (body: RecallRequest) => call("post", "/api/search/recall", { body }),

  layers: (body: LayersRequest, signal: AbortSignal) => call("post", "/api/layers", { body, signal }),
  geometry: (body: GeometryRequest) => call("post", "/api/layers/geometry", { body }),

  attention: (body: AttentionRequest) => call("post", "/api/attention", { body }),
  clusters: (job: string, body: ClustersRequest) =>
    call("post", "/api/attention/{job}/clusters", { params: { job }, body }),
  brush: (job: string, body: BrushRequest, signal: AbortSignal) =>
    call("post", "/api/attention/clusters/{job}/brush", { params: { job }, body, signal }),
  maps: (job: string, row: number, layer: number, signal: AbortSignal) =>
    call("get", "/api/attention/{job}/pairs/{row}", { params: { job, row }, query: { layer }, signal }),

  posRelevance: (body: PosRelevanceRequest) => call("post", "/api/corpus/patterns", { body }),
  lint: (body: LintRequest) => call("post", "/api/corpus/lint", { body }),

  runs: () => call("get", "/api/training/runs"),
  run: (name: string, signal: AbortSignal) => call("get", "/api/training/runs/{name}", { params: { name }, signal }),
  reports: () => call("get", "/api/training/reports"),
  report: (name: string, signal: AbortSignal) =>
    call("get", "/api/training/reports/{name}", { params: { name }, signal }),
  train: (body: TrainRequest) => call("post", "/api/training", { body }),

  job: (job: string) => call("get", "/api/jobs/{job}", { params: { job } }),
  result: async <T extends JobResult>(job: string) =>
    (await call("get", "/api/jobs/{job}/result", { params: { job } })) as T,
  cancel: (job: string) => call("post", "/api/jobs/{job}/cancel", { params: { job } }),
  forget: (job: string) => call("delete", "/api/jobs/{job}", { params: { job } }),

  /** Follow all jobs: every one at first, then each one when it changes. Returns a function that stops this. */
  follow: (follower: Follower): (() => void) => {
    followers.add(follower);
    if (events) current.forEach(job => follower.changed(job));
    else listen();
    return () => {
      followers.delete(follower);
      if (followers.size === 0) close();
    };
  },
};

export type JobResult = Answer<"/api/jobs/{job}/result", "get">;

export interface Follower {
  changed: (job: Job) => void;
  forgotten?: (id: string) => void;
  lost: (error: Refused) => void;
}

/** One stream for all followers: a browser opens only six connections to a server. */
const followers = new Set<Follower>();
const current = new Map<string, Job>();
let events: EventSource | null = null;
/** Milliseconds until a refused stream is opened again; the browser itself reopens one that breaks. */
const AGAIN = 3000;

function listen(): void {
  events = new EventSource(urlOf("/api/jobs/events", {}));
  // A new stream repeats every job, so jobs that were forgotten meanwhile must not stay.
  events.onopen = () => current.clear();
  events.onmessage = (message: MessageEvent<string>) => {
    const job = JSON.parse(message.data) as Job;
    current.set(job.id, job);
    followers.forEach(follower => follower.changed(job));
  };
  events.addEventListener("forgotten", (message: MessageEvent<string>) => {
    const id = JSON.parse(message.data) as string;
    current.delete(id);
    followers.forEach(follower => follower.forgotten?.(id));
  });
  events.onerror = () => {
    if (events?.readyState === EventSource.CLOSED) {
      close();
      setTimeout(() => followers.size > 0 && !events && listen(), AGAIN);
    }
    followers.forEach(follower => follower.lost(new Refused(OFFLINE)));
  };
}

function close(): void {
  events?.close();
  events = null;
  current.clear();
}

export const isFinished = (job: Job) => job.state === "done" || job.state === "failed" || job.state === "cancelled";
