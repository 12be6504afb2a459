/* words.js: what a run was measured on and calibrated with, in words. */
import { integer, isNumber, plural } from "./format.js";

/* References in a run's parameters are ids; the run tells their names, also of what was deleted since. */
export function nameOf(run, id) {
  return run.names?.[id] ?? id;
}

/* "194 sequences of 128 tokens"; what is not limited is counted by the result, where that is known. */
function amount({ sequence_length: length, max_sequences: most, packing }, counted) {
  const limit = isNumber(most) ? `at most ${plural(most, "sequence")}` : "all sequences";
  const count = isNumber(counted) ? plural(counted, "sequence") : limit;
  const size = isNumber(length) ? ` of ${integer(length)} tokens` : "";
  return `${count}${size}${packing === "documents" ? ", documents apart" : ""}`;
}

function spoken(run, given, counted, more) {
  return given?.dataset ? [`${nameOf(run, given.dataset)}, ${amount(given, counted)}`, ...more].join(", ") : "";
}

/* What a run measured on: of quantize and attribution `evaluation`, of others the parameters themselves. */
export function evaluationOf(run) {
  const given = run.params ?? {};
  return given.evaluation ?? (typeof given.dataset === "string" && run.kind !== "train" ? given : null);
}

export function evaluationIn(run) {
  const { precision } = run.params ?? {};
  const more = precision && precision !== "f32" ? [precision] : [];
  return spoken(run, evaluationOf(run), run.result?.sequences, more);
}

/* What a run was calibrated with; null or undefined: with nothing. */
export function calibrationOf({ params }) {
  return params?.calibration ?? params?.direction?.calibration;
}

export function calibrationIn(run) {
  const draws = run.params?.calibration_draws, more = draws > 1 ? [plural(draws, "draw")] : [];
  return spoken(run, calibrationOf(run), run.result?.calibration_sequences, more);
}
