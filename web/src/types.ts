/** What the server answers with; the fields that the pages use. */

export interface Corpus {
  id: string;
  name: string;
  rows: number;
  pairs: boolean;
  scored: boolean;
  own: boolean;
}

export interface LayerExample {
  look_for: string;
  texts: string[];
  words: string[];
}

export interface Limits {
  characters: number;
  upload_bytes: number;
  rows: number;
}

export interface Start {
  version: string;
  models: string[];
  poolings: string[];
  methods: string[];
  corpora: Corpus[];
  examples: { pairs: [string, string][]; layers: Record<string, LayerExample> };
  grammar: boolean;
  limits: Limits;
}

export interface Job {
  id: string;
  room: string;
  title: string;
  asked: Record<string, unknown>;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  done: number;
  total: number | null;
  note: string;
  error: string;
  began: number;
  seconds: number;
}

export interface Side {
  text: string;
  units: string[];
  spans: [number, number][];
  kinds: string[];
  truncated: boolean;
}

export interface Explanation {
  left: Side;
  right: Side;
  relevance: number[][];
  bias: { left: number[]; right: number[]; both: number };
  similarity: number;
  gap: number;
  method: string;
  model: string;
  pooling: string;
  by: string;
  measure: string;
  bias_mode: string;
  relative_to: string;
  complete: boolean;
  layer: string;
  ledger: Record<string, number>;
  /** what each unit makes of the similarity with all of the other text */
  shares: { left: number[]; right: number[] };
}

export interface Comparison {
  units: { left: string[]; right: string[] };
  difference: number[][];
  change: number;
  gap: number;
  first: Omit<Explanation, "ledger" | "shares">;
  second: Omit<Explanation, "ledger" | "shares">;
}

export interface HitWord {
  text: string;
  start: number;
  end: number;
  kind: string;
  share: number;
}

export interface Above {
  difference: number;
  by: { query: string; difference: number }[];
  bias: number;
  gap: number;
}

export interface Hit {
  rank: number;
  id: string;
  score: number;
  text: string;
  explanation?: {
    words: HitWord[];
    bias: number;
    relative_to: string;
    pairs: { query: string; text: string; relevance: number }[];
    gap: number;
    above_next: Above | null;
  };
}

export interface Hits {
  query: string;
  ranker: string;
  hits: Hit[];
}

export interface Recall {
  model: string;
  ranker: string;
  n: number;
  texts: number;
  recall: Record<string, number>;
  mrr: number;
  ndcg: number;
  intervals: { recall: Record<string, [number, number]>; mrr: [number, number]; ndcg: [number, number] };
}

export interface Trajectories {
  model: string;
  layers: number[];
  pairs: { left: number; right: number; words: [string, string] | null; cosine: (number | null)[] }[];
  texts: string[];
  pooling?: string;
}

export interface GeometryLayer {
  layer: number;
  intervals: Record<string, unknown>;
  corrected: Record<string, Record<string, unknown>>;
  [measure: string]: unknown;
}

export interface Geometry {
  model: string;
  data: string;
  texts: number;
  occurrences: number;
  layers: GeometryLayer[];
  cka: number[][];
}

export interface Points {
  model: string;
  corpus: string;
  reducer: string;
  depth: number;
  view: [number, number][][];
  pairs: [string, string][];
  variables: Record<string, (number | null)[]>;
  loss: number | null;
  trivial_loss: number | null;
}

export interface ClusterSummary {
  label: number;
  n: number;
  quartiles: Record<string, number[]>;
}

export interface ClusterTest {
  n: number;
  k: number;
  h: number;
  kruskal_p: number;
  epsilon2: number;
  eta2: number;
  pairs_significant: number;
  pairs: { first: number; second: number; u: number; p: number; holm: number; rank_biserial: number }[];
}

export interface Tested {
  n: number;
  clusters: ClusterSummary[];
  tests: Record<string, ClusterTest | null>;
}

export interface LayerClusters extends Tested {
  layer: number;
  algorithm: string;
  k: number;
  noise: number;
  silhouette: number | null;
  davies_bouldin: number | null;
  calinski_harabasz: number | null;
  labels: number[];
}

export interface Clusters {
  study: string;
  layers: LayerClusters[];
}

export interface Maps {
  left: string;
  right: string;
  tokens: string[];
  heads: number[][][];
  mean: number[][];
}

export interface PosMatrices {
  positive: number[][];
  negative: number[][];
  both: number[][];
  positive_scaled: number[][];
  negative_scaled: number[][];
}

export interface StrongPair {
  id: string;
  left: string;
  right: string;
  relevance: number;
  similarity: number;
}

export interface PatternSetting {
  data: string;
  model: string;
  pooling: string;
  n: number;
  relevance: { classes: string[]; counts: number[][]; summed: PosMatrices; averaged: PosMatrices };
  strongest: Record<string, StrongPair[]>;
  errors: {
    levels: {
      name: string;
      low: number;
      high: number;
      n: number;
      error: { value: number; low: number; high: number } | null;
      human: number;
      predicted: number;
    }[];
  } | null;
  farthest:
    | {
        id: string;
        left: string;
        right: string;
        human: number;
        predicted: number;
        similarity: number;
        difference: number;
      }[]
    | null;
}

export interface PosChange {
  first: string;
  second: string;
  before: number;
  after: number;
  change: number;
}

export interface Patterns {
  settings: PatternSetting[];
  change: {
    settings: [string, string];
    summed: Record<string, PosChange[]>;
    averaged: Record<string, PosChange[]>;
  } | null;
}

export interface Finding {
  rule: string;
  id: string;
  severity: number;
  evidence: string;
  similarity: number;
  human: number | null;
  left: string;
  right: string;
}

export interface Lint {
  data: string;
  model: string;
  n: number;
  rules: {
    rule: string;
    count: number;
    candidates: number;
    share: { value: number; low: number; high: number } | null;
    says: string;
  }[];
  findings: Finding[];
}

export interface RunBrief {
  name: string;
  model: string;
  score: number | null;
  formula: string;
  best_epoch: number;
  steps: number;
  seconds: number;
}

export interface ExampleSeen {
  texts: string[];
  truth: number;
  predicted: number;
  error: number;
  id: string;
}

export interface Judged {
  n: number;
  loss: number;
  confusion: number[][] | null;
  best: ExampleSeen[];
  worst: ExampleSeen[];
  [measure: string]: unknown;
}

export interface Predictions {
  rows: { id: string; truth: string; predicted: string }[];
  /** of how many these are the first */
  n: number;
  line: { slope: number; shift: number } | null;
}

export interface Run extends RunBrief {
  config: { task: { name: string; kind: string }[] } & Record<string, unknown>;
  dev: Record<string, Judged>;
  test: Record<string, Judged>;
  epochs: {
    epoch: number;
    step: number;
    score: number;
    train: Record<string, number>;
    dev: Record<string, Record<string, number>>;
  }[];
  curve: ({ step: number } & Record<string, number>)[];
  changes?: {
    texts: [string, string];
    truth: number;
    before: number;
    after: number;
    words: { left: string; right: string; before: number; after: number }[];
  }[];
  predictions: Record<string, Predictions>;
}

/** A folder of results that is no model: tables of runs, searches, checkups. */
export interface Report {
  name: string;
  tables: Record<string, string[][]>;
}
