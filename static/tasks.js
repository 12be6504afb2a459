/* tasks.js: what a run of tasks found, and accuracy beside ΔQL along a trajectory. */
import { h } from "./dom.js";
import { integer, isNumber, percent, percentInterval, percentNumber, scientific } from "./format.js";
import { axisOf, legendOf, paperOf, plain, whiskersOf } from "./look.js";
import { checkpointLink, link } from "./router.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept, zoomed } from "./view.js";

const INTERVALS = "95 % intervals: of accuracies Wilson's; of their mean made of those of its tasks (Zou and Donner). ";
const FEW_STEPS = 8; /* ticks that fit beside each other */

/* `unit`: "points" for a difference of two. */
function accuracy(value, interval, unit = "%") {
  if (!isNumber(value)) return "–";
  const tenths = (share) => percentNumber(share, 1);
  const reach = Array.isArray(interval) ? `${tenths(interval[0])} to ${tenths(interval[1])} ${unit}` : null;
  return h("span", {}, `${tenths(value)} ${unit}`, reach ? h("span", { class: "interval under" }, reach) : null);
}

function probability(value) {
  return isNumber(value) ? scientific(value, 2) : "–";
}

/* A column of shares, each with its interval where there is one. */
function share(label, field, unit) {
  return {
    label, numeric: true, value: (task) => task[field],
    cell: (task) => accuracy(task[field], task[`${field}_interval`], unit),
  };
}

const PLAIN = [
  { label: "Task", value: (task) => task.name, cell: (task) => h("code", {}, task.name) },
  numberColumn("Items", (task) => task.n, integer),
  share("Accuracy", "accuracy"),
  share("acc_norm", "accuracy_norm"),
];
const PAIRED = [
  share("Quantized", "accuracy_q"),
  share("Change", "accuracy_change", "points"),
  numberColumn("Flips up", (task) => task.flips_up, integer),
  numberColumn("Flips down", (task) => task.flips_down, integer),
  numberColumn("p (McNemar)", (task) => task.mcnemar_p, probability),
];

export function tasksSection(run) {
  const { result: found } = run, paired = isNumber(found.mean_accuracy_q);
  const mean = {
    ...found, name: "mean", n: found.items,
    accuracy: found.mean_accuracy, accuracy_interval: found.mean_accuracy_interval,
    accuracy_norm: found.mean_accuracy_norm, accuracy_norm_interval: found.mean_accuracy_norm_interval,
    accuracy_q: found.mean_accuracy_q, accuracy_q_interval: found.mean_accuracy_q_interval,
    accuracy_change: found.mean_accuracy_change, accuracy_change_interval: found.mean_accuracy_change_interval,
  };
  const rows = found.tasks.length > 1 ? [mean, ...found.tasks] : found.tasks;
  const columns = paired ? [...PLAIN, ...PAIRED] : PLAIN;
  return h("section", {}, h("h2", {}, "Tasks"),
    dataTable(orderKept("tasks", { caption: "Tasks", className: "cards", columns, rows })),
    h("p", { class: "muted caption" }, INTERVALS,
      paired ? "Those of changes are made of Clopper and Pearson's limits of the direction of flips and Wilson's of "
        + "their share. A flip is an item that one of the two models alone gets right; "
        + "p is the exact probability of a split as uneven by chance. " : "",
      `Of ${integer(found.tokens_alone)} tokens ${integer(found.tokens_computed)} were computed: `
        + "what prompts share is computed once."));
}

/* Accuracy above, ΔQL below, over the same axis. `points` [{x, full, quantized, delta, full_interval,
 * quantized_interval}]; `quantizer`: in words, whose
 * ΔQL it is; `zoom` as view.js reads it. */
