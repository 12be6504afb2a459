/* scatter.js: two metrics of the same checkpoints against each other: fits and the figure. Pure functions. */
import { isNumber } from "./format.js";
import { axisOf, legendOf, paperOf, plain } from "./look.js";
import { axisTitle, formatOf, metric as metricOf, scaleOf } from "./metrics.js";
import { dash, dashWords, hollow, hollowWords, symbol } from "./palette.js";
import { sentence } from "./paper.js";
import { bitsOf } from "./series.js";
import { zoomed } from "./view.js";

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
  const alone = !series.label && series.label_x; /* the method is that of x */
  if (alone || differ("label_x")) parts.push(`against ${series.label_x || "full precision"}`);
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
    .sort((a, b) => (bitsOf(b) ?? 0) - (bitsOf(a) ?? 0) || a.label.localeCompare(b.label, "en", { numeric: true }));
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
    meta: { kind: "fit", label: group.label }, name: "fit", showlegend: false,
  };
}

export function drawable(points, { xLog, yLog }) {
  const shows = (value, log) => isNumber(value) && !(log && !(value > 0));
  return points.filter((point) => shows(point.x, xLog) && shows(point.y, yLog));
}

function shown(metric, value) {
  return `${plain(metricOf(metric).label)} <b>${formatOf(metricOf(metric)).text(value)}</b>`;
}

/* In the order of training; a point without a place in it has none on the path. */
function inTraining(points) {
  const at = ({ tokens, step }) => tokens ?? step ?? null;
  return points.filter((point) => at(point) !== null).sort((a, b) => at(a) - at(b));
}

/* Of each trajectory of a group its points in the order of training: [{name, points}]. */
function pathsOf(group, options) {
  const names = [...new Set(group.points.map((point) => point.trajectory))];
  const own = (name) => inTraining(drawable(group.points.filter((point) => point.trajectory === name), options));
  return names.map((name) => ({ name, points: own(name) })).filter(({ points }) => points.length > 1);
}

/* A line along training through the points of each trajectory. */
function pathTraces(group, options) {
  return pathsOf(group, options).map(({ name, points }) => ({
    type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip", name: `path of ${plain(name)}`,
    x: points.map((point) => scaleOf(options.x) * point.x), y: points.map((point) => scaleOf(options.y) * point.y),
    line: { color: options.colour(name), width: 1.5, dash: dash(bitsOf(group)) },
    meta: { kind: "path", label: group.label, trajectory: name },
  }));
}

const ARROW = 0.4; /* of the last stretch: the arrow's own line has no dashes */

/* An arrow to the newest point of each path. Annotations on logarithmic axes stand at logarithms. */
function arrows(groups, options) {
  if (!options.path) return [];
  const place = (metric, log, value) => (log ? Math.log10 : Number)(scaleOf(metric) * value);
  return groups.flatMap((group) => pathsOf(group, options)).map(({ name, points }) => {
    const ends = points.slice(-2), colour = options.colour(name);
    const [x0, x] = ends.map((point) => place(options.x, options.xLog, point.x));
    const [y0, y] = ends.map((point) => place(options.y, options.yLog, point.y));
    return {
      x, y, xref: "x", yref: "y", ax: x + ARROW * (x0 - x), ay: y + ARROW * (y0 - y), axref: "x", ayref: "y",
      text: "", showarrow: true, arrowhead: 2, arrowsize: 1.2, arrowwidth: 1.5, arrowcolor: colour, standoff: 5,
    };
  });
}

/* Where both axes are losses: the line on which quantization costs nothing. */
function equalTrace(groups, options) {
  const points = groups.flatMap((group) => drawable(group.points, options)).map(({ x }) => x);
  if (!isLosses(options) || points.length < 2) return null;
  const ends = [Math.min(...points), Math.max(...points)];
  return {
    type: "scatter", mode: "lines", x: ends, y: ends, line: { color: options.ink.muted, width: 1, dash: "dot" },
    hoverinfo: "skip", showlegend: false, name: "no loss", meta: { kind: "equal" },
  };
}

/* The figure of quantized over full-precision loss. */
export function isLosses({ x, y }) {
  return x === "loss_fp" && y === "loss_q";
}

/* The methods of what is drawn; null: of full precision. */
function methodsOf(groups) {
  return [...new Set(groups.filter(({ points }) => points.length).map(({ found }) => found.method ?? null))];
}

/* Entries of the legend: the shape of each method in no trajectory's colour, where there are several. */
function methodTraces(groups, { ink }) {
  const methods = methodsOf(groups);
  return methods.length < 2 ? [] : methods.map((method) => ({
    type: "scatter", mode: "markers", x: [null], y: [null], name: method ?? "full precision", hoverinfo: "skip",
    marker: { symbol: symbol(method), size: 8, color: ink.muted, line: { color: ink.muted, width: 2 } },
    legendgroup: `method ${method}`, meta: { kind: "legend" },
  }));
}

