/* words.js: what a run was measured on and calibrated with, in words. References in parameters are ids; the run tells
 * their names, also of what was deleted since. */
import { dataset } from "./api.js";
import { integer, isNumber, plural } from "./format.js";

async function nameOf(id, names) {
  return names?.[id] ?? (await dataset(id))?.name ?? id;
}

/* "194 sequences of 128 tokens"; what is not limited is counted by the result, where that is known. */
function amount({ sequence_length: length, max_sequences: most, packing }, counted) {
  const limit = isNumber(most) ? `at most ${plural(most, "sequence")}` : "all sequences";
  const count = isNumber(counted) ? plural(counted, "sequence") : limit;
  const size = isNumber(length) ? ` of ${integer(length)} tokens` : "";
  return `${count}${size}${packing === "documents" ? ", documents apart" : ""}`;
}

async function spoken(given, counted, names, more = []) {
  if (!given?.dataset) return "";
  return [`${await nameOf(given.dataset, names)}, ${amount(given, counted)}`, ...more].join(", ");
}

/* What a run measured on: of quantize and attribution `evaluation`, of others the parameters themselves. */
export function evaluationOf(run) {
  const given = run.params ?? {};
  return given.evaluation ?? (typeof given.dataset === "string" && run.kind !== "train" ? given : null);
}

export function evaluationIn(run) {
  const { precision } = run.params ?? {};
  const more = precision && precision !== "f32" ? [precision] : [];
  return spoken(evaluationOf(run), run.result?.sequences, run.names, more);
}

/* What a run was calibrated with; null or undefined: with nothing. */
export function calibrationOf({ params }) {
  return params?.calibration ?? params?.direction?.calibration;
}

export function calibrationIn(run) {
  const given = calibrationOf(run), draws = run.params?.calibration_draws;
  return spoken(given, run.result?.calibration_sequences, run.names, draws > 1 ? [plural(draws, "draw")] : []);
}
