/* verdict.js: in sentences, why a checkpoint costs what it costs when it is quantized, and what can be done about it.
 * Pure functions of what was measured: no sentence without a number behind it. */
import { FLAGS } from "./integrity.js";
import {
  integer, isNumber, nats, percent, percentInterval, percentNumber, points, pointsInterval, relativeChange, scientific,
} from "./format.js";
import { apartFrom, attributionOf, finished, layerChanges, questionOf } from "./measurements.js";
import { methodIn } from "./method_label.js";
import { metric } from "./metrics.js";

const NAMED = 3; /* layers and units that a sentence names */

/* Whether the two values are told apart as they are shown; what looks equal did not rise. */
function differ(now, then, show) {
  return show(now) !== show(then);
}

function signed(value, show) {
  return `${value >= 0 ? "+" : "−"}${show(Math.abs(value))}`;
}

/* The series of a curve that holds this run's point, and the place of its value among all of them, the greatest first:
 * as the server tells, which was asked for the curve with this checkpoint. */
export function placeOf(run, series) {
  for (const one of series) {
    if (!isNumber(one.rank) || !one.points.some((point) => point.run === run.id)) continue;
    return { series: one, place: one.rank, of: one.total };
  }
  return null;
}

function rank({ place, of }) {
  if (of < 2) return "the only checkpoint measured so";
  if (place === 1) return `the worst of ${integer(of)} checkpoints`;
  if (place === of) return `the least of ${integer(of)} checkpoints`;
  return `place ${integer(place)} of ${integer(of)} checkpoints, the worst first`;
}

function since(run, before, comparison) {
  if (!before || !isNumber(before.run.result.delta) || !isNumber(run.result.delta)) return null;
  const now = run.result.delta, then = before.run.result.delta, paired = comparison?.delta;
  const change = relativeChange(now, then), difference = isNumber(paired?.difference) ? paired.difference : now - then;
  const interval = Array.isArray(paired?.interval) ? paired.interval : null;
  const reach = interval ? `, 95 % paired: ${pointsInterval(...interval)}` : "";
  const told = isNumber(paired?.difference) ? ` (difference ${points(paired.difference)}${reach})`
    : comparison === undefined ? " (not compared by sequence)" : "";
  const sure = interval && interval[0] <= 0 && interval[1] >= 0 ? ": within the noise of this evaluation" : "";
  if (!differ(Math.abs(change ?? difference), 0, (share) => Number(percentNumber(Math.min(share, 1))))) {
    return `Since ${before.name} it did not change${change === null ? "" : told}.`;
  }
  if (change !== null) return `Since ${before.name} it changed by ${signed(change, percent)}${told}${sure}.`;
  return `Since ${before.name} it changed by ${signed(difference, points)}${reach}${sure}.`;
}

function rates(checkpoint, before) {
  const now = checkpoint.learning_rate, then = before?.checkpoint?.learning_rate;
  if (!isNumber(now)) return null;
  if (!isNumber(then)) return `The learning rate is ${scientific(now)}.`;
  if (!differ(now, then, scientific)) return `The learning rate stayed at ${scientific(now)}.`;
  return `The learning rate ${now < then ? "fell" : "rose"} from ${scientific(then)} to ${scientific(now)}.`;
}

/* Both losses since the checkpoint before: whether what training gained is left after quantization. */
function losses(run, before) {
  const then = before?.run?.result, now = run.result;
  if (!then || ![then.loss_fp, then.loss_q, now.loss_fp, now.loss_q].every(isNumber)) return null;
  const full = now.loss_fp - then.loss_fp, quantized = now.loss_q - then.loss_q;
  const moved = (difference) => differ(Math.abs(difference), 0, nats);
  const way = (difference) => (moved(difference)
    ? `${difference < 0 ? "fell" : "rose"} by ${nats(Math.abs(difference))} nats` : "stayed the same");
  const part = quantized < 0 ? percent(1 - quantized / full) : "all";
  const gain = moved(full) && full < 0 && quantized > full ? ` Quantization takes ${part} of that gain.` : "";
  return `The full-precision loss ${way(full)} and the quantized loss ${way(quantized)}.${gain}`;
}

