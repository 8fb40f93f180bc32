/** Training runs: their curves, what they get right and wrong, and what training changed in the explanations. */

import { useEffect, useState } from "preact/hooks";
import { choice, link, set, setting } from "../address";
import { api } from "../api";
import { type Query, useQuery, useJob } from "../queries";
import { series } from "../colours";
import { plain, signed, time } from "../numbers";
import { StartButton } from "../parts/button";
import { ChooseCorpus } from "../parts/corpus";
import { type Curve, Curves, curvesDrawing, curvesRows } from "../parts/curves";
import { Choose, Field, NumberField } from "../parts/fields";
import { Figure } from "../parts/figure";
import { HeatMap } from "../parts/heatmap";
import { JobState } from "../parts/job";
import { Scatter, scatterDrawing } from "../parts/scatter";
import { Empty, Waiting, Wrong } from "../parts/states";
import { Table } from "../parts/table";
import { offered, renewStart } from "../start";
import type {
  PredictedExample,
  TaskEvaluation,
  Predictions,
  RunResponse,
  RunSummary,
  TrainRequest,
  TrainResult,
} from "../types";

const POOLINGS = ["mean", "cls", "max", "bilstm"];
const LOSSES: [string, string][] = [
  ["mse", "squared error"],
  ["cosent", "CoSENT"],
];
const SHOWN = [
  "accuracy",
  "pearson",
  "spearman",
  "mse",
  "false_positive_rate",
  "false_negative_rate",
  "within_0.05",
  "loss",
];
const CLASSES: Record<string, string[]> = {
  paraphrase: ["different", "the same"],
  sentiment: ["−−", "−", "0", "+", "++"],
};

function RunsTable({ runs, chosen }: { runs: RunSummary[]; chosen: string }) {
  const head = ["run", "model", "dev score", "of", "best epoch", "steps", "time"];
  return (
    <Figure
      title="Runs"
      name="training-runs"
      data={() => runs}
      rows={() => [
        head,
        ...runs.map(run => [run.name, run.model, run.score, run.formula, run.best_epoch, run.steps, run.seconds]),
      ]}
      drawing="none"
    >
      <Table
        head={head}
        rows={runs.map(run => [
          <button class="chip" aria-pressed={run.name === chosen} onClick={() => set({ run: run.name, point: null })}>
            {run.name}
          </button>,
          run.model,
          plain(run.score, 4),
          run.formula,
          run.best_epoch,
          run.steps,
          time(run.seconds),
        ])}
      />
    </Figure>
  );
}

function LossCurves({ run }: { run: RunResponse }) {
  const tasks = run.config.task.map(task => task.name);
  const x = run.curve.map(point => point.step ?? 0);
  const curves: Curve[] = tasks.map((task, index) => ({
    name: `${task}, training loss`,
    colour: series(index),
    values: run.curve.map(point => point[task] ?? null),
  }));
  const shown = { x, curves, xName: "step", yName: "loss" };
  const steps = run.epochs.map(epoch => epoch.step);
  const judged = Object.keys(run.epochs[0]?.dev ?? {});
  const dev: Curve[] = judged.map((task, index) => ({
    name: `${task}, dev loss`,
    colour: series(index),
    dash: 1,
    values: run.epochs.map(epoch => epoch.dev[task]?.loss ?? null),
  }));
  const score: Curve[] = [
    { name: "dev score", colour: series(judged.length), values: run.epochs.map(epoch => epoch.score) },
  ];
  const devShown = { x: steps, curves: [...dev, ...score], xName: "step", yName: "dev" };
  return (
    <div class="columns">
      {x.length > 0 && (
        <Figure
          title="Training loss"
          name="training-loss"
          data={() => run.curve}
          rows={() => curvesRows(x, curves, "step")}
          drawing={() => curvesDrawing(shown)}
        >
          <Curves {...shown} high={260} />
        </Figure>
      )}
      {steps.length > 0 && (
        <Figure
          title="After each epoch"
          name="training-dev"
          data={() => run.epochs}
          rows={() => curvesRows(steps, devShown.curves, "step")}
          drawing={() => curvesDrawing(devShown)}
        >
          <Curves {...devShown} high={260} />
        </Figure>
      )}
    </div>
  );
}