/* What markers and lines mean, of those that are there. */
export function scatterKey(groups, options) {
  const widths = groups.filter(({ points }) => points.length).map(bitsOf);
  if (!widths.length) return [];
  const lines = dashWords(widths), named = lines ? ` (${lines})` : "";
  return [
    methodsOf(groups).length > 1 ? "shape of a marker: the method" : null, hollowWords(widths),
    `lines: ${options.path ? "along training, to the newest" : "least-squares fit"}${named}`,
    isLosses(options) ? "dotted straight line: quantization costs nothing" : null,
  ].filter(Boolean);
}

function pointTraces(group, options, named) {
  const names = [...new Set(group.points.map((point) => point.trajectory))];
  return names.map((name) => {
    const points = drawable(group.points.filter((point) => point.trajectory === name), options);
    const colour = options.colour(name), first = !named.has(name);
    named.add(name);
    const text = (point) => [
      `<b>${plain(point.checkpoint_name ?? point.checkpoint)}</b>  ${plain(name)}`, plain(group.label),
      shown(options.x, point.x), shown(options.y, point.y),
    ].filter(Boolean).join("<br>");
    return {
      type: "scatter", mode: "markers",
      x: points.map((point) => scaleOf(options.x) * point.x), y: points.map((point) => scaleOf(options.y) * point.y),
      marker: {
        symbol: symbol(group.found.method), size: 8, line: { color: colour, width: 2 },
        color: hollow(bitsOf(group)) ? options.ink.paper : colour,
      },
      customdata: points.map((point) => point.checkpoint), text: points.map(text),
      hovertemplate: "%{text}<extra></extra>", name: plain(name), legendgroup: name,
      /* on the screen the buttons above have the colours */
      showlegend: first && Boolean(options.paper),
      meta: {
        kind: "points", label: group.label, trajectory: name,
        names: points.map((point) => point.checkpoint_name ?? point.checkpoint),
      },
    };
  });
}

export function scatterFigure(groups, options) {
  const { ink, narrow, x, y, xLog, yLog, path, zoom } = options, named = new Set();
  const methods = methodTraces(groups, options);
  const axis = (metric, log, range) => ({
    ...axisOf(ink, plain(axisTitle(metric))), type: log ? "log" : "linear", ticks: "outside", ticklen: 3,
    nticks: narrow ? 5 : 8, ...zoomed(range),
  });
  return {
    data: [
      equalTrace(groups, options),
      ...(path ? groups.flatMap((group) => pathTraces(group, options))
        : groups.map((group) => fitTrace(group, options))),
      ...groups.flatMap((group) => pointTraces(group, options, named)), ...methods,
    ].filter(Boolean),
    layout: {
      ...paperOf(ink, narrow ? 380 : 480), hoverdistance: 30,
      margin: { l: narrow ? 40 : 56, r: 14, t: methods.length ? 34 : 12, b: 48 },
      annotations: arrows(groups, options), dragmode: narrow ? false : "zoom",
      showlegend: Boolean(options.paper) || methods.length > 0, legend: legendOf(ink),
      xaxis: axis(x, xLog, zoom?.x), yaxis: axis(y, yLog, zoom?.y),
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
 * correlation of the 9 changes …" */
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
    + part(`correlation of the ${found.differences?.n} changes between neighbouring checkpoints:`, found.differences);
}

/* A note of the server's, which names fields of its answer, in the words of captionOf(). */
function withoutFields(note) {
  return note.replace(/"differences" is/g, "the correlation of changes is").replace(/"within"/g, "the one within them");
}

/* What the intervals of the correlations are over; where there are none, why, and what they mean less for, in the
 * server's words. */
export function intervalWords(groups) {
  const known = (of) => of?.interval?.every(isNumber);
  const notes = (of) => sentence([...new Set(of.map(({ found }) => found?.note).filter(Boolean).map(withoutFields))]);
  const units = "Trajectories are what is independent, not their checkpoints, branches or averages";
  const having = groups.filter(({ found }) => known(found));
  if (having.length > 0) return [`${units}.`, notes(having)].filter(Boolean).join(" ");
  if (groups.some(({ found }) => known(found?.differences))) {
    return `${units}: with fewer than five only the changes have an interval.`;
  }
  return notes(groups);
}

/* For a file: "gptq 4-bit g128: n = 12, Pearson 0.87 (95 %: 0.61 to 0.95)" */
export function shortCaption({ label, points, found }) {
  const pearson = isNumber(found?.pearson) ? `, Pearson ${coefficient(found.pearson, found.interval)}` : "";
  return `${label ? `${label}: ` : ""}n = ${points.length}${pearson}`;
}
