/* figure.js: the figure of a trajectory as Plotly wants it: panels over one x axis, the measure at the top. Pure functions of the model (curves.js), so
 * that screen and export draw the same. */
import { AXES, hoverDetails, labelOf } from "./curves.js";
import { FLAGS } from "./integrity.js";
import { compact, integer, isNumber, scientific } from "./format.js";
import { FONT } from "./look.js";
import { axisTitle, formatOf, fromZero, metric as metricOf, scaleOf } from "./metrics.js";
import { dash, hollow, symbol, translucent } from "./palette.js";

const MARKED_POINTS = 40; /* a curve of more points is drawn without markers: they would hide its dash */

/* Plotly reads texts as a small markup language; names are not markup. */
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/* The metrics of the panels below the measure. */
const BELOW = { loss: "validation_loss", largest_algebraic: "largest_algebraic", trace: "trace", rate: "learning_rate" };

function valueText(metric, point) {
  const { text, interval } = formatOf(metricOf(metric)), bounds = interval(point.low, point.high);
  return `${plain(metricOf(metric).label)} <b>${text(point.y)}</b>${bounds ? ` (95 %: ${bounds})` : ""}`;
}

function hoverText(series, point, more, metric, withDataset) {
  const lines = [`<b>${plain(point.checkpoint_name ?? more?.name ?? point.checkpoint)}</b>  ${plain(series.trajectory)}`];
  if (series.panel === "curve") lines.push(plain(labelOf(series, withDataset)), valueText(metric, point));
  const position = [];
  if (isNumber(more?.tokens)) position.push(`${compact(more.tokens)} tokens`);
  if (isNumber(more?.step)) position.push(`step ${integer(more.step)}`);
  if (position.length) lines.push(position.join(" · "));
  for (const [panel, name] of Object.entries(BELOW)) {
    const value = series.panel === panel ? point.y : more?.[panel];
    if (isNumber(value)) lines.push(`${plain(metricOf(name).axis)} ${formatOf(metricOf(name)).text(value)}`);
  }
  if (more?.averaged) lines.push(`average of ${more.averaged} checkpoints`);
  for (const flag of point.flags ?? []) lines.push(`<b>▲ ${plain(FLAGS[flag]?.[1] ?? flag)}</b>`);
  return lines.join("<br>");
}

/* The interval as a closed outline: along the lower bounds and back along the upper ones. */
function bandTrace(series, points, options) {
  const scale = scaleOf(options.metric);
  const measured = points.filter((point) => isNumber(point.low) && isNumber(point.high));
  if (measured.length < 2) return null;
  const x = measured.map((point) => point.x), back = [...measured].reverse();
  return {
    type: "scatter", mode: "lines", x: [...x, ...back.map((point) => point.x)], xaxis: "x", yaxis: "y",
    y: [...measured.map((point) => Math.max(options.floor, scale * point.low)), ...back.map((point) => Math.max(options.floor, scale * point.high))],
    fill: "toself", fillcolor: translucent(options.colour(series.trajectory), options.dark ? 0.2 : 0.13), line: { width: 0 },
    hoverinfo: "skip", showlegend: false, legendgroup: series.key, name: "interval", meta: { key: series.key, kind: "band" },
  };
}

/* Against the learning rate points stand in no order that a line could follow. */
function mode(points, options) {
  if (options.x === "learning_rate") return "markers";
  return points.length > MARKED_POINTS ? "lines" : "lines+markers";
}

function marker(series, colour, { ink }) {
  return { color: hollow(series.bits) ? ink.paper : colour, size: 6, symbol: symbol(series.method), line: { color: colour, width: 1.5 } };
}

function curveTrace(series, points, options, more) {
  const scale = scaleOf(options.metric), colour = options.colour(series.trajectory);
  const trace = {
    type: "scatter", mode: mode(points, options), xaxis: "x", yaxis: "y",
    x: points.map((point) => point.x), y: points.map((point) => scale * point.y),
    line: { color: colour, width: 2, dash: dash(series.bits) }, marker: marker(series, colour, options),
    text: points.map((point) => hoverText(series, point, more.get(point.checkpoint), options.metric, options.datasets)),
    hovertemplate: "%{text}<extra></extra>", legendgroup: series.key, meta: { key: series.key, kind: "curve" },
    name: plain(`${series.trajectory} · ${labelOf(series, options.datasets)}`),
  };
  if (options.x === "learning_rate") {
    const bound = (field) => points.map((point) => (isNumber(point[field]) ? scale * Math.abs(point[field] - point.y) : 0));
    trace.error_y = { type: "data", symmetric: false, array: bound("high"), arrayminus: bound("low"), color: colour, thickness: 1, width: 2 };
  }
  return trace;
}

