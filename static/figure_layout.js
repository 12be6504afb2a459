/* figure_layout.js: the panels of a trajectory's figure: which there are, where they stand, their axes and titles. Pure
 * functions of the model (curves.js). */
import { AXES } from "./curves.js";
import { compact, percent, scientific } from "./format.js";
import { FONT, hoverLabel, plain } from "./look.js";
import { averagesOf, decayStart } from "./marks.js";
import { axisTitle, fromZero, scaleOf } from "./metrics.js";
import { fullName } from "./series.js";
import { zoomed } from "./view.js";

/* The metrics of the panels below the measure. */
export const BELOW = {
  loss: "validation_loss", largest_algebraic: "largest_algebraic", trace: "trace", rate: "learning_rate",
};

/* The metric of the panel that a series is in; of losses it says who measured them. */
export function below(panel, source) {
  return panel === "loss" && source ? source : BELOW[panel];
}

/* Trajectories whose rate falls, and the last point before it does. */
export function decays(model) {
  if (model.x === "learning_rate") return [];
  return model.rate.map(({ trajectory, points }) => ({ trajectory, point: decayStart(points) }))
    .filter(({ point }) => point !== null);
}

/* What a logarithmic axis spans: the values, and the intervals as far as they do not pull it towards zero. In drawn
 * units; null: nothing. */
export function logSpan(model, options) {
  const scale = scaleOf(model.metric);
  const shown = model.curves.filter((series) => !options.hidden.has(fullName(series)));
  const drawn = [...shown, ...averagesOf(shown, model.averages).map(({ series }) => series)];
  const points = drawn.flatMap((series) => series.points).filter((point) => point.y > 0);
  if (!points.length) return null;
  let low = Infinity, high = 0, lowest = Infinity;
  for (const point of points) {
    low = Math.min(low, point.y);
    high = Math.max(high, point.y, point.high ?? 0);
    lowest = Math.min(lowest, point.low > 0 ? point.low : point.y);
  }
  return [scale * Math.max(lowest, low / 2) * 0.85, scale * high * 1.15];
}

/* 1 2 5 10 … over what is drawn, and finer where that is less than a decade; Plotly's own sub-decade labels are too
 * many and small. */
export function logTicks(values, show = null) {
  const drawn = values.filter((value) => value > 0);
  if (!drawn.length) return {};
  const low = Math.min(...drawn), high = Math.max(...drawn);
  const steps = high / low < 8 ? [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9] : high / low > 1e4 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let decade = Math.floor(Math.log10(low)) - 1; decade <= Math.ceil(Math.log10(high)); decade++) {
    for (const step of steps) ticks.push(Number(`${step}e${decade}`));
  }
  if (ticks.length > 60) return {};
  const text = show ?? ((tick) => (tick >= 1e3 ? compact(tick) : scientific(tick)));
  return { tickmode: "array", tickvals: ticks, ticktext: ticks.map(text) };
}

/* Whether nothing was found of the measure: then its panel is left out, and the others have the height. */
export function isBare({ whole, curves }) {
  return whole && curves.every(({ points }) => !points.length);
}

/* The panels below the measure, top down: loss and curvature where they were measured, and the learning rate where it
 * is known and not the x axis. What is the measure itself is not drawn again. */
export function sides(model) {
  const titles = (name) => {
    const own = new Set(model[name].map((series) => axisTitle(below(name, series.source))));
    return [...own].join(" or ") || axisTitle(BELOW[name]);
  };
  const panel = (name, more) => ({ name, series: model[name], title: plain(titles(name)), nticks: 4, ...more });
  const rate = model.x === "learning_rate" ? [] : [panel("rate", { rangemode: "tozero" })];
  const measured = ({ name, series }) => series.some(({ points }) => points.length)
    || (name === "loss" && !model.whole); /* it comes, and keeps its place until then */
  const another = ({ name, series }) => !series.length
    || series.some(({ source }) => below(name, source) !== model.metric);
  return [panel("loss", { nticks: 6 }), panel("largest_algebraic"), panel("trace"), ...rate]
    .filter((one) => measured(one) && another(one));
}

export function figureHeight(model, narrow) {
  const count = sides(model).length, more = Math.max(0, count - 2);
  if (isBare(model)) return 110 + count * (narrow ? 130 : 150);
  return (narrow ? 560 : 640) + more * (narrow ? 120 : 130);
}

/* Where the panels stand, as shares of the height from below: the measure at the top, twice as high and more as one of
 * the others. */
function domains(count, bare) {
  if (bare) return evenDomains(count);
  if (!count) return { y: [0, 1] };
  const gap = count > 2 ? 0.055 : count === 2 ? 0.075 : 0.09, share = [0.27, 0.16, 0.14, 0.125][count - 1];
  const out = {};
  for (let index = 0; index < count; index++) {
    const low = (count - 1 - index) * (share + gap);
    out[`y${index + 2}`] = [low, low + share];
  }
  return { y: [count * (share + gap), 1], ...out };
}

