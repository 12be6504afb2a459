/* outcome.js: what a run found, in a line of words, as figures of its kind are told by the server. */
import { at, get } from "./api.js";
import { duration, integer, isNumber, plural, scientific } from "./format.js";
import { beyondRange } from "./measurements.js";
import { figuresOf } from "./metrics.js";
import { progressText } from "./runs.js";

/* The numbers that matter first, by kind; a kind that is not here shows the first ones that the server names. */
const FIRST = {
  quantize: ["delta", "bits_per_weight"],
  attribution: ["delta", "additive_share"],
  evaluate: ["loss"],
  train: ["validation_loss", "final_loss"],
  sharpness: ["largest_algebraic", "trace", "predicted_delta"],
  tasks: ["mean_accuracy", "mean_accuracy_q"],
  health: ["relative_l2", "kurtosis"],
  fetch: ["bytes"],
};
const MOST = 2;

function number(figure, result) {
  const beyond = beyondRange(figure.name, result);
  const value = result[figure.name], bounds = result[figure.interval];
  const interval = Array.isArray(bounds) ? ` (${figure.between(...bounds)})` : "";
  return `${figure.label} ${figure.show(value)}${interval}${beyond ? ` (${beyond.short})` : ""}`;
}

/* Of kinds whose result is more than numbers. */
const SPOKEN = {
  average: ({ checkpoints, checkpoint, trajectory }) => {
    if (checkpoints?.length) return `${plural(checkpoints.length, "average")} made`;
    return checkpoint || trajectory ? "1 average made" : null;
  },
  interpolate: ({ alphas = [], losses = [] }) => {
    const ends = [0, 1].map((alpha) => losses[alphas.indexOf(alpha)]);
    const between = losses.filter((_, index) => alphas[index] >= 0 && alphas[index] <= 1);
    if (!ends.every(isNumber)) return `${plural(losses.length, "point")}, without both checkpoints`;
    if (!between.every(isNumber)) return "a loss between the checkpoints is not finite";
    const barrier = Math.max(...between) - Math.max(...ends);
    return `barrier ${scientific(barrier)} nats over ${plural(between.length, "point")}`;
  },
  landscape: ({ explained_variance: shares }, { grid }) => {
    if (!grid) return null;
    const variance = shares?.length > 1 ? `, ${Math.round(100 * (shares[0] + shares[1]))} % of the variance` : "";
    return `${integer(grid[0])} × ${integer(grid[1])} grid${variance}`;
  },
  health: ({ nan, infinite }) => (nan + infinite > 0
    ? `${integer(nan + infinite)} numbers that are not finite`
    : "all numbers finite"),
};

/* Of kinds whose words need a list of the result, whether a summary, which leaves long lists out, lacks it. */
const LACKS = {
  average: ({ checkpoint, checkpoints }) => !checkpoint && !checkpoints,
  interpolate: ({ alphas, losses }) => !alphas || !losses,
};
const whole = new Map();

/* Runs of a list of summaries with what outcome() needs. The result of a run that succeeded does not change. */
export async function tellable(runs, signal) {
  const needed = ({ id, kind, state, result }) =>
    state === "succeeded" && !whole.has(id) && LACKS[kind]?.(result ?? {});
  await Promise.all(runs.filter(needed).map(async ({ id }) => {
    const found = await get(at("runs", id), signal).catch(() => null); /* gone meanwhile: without these words */
    const { checkpoints, alphas, losses } = found?.result ?? {};
    if (found) whole.set(id, { checkpoints, alphas, losses });
  }));
  return runs.map((run) => (whole.has(run.id) ? { ...run, result: { ...run.result, ...whole.get(run.id) } } : run));
}

/* "ΔQL 5.08 % (4.45 to 5.71 %), bits per weight 3.15" */
export function finding(run) {
  const result = run.result ?? {}, figures = figuresOf(run.kind);
  const named = FIRST[run.kind] ?? figures.map(({ name }) => name);
  const numbers = named.map((name) => figures.find((figure) => figure.name === name))
    .filter((figure) => figure && isNumber(result[figure.name]))
    .slice(0, MOST);
  const spoken = SPOKEN[run.kind]?.(result, run.params ?? {});
  return [...numbers.map((figure) => number(figure, result)), spoken].filter(Boolean).join(", ");
}

export function outcome(run) {
  if (run.state === "failed") return run.error?.detail ?? run.error?.title ?? "";
  if (run.waiting) return `waits: ${run.waiting}`;
  if (run.state === "running" || run.state === "queued") return progressText(run.progress ?? {}, run.state);
  const took = isNumber(run.usage?.seconds) ? duration(run.usage.seconds) : "";
  if (run.state !== "succeeded") return took;
  const words = finding(run);
  return words ? `${words}${took ? `; ${took}` : ""}` : `done in ${took}`;
}