/* Rings around the points of checkpoints that are not what they claim to be. */
function flagTrace(series, points, axis, options) {
  const marked = points.filter((point) => point.flags?.length);
  if (!marked.length) return null;
  const scale = axis === "y" ? scaleOf(options.metric) : 1;
  return {
    type: "scatter", mode: "markers", xaxis: "x", yaxis: axis, x: marked.map((point) => point.x), y: marked.map((point) => scale * point.y), hoverinfo: "skip", showlegend: false,
    marker: { symbol: "circle-open", size: 13, color: options.ink.bad, line: { color: options.ink.bad, width: 2 } }, legendgroup: series.key, name: "marked", meta: { key: series.key, kind: "flag" },
  };
}

function sideTrace(series, axis, options, more) {
  const colour = options.colour(series.trajectory), bounded = series.points.some((point) => isNumber(point.low) && isNumber(point.high));
  const reach = (field) => series.points.map((point) => (isNumber(point[field]) ? Math.abs(point[field] - point.y) : 0));
  return {
    ...(bounded ? { error_y: { type: "data", symmetric: false, array: reach("high"), arrayminus: reach("low"), color: colour, thickness: 1, width: 2 } } : {}),
    type: "scatter", mode: mode(series.points, options), xaxis: "x", yaxis: axis,
    x: series.points.map((point) => point.x), y: series.points.map((point) => point.y), line: { color: colour, width: 1.5 },
    marker: { color: colour, size: 4 }, showlegend: false, name: plain(series.trajectory), meta: { key: series.key, kind: series.panel },
    text: series.points.map((point) => hoverText(series, point, more.get(point.checkpoint), options.metric, options.datasets)),
    hovertemplate: "%{text}<extra></extra>",
  };
}

/* What a logarithmic axis spans: the values, and the intervals as far as they do not pull it towards zero. In drawn units; null: nothing. */
function logSpan(model, options) {
  const scale = scaleOf(model.metric);
  const points = model.curves.filter((series) => !options.hidden.has(series.key)).flatMap((series) => series.points).filter((point) => point.y > 0);
  if (!points.length) return null;
  const low = Math.min(...points.map((point) => point.y)), high = Math.max(...points.map((point) => Math.max(point.y, point.high ?? 0)));
  const lowest = Math.min(...points.map((point) => (point.low > 0 ? point.low : point.y)));
  return [scale * Math.max(lowest, low / 2) * 0.85, scale * high * 1.15];
}

export function traces(model, options) {
  const more = hoverDetails(model), floor = options.yLog ? logSpan(model, options)?.[0] / 10 : -Infinity;
  const full = { ...options, metric: model.metric, x: model.x, datasets: model.datasets, floor };
  const out = [];
  const shown = model.curves.filter((series) => !options.hidden.has(series.key));
  const drawable = (series) => series.points.filter((point) => isNumber(point.x) && isNumber(point.y));
  if (model.x !== "learning_rate") for (const series of shown) out.push(bandTrace(series, drawable(series), full));
  for (const series of shown) out.push(curveTrace(series, drawable(series), full, more));
  for (const series of shown) out.push(flagTrace(series, drawable(series), "y", full));
  /* A trajectory all of whose curves are hidden is hidden in the other panels too. */
  const present = new Set(model.curves.map((series) => series.trajectory)), left = new Set(shown.map((series) => series.trajectory));
  const visible = (series) => left.has(series.trajectory) || !present.has(series.trajectory);
  sides(model).forEach(({ series }, index) => {
    for (const one of series.filter(visible)) out.push(sideTrace(one, `y${index + 2}`, full, more), flagTrace(one, one.points, `y${index + 2}`, full));
  });
  return out.filter(Boolean);
}

/* 1 2 5 10 … over what is drawn, and finer where that is less than a decade; Plotly's own sub-decade labels are too many and small. */
export function logTicks(values) {
  const drawn = values.filter((value) => value > 0);
  if (!drawn.length) return {};
  const low = Math.min(...drawn), high = Math.max(...drawn);
  const steps = high / low < 8 ? [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] : high / low > 1e4 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let decade = Math.floor(Math.log10(low)) - 1; decade <= Math.ceil(Math.log10(high)); decade++) {
    for (const step of steps) ticks.push(Number(`${step}e${decade}`));
  }
  return ticks.length <= 60 ? { tickmode: "array", tickvals: ticks, ticktext: ticks.map((tick) => (tick >= 1e3 ? compact(tick) : scientific(tick))) } : {};
}