export function accuracyFigure(points, quantizer, { ink, narrow }, zoom = null) {
  const whiskers = (key, colour) => whiskersOf(points.map((point) => {
    const [low, high] = point[`${key}_interval`] ?? [];
    return { y: point[key], low, high };
  }), 100, colour);
  const series = (key, name, axis, colour, dash) => ({
    ...whiskers(key, colour), type: "scatter", mode: "lines+markers", name, x: points.map((point) => point.x),
    y: points.map((point) => (isNumber(point[key]) ? 100 * point[key] : null)), yaxis: axis,
    line: { color: colour, width: 1.8, dash }, marker: { size: 6, color: colour }, connectgaps: false,
    text: points.map((point) => plain(point.name)), customdata: points.map((point) => point.checkpoint),
    hovertemplate: `<b>%{text}</b><br>${name} %{y:.3g} %<extra></extra>`, meta: { kind: key },
  });
  const both = points.some((point) => isNumber(point.delta)), steps = [...new Set(points.map((point) => point.x))];
  const axis = (title, domain) => ({ ...axisOf(ink, title), domain, nticks: 5 });
  const ticks = steps.length <= FEW_STEPS
    ? { tickmode: "array", tickvals: steps, ticktext: steps.map(integer) } : { tickformat: ",d" };
  return {
    data: [
      series("full", "full precision", "y", ink.colour(0), "solid"),
      series("quantized", "quantized", "y", ink.colour(1), "dot"),
      ...(both ? [series("delta", plain(`ΔQL of ${quantizer}`), "y2", ink.colour(2), "solid")] : []),
    ],
    layout: {
      ...paperOf(ink, narrow ? 380 : 440), margin: { l: narrow ? 44 : 60, r: 12, t: 30, b: 44 },
      showlegend: true, legend: legendOf(ink),
      xaxis: { ...axisOf(ink, "step"), ...ticks, anchor: both ? "y2" : "y", ...zoomed(zoom?.x) },
      yaxis: { ...axis("accuracy (%)", both ? [0.52, 1] : [0, 1]), ...zoomed(zoom?.y) },
      ...(both ? { yaxis2: axis("ΔQL (%)", [0, 0.42]) } : {}),
    },
  };
}

function mark(good) {
  return good === null ? "·" : good ? "✓" : "✗";
}

function spoken(good) {
  return good === null ? "not asked" : good ? "right" : "wrong";
}

/* The answers along the trajectory, right or wrong: those of full precision above those of the quantized model. */
function course(item) {
  const line = (key, words) => {
    const answers = item.course.map((point) => point[key]);
    return h("div", { class: "mono", "aria-label": `${words}: ${answers.map(spoken).join(", ")}` },
      answers.map(mark).join(" "));
  };
  const quantized = item.course.some((point) => point.right_q !== null);
  return h("div", {}, line("right", "full precision"), quantized ? line("right_q", "quantized") : null);
}

export function flipsTable(items) {
  return dataTable(orderKept("questions", {
    caption: "Questions that flip most", className: "cards", rows: items,
    columns: [
      {
        label: "Question", value: (item) => `${item.task} ${item.doc}`,
        cell: (item) => h("details", {},
          h("summary", {}, h("span", { class: "name mono" }, `${item.task} ${item.doc}`)),
          h("p", { class: "question" }, item.question)),
      },
      { label: "Along the trajectory", cell: course },
      numberColumn("Flips up", (item) => item.up, integer),
      numberColumn("Flips down", (item) => item.down, integer),
      numberColumn("Changes in training", (item) => item.changes, integer),
    ],
  }));
}

export function accuracyTable(points, quantizer) {
  const flips = (count) => (point) => (point.quantized === null ? "–" : integer(point[count]));
  const measured = (label, key) => ({
    label, numeric: true, value: (point) => point[key],
    cell: (point) => accuracy(point[key], point[`${key}_interval`]),
  });
  const delta = {
    label: `ΔQL of ${quantizer}`, numeric: true, value: (point) => point.delta,
    cell: (point) => (isNumber(point.delta) ? [
      percent(point.delta),
      point.delta_interval ? h("span", { class: "interval under" }, percentInterval(...point.delta_interval)) : null,
    ] : "–"),
  };
  return dataTable(orderKept("answers", {
    caption: "Accuracy and ΔQL by checkpoint", className: "cards", rows: points,
    columns: [
      {
        label: "Checkpoint", value: (point) => point.x,
        cell: (point) => h("a", { href: checkpointLink(point.checkpoint), class: "name" }, point.name),
      },
      numberColumn("Items", (point) => point.items, integer),
      measured("Accuracy", "full"), measured("Quantized", "quantized"),
      { label: "Flips up", numeric: true, value: (point) => point.up, cell: flips("up") },
      { label: "Flips down", numeric: true, value: (point) => point.down, cell: flips("down") },
      ...(quantizer ? [delta] : []),
    ],
  }));
}

/* What the intervals of the page's table are, or why there are none. */
export function intervalWords(points) {
  return points.some((point) => point.full_interval || point.quantized_interval) ? INTERVALS
    : "Over several tasks this is the share of all items, for which runs tell no interval: choose a task.";
}

export function flipsLink(trajectory, fields = {}) {
  return link("/flips", { trajectory, ...fields });
}