function curvature(own, before) {
  const of = (runs) => finished(runs ?? []).find((run) => isNumber(run.result.largest_algebraic));
  const now = of(own), then = before ? of(before.runs) : null;
  if (!now) return null;
  const text = scientific(now.result.largest_algebraic), name = metric("largest_algebraic").label.toLowerCase();
  if (!then || questionOf(now) !== questionOf(then)) return `The ${name} is ${text}.`;
  const rose = now.result.largest_algebraic > then.result.largest_algebraic;
  if (!differ(now.result.largest_algebraic, then.result.largest_algebraic, scientific)) {
    return `The ${name} stayed at ${text}.`;
  }
  return `The ${name} ${rose ? "rose" : "fell"} from ${scientific(then.result.largest_algebraic)} to ${text}.`;
}

function layers(run, before) {
  const known = (run.result.layers ?? []).filter((layer) => isNumber(layer.relative_error));
  if (!known.length) return null;
  const worst = [...known].sort((a, b) => b.relative_error - a.relative_error).slice(0, NAMED);
  const named = worst.map(({ name, relative_error: error }) => `${name} (${percent(error)})`);
  const changes = before?.run ? layerChanges(run, before.run).sort((a, b) => b.change - a.change) : [];
  const risen = changes.find(({ change }) => change > 0);
  return `Largest relative errors: ${named.join(", ")}.`
    + (risen ? ` ${risen.name} rose most, from ${percent(risen.before)}.` : "");
}

function units(attribution, run) {
  if (!attribution) return null;
  const known = attribution.result.units.filter((unit) => isNumber(unit.alone.delta));
  const worst = known.sort((a, b) => b.alone.delta - a.alone.delta).slice(0, NAMED);
  const named = worst.map((unit) => `${unit.name} (ΔQL ${percent(unit.alone.delta)})`);
  if (!named.length) return null;
  const apart = apartFrom(attribution, run), at = apart.startsWith("on ") ? `O${apart.slice(1)}` : `At ${apart}`;
  return `${apart ? `${at}, quantized` : "Quantized"} alone, these cost most: ${named.join(", ")}.`;
}

/* Sentences; the first says how bad it is. `before`: {name, checkpoint, run, runs} of the checkpoint before, or
 * null. */
export function reasons({ run, checkpoint, place, before, comparison, runs, flags, evaluation }) {
  if (!run) return [];
  const { delta, delta_interval: bounds } = run.result;
  const interval = Array.isArray(bounds) ? ` (95 %: ${percentInterval(...bounds)})` : "";
  const ranked = place ? `: ${rank(place)}` : "";
  return [
    `ΔQL is ${percent(delta)}${interval} with ${methodIn(run.params.method)} on ${evaluation}${ranked}.`,
    ...(flags ?? []).map((flag) => `Integrity: it ${FLAGS[flag]?.[1] ?? flag}.`),
    since(run, before?.run ? before : null, comparison), rates(checkpoint, before), losses(run, before),
    curvature(runs, before), layers(run, before), units(attributionOf(runs, run), run),
  ].filter(Boolean);
}

/* The point of least quantized loss on this run's own series, as {point, own}; null when it was not measured
 * elsewhere. */
export function bestOf(run, lossSeries) {
  const series = lossSeries.find((one) => one.points.some((point) => point.run === run.id));
  const known = (series?.points ?? []).filter((point) => isNumber(point.y));
  if (known.length < 2) return null;
  const best = known.reduce((least, point) => (point.y < least.y ? point : least));
  return { point: best, own: known.find((point) => point.run === run.id) };
}

/* Another quantization of this checkpoint on the same evaluation that loses less without more bits; null when there is
 * none. */
export function cheaper(run, runs) {
  const same = finished(runs).filter((other) => other.kind === "quantize" && other.id !== run.id
    && isNumber(other.result.delta) && other.result.protocol_id === run.result.protocol_id
    && other.result.delta < run.result.delta && other.result.bits_per_weight <= run.result.bits_per_weight);
  const lesser = (least, other) => (least === null || other.result.delta < least.result.delta ? other : least);
  return same.reduce(lesser, null);
}
