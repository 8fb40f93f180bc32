/** A corpus of pairs: what its similarities rest on, and the pairs whose score rests on the wrong things. */

import { link, set, setting } from "../address";
import { api } from "../api";
import { useJob } from "../queries";
import { series } from "../colours";
import { strongest } from "../explained";
import { plain, signed } from "../numbers";
import { StartButton } from "../parts/button";
import { ChooseCorpus } from "../parts/corpus";
import { type Curve, Curves, curvesDrawing } from "../parts/curves";
import { Check, Choose } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { JobState } from "../parts/job";
import { ChoosePooling, poolingName, poolingRequest, poolingSettings } from "../parts/pooling";
import { Empty } from "../parts/states";
import { Table } from "../parts/table";
import { offered } from "../start";
import type { PoolingRequest, LintResult, PosRelevanceResult, PosSetting, PosChange } from "../types";

const COUNTED: [string, string][] = [
  ["summed", "summed over all pairs"],
  ["averaged", "mean of a word pair"],
];
const SIGNS: [string, string][] = [
  ["both", "both signs"],
  ["positive", "what adds"],
  ["negative", "what takes away"],
];

function matrix(one: PosSetting, counted: string, sign: string): number[][] {
  const found = one.relevance[counted === "averaged" ? "averaged" : "summed"];
  return sign === "positive" ? found.positive : sign === "negative" ? found.negative : found.both;
}

function Strongest({ name, quarters }: { name: string; quarters: PosSetting["strongest"] }) {
  const rows = () =>
    Object.entries(quarters).flatMap(([quarter, pairs]) =>
      pairs.map(each => [quarter, each.id, each.left, each.right, each.relevance, each.similarity]),
    );
  return (
    <Figure
      title="Strongest word pairs, by quarter of similarity"
      name={name}
      data={() => quarters}
      rows={() => [["quarter", "id", "left", "right", "relevance", "similarity"], ...rows()]}
      drawing="none"
    >
      <div class="quarters">
        {Object.entries(quarters).map(([quarter, pairs]) => (
          <Table
            key={quarter}
            caption={`${quarter} quarter`}
            head={["words", "relevance", "texts"]}
            rows={pairs.map(each => [`${each.left} × ${each.right}`, signed(each.relevance), plain(each.similarity)])}
          />
        ))}
      </div>
    </Figure>
  );
}

function Setting({
  one,
  name,
  request,
}: {
  one: PosSetting;
  name: string;
  request: PoolingRequest | null | undefined;
}) {
  const [counted, sign] = [setting("counted", "summed"), setting("sign", "both")];
  const values = matrix(one, counted, sign);
  const { classes } = one.relevance;
  const levels = one.errors?.levels ?? [];
  const shown = {
    x: levels.map(level => (level.low + level.high) / 2),
    curves: [
      {
        name: "squared error",
        colour: series(0),
        values: levels.map(level => level.error?.value ?? null),
        low: levels.map(level => level.error?.low ?? null),
        high: levels.map(level => level.error?.high ?? null),
      },
    ] as Curve[],
    xName: "human score, middle of a level",
    yName: "squared error",
  };
  return (
    <div>
      <p class="score">
        {one.model} · {poolingName({ ...request, pooling: one.pooling })} · {one.n} pairs
      </p>
      <Figure
        title="Parts of speech"
        name={`corpus-${name}-classes`}
        data={() => one.relevance}
        rows={() => [["", ...classes], ...values.map((row, index) => [classes[index], ...row])]}
        note={`Red adds to the similarities, blue takes away; the strongest colour is ${plain(strongest(...values), counted === "summed" ? 1 : 3)}.`}
      >
        <HeatMap
          rows={classes}
          columns={classes}
          values={values}
          digits={counted === "summed" ? 1 : 3}
          label="relevance between parts of speech"
        />
      </Figure>
      <Strongest name={`corpus-${name}-strongest`} quarters={one.strongest} />
      {levels.length > 0 && (
        <Figure
          title="Error by human score"
          name={`corpus-${name}-errors`}
          data={() => one.errors}
          rows={() => [
            ["level", "n", "error", "low", "high"],
            ...levels.map(level => [level.name, level.n, level.error?.value, level.error?.low, level.error?.high]),
          ]}
          drawing={() => curvesDrawing(shown)}
        >
          <Curves {...shown} high={220} />
        </Figure>
      )}
      {one.farthest && (
        <Figure
          title="Farthest from the human score"
          name={`corpus-${name}-farthest`}
          data={() => one.farthest}
          rows={() => [
            ["left", "right", "human", "predicted"],
            ...one.farthest.map(each => [each.left, each.right, each.human, each.predicted]),
          ]}
          drawing="none"
        >
          <Table
            head={["pair", "human", "predicted", ""]}
            rows={one.farthest.map(each => [
              <Texts left={each.left} right={each.right} />,
              plain(each.human, 1),
              plain(each.predicted, 2),
              <Why left={each.left} right={each.right} request={request} />,
            ])}
          />
        </Figure>
      )}
    </div>
  );
}

const Why = ({
  left,
  right,
  request,
}: {
  left: string;
  right: string;
  request: Partial<PoolingRequest> | null | undefined;
}) => <a href={link("pair", { left, right, ...poolingSettings(request) })}>why</a>;

const Texts = ({ left, right }: { left: string; right: string }) => (
  <>
    {left}
    <br />
    {right}
  </>
);

