/* series.js: what tells one curve from another, in words: method, bits, group, data, evaluation, calibration. No two
 * curves of a page have one name, and none has a hash for a name. Pure functions. */
import { isNumber } from "./format.js";

export function bitsOf(series) {
  if (isNumber(series.bits)) return series.bits;
  const found = /(\d+)-bit/.exec(series.label ?? "");
  return found ? Number(found[1]) : null;
}

/* The method with its options. The API's label goes on with the evaluation where an answer has several, which is told
 * here by what is beside it on the page. */
export function labelOf({ method_label: method, label }) {
  return method ?? label ?? "";
}

/* What tells one curve of a trajectory from another, in all answers alike. */
export function columnOf(series) {
  const { dataset, protocol_id: protocol, calibration_id: calibration } = series;
  return JSON.stringify([labelOf(series), dataset ?? "", protocol ?? "", calibration ?? ""]);
}

export function keyOf(series) {
  return JSON.stringify([series.trajectory, columnOf(series)]);
}

function groups(list, key) {
  const found = new Map();
  for (const one of list) found.set(key(one), [...(found.get(key(one)) ?? []), one]);
  return [...found.values()];
}

function differ(list, field) {
  return new Set(list.map((series) => series[field] ?? "")).size > 1;
}

function inTraining({ source }) {
  return source === "validation_loss";
}

/* Map key -> words with no two alike: those of several keys are numbered, in the order of the keys. */
export function numbered(words) {
  const found = new Map(words);
  for (const alike of groups([...found], ([, text]) => text)) {
    if (alike.length < 2) continue;
    const keys = alike.map(([key]) => key).sort();
    for (const [key, text] of alike) found.set(key, `${text}, no. ${1 + keys.indexOf(key)}`);
  }
  return found;
}

/* What tells one evaluation from another. */
export function evaluationKey(series) {
  return JSON.stringify([series.dataset ?? "", series.protocol_id ?? "", inTraining(series)]);
}

/* Evaluations in words, no two alike: Map evaluationKey -> "validation: 192 sequences, 24576 tokens". `spoken`: as
 * withTexts takes it. */
export function evaluationNames(list, spoken = new Map()) {
  const found = new Map();
  for (const one of list) {
    const words = spoken.get(one.protocol_id ?? "") ?? one.evaluated_on ?? one.dataset ?? "an unknown evaluation";
    found.set(evaluationKey(one), inTraining(one) ? `${words}, in training` : words);
  }
  return numbered(found);
}

/* Protocols among series that neither method nor the API's words tell apart: [{protocol_id, run}], of each
 * one run that was measured so. */
export function protocolsToName(lists) {
  const found = new Map();
  for (const list of lists) {
    const words = (one) => JSON.stringify([labelOf(one), one.dataset ?? "", one.evaluated_on ?? ""]);
    for (const alike of groups(list, words)) {
      if (!differ(alike, "protocol_id")) continue;
      for (const one of alike) if (one.points[0]?.run) found.set(one.protocol_id ?? "", one.points[0].run);
    }
  }
  return [...found].map(([protocol_id, run]) => ({ protocol_id, run }));
}

/* Gives each series its `text`. `spoken`: Map protocol_id -> "192 sequences of 128 tokens". */
export function withTexts(list, spoken = new Map()) {
  const several = differ(list, "dataset"), texts = new Map();
  for (const alike of groups(list, (one) => JSON.stringify([labelOf(one), one.dataset ?? ""]))) {
    const evaluations = differ(alike, "protocol_id"), calibrations = differ(alike, "calibration_id");
    for (const one of alike) {
      const parts = [labelOf(one) || "full precision"];
      const known = spoken.get(one.protocol_id ?? "") ?? one.evaluated_on;
      if (evaluations) parts.push(`on ${known ?? "another evaluation"}`);
      else if (several && one.dataset) parts.push(`on ${one.dataset}`);
      if (calibrations && one.calibrated_on && !parts[0].includes(one.calibrated_on)) {
        parts.push(`calibrated on ${one.calibrated_on}`);
      }
      texts.set(one, parts.join(", "));
    }
  }
  /* What is still alike is counted: first by what differs, so that a name stays with its series in every trajectory. */
  for (const alike of groups(list, (one) => texts.get(one))) {
    const columns = [...new Set(alike.map(columnOf))].sort();
    if (columns.length < 2) continue;
    for (const one of alike) texts.set(one, `${texts.get(one)}, no. ${1 + columns.indexOf(columnOf(one))}`);
  }
  return list.map((one) => ({ ...one, text: texts.get(one) }));
}

/* Names of trajectory and curve, as the legend has them; the address knows hidden curves by these. */
export function fullName(series) {
  return `${series.trajectory} · ${series.text}`;
}

/* The method with its options, but without its width, which the dash tells. */
function wayOf(series) {
  const method = labelOf(series).replace(/ ?\b\d+-bit\b/, "");
  const data = [series.dataset ?? "", series.protocol_id ?? "", series.calibration_id ?? ""];
  return JSON.stringify([series.trajectory, method, ...data]);
}

/* A look for each curve: Map key -> {colour, dash}. The first method of a trajectory has the trajectory's own colour
 * (`own`: Map name -> index), each other one a free one of `count`; where none is left, the trajectory's own again, and
 * a `dash` other than 0 where a curve of this colour, width and method is there already. */
export function seriesLooks(list, own, count) {
  const ways = new Map(), found = new Map(), names = new Set(list.map((one) => one.trajectory));
  const used = new Set([...names].map((name) => own.get(name)));
  const free = Array.from({ length: count }, (_, index) => index).filter((index) => !used.has(index));
  const begun = new Set(), seen = new Set(), dashes = new Map();
  for (const one of list) {
    const way = wayOf(one), first = !begun.has(one.trajectory);
    begun.add(one.trajectory);
    if (!ways.has(way)) ways.set(way, first || !free.length ? own.get(one.trajectory) : free.shift());
    const colour = ways.get(way), look = JSON.stringify([colour, one.bits ?? "", one.method ?? ""]);
    const dash = seen.has(look) ? (dashes.get(colour) ?? 0) + 1 : 0;
    if (dash) dashes.set(colour, dash);
    seen.add(look);
    found.set(one.key, { colour, dash });
  }
  return found;
}
