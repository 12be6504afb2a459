/* words.js: what a run was measured on and calibrated with, in words. References in parameters are ids; names come from
 * the API. */
import { dataset } from "./api.js";
import { integer, isNumber, method as methodWords, plural } from "./format.js";

const METHOD_SEEN = new Set(["name", "bits", "group_size", "recipe"]);
/* Of methods, as the API has them: what equals its default needs no word. */
const METHOD_DEFAULTS = {
  sym: true, desc_act: false, act_group_aware: true, rotation: "none", rotation_seed: 0, keep_outliers: 0,
  activation_bits: null, embedding_bits: null, lm_head_bits: null,
};

/* "gptq 3-bit g128, rotation hadamard": the method with what differs from its defaults. */
export function methodIn(given) {
  if (!given) return "full precision";
  const differs = ([name, value]) => !METHOD_SEEN.has(name) && name in METHOD_DEFAULTS
    && value !== METHOD_DEFAULTS[name] && value !== null;
  const said = ([name, value]) => {
    const setting = value === true ? "" : value === false ? "off" : value;
    return `${name.replace(/_/g, " ")} ${setting}`.trim();
  };
  const more = Object.entries(given).filter(differs).map(said);
  const overrides = given.overrides?.length ? [plural(given.overrides.length, "override")] : [];
  return [methodWords(given), ...more, ...overrides].join(", ");
}

async function nameOf(id) {
  return (await dataset(id))?.name ?? id;
}

/* "194 sequences of 128 tokens"; what is not limited is counted by the result, where that is known. */
function amount({ sequence_length: length, max_sequences: most, packing }, counted) {
  const limit = isNumber(most) ? `at most ${plural(most, "sequence")}` : "all sequences";
  const count = isNumber(counted) ? plural(counted, "sequence") : limit;
  const size = isNumber(length) ? ` of ${integer(length)} tokens` : "";
  return `${count}${size}${packing === "documents" ? ", documents apart" : ""}`;
}

async function spoken(given, counted, more = []) {
  if (!given?.dataset) return "";
  return [`${await nameOf(given.dataset)}, ${amount(given, counted)}`, ...more].join(", ");
}

/* What a run measured on: of quantize and attribution `evaluation`, of others the parameters themselves. */
export function evaluationOf(run) {
  const given = run.params ?? {};
  return given.evaluation ?? (typeof given.dataset === "string" && run.kind !== "train" ? given : null);
}

export function evaluationIn(run) {
  const { precision } = run.params ?? {};
  return spoken(evaluationOf(run), run.result?.sequences, precision && precision !== "f32" ? [precision] : []);
}

export function calibrationIn(run) {
  const given = run.params?.calibration ?? run.params?.direction?.calibration, draws = run.params?.calibration_draws;
  return spoken(given, run.result?.calibration_sequences, draws > 1 ? [plural(draws, "draw")] : []);
}