/* The panels below the measure, top down: loss, curvature where it was measured, and the learning rate where it is known and not the x axis. */
function sides(model) {
  const panel = (name, more) => ({ series: model[name], title: plain(axisTitle(BELOW[name])), nticks: 4, ...more });
  const measured = ({ series }) => series.some(({ points }) => points.length);
  const rate = model.x === "learning_rate" ? [] : [panel("rate", { rangemode: "tozero" })];
  return [panel("loss", { nticks: 6 }), ...[panel("largest_algebraic"), panel("trace"), ...rate].filter(measured)];
}

export function figureHeight(model, narrow) {
  const more = Math.max(0, sides(model).length - 2);
  return (narrow ? 560 : 640) + more * (narrow ? 120 : 130);
}

/* Where the panels stand, as shares of the height from below: the measure at the top, twice as high and more as one of the others. */
function domains(count) {
  const gap = count > 2 ? 0.055 : count === 2 ? 0.075 : 0.09, share = [0.27, 0.16, 0.14, 0.125][count - 1];
  const out = {};
  for (let index = 0; index < count; index++) {
    const low = (count - 1 - index) * (share + gap);
    out[`y${index + 2}`] = [low, low + share];
  }
  return { y: [count * (share + gap), 1], ...out };
}

function panelTitle(text, top, ink, size) {
  return { text, xref: "paper", yref: "paper", x: 0, y: top, xanchor: "left", yanchor: "bottom", showarrow: false, yshift: 3, font: { color: ink.text, size } };
}

export function layout(model, options) {
  const { ink, narrow } = options, below = sides(model), place = domains(below.length);
  const size = narrow ? 11 : 12;
  const axis = {
    gridcolor: ink.grid, linecolor: ink.line, zerolinecolor: ink.line, tickfont: { color: ink.muted, size }, ticks: "outside", ticklen: 3,
    tickcolor: ink.line, automargin: true, exponentformat: "power", nticks: narrow ? 5 : 8,
  };
  const values = (field) => model.curves.flatMap((series) => series.points.map((point) => point[field]));
  const span = options.yLog ? logSpan(model, options) : null;
  const out = {
    autosize: true, height: options.height, paper_bgcolor: ink.paper, plot_bgcolor: ink.paper, hovermode: "closest", hoverdistance: 40, showlegend: false,
    margin: { l: narrow ? 40 : 56, r: narrow ? 10 : 16, t: 26, b: 44 }, font: { family: FONT, size, color: ink.text },
    dragmode: narrow ? false : "zoom", uirevision: [model.metric, model.x, options.xLog, options.yLog].join(),
    hoverlabel: { bgcolor: ink.paper, bordercolor: ink.line, font: { family: FONT, color: ink.text, size: 12 }, align: "left" },
    xaxis: { ...axis, type: options.xLog ? "log" : "linear", anchor: `y${below.length + 1}`, title: { text: AXES[model.x], font: { color: ink.text, size }, standoff: 8 }, nticks: narrow ? 5 : 10,
      exponentformat: model.x === "learning_rate" ? "power" : "B", zeroline: false, showline: true, showspikes: true, spikemode: "across", spikesnap: "data", spikethickness: 1, spikedash: "dot", spikecolor: ink.muted, ...(options.xLog ? logTicks(values("x")) : {}) },
    yaxis: { ...axis, type: options.yLog ? "log" : "linear", domain: place.y, rangemode: fromZero(model.metric) && !options.yLog ? "tozero" : "normal", ...(span ? { range: span.map(Math.log10), ...logTicks(span) } : {}) },
    annotations: [panelTitle(plain(axisTitle(model.metric)), place.y[1], ink, size)],
  };
  below.forEach(({ title, nticks, rangemode = "normal" }, index) => {
    const name = `y${index + 2}`;
    out[`yaxis${index + 2}`] = { ...axis, domain: place[name], nticks, zeroline: false, rangemode };
    out.annotations.push(panelTitle(title, place[name][1], ink, size));
  });
  return out;
}

/* The same figure for a file: white or dark paper, with a legend, of a fixed size. */
export function exported(model, options) {
  const figure = { data: traces(model, options), layout: layout(model, { ...options, narrow: false }) };
  Object.assign(figure.layout, { showlegend: true, autosize: false, width: options.width, height: options.height });
  figure.layout.legend = { orientation: "h", x: 0, y: -0.09, yanchor: "top", font: { size: 12, color: options.ink.text }, bgcolor: "rgba(0, 0, 0, 0)" };
  figure.layout.margin = { l: 64, r: 24, t: 40, b: 110 };
  return figure;
}