function Confusion({ name, kind, judged }: { name: string; kind: string; judged: TaskEvaluation }) {
  const counts = judged.confusion!;
  const names = CLASSES[kind] ?? counts.map((_, index) => String(index));
  return (
    <Figure
      title={`Confusion, ${name}`}
      name={`training-confusion-${name}`}
      data={() => counts}
      rows={() => [["true \\ predicted", ...names], ...counts.map((row, index) => [names[index], ...row])]}
      note="A row is what is true, a column what was said."
    >
      <HeatMap rows={names} columns={names} values={counts} kind="share" digits={0} label={`confusion of ${name}`} />
    </Figure>
  );
}

function Predicted({ name, predictions: { rows, n, line } }: { name: string; predictions: Predictions }) {
  const points = rows.map(row => [Number(row.truth), Number(row.predicted)] as [number, number]);
  const size = { wide: 440, high: 380 };
  const axes = { x: "true", y: "predicted", identity: true, line };
  const colours = series(0);
  const [part, chosen] = setting("point").split(":");
  const picked = part === name && rows[Number(chosen)] ? Number(chosen) : null;
  const describe = (index: number) =>
    `${rows[index].id}: ${rows[index].truth} → ${Number(rows[index].predicted).toFixed(2)}`;
  return (
    <Figure
      title={`Predicted against true, ${name}`}
      name={`training-scatter-${name}`}
      data={() => rows}
      rows={() => [["id", "true", "predicted"], ...rows.map(row => [row.id, Number(row.truth), Number(row.predicted)])]}
      drawing={() => scatterDrawing({ ...size, points, colours, axes })}
      note={`Dashed: where both are the same. Solid: the fitted line.${n > rows.length ? ` The first ${rows.length.toLocaleString("en")} of ${n.toLocaleString("en")} are shown.` : ""}`}
    >
      <Scatter
        {...size}
        points={points}
        colours={colours}
        axes={axes}
        label={`predicted against true of ${name}`}
        describe={describe}
        picked={picked}
        onPick={row => set({ point: `${name}:${row}` })}
      />
      <p class="readout" role="status">
        {picked === null ? "Click a point, or walk through them with the arrow keys." : describe(picked)}
      </p>
    </Figure>
  );
}

/** The name under which a run's model may be chosen. */
const modelOf = (run: RunSummary) => `runs/${run.name}`;

function Examples({
  title,
  name,
  seen,
  model,
}: {
  title: string;
  name: string;
  seen: PredictedExample[];
  model: string;
}) {
  return (
    <Figure
      title={title}
      name={name}
      data={() => seen}
      rows={() => [
        ["texts", "true", "predicted"],
        ...seen.map(each => [each.texts.join(" | "), each.truth, each.predicted]),
      ]}
      drawing="none"
    >
      <Table
        head={["texts", "true", "predicted", ""]}
        rows={seen.map(each => [
          each.texts.map((text, index) => <div key={index}>{text}</div>),
          plain(each.truth, 1),
          plain(each.predicted, 2),
          each.texts.length === 2 ? (
            <a href={link("pair", { left: each.texts[0], right: each.texts[1], model })}>why</a>
          ) : (
            ""
          ),
        ])}
      />
    </Figure>
  );
}

