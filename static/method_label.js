/* method_label.js: a method in words, as the API's curves have it ("gptq 4-bit g128 desc_act"): what differs from the
 * defaults, in the API's order. A test compares the defaults with openapi.yaml. */
import { isNumber } from "./format.js";

const ANY = { rotation: "none", rotation_seed: 0, keep_outliers: 0, embedding_bits: null, lm_head_bits: null };
const ROUNDED = { activation_bits: null, ...ANY };
const CODEBOOK = { block_size: 64, double_quant: true };

/* Of each method its options with their defaults; that of `bits` and `group_size` is told whatever it is. */
export const DEFAULTS = {
  rtn: { sym: true, ...ROUNDED },
  gptq: { sym: true, desc_act: false, act_group_aware: true, damp_percent: 0.05, ...ROUNDED },
  nf4: { ...CODEBOOK, ...ROUNDED },
  fp4: { ...CODEBOOK, values: "e2m1", ...ROUNDED },
  awq: {
    sym: false, grid_points: 20, clip: true, duo_scaling: false, scale_o_proj: "when_exportable", judge: "linear",
    ...ROUNDED,
  },
  llm_int8: { threshold: 6, variant: "bnb", ...ANY },
  smoothquant: { activation_bits: 8, alpha: 0.5, search: false, ...ANY },
  mxfp4: ROUNDED,
  nvfp4: ROUNDED,
  fp8: { scales: "channel", ...ROUNDED },
  gptq_fp4: { format: "mxfp4", act_group_aware: true, damp_percent: 0.05, ...ROUNDED },
};

/* Of methods whose width is no option. */
const FIXED_BITS = { nf4: 4, fp4: 4, llm_int8: 8, mxfp4: 4, nvfp4: 4, fp8: 8, gptq_fp4: 4 };
const TOLD = new Set(["name", "recipe", "bits", "group_size", "overrides"]);
const MOST_OVERRIDES = 2;

function option([name, value]) {
  if (typeof value === "boolean") return value ? name : `no ${name}`;
  return typeof value === "string" ? value : `${name} ${isNumber(value) ? Number(value.toPrecision(6)) : value}`;
}

function override({ pattern, bits, group_size: group, skip }) {
  const changes = [isNumber(bits) ? `${bits}-bit` : "", isNumber(group) ? `g${group}` : "", skip ? "left" : ""];
  return [pattern, changes.filter(Boolean).join(" ") || "as elsewhere"].join(" ");
}

function overridesIn(list) {
  const left = list.length - MOST_OVERRIDES, shown = list.slice(0, MOST_OVERRIDES).map(override).join("; ");
  return `overrides ${shown}${left > 0 ? `; ${left} more` : ""}`;
}

/* A method of a run or, with what it gives alone, of a request; null is full precision. That of a kind which quantizes
 * nothing is a name already ("lanczos"). */
export function methodIn(given) {
  if (!given) return "full precision";
  if (typeof given === "string") return given;
  const { name, recipe, bits = FIXED_BITS[name], group_size: group, overrides } = given;
  const defaults = DEFAULTS[name] ?? {}, known = [...Object.keys(defaults), ...Object.keys(given)];
  const differs = ([field, value]) => value !== undefined && value !== null && !TOLD.has(field)
    && value !== defaults[field] && !(value === 0 && defaults[field] === null);
  const options = [...new Set(known)].map((field) => [field, given[field]]).filter(differs).map(option);
  return [
    name ?? `recipe ${recipe}`, isNumber(bits) ? `${bits}-bit` : "", isNumber(group) && group ? `g${group}` : "",
    ...options, overrides?.length ? overridesIn(overrides) : "",
  ].filter(Boolean).join(" ");
}
