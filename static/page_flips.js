/* page_flips.js: accuracy beside ΔQL along a trajectory, and the questions whose answer flips most. */
import { curvesOf, get, namedTrajectories, query } from "./api.js";
import { dropdown } from "./controls.js";
import { fill, h } from "./dom.js";
import { isNumber, plural } from "./format.js";
import { drawing } from "./look.js";
import { failure, loading } from "./notice.js";
import { amend, checkpointLink } from "./router.js";
import { labelOf, withTexts } from "./series.js";
import { accuracyFigure, accuracyTable, flipsLink, flipsTable, intervalWords } from "./tasks.js";
import { turns } from "./turns.js";
import { commonFields, keptFields, readCommon } from "./view.js";

const NONE = "none"; /* no ΔQL beside the accuracies */
const ORDERS = ["answers", "questions"]; /* of the tables, as tasks.js names them in the address */

/* Series of ΔQL along the trajectory, each with its name in words. */
async function deltasOf(trajectory, signal) {
  return withTexts((await curvesOf({ trajectory, metric: "delta", x: "step" }, signal)).series);
}

/* The one that the tasks' quantizer has, unless the reader chose another; null: none, and none is made up. */
function deltaOf(series, { label, delta }) {
  if (delta === NONE) return null;
  const own = series.find((one) => one.text === delta);
  return own ?? (delta ? null : series.find((one) => label && labelOf(one) === label) ?? null);
}

const SAME = 1e-9; /* of two accuracies */

/* The interval that runs told of an accuracy, as [low, high]; null where they told none of this very number. `series`:
 * of the task, or of the mean over all. */
function intervalOf(series, { checkpoint }, label, value) {
  const same = (point) => point.checkpoint === checkpoint && isNumber(point.low) && isNumber(point.high)
    && Math.abs(point.y - value) < SAME;
  const found = series.filter((one) => labelOf(one) === label).flatMap(({ points }) => points).find(same);
  return found ? [found.low, found.high] : null;
}

/* `accuracies`: series of the chosen task, or of the mean. */
async function read({ trajectory, task, label, protocol }, series, accuracies, signal) {
  const answer = await get(query("/v1/flips", { trajectory, task, label, protocol }), signal);
  const id = answer.series?.protocol_id, own = accuracies.filter((one) => !id || one.protocol_id === id);
  const deltas = new Map((series?.points ?? []).map((point) => [point.checkpoint, point.y]));
  const points = answer.checkpoints.map((at, index) => {
    const full = at.right / at.items, quantized = isNumber(at.right_q) ? at.right_q / at.items : null;
    return {
      ...at, x: at.step ?? index, full, quantized, delta: deltas.get(at.checkpoint) ?? null,
      full_interval: intervalOf(own, at, "", full),
      quantized_interval: quantized === null ? null : intervalOf(own, at, label, quantized),
    };
  });
  return { items: answer.items, points, of: answer.series };
}

async function seriesOf(trajectory, metric, signal) {
  return (await curvesOf({ trajectory, metric, x: "step" }, signal)).series;
}

/* The quantizations whose tasks were answered. */
function labelsOf(means) {
  return [...new Set(means.map(labelOf).filter(Boolean))].sort();
}

/* The ways in which the tasks were asked with this quantization: records and shots. */
function protocolsOf(accuracies, label) {
  const own = accuracies.filter((one) => labelOf(one) === (label ?? ""));
  return [...new Map(own.map(({ protocol_id: id, dataset }) => [id ?? "", `${dataset} (${(id ?? "").slice(0, 8)})`]))];
}

/* What all answers of the page are of: one series, never several. */
function seriesWords(of) {
  if (!of) return "";
  const calibrated = of.calibrated_on ? `, calibrated on ${of.calibrated_on}` : "";
  return ` Answers of one way of asking: ${plural(of.shots, "solved example")} before each question, `
    + `${of.label || "full precision alone"}${calibrated}, protocol ${of.protocol_id}.`;
}

function nothing(trajectory) {
  const what = trajectory ? `No checkpoint of ${trajectory} has answered tasks yet.` : "There is no trajectory yet.";
  return h("div", {}, h("p", {}, what),
    h("p", {}, "A run of the kind ", h("code", {}, "tasks"), " asks them; a sweep over a trajectory fills this page."));
}

