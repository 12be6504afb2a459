/* measurements.js: the numbers that the runs of a checkpoint found, each with what it was measured on, and the same
 * numbers of its neighbours. Pure functions of runs. */
import { isNumber } from "./format.js";
import { methodIn } from "./method_label.js";
import { figuresOf } from "./metrics.js";
import { evaluationIn } from "./words.js";

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

/* Pairs of which the two runs may be compared sequence by sequence: {run, before}. */
export function pairable(pairs) {
  return pairs.filter(({ run, before }) => before && ["quantize", "evaluate"].includes(run.kind));
}

/* The quantization that costs most here, of those on the evaluation that most runs share; null when nothing was
 * quantized. */
export function costliest(runs) {
  const quantized = finished(runs).filter((run) => run.kind === "quantize" && isNumber(run.result.delta));
  const of = ({ result }) => result.protocol_id ?? "", own = (name) => quantized.filter((run) => of(run) === name);
  const protocols = [...new Set(quantized.map(of))].map(own);
  /* Of two that as many runs share, the one of more sequences: it knows more. */
  const sequences = ([{ result }]) => result.sequences ?? 0;
  const [shared = []] = protocols.sort((a, b) => b.length - a.length || sequences(b) - sequences(a));
  return shared.reduce((most, run) => (most === null || run.result.delta > most.result.delta ? run : most), null);
}

function sameMethod(run, other) {
  return methodIn(run.params?.method) === methodIn(other.params?.method);
}

function sameProtocol({ result: { protocol_id: one } }, { result: { protocol_id: other } }) {
  return !one || !other || one === other;
}

/* The newest attribution of the method and the protocol of `run`, else of the method, else of any; null without one. */
export function attributionOf(runs, run) {
  const known = finished(runs).filter((one) => one.kind === "attribution" && one.result.units?.length);
  const alike = run ? known.filter((one) => sameMethod(one, run)) : [];
  return alike.find((one) => sameProtocol(one, run)) ?? alike[0] ?? known[0] ?? null;
}

/* What an attribution was measured with where that is not what `run` was: "rtn 3-bit", "on text, 8 sequences", or both;
 * empty where it is. */
export function apartFrom(attribution, run) {
  if (!run) return methodIn(attribution.params?.method);
  const evaluation = sameProtocol(attribution, run) ? "" : evaluationIn(attribution);
  return [
    sameMethod(attribution, run) ? "" : methodIn(attribution.params?.method), evaluation ? `on ${evaluation}` : "",
  ].filter(Boolean).join(" ");
}
