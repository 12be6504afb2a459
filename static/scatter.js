/* scatter.js: two metrics of the same checkpoints against each other: fits and the figure. Pure functions. */
import { isNumber } from "./format.js";
import { axisOf, paperOf, plain } from "./look.js";
import { axisTitle, formatOf, metric as metricOf, scaleOf } from "./metrics.js";
import { dash, hollow } from "./palette.js";
import { bitsOf } from "./series.js";

/* A label, with the data where several series have the same. */
function seriesName(series, all) {
  const twins = all.filter((other) => other.label === series.label);
  const differ = (field) => new Set(twins.map((twin) => twin[field] ?? "")).size > 1;
  /* What has no words is counted among its twins, and not told by a hash. */
  const nth = (field) => {
    const values = [...new Set(twins.map((twin) => twin[field] ?? ""))].sort();
    return `no. ${1 + values.indexOf(series[field] ?? "")}`;
  };
  const parts = [series.label ?? ""];
  if (differ("dataset") && series.dataset) parts.push(`on ${series.dataset}`);
  else if (differ("protocol_id")) parts.push(`(evaluation ${nth("protocol_id")})`);
  if (differ("label_x")) parts.push(`against ${series.label_x || "full precision"}`);
  if (differ("dataset_x") && series.dataset_x) parts.push(`against ${series.dataset_x}`);
  else if (differ("protocol_id_x")) parts.push(`against evaluation ${nth("protocol_id_x")}`);
  else if (differ("calibration_id_x")) parts.push(`against calibration ${nth("calibration_id_x")}`);
  return parts.filter(Boolean).join(" ");
}

/* Points by series: [{label, points, found}], `found` the answer's correlations of these alone. */
export function groupsOf(answer, chosen) {
  const group = (found, index) => ({
    label: seriesName(found, answer.series), points: answer.points.filter((point) => point.series === index), found,
  });
  return answer.series.map(group)
    .filter(({ found }) => chosen === null || found.label === chosen)
    .sort((a, b) => (bitsOf(b) ?? 0) - (bitsOf(a) ?? 0) || a.label.localeCompare(b.label));
}

/* Least squares through pairs [x, y] -> {slope, intercept}; null for fewer than three, or where x does not vary. */
export function leastSquares(pairs) {
  if (pairs.length < 3) return null;
  const mean = (index) => pairs.reduce((sum, pair) => sum + pair[index], 0) / pairs.length;
  const x = mean(0), y = mean(1);
  const across = pairs.reduce((sum, pair) => sum + (pair[0] - x) ** 2, 0);
  if (!(across > 0)) return null;
  const slope = pairs.reduce((sum, pair) => sum + (pair[0] - x) * (pair[1] - y), 0) / across;
  return { slope, intercept: y - slope * x };
}

/* The fit is straight as it is drawn: on logarithmic axes it goes through the logarithms. */
function fitTrace(group, options) {
  const into = (log) => (log ? Math.log10 : (value) => value);
  const back = (log) => (log ? (value) => 10 ** value : (value) => value);
  const pairs = drawable(group.points, options).map((point) => [
    into(options.xLog)(scaleOf(options.x) * point.x), into(options.yLog)(scaleOf(options.y) * point.y),
  ]);
  const fit = leastSquares(pairs);
  if (!fit) return null;
  const low = Math.min(...pairs.map(([x]) => x)), high = Math.max(...pairs.map(([x]) => x));
  const x = Array.from({ length: 33 }, (_, index) => low + (index * (high - low)) / 32);
  return {
    type: "scatter", mode: "lines", x: x.map(back(options.xLog)),
    y: x.map((value) => back(options.yLog)(fit.intercept + fit.slope * value)), hoverinfo: "skip",
    line: { color: options.ink.muted, width: 1.5, dash: dash(bitsOf(group)) },
    meta: { kind: "fit", label: group.label }, name: "fit",
  };
}

export function drawable(points, { xLog, yLog }) {
  const shows = (value, log) => isNumber(value) && !(log && !(value > 0));
  return points.filter((point) => shows(point.x, xLog) && shows(point.y, yLog));
}

function shown(metric, value) {
  return `${plain(metricOf(metric).label)} <b>${formatOf(metricOf(metric)).text(value)}</b>`;
}

function pointTraces(group, options) {
  const names = [...new Set(group.points.map((point) => point.trajectory))];
  return names.map((name) => {
    const points = drawable(group.points.filter((point) => point.trajectory === name), options);
    const colour = options.colour(name);
    const text = (point) => [
      `<b>${plain(point.checkpoint_name ?? point.checkpoint)}</b>  ${plain(name)}`, plain(group.label),
      shown(options.x, point.x), shown(options.y, point.y),
    ].filter(Boolean).join("<br>");
    return {
      type: "scatter", mode: "markers",
      x: points.map((point) => scaleOf(options.x) * point.x), y: points.map((point) => scaleOf(options.y) * point.y),
      marker: {
        color: hollow(bitsOf(group)) ? options.ink.paper : colour, size: 8, line: { color: colour, width: 2 },
      },
      customdata: points.map((point) => point.checkpoint), text: points.map(text),
      hovertemplate: "%{text}<extra></extra>", name: plain(name),
      meta: { kind: "points", label: group.label, trajectory: name },
    };
  });
}

export function scatterFigure(groups, options) {
  const { ink, narrow, x, y, xLog, yLog } = options;
  const axis = (metric, log) => ({
    ...axisOf(ink, plain(axisTitle(metric))), type: log ? "log" : "linear", ticks: "outside", ticklen: 3,
    nticks: narrow ? 5 : 8,
  });
  return {
    data: [
      ...groups.map((group) => fitTrace(group, options)).filter(Boolean),
      ...groups.flatMap((group) => pointTraces(group, options)),
    ],
    layout: {
      ...paperOf(ink, narrow ? 380 : 480), margin: { l: narrow ? 40 : 56, r: 14, t: 12, b: 48 }, hoverdistance: 30,
      xaxis: axis(x, xLog), yaxis: axis(y, yLog),
    },
  };
}

function coefficient(value, interval) {
  if (!isNumber(value)) return "–";
  const text = (number) => number.toFixed(2).replace("-", "−");
  const reach = Array.isArray(interval) && interval.every(isNumber);
  return text(value) + (reach ? ` (95 %: ${text(interval[0])} to ${text(interval[1])})` : "");
}

/* "gptq 4-bit g128: n = 12, Pearson 0.87 (95 %: 0.61 to 0.95), Spearman 0.9 (…); within trajectories …;
 * changes …" */
export function captionOf({ label, points, found }) {
  const head = `${label ? `${label}: ` : ""}n = ${points.length}`;
  if (!found || !isNumber(found.pearson)) {
    return `${head}, no correlation (three checkpoints at least, and both must vary)`;
  }
  const part = (name, of) => (isNumber(of?.pearson) ? `; ${name} ${coefficient(of.pearson, of.interval)}` : "");
  const pearson = coefficient(found.pearson, found.interval);
  const spearman = coefficient(found.spearman, found.spearman_interval);
  return `${head}, Pearson ${pearson}, Spearman ${spearman}`
    + part("within trajectories and token budgets", found.within)
    + part(`${found.differences?.n} changes from checkpoint to checkpoint`, found.differences);
}