function Task({ run, name, kind }: { run: RunResponse; name: string; kind: string }) {
  const parts = (["dev", "test"] as const).filter(part => run[part][name]);
  const measures = SHOWN.filter(measure => parts.some(part => typeof run[part][name][measure] === "number"));
  return (
    <section>
      <h2>{name}</h2>
      <Table
        head={["", "n", ...measures.map(measure => measure.replaceAll("_", " "))]}
        rows={parts.map(part => [
          part,
          run[part][name].n,
          ...measures.map(measure => plain(run[part][name][measure], 4)),
        ])}
      />
      <div class="panels">
        {parts
          .filter(part => run[part][name].confusion)
          .map(part => (
            <Confusion key={part} name={`${part}-${name}`} kind={kind} judged={run[part][name]} />
          ))}
        {parts
          .filter(part => !run[part][name].confusion && run.predictions[`${part}-${name}`])
          .map(part => (
            <Predicted key={part} name={`${part}-${name}`} predictions={run.predictions[`${part}-${name}`]} />
          ))}
      </div>
      {parts.slice(-1).map(part => (
        <div key={part} class="columns">
          <Examples
            title={`Closest to the truth, ${part}`}
            name={`training-best-${name}`}
            seen={run[part][name].best ?? []}
            model={modelOf(run)}
          />
          <Examples
            title={`Farthest from it, ${part}`}
            name={`training-worst-${name}`}
            seen={run[part][name].worst ?? []}
            model={modelOf(run)}
          />
        </div>
      ))}
    </section>
  );
}

function Changes({ run }: { run: RunResponse }) {
  const models = offered().models;
  const after = modelOf(run);
  const [known, before] = [models.includes(after) && models.includes(run.model), run.model];
  return (
    <section>
      <h2>What training changed in the explanations</h2>
      <div class="columns">
        {run.changes!.map((change, index) => (
          <Figure
            key={index}
            title={`${change.before.toFixed(3)} became ${change.after.toFixed(3)}`}
            name={`training-change-${index + 1}`}
            data={() => change}
            rows={() => [
              ["left", "right", "before", "after"],
              ...change.words.map(word => [word.left, word.right, word.before, word.after]),
            ]}
            drawing="none"
          >
            <p class="coloured" dir="auto">
              {change.texts[0]}
            </p>
            <p class="coloured" dir="auto">
              {change.texts[1]}
            </p>
            <Table
              head={["words", "before", "after", "change"]}
              rows={change.words.map(word => [
                `${word.left} × ${word.right}`,
                signed(word.before, 3),
                signed(word.after, 3),
                signed(word.after - word.before, 3),
              ])}
            />
            {known && (
              <a
                href={link("pair", {
                  left: change.texts[0],
                  right: change.texts[1],
                  model: before,
                  second: "on",
                  "other-model": after,
                })}
              >
                both models side by side
              </a>
            )}
          </Figure>
        ))}
      </div>
    </section>
  );
}

function RunPart({ name }: { name: string }) {
  const answer: Query<RunResponse> = useQuery(name, signal => api.run(name, signal));
  if (answer.error) return <Wrong>{answer.error}</Wrong>;
  if (!answer.value) return <Waiting />;
  const run = answer.value;
  return (
    <div data-run={run.name}>
      <p class="score">
        <b>{plain(run.score, 4)}</b> {run.formula} · from {run.model} · epoch {run.best_epoch} · {run.steps} steps ·{" "}
        {time(run.seconds)}
      </p>
      <LossCurves run={run} />
      {run.config.task
        .filter(task => run.dev[task.name] || run.test[task.name])
        .map(task => (
          <Task key={task.name} run={run} name={task.name} kind={task.kind} />
        ))}
      {run.changes && run.changes.length > 0 && <Changes run={run} />}
    </div>
  );
}