/* The same without the measure: of one height. */
function evenDomains(count) {
  const gap = 0.12, share = (1 - gap * (count - 1)) / count, out = { y: [0, 1] };
  for (let index = 0; index < count; index++) {
    const low = (count - 1 - index) * (share + gap);
    out[`y${index + 2}`] = [low, Math.min(1, low + share)];
  }
  return out;
}

function panelTitle(text, top, ink, size) {
  return {
    text, xref: "paper", yref: "paper", x: 0, y: top, xanchor: "left", yanchor: "bottom",
    showarrow: false, yshift: 3, font: { color: ink.text, size },
  };
}

/* Least and greatest positive x. */
function positiveEnds(model) {
  let low = Infinity, high = 0;
  for (const series of model.curves) {
    for (const { x } of series.points) {
      if (x > 0) low = Math.min(low, x);
      high = Math.max(high, x);
    }
  }
  return high > 0 ? [low, high] : [];
}

/* A line through all panels at the last checkpoint before the rate of a trajectory falls; below them a line of the grid
 * would hide it. */
function decayShape({ trajectory, point }, options) {
  return {
    type: "line", xref: "x", yref: "paper", x0: point.x, x1: point.x, y0: 0, y1: 1,
    layer: "above", line: { color: options.colour(trajectory), width: 1, dash: "dashdot" },
  };
}

/* A share is told with what it is a share of. */
function axisName({ x, base }) {
  return x === "share" ? `${AXES.share} so far (by ${AXES[base]})` : AXES[x];
}

/* Where all curves have one and the same x, that alone is told: Plotly would divide a step, or a token, into parts. */
function onlyPlace(model) {
  const all = [...model.curves, ...sides(model).flatMap(({ series }) => series)].flatMap(({ points }) => points);
  const places = new Set(all.map(({ x }) => x));
  return places.size === 1 ? { tickmode: "array", tickvals: [...places] } : {};
}

function xAxis(model, options, axis, anchor) {
  const { ink, narrow, xLog, zoom } = options, { size } = axis.tickfont;
  return {
    ...axis, type: xLog ? "log" : "linear", anchor, nticks: narrow ? 5 : 10,
    title: { text: axisName(model), font: { color: ink.text, size }, standoff: 8 },
    exponentformat: model.x === "learning_rate" ? "power" : "B", ...(model.x === "share" ? { tickformat: ".0%" } : {}),
    zeroline: false, showline: true,
    showspikes: true, spikemode: "across", spikesnap: "data",
    spikethickness: 1, spikedash: "dot", spikecolor: ink.muted,
    ...(xLog ? logTicks(positiveEnds(model), model.x === "share" ? percent : null) : {}), ...onlyPlace(model),
    ...zoomed(zoom?.x),
  };
}

function yAxis(model, options, axis, domain) {
  if (isBare(model)) return { ...axis, domain, visible: false };
  const { yLog, zoom } = options, span = yLog ? logSpan(model, options) : null;
  return {
    ...axis, type: yLog ? "log" : "linear", domain,
    rangemode: fromZero(model.metric) && !yLog ? "tozero" : "normal",
    ...(span ? { range: span.map(Math.log10), ...logTicks(span) } : {}), ...zoomed(zoom?.y),
  };
}

export function layout(model, options) {
  const { ink, narrow } = options, below = sides(model), bare = isBare(model);
  const place = domains(below.length, bare);
  const size = narrow ? 11 : 12;
  const axis = {
    gridcolor: ink.grid, linecolor: ink.line, zerolinecolor: ink.line, tickcolor: ink.line,
    tickfont: { color: ink.muted, size }, ticks: "outside", ticklen: 3,
    automargin: true, exponentformat: "power", nticks: narrow ? 5 : 8,
  };
  const out = {
    autosize: true, height: options.height, paper_bgcolor: ink.paper, plot_bgcolor: ink.paper,
    hovermode: "closest", hoverdistance: 40, showlegend: false,
    margin: { l: narrow ? 40 : 56, r: narrow ? 10 : 16, t: 26, b: 44 }, font: { family: FONT, size, color: ink.text },
    dragmode: narrow ? false : "zoom", uirevision: [model.metric, model.x, options.xLog, options.yLog].join(),
    shapes: decays(model).map((one) => decayShape(one, options)),
    hoverlabel: hoverLabel(ink),
    xaxis: xAxis(model, options, axis, below.length ? `y${below.length + 1}` : "y"),
    yaxis: yAxis(model, options, axis, place.y),
    annotations: bare ? [] : [panelTitle(plain(axisTitle(model.metric)), place.y[1], ink, size)],
  };
  below.forEach(({ title, nticks, rangemode = "normal" }, index) => {
    const name = `y${index + 2}`;
    out[`yaxis${index + 2}`] = { ...axis, domain: place[name], nticks, zeroline: false, rangemode };
    out.annotations.push(panelTitle(title, place[name][1], ink, size));
  });
  return out;
}
