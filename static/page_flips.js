/* page_flips.js: accuracy beside ΔQL along a trajectory, and the questions whose answer flips most. */
import { curvesOf, get, namedTrajectories, query } from "./api.js";
import { dropdown } from "./controls.js";
import { fill, h } from "./dom.js";
import { integer, isNumber, plural } from "./format.js";
import { drawing } from "./look.js";
import { failure, loading } from "./notice.js";
import { amend, checkpointLink } from "./router.js";
import { labelOf, numbered, withTexts } from "./series.js";
import { accuracyFigure, accuracyTable, flipsLink, flipsTable, intervalWords } from "./tasks.js";
import { turns } from "./turns.js";
import { commonFields, keptFields, readCommon } from "./view.js";

const NONE = "none"; /* no ΔQL beside the accuracies */
const MOST = 50; /* questions */
const ORDERS = ["answers", "questions"]; /* of the tables, as tasks.js names them in the address */

/* Series of ΔQL along the trajectory, each with its name in words. */
async function deltasOf(trajectory, signal) {
  return withTexts((await curvesOf({ trajectory, metric: "delta", x: "step" }, signal)).series);
}

/* The one that the tasks' quantizer has, with the same calibration, unless the reader chose another; null: none, for
 * there is none, or several evaluations have one each, and none is made up. `of`: the series of the answers. */
function deltaOf(series, { label, delta }, of) {
  if (delta === NONE) return null;
  if (delta) return series.find((one) => one.text === delta) ?? null;
  const calibration = of?.calibration_id ?? "";
  const own = series.filter((one) => label && labelOf(one) === label && (one.calibration_id ?? "") === calibration);
  return own.length === 1 ? own[0] : null;
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

/* `accuracies`: series of the chosen task, or of the mean. `deltas`: series of ΔQL, of which one stands beside. */
async function read(options, deltas, accuracies, signal) {
  const { trajectory, task, label, protocol, calibration } = options;
  const answer = await get(query("/v1/flips", { trajectory, task, label, protocol, calibration, limit: MOST }), signal);
  const id = answer.series?.protocol_id, own = accuracies.filter((one) => !id || one.protocol_id === id);
  const chosen = deltaOf(deltas, options, answer.series);
  const beside = new Map((chosen?.points ?? []).map((point) => [point.checkpoint, point]));
  const points = answer.checkpoints.map((at, index) => {
    const full = at.right / at.items, quantized = isNumber(at.right_q) ? at.right_q / at.items : null;
    const { y = null, low, high } = beside.get(at.checkpoint) ?? {};
    return {
      ...at, x: at.step ?? index, full, quantized, delta: y,
      delta_interval: isNumber(low) && isNumber(high) ? [low, high] : null,
      full_interval: intervalOf(own, at, "", full),
      quantized_interval: quantized === null ? null : intervalOf(own, at, label, quantized),
    };
  });
  return { items: answer.items, points, of: answer.series, chosen };
}

async function seriesOf(trajectory, metric, signal) {
  return (await curvesOf({ trajectory, metric, x: "step" }, signal)).series;
}

/* The quantizations whose tasks were answered. */
function labelsOf(means) {
  return [...new Set(means.map(labelOf).filter(Boolean))].sort();
}

function ofLabel(accuracies, label) {
  return accuracies.filter((one) => labelOf(one) === (label ?? ""));
}

/* The ways in which the tasks were asked with this quantization: records and shots. */
function protocolsOf(accuracies, label) {
  return [...numbered(ofLabel(accuracies, label).map(({ protocol_id: id, dataset }) => [id ?? "", dataset]))];
}

/* What this quantization was calibrated on. */
function calibrationsOf(accuracies, label) {
  const own = ofLabel(accuracies, label).filter(({ calibration_id: id }) => id);
  return [...numbered(own.map(({ calibration_id: id, calibrated_on: on }) => [id, on ?? "unknown data"]))];
}

/* The tasks that were answered, by name; the subjects of mmlu are one. A series is of "arc_easy 0-shot". */
function tasksOf(answered, chosen) {
  const names = answered.map(({ dataset }) => (dataset ?? "").split(" ")[0].replace(/^mmlu_.*/, "mmlu"));
  return ["", ...[...new Set([...names, chosen ?? ""])].filter(Boolean).sort()];
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
    calibration: search.get("calibration"),
  };
  const controls = h("div", { class: "controls" }), body = h("div");
  let tasks = [""], labels = [], asked = [], calibrations = [], series = [], now = null;
  const turn = turns();
  const address = () => {
    const { trajectory, task, label, protocol, calibration, delta, zoom } = options;
    const kept = { ...commonFields({ zoom }), ...keptFields(...ORDERS) };
    return flipsLink(trajectory, { task, label, protocol, calibration, delta, ...kept });
  };

  /* All that a view needs, read before anything of the page changes. */
  const readAll = async (wanted) => {
    const none = { labels: [], protocols: [], calibrations: [], series: [], chosen: null };
    if (!wanted.trajectory) return { ...none, tasks: [""], items: [], points: [], of: null, options: wanted };
    const { trajectory, task } = wanted;
    const [means, answered, deltas] = await Promise.all([
      seriesOf(trajectory, "mean_accuracy", signal), seriesOf(trajectory, "accuracy", signal),
      deltasOf(trajectory, signal),
    ]);
    const known = labelsOf(means), own = answered.filter(({ dataset }) => dataset?.startsWith(`${task} `));
    const complete = { ...wanted, label: wanted.label ?? known[0] ?? null }, { label } = complete;
    const accuracies = task ? own : means, found = await read(complete, deltas, accuracies, signal);
    return {
      labels: known, protocols: protocolsOf(accuracies, label), calibrations: calibrationsOf(accuracies, label),
      tasks: tasksOf(answered, task), series: deltas, options: complete, ...found,
    };
  };
  const show = async (current) => {
    const found = await readAll({ ...options });
    if (!current()) return null;
    const { chosen, items, points } = found;
    ({ labels, protocols: asked, calibrations, tasks, series } = found);
    now = chosen?.text ?? NONE;
    Object.assign(options, found.options);
    amend(address());
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
          + "above full precision, below the quantized model."
          + (items.length === MOST ? ` These are the ${integer(MOST)} that flip most.` : ""))));
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
    const zoom = { x: null, y: null }, none = { protocol: null, calibration: null };
    const afresh = (trajectory) => set({ trajectory, task: null, label: null, ...none, delta: null, zoom });
    fill(controls,
      dropdown("Trajectory", names, options.trajectory, afresh),
      labels.length
        ? dropdown("Method", methods, options.label ?? "", (label) => set({ label, ...none })) : null,
      asked.length > 1 ? dropdown("Asked", [["", "newest"], ...asked], options.protocol ?? "",
        (protocol) => set({ protocol: protocol || null })) : null,
      calibrations.length > 1
        ? dropdown("Calibrated on", [["", "newest"], ...calibrations], options.calibration ?? "",
          (calibration) => set({ calibration: calibration || null })) : null,
      series.length ? dropdown("ΔQL of", deltas, now, (delta) => set({ delta })) : null,
      dropdown("Task", tasks.map((name) => [name, name || "all"]), options.task ?? "",
        (value) => set({ task: value || null, ...none })));
  };
  fill(root, h("h1", {}, "Tasks"), controls, body);
  await show(turn());
}