function StartPart({ onDone }: { onDone: () => void }) {
  const { models } = offered();
  const [name, id] = [setting("name"), setting("job")];
  const found = useJob<TrainResult>(id);
  const put = (which: string) => (value: string) => set({ [which]: value || null });
  const [train, dev] = [setting("train", "sample/pairs"), setting("dev")];
  const body = {
    name,
    train,
    dev,
    model: setting("model", models[0]),
    pooling: choice<NonNullable<TrainRequest["pooling"]>>("pooling", "mean"),
    loss: choice<NonNullable<TrainRequest["loss"]>>("loss", "mse"),
    epochs: Number(setting("epochs", "2")),
    batch: Number(setting("batch", "16")),
    learning_rate: Number(setting("rate", "0.00005")),
  };
  const [open, setOpen] = useState(id !== "" || name !== "");
  const [watched, setWatched] = useState(false);
  useEffect(() => {
    // Only a run that ends while the page is open is shown: a reload shows the run of the address.
    if (!found.result || !watched) return;
    setWatched(false);
    onDone();
    set({ run: found.result.name });
  }, [found.result, watched, onDone]);
  return (
    <details open={open} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>Train a model on scored pairs</summary>
      <div class="form">
        <Field name="name of the run">
          <input
            aria-label="name of the run"
            value={name}
            placeholder="my-run"
            pattern="[a-z0-9][a-z0-9\-]{0,39}"
            onInput={event => put("name")(event.currentTarget.value)}
          />
        </Field>
        <Choose name="model" value={body.model} choices={models} onChange={put("model")} />
        <Choose name="pooling" value={body.pooling} choices={POOLINGS} onChange={put("pooling")} />
        <Choose name="loss" value={body.loss} choices={LOSSES} onChange={put("loss")} />
        <NumberField name="epochs" value={String(body.epochs)} min={1} max={50} onChange={put("epochs")} />
        <NumberField name="batch" value={String(body.batch)} min={2} max={256} onChange={put("batch")} />
        <NumberField name="learning rate" value={String(body.learning_rate)} step="any" onChange={put("rate")} />
      </div>
      <div class="form">
        <ChooseCorpus name="train on" value={train} onChange={put("train")} only={corpus => corpus.scored} />
        <ChooseCorpus name="evaluate on" value={dev} onChange={put("dev")} only={corpus => corpus.scored} />
        <StartButton
          disabled={!name || !dev}
          ask={() => api.train(body)}
          onStart={job => (setWatched(true), { job: job.id })}
        >
          Train
        </StartButton>
      </div>
      <JobState id={id} found={found} />
    </details>
  );
}

function ReportsPart() {
  const names = useQuery("reports", api.reports);
  const chosen = setting("report");
  const report = useQuery(chosen || null, signal => api.report(chosen, signal));
  if (!names.value?.length) return null;
  return (
    <section>
      <h2>Tables of runs, searches and benchmarks</h2>
      <div class="chips">
        {names.value.map(name => (
          <button
            key={name}
            class="chip"
            aria-pressed={name === chosen}
            onClick={() => set({ report: name === chosen ? null : name })}
          >
            {name}
          </button>
        ))}
      </div>
      {report.error && <Wrong>{report.error}</Wrong>}
      {chosen &&
        report.value &&
        Object.entries(report.value.tables).map(([name, [head = [], ...rows]]) => (
          <Figure
            key={name}
            title={name}
            name={`training-report-${name}`}
            data={() => report.value!.tables[name]}
            rows={() => [head, ...rows]}
            drawing="none"
          >
            <Table
              head={head}
              rows={rows.map(row => row.map(cell => (/^-?\d+\.\d{5,}$/.test(cell) ? plain(Number(cell), 4) : cell)))}
            />
          </Figure>
        ))}
    </section>
  );
}

export function TrainingView() {
  const [again, setAgain] = useState(0);
  const runs = useQuery(`runs ${again}`, api.runs);
  const chosen = setting("run");
  const renew = () => {
    setAgain(count => count + 1);
    void renewStart(); // its model may be chosen now
  };
  return (
    <>
      <StartPart onDone={renew} />
      {runs.error && <Wrong>{runs.error}</Wrong>}
      {runs.waiting && !runs.value && <Waiting />}
      {runs.value?.length === 0 && (
        <Empty>
          No run yet. Train one here, or with likewise train; the studio shows what lies in its folder of runs (--runs).
        </Empty>
      )}
      {runs.value && runs.value.length > 0 && <RunsTable runs={runs.value} chosen={chosen} />}
      {chosen ? (
        <RunPart key={chosen} name={chosen} />
      ) : (
        runs.value && runs.value.length > 0 && <Empty>Choose a run.</Empty>
      )}
      <ReportsPart />
    </>
  );
}