function Changes({ found }: { found: NonNullable<PosRelevanceResult["change"]> }) {
  const counted = setting("counted", "summed") === "averaged" ? found.averaged : found.summed;
  const all: PosChange[] = Object.values(counted).flat();
  return (
    <Figure
      title={`What changes from ${found.settings[0]} to ${found.settings[1]}`}
      name="corpus-change"
      data={() => found}
      rows={() => [
        ["first", "second", "before", "after", "change"],
        ...all.map(each => [each.first, each.second, each.before, each.after, each.change]),
      ]}
      drawing="none"
      note="Each setting is scaled by its own strongest class pair."
    >
      <div class="columns">
        {Object.entries(counted).map(([sign, changes]) => (
          <Table
            key={sign}
            caption={sign === "positive" ? "what adds" : "what takes away"}
            head={["classes", "before", "after", "change"]}
            rows={changes.map(each => [
              `${each.first} × ${each.second}`,
              plain(each.before),
              plain(each.after),
              signed(each.change, 3),
            ])}
          />
        ))}
      </div>
    </Figure>
  );
}

function PatternsPart({ corpus }: { corpus: string }) {
  const id = setting("patterns");
  const found = useJob<PosRelevanceResult>(id);
  const two = setting("second") === "on";
  const result = found.result;
  return (
    <section>
      <h2>What the similarities rest on</h2>
      <div class="form">
        <ChoosePooling />
        <Check name="compare with a second setting" value={two} onChange={on => set({ second: on ? "on" : null })} />
        <StartButton
          disabled={!corpus || !offered().grammar}
          ask={() =>
            api.posRelevance({ corpus, first: poolingRequest(), second: two ? poolingRequest("other-") : null })
          }
          onStart={job => ({ patterns: job.id })}
        >
          Analyse
        </StartButton>
      </div>
      {two && (
        <div class="form second">
          <ChoosePooling prefix="other-" name="second model" />
        </div>
      )}
      <JobState id={id} found={found} />
      {!id && (
        <Empty>
          Press Analyse: every pair of the corpus is explained, and the explanations are summed by part of speech.
        </Empty>
      )}
      {result && (
        <>
          <div class="form">
            <Choose
              name="counted"
              value={setting("counted", "summed")}
              choices={COUNTED}
              onChange={value => set({ counted: value })}
            />
            <Choose
              name="sign"
              value={setting("sign", "both")}
              choices={SIGNS}
              onChange={value => set({ sign: value })}
            />
          </div>
          {result.change && <Changes found={result.change} />}
          <div class="columns">
            {result.settings.map((one, index) => (
              <Setting
                key={index}
                one={one}
                name={String(index + 1)}
                request={found.job?.asked[index ? "second" : "first"] as PoolingRequest | null}
              />
            ))}
          </div>
        </>
      )}
    </section>
  );
}

function Findings({ found, request }: { found: LintResult; request: Partial<PoolingRequest> | undefined }) {
  const rule = setting("rule");
  const shown = found.findings.filter(each => !rule || each.rule === rule);
  return (
    <Figure
      title={`${found.findings.length} findings in ${found.n} pairs`}
      name="corpus-lint"
      data={() => found}
      drawing="none"
      rows={() => [
        ["rule", "id", "severity", "evidence", "similarity", "human", "left", "right"],
        ...found.findings.map(each => [
          each.rule,
          each.id,
          each.severity,
          each.evidence,
          each.similarity,
          each.human,
          each.left,
          each.right,
        ]),
      ]}
    >
      <Table
        head={["rule", "what it finds", "found", "candidates", "share of all pairs", "interval"]}
        rows={found.rules.map(each => [
          <button
            class="chip"
            aria-pressed={rule === each.rule}
            onClick={() => set({ rule: rule === each.rule ? null : each.rule })}
          >
            {each.rule}
          </button>,
          each.says,
          each.count,
          each.candidates,
          each.share ? plain(each.share.value) : "–",
          each.share ? `${plain(each.share.low)} to ${plain(each.share.high)}` : "–",
        ])}
      />
      <Table
        head={["rule", "severity", "pair", "evidence", "similarity", "human", ""]}
        rows={shown.map(each => [
          each.rule,
          plain(each.severity, 2),
          <Texts left={each.left} right={each.right} />,
          each.evidence,
          plain(each.similarity),
          plain(each.human, 1),
          <Why left={each.left} right={each.right} request={request} />,
        ])}
      />
      {shown.length === 0 && <Empty>Nothing was found by this rule.</Empty>}
    </Figure>
  );
}

function LintPart({ corpus }: { corpus: string }) {
  const id = setting("lint");
  const found = useJob<LintResult>(id);
  return (
    <section>
      <h2>Scores that rest on the wrong things</h2>
      <div class="form">
        <StartButton
          disabled={!corpus || !offered().grammar}
          ask={() => api.lint({ ...poolingRequest(), corpus })}
          onStart={job => ({ lint: job.id })}
        >
          Look for suspicious pairs
        </StartButton>
      </div>
      <JobState id={id} found={found} />
      {!id && (
        <Empty>
          Press Look for suspicious pairs. It finds negation, numbers and roles that the model passes over, and
          similarity from special tokens or stop words.
        </Empty>
      )}
      {found.result && <Findings found={found.result} request={found.job?.asked} />}
    </section>
  );
}

export function CorpusView() {
  const corpus = setting("corpus", "sample/pairs");
  return (
    <>
      <div class="form">
        <ChooseCorpus
          value={corpus}
          onChange={value => set({ corpus: value, patterns: null, lint: null })}
          only={each => each.pairs}
        />
      </div>
      {!offered().grammar && (
        <Empty>
          This view needs a spaCy pipeline: pip install "likewise[grammar]", python -m spacy download en_core_web_sm,
          then start the studio again, with --grammar where it is a folder of your own.
        </Empty>
      )}
      <PatternsPart corpus={corpus} />
      <LintPart corpus={corpus} />
    </>
  );
}
