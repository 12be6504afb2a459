/* curves.js: what the curve pages show, out of the API's answers. Pure but for load(). */
import { at, get, list, query } from "./api.js";
import { isNumber } from "./format.js";

/* What curves are drawn against. */
export const AXES = { tokens: "tokens", step: "step", learning_rate: "learning rate" };

export function bitsOf(series) {
  if (isNumber(series.bits)) return series.bits;
  const found = /(\d+)-bit/.exec(series.label ?? "");
  return found ? Number(found[1]) : null;
}

/* What tells one curve of a trajectory from another. */
export function columnOf(series) {
  return JSON.stringify([series.label ?? "", series.dataset ?? "", series.evaluation ?? ""]);
}

export function keyOf(series) {
  return JSON.stringify([series.trajectory, series.label ?? "", series.dataset ?? "", series.evaluation ?? ""]);
}

/* Series that differ by nothing but their evaluation's protocol (another number of sequences, say) get the head of its id. */
function withEvaluations(seriesList) {
  const protocols = new Map();
  for (const series of seriesList) {
    const key = keyOf(series);
    protocols.set(key, (protocols.get(key) ?? new Set()).add(series.protocol_id ?? ""));
  }
  return seriesList.map((series) => (protocols.get(keyOf(series)).size > 1 ? { ...series, evaluation: (series.protocol_id ?? "").slice(0, 6) || "earlier" } : series));
}

/* Several data sets among the series: then their names are part of the labels. */
function datasetsDiffer(seriesList) {
  return new Set(seriesList.map((series) => series.dataset ?? "")).size > 1;
}

export function labelOf(series, withDataset) {
  const label = series.label || "full precision";
  const named = withDataset && series.dataset ? `${label} on ${series.dataset}` : label;
  return series.evaluation ? `${named} (evaluation ${series.evaluation})` : named;
}

function compareSeries(a, b) {
  const text = (value) => value ?? "";
  return (bitsOf(b) ?? 0) - (bitsOf(a) ?? 0) || text(a.method).localeCompare(text(b.method)) || text(a.label).localeCompare(text(b.label))
    || text(a.dataset).localeCompare(text(b.dataset));
}

function along(a, b) {
  return (a.tokens ?? a.step ?? Infinity) - (b.tokens ?? b.step ?? Infinity) || a.name.localeCompare(b.name, "en", { numeric: true });
}

/* Answers for some trajectories -> {metric, x, trajectories, checkpoints: Map id -> document, curves, loss, largest_algebraic, trace, rate}. */
export function assemble(names, metric, x, answers) {
  const checkpoints = new Map();
  for (const item of answers.checkpoints.flat()) checkpoints.set(item.id, item);
  const named = (answer, panel) => withEvaluations(answer.series).map((series) => ({ ...series, panel, bits: bitsOf(series), key: keyOf(series) }));
  const curves = named(answers.curves, "curve");
  const order = (series) => names.indexOf(series.trajectory);
  curves.sort((a, b) => order(a) - order(b) || compareSeries(a, b));
  const rate = x === "learning_rate" ? [] : named(answers.rate, "rate");
  return { metric, x, names, checkpoints, curves, loss: named(answers.loss, "loss"), largest_algebraic: named(answers.largest_algebraic, "largest_algebraic"),
    trace: named(answers.trace, "trace"), rate, datasets: datasetsDiffer(curves) };
}

/* Losses of the full-precision checkpoints: as quantize runs measured them, or, for a trajectory where none did, as training did. The two
 * are not mixed in one curve: they may stand on different parts of the data. */
function losses(measured, trained) {
  const have = new Set(measured.series.map((series) => series.trajectory));
  return { series: [...measured.series, ...trained.series.filter((series) => !have.has(series.trajectory))] };
}

export async function load(names, metric, x, signal) {
  const curve = (which) => get(query("/v1/curves", { trajectory: names, metric: which, x }), signal);
  const [curves, measured, trained, rate, top, trace, ...pages] = await Promise.all([
    curve(metric), curve("loss_fp"), curve("validation_loss"), curve("learning_rate"), curve("largest_algebraic"), curve("trace"),
    ...names.map((name) => list(query("/v1/checkpoints", { trajectory: name, limit: 200 }), signal, 5000)),
  ]);
  return assemble(names, metric, x, { curves, loss: losses(measured, trained), rate, largest_algebraic: top, trace, checkpoints: pages.map((page) => page.items) });
}

export function trajectory(name, signal) {
  return get(at("trajectories", name), signal);
}

/* Rows of the table of checkpoints: {columns: [{key, label}], rows: [{checkpoint, loss, values: Map column -> point}]}. */
export function table(model) {
  const columns = new Map();
  for (const series of [...model.curves].sort(compareSeries)) {
    columns.set(columnOf(series), { key: columnOf(series), label: labelOf(series, model.datasets), bits: series.bits });
  }
  const rows = new Map();
  const sorted = [...model.checkpoints.values()].sort(along);
  for (const name of model.names) {
    for (const item of sorted) if (item.trajectory === name) rows.set(item.id, { checkpoint: item, loss: null, values: new Map() });
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
        found.set(point.checkpoint, entry);
      }
    }
  };
  for (const field of ["loss", "largest_algebraic", "trace"]) note(model[field], field);
  for (const [id, checkpoint] of model.checkpoints) {
    found.set(id, { ...found.get(id), rate: checkpoint.learning_rate, step: checkpoint.step, tokens: checkpoint.tokens, name: checkpoint.name, averaged: averagedFrom(checkpoint) });
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
