/* curves.js: what the curve pages show, out of the API's answers. Pure but for load(). */
import { at, curvesOf, get, list, query } from "./api.js";
import { bitsOf, columnOf, keyOf, protocolsToName, withTexts } from "./series.js";
import { evaluationIn } from "./words.js";

/* What curves are drawn against. */
export const AXES = { tokens: "tokens", step: "step", learning_rate: "learning rate" };

const MOST_CHECKPOINTS = 200000, PAGE = 1000;

function compareSeries(a, b) {
  const text = (value) => value ?? "";
  return (bitsOf(b) ?? 0) - (bitsOf(a) ?? 0)
    || text(a.method).localeCompare(text(b.method))
    || text(a.label).localeCompare(text(b.label))
    || text(a.dataset).localeCompare(text(b.dataset));
}

function along(a, b) {
  return (a.tokens ?? a.step ?? Infinity) - (b.tokens ?? b.step ?? Infinity)
    || a.name.localeCompare(b.name, "en", { numeric: true });
}

/* Answers for some trajectories -> {metric, x, names, checkpoints: Map id -> document, curves, loss, largest_algebraic,
 * trace, rate, parents, others}. What was not answered yet is empty. */
export function assemble(names, metric, x, answers, spoken = new Map()) {
  const checkpoints = new Map();
  for (const item of (answers.checkpoints ?? []).flat()) checkpoints.set(item.id, item);
  const named = (answer, panel) => {
    const own = (series) => ({ ...series, panel, bits: bitsOf(series), key: keyOf(series) });
    return withTexts((answer?.series ?? []).map(own), spoken);
  };
  const curves = named(answers.curves, "curve");
  const order = (series) => names.indexOf(series.trajectory);
  curves.sort((a, b) => order(a) - order(b) || compareSeries(a, b));
  return {
    metric, x, names, checkpoints, curves,
    loss: named(answers.loss, "loss"),
    largest_algebraic: named(answers.largest_algebraic, "largest_algebraic"),
    trace: named(answers.trace, "trace"),
    rate: x === "learning_rate" ? [] : named(answers.rate, "rate"),
    parents: answers.parents ?? new Map(),
    others: answers.others?.series ?? [],
    whole: Boolean(answers.checkpoints),
  };
}

/* Losses of the full-precision checkpoints: as quantize runs measured them, or, for a trajectory where none did, as
 * training did. The two are not mixed in one curve: they may stand on different parts of the data; each series says
 * which it is. */
function losses(measured, trained) {
  const have = new Set(measured.series.map((series) => series.trajectory));
  const of = (series, source) => series.map((one) => ({ ...one, source }));
  const others = trained.series.filter((series) => !have.has(series.trajectory));
  return { series: [...of(measured.series, "loss_fp"), ...of(others, "validation_loss")] };
}

/* Words for evaluations that nothing but their protocol tells apart. */
async function speak(lists, signal) {
  const asked = protocolsToName(lists);
  const wordsOf = ({ run }) => get(at("runs", run), signal).then(evaluationIn).catch(() => "");
  const said = await Promise.all(asked.map(wordsOf));
  return new Map(asked.map(({ protocol_id }, index) => [protocol_id, said[index]]).filter(([, words]) => words));
}

/* Map trajectory -> id of the checkpoint that it was continued from, of those that a train run made so. */
async function parentsOf(names, signal) {
  const asked = (name) => query("/v1/runs", { kind: "train", trajectory: name, limit: 100 });
  const pages = await Promise.all(names.map((name) => list(asked(name), signal, 200)));
  const found = new Map();
  pages.forEach(({ items }, index) => {
    const first = items.filter((run) => typeof run.params?.from === "string").at(-1);
    if (first) found.set(names[index], first.params.from);
  });
  return found;
}

/* Curves of trajectories that were branched from and are not shown. */
async function origins(names, parents, curve, signal) {
  const home = (id) => get(at("checkpoints", id), signal).then((found) => found.trajectory).catch(() => null);
  const homes = await Promise.all([...parents.values()].map(home));
  const missing = [...new Set(homes)].filter((name) => name !== null && !names.includes(name));
  return missing.length ? curve(missing) : { series: [] };
}

