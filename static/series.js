/* series.js: what tells one curve from another, in words: method, bits, group, data, evaluation, calibration. No two
 * curves of a page have one name, and none has a hash for a name. Pure functions. */
import { isNumber } from "./format.js";

export function bitsOf(series) {
  if (isNumber(series.bits)) return series.bits;
  const found = /(\d+)-bit/.exec(series.label ?? "");
  return found ? Number(found[1]) : null;
}

/* What tells one curve of a trajectory from another. */
export function columnOf(series) {
  const { label, dataset, protocol_id: protocol, calibration_id: calibration } = series;
  return JSON.stringify([label ?? "", dataset ?? "", protocol ?? "", calibration ?? ""]);
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

/* Protocols among series that nothing else tells apart: [{protocol_id, run}], of each one run that was measured so. */
export function protocolsToName(lists) {
  const found = new Map();
  for (const list of lists) {
    for (const alike of groups(list, (one) => JSON.stringify([one.label ?? "", one.dataset ?? ""]))) {
      if (!differ(alike, "protocol_id")) continue;
      for (const one of alike) if (one.points[0]?.run) found.set(one.protocol_id ?? "", one.points[0].run);
    }
  }
  return [...found].map(([protocol_id, run]) => ({ protocol_id, run }));
}

/* Gives each series its `text`. `spoken`: Map protocol_id -> "192 sequences of 128 tokens". */
export function withTexts(list, spoken = new Map()) {
  const several = differ(list, "dataset"), texts = new Map();
  for (const alike of groups(list, (one) => JSON.stringify([one.label ?? "", one.dataset ?? ""]))) {
    const evaluations = differ(alike, "protocol_id"), calibrations = differ(alike, "calibration_id");
    for (const one of alike) {
      const parts = [one.label || "full precision"];
      if (several && one.dataset) parts.push(`on ${one.dataset}`);
      if (evaluations) parts.push(`on ${spoken.get(one.protocol_id ?? "") ?? "another evaluation"}`);
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

/* A colour for each trajectory and, while there are enough, for each of its methods: Map key -> index. The first method
 * of a trajectory has the trajectory's own. */
export function seriesColours(list, own, count) {
  const ways = new Map(), found = new Map(), names = new Set(list.map((one) => one.trajectory));
  const used = new Set([...names].map((name) => own.get(name)));
  const free = Array.from({ length: count }, (_, index) => index).filter((index) => !used.has(index));
  for (const one of list) {
    const data = [one.dataset ?? "", one.protocol_id ?? "", one.calibration_id ?? ""];
    const way = JSON.stringify([one.trajectory, one.method ?? "", ...data]);
    if (!ways.has(way)) {
      const first = ![...ways.keys()].some((other) => JSON.parse(other)[0] === one.trajectory);
      ways.set(way, first || !free.length ? own.get(one.trajectory) : free.shift());
    }
    found.set(one.key, ways.get(way));
  }
  return found;
}