export async function showFlips({ root, query: search, signal }) {
  document.title = "Tasks · deltaq";
  fill(root, h("h1", {}, "Tasks"), loading("answers"));
  const { items: trajectories } = await namedTrajectories(signal);
  const options = {
    ...readCommon(search), delta: search.get("delta"),
    trajectory: search.get("trajectory") ?? trajectories[0]?.name ?? "",
    task: search.get("task"), label: search.get("label"), protocol: search.get("protocol"),
  };
  const controls = h("div", { class: "controls" }), body = h("div");
  let tasks = [""], labels = [], asked = [], series = [];
  const turn = turns();
  const address = () => {
    const { trajectory, task, label, protocol, delta, zoom } = options;
    return flipsLink(trajectory, { task, label, protocol, delta, ...commonFields({ zoom }), ...keptFields(...ORDERS) });
  };

  /* All that a view needs, read before anything of the page changes. */
  const readAll = async (wanted) => {
    const none = { labels: [], protocols: [], series: [], chosen: null, items: [], points: [], of: null };
    if (!wanted.trajectory) return { ...none, options: wanted };
    const { trajectory, task } = wanted;
    const [means, answered, deltas] = await Promise.all([
      seriesOf(trajectory, "mean_accuracy", signal), task ? seriesOf(trajectory, "accuracy", signal) : [],
      deltasOf(trajectory, signal),
    ]);
    const known = labelsOf(means), own = answered.filter(({ dataset }) => dataset?.startsWith(`${task} `));
    const complete = { ...wanted, label: wanted.label ?? known[0] ?? null }, chosen = deltaOf(deltas, complete);
    const accuracies = task ? own : means, found = await read(complete, chosen, accuracies, signal);
    const protocols = protocolsOf(accuracies, complete.label);
    return { labels: known, protocols, series: deltas, options: complete, chosen, ...found };
  };
  const show = async (current) => {
    const found = await readAll({ ...options });
    if (!current()) return null;
    const { chosen, items, points } = found;
    ({ labels, protocols: asked, series } = found);
    Object.assign(options, found.options);
    amend(address());
    if (!options.task) tasks = ["", ...new Set(items.map((item) => item.task.replace(/^mmlu_.*/, "mmlu")))].sort();
    choose();
    if (!points.length) return fill(body, nothing(options.trajectory));
    const of = chosen?.text ?? null, figure = (look) => accuracyFigure(points, of, look, options.zoom);
    const words = "accuracy in full precision and quantized, and ΔQL below; the table has the values";
    const pick = (id) => { location.hash = checkpointLink(id); };
    const zoom = (ranges) => {
      options.zoom = { ...options.zoom, ...ranges };
      amend(address());
    };
    const plot = drawing("accuracy-plot", words, figure, signal, { pick, zoom });
    return fill(body,
      h("section", {}, h("h2", {}, "Accuracy beside ΔQL"), plot.node, accuracyTable(points, of),
        h("p", { class: "muted caption" }, intervalWords(points), seriesWords(found.of))),
      h("section", {}, h("h2", {}, "Questions that flip most"),
        items.length ? flipsTable(items) : h("p", {}, "No answer changed."),
        h("p", { class: "muted caption" }, `Over ${plural(points.length, "checkpoint")}, in the order of training: `
          + "above full precision, below the quantized model.")));
  };
  /* Of a choice that another one has followed neither the answer nor its failure is shown. */
  const refresh = async () => {
    const current = turn();
    try {
      await show(current);
    } catch (error) { if (!signal.aborted && current()) fill(body, failure(error)); }
  };
  const set = (given) => {
    Object.assign(options, given);
    refresh();
  };
  const choose = () => {
    const names = trajectories.map(({ name }) => [name, name]), methods = labels.map((label) => [label, label]);
    const deltas = [[NONE, "none"], ...series.map(({ text }) => [text, text])];
    const now = deltaOf(series, options)?.text ?? NONE;
    const zoom = { x: null, y: null };
    const afresh = (trajectory) => set({ trajectory, task: null, label: null, protocol: null, delta: null, zoom });
    fill(controls,
      dropdown("Trajectory", names, options.trajectory, afresh),
      labels.length
        ? dropdown("Method", methods, options.label ?? "", (label) => set({ label, protocol: null })) : null,
      asked.length > 1 ? dropdown("Asked", [["", "newest"], ...asked], options.protocol ?? "",
        (protocol) => set({ protocol: protocol || null })) : null,
      series.length ? dropdown("ΔQL of", deltas, now, (delta) => set({ delta })) : null,
      dropdown("Task", tasks.map((name) => [name, name || "all"]), options.task ?? "",
        (value) => set({ task: value || null, protocol: null })));
  };
  fill(root, h("h1", {}, "Tasks"), controls, body);
  await show(turn());
}