/* Everything, in steps: show(model) is called with the measure first, then with the panels, then with all checkpoints,
 * which may be many. */
export async function load(names, metric, x, signal, show) {
  const curve = (which, of = names) => curvesOf({ trajectory: of, metric: which, x }, signal);
  const answers = { curves: await curve(metric) };
  show(assemble(names, metric, x, answers));
  const [measured, trained, rate, largest_algebraic, trace, parents] = await Promise.all([
    curve("loss_fp"),
    curve("validation_loss"),
    curve("learning_rate"),
    curve("largest_algebraic"),
    curve("trace"),
    parentsOf(names, signal),
  ]);
  Object.assign(answers, { loss: losses(measured, trained), rate, largest_algebraic, trace, parents });
  const [spoken, others] = await Promise.all([
    speak([answers.curves.series, measured.series], signal),
    origins(names, parents, (of) => curve(metric, of), signal),
  ]);
  answers.others = others;
  show(assemble(names, metric, x, answers, spoken));
  const asked = (name) => query("/v1/checkpoints", { trajectory: name, limit: PAGE });
  const pages = await Promise.all(names.map((name) => list(asked(name), signal, MOST_CHECKPOINTS)));
  answers.checkpoints = pages.map((page) => page.items);
  show(assemble(names, metric, x, answers, spoken));
}

export function trajectory(name, signal) {
  return get(at("trajectories", name), signal);
}

/* Rows of the table of checkpoints:
 * {columns: [{key, label}], rows: [{checkpoint, loss, values: Map column -> point}]}. */
export function table(model) {
  const columns = new Map();
  for (const series of [...model.curves].sort(compareSeries)) {
    columns.set(columnOf(series), { key: columnOf(series), label: series.text, bits: series.bits });
  }
  const rows = new Map();
  const sorted = [...model.checkpoints.values()].sort(along);
  for (const name of model.names) {
    for (const checkpoint of sorted) {
      if (checkpoint.trajectory === name) rows.set(checkpoint.id, { checkpoint, loss: null, values: new Map() });
    }
  }
  for (const series of model.curves) {
    for (const point of series.points) rows.get(point.checkpoint)?.values.set(columnOf(series), point);
  }
  for (const series of model.loss) {
    for (const point of series.points) {
      const row = rows.get(point.checkpoint);
      if (row && row.loss === null) row.loss = point;
    }
  }
  return { columns: [...columns.values()], rows: [...rows.values()] };
}

/* Of how many checkpoints this one is an average; 0: it is none. */
export function averagedFrom(checkpoint) {
  const from = checkpoint?.derived_from;
  return Array.isArray(from?.checkpoints) && Array.isArray(from.weights) ? from.checkpoints.length : 0;
}

/* By checkpoint: all that is known about it besides the curve at hand, for the text that hovers. */
export function hoverDetails(model) {
  const found = new Map();
  const note = (seriesList, field) => {
    for (const series of seriesList) {
      for (const point of series.points) {
        const entry = found.get(point.checkpoint) ?? {};
        entry[field] ??= point.y;
        if (series.source) entry.source ??= series.source;
        found.set(point.checkpoint, entry);
      }
    }
  };
  for (const field of ["loss", "largest_algebraic", "trace"]) note(model[field], field);
  for (const [id, checkpoint] of model.checkpoints) {
    const { learning_rate: rate, step, tokens, name } = checkpoint;
    found.set(id, { ...found.get(id), rate, step, tokens, name, averaged: averagedFrom(checkpoint) });
  }
  return found;
}

/* How many points cannot be drawn on a logarithmic axis. */
export function hiddenByLog(model, { xLog, yLog }) {
  let count = 0;
  for (const series of model.curves) {
    for (const point of series.points) if ((yLog && !(point.y > 0)) || (xLog && !(point.x > 0))) count++;
  }
  return count;
}
