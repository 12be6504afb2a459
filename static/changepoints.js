/* changepoints.js: where the measure of a curve page changes along training, as GET …/changepoints tells: marks for
 * the figure, and the same in words. */
import { at, get, query } from "./api.js";
import { h } from "./dom.js";
import { compact, integer, isNumber, percent } from "./format.js";
import { formatOf, metric as metricOf } from "./metrics.js";
import { keyOf } from "./series.js";

/* Where a change is, as a share of what the trajectory has reached. */
function placed(one, end) {
  const { change } = one, move = (place) => ({ ...place, x: place.x / end });
  if (!change) return one;
  const interval = change.interval.map((x) => x / end);
  return { ...one, change: { ...change, after: move(change.after), before: move(change.before), interval } };
}

/* Changes have a place in training: against the learning rate there are none. `base`: what x is a share of, or x. */
export async function loadChanges(names, { metric, x, base, ends }, signal) {
  if (x === "learning_rate") return [];
  const asked = (name) => query(at("trajectories", name, "changepoints"), { metric, x: base });
  const answers = await Promise.all(names.map((name) => get(asked(name), signal)));
  const found = answers.flatMap(({ series }) => series);
  return x === "share" ? found.map((one) => placed(one, ends.get(one.trajectory)[base])) : found;
}

/* The change of a curve, or null. */
export function changeOf(changes, series) {
  const key = keyOf(series);
  return changes.find((one) => keyOf(one) === key)?.change ?? null;
}

/* What happens there, in three words: at a mark there is no space for more. */
export function changeWords({ kind, size }) {
  if (kind === "level") return size > 0 ? "jumps up" : "jumps down";
  return size > 0 ? "bends up" : "bends down";
}

/* "step 3,000", "3M tokens" or "75 % of training" */
function place(x, value) {
  if (x === "share") return `${percent(value)} of training`;
  return x === "tokens" ? `${compact(value)} tokens` : `step ${integer(value)}`;
}

function size(metric, { kind, size: change }) {
  return kind === "level" ? ` by ${formatOf(metricOf(metric)).difference(Math.abs(change))}` : "";
}

/* "jumps up by 1.2 points after step012 (step 3,000; likely from step 2,800 to step 3,400; p = 0.002)" */
export function changeSentence(metric, x, found, p) {
  const [low, high] = found.interval, name = found.after.checkpoint_name ?? found.after.checkpoint;
  const interval = `likely from ${place(x, low)} to ${place(x, high)}`;
  const chance = isNumber(p) ? Number(p.toPrecision(2)) : "–";
  const where = `${place(x, found.after.x)}; ${interval}; p = ${chance}`;
  return `${changeWords(found)}${size(metric, found)} after ${name} (${where})`;
}

/* A list of the changes; that there is none is told, too, once something was tested. */
export function changesPanel(model, changes) {
  const tested = changes.filter(({ p_value: p }) => isNumber(p)), found = tested.filter(({ change }) => change);
  if (!tested.length) return null;
  const label = metricOf(model.metric).label, curves = tested.length === 1 ? "curve" : "curves";
  const row = (one) => h("li", {}, h("span", { class: "name" }, one.trajectory), `, ${one.label || "full precision"}: `,
    `${label} ${changeSentence(model.metric, model.x, one.change, one.adjusted_p_value)}`);
  return h("section", { class: "panel changes", "aria-label": "Change points" },
    found.length ? h("ul", { class: "plain" }, found.map(row)) : h("p", { class: "muted" },
      `No change of ${label} beyond a smooth trend and its noise, in ${integer(tested.length)} tested ${curves}.`));
}
