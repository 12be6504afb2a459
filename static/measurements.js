/* measurements.js: the numbers that the runs of a checkpoint found, each with what it was measured on, and the same
 * numbers of its neighbours. Pure functions of runs. */
import { isNumber } from "./format.js";
import { figuresOf } from "./metrics.js";

/* Text that is equal for equal values, whatever the order of fields. */
function canonical(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/* What a run asked, but of which checkpoint: equal for runs that can stand beside each other. */
export function questionOf(run) {
  const { checkpoint, previous, export: format, ...rest } = run.params ?? {};
  return `${run.kind} ${canonical(rest)}`;
}

export function finished(runs) {
  return runs.filter((run) => run.state === "succeeded" && run.result !== null);
}

/* By question, the newest run of each: runs come newest first. */
export function byQuestion(runs) {
  const found = new Map();
  for (const run of finished(runs)) if (!found.has(questionOf(run))) found.set(questionOf(run), run);
  return found;
}

/* That a number of a result holds only within a range which it left, in words: {short, long}; null for all others. */
export function beyondRange(name, result) {
  if (name !== "predicted_delta" || result.prediction_in_range !== false) return null;
  return {
    short: "out of range",
    long: "Out of range: beyond 20 % the second order was found 1.8 to 3.3 times too small.",
  };
}

/* The numbers of a run that the server names: [{figure, value, beyond, stderr, low, high}]. */
export function numbersOf(run) {
  return figuresOf(run.kind).filter((figure) => isNumber(run.result[figure.name])).map((figure) => {
    const value = run.result[figure.name], bounds = figure.interval ? run.result[figure.interval] : null;
    const reach = figure.stderr ? run.result[figure.stderr] : null;
    return {
      figure, value, beyond: beyondRange(figure.name, run.result), stderr: isNumber(reach) ? reach : null,
      low: Array.isArray(bounds) ? bounds[0] : null, high: Array.isArray(bounds) ? bounds[1] : null,
    };
  });
}

/* Own runs with those of the neighbours that asked the same: [{run, before, after}], `before` and `after` runs or
 * null. */
export function beside(own, before, after) {
  const earlier = byQuestion(before), later = byQuestion(after);
  return [...byQuestion(own)]
    .map(([question, run]) => ({ run, before: earlier.get(question) ?? null, after: later.get(question) ?? null }));
}

/* Layers of two runs of one method: [{name, here, before, change}] in the order of the model, changes of relative
 * errors. */
export function layerChanges(run, other) {
  return changesOf(run.result.layers, other?.result?.layers, (layer) => layer.relative_error);
}

/* The same of two attributions: what each unit costs alone. */
export function unitChanges(run, other) {
  return changesOf(run.result.units, other?.result?.units, (unit) => unit.alone.delta);
}

function changesOf(rows, earlier, valueOf) {
  const known = new Map((earlier ?? []).map((row) => [row.name, valueOf(row)]));
  return (rows ?? []).map((row) => ({ name: row.name, here: valueOf(row), before: known.get(row.name) }))
    .filter(({ here, before }) => isNumber(here) && isNumber(before))
    .map((row) => ({ ...row, change: row.here - row.before }));
}

/* The quantization that costs most here, of those on the evaluation that most runs share; null when nothing was
 * quantized. */
export function costliest(runs) {
  const quantized = finished(runs).filter((run) => run.kind === "quantize" && isNumber(run.result.delta));
  return quantized.reduce((most, run) => (most === null || run.result.delta > most.result.delta ? run : most), null);
}

export function attributionOf(runs) {
  return finished(runs).find((run) => run.kind === "attribution" && run.result.units?.length) ?? null;
}
