/* figure.js: the figure of a trajectory as Plotly wants it: the traces of each panel (figure_layout.js), the measure at
 * the top. Pure functions of the model (curves.js), so that screen and export draw the same. */
import { changeOf, changeSentence, changeWords } from "./changepoints.js";
import { hoverDetails } from "./curves.js";
import { BELOW, below, layout, logSpan, sides } from "./figure_layout.js";
import { FLAGS } from "./integrity.js";
import { compact, integer, isNumber } from "./format.js";
import { legendOf, plain, whiskersOf } from "./look.js";
import { averagesOf, branches, newestPoint, worstPoint } from "./marks.js";
import { formatOf, metric as metricOf, scaleOf } from "./metrics.js";
import { hollow, plainLook, symbol, translucent } from "./palette.js";
import { evaluationKey, fullName } from "./series.js";
import { thin } from "./thin.js";

const MARKED_POINTS = 40; /* a curve of more points is drawn without markers: they would hide its dash */

function valueText(metric, point) {
  const { text, interval } = formatOf(metricOf(metric)), bounds = interval(point.low, point.high);
  return `${plain(metricOf(metric).label)} <b>${text(point.y)}</b>${bounds ? ` (95 %: ${bounds})` : ""}`;
}

/* Texts are made once for each model: `more` is the model's own. */
const texts = new WeakMap();

function hoverText(series, point, more, metric) {
  if (!texts.has(more)) texts.set(more, new WeakMap());
  const known = texts.get(more);
  if (!known.has(point)) known.set(point, hoverLines(series, point, more.get(point.checkpoint), metric));
  return known.get(point);
}

function hoverLines(series, point, more, metric) {
  const name = plain(point.checkpoint_name ?? more?.name ?? point.checkpoint);
  const lines = [`<b>${name}</b>  ${plain(series.trajectory)}`];
  if (series.panel === "curve") lines.push(plain(series.text), valueText(metric, point));
  const position = [];
  if (isNumber(more?.tokens)) position.push(`${compact(more.tokens)} tokens`);
  if (isNumber(more?.step)) position.push(`step ${integer(more.step)}`);
  if (position.length) lines.push(position.join(" · "));
  for (const panel of Object.keys(BELOW)) {
    const own = series.panel === panel;
    const value = own ? point.y : more?.[panel], shown = metricOf(below(panel, own ? series.source : more?.source));
    const on = panel === "loss" && !own ? more?.on ?? "" : "";
    if (isNumber(value)) lines.push(`${plain(shown.axis + on)} ${formatOf(shown).text(value)}`);
  }
  if (series.panel === "loss" && series.text !== "full precision") lines.push(plain(series.text));
  if (more?.averaged) lines.push(`average of ${more.averaged} checkpoints`);
  for (const flag of point.flags ?? []) lines.push(`<b>▲ ${plain(FLAGS[flag]?.[1] ?? flag)}</b>`);
  return lines.join("<br>");
}

/* Of drawn values of a series: each panel has a metric of its own. */
function scaleIn(series, options) {
  return scaleOf(series.panel === "curve" ? options.metric : below(series.panel, series.source));
}

/* Points with an interval. */
function boundedOf(points) {
  return points.filter((point) => isNumber(point.low) && isNumber(point.high));
}

/* Whether the intervals of a curve are drawn as bars: a band needs two of them, and an axis along training. */
export function hasBars(points, x) {
  return x === "learning_rate" || boundedOf(points).length === 1;
}

/* The interval as a closed outline: along the lower bounds and back along the upper ones. */
function bandTrace(series, points, options) {
  const scale = scaleOf(options.metric), measured = boundedOf(points);
  if (measured.length < 2) return null;
  const x = measured.map((point) => point.x);
  const low = measured.map((point) => Math.max(options.floor, scale * point.low));
  const high = measured.map((point) => Math.max(options.floor, scale * point.high));
  return {
    type: "scatter", mode: "lines", xaxis: "x", yaxis: "y",
    x: [...x, ...[...x].reverse()], y: [...low, ...high.reverse()],
    fill: "toself", fillcolor: translucent(options.colourOf(series), options.dark ? 0.2 : 0.13), line: { width: 0 },
    hoverinfo: "skip", showlegend: false, legendgroup: series.key, name: "interval",
    meta: { key: series.key, kind: "band" },
  };
}

/* Against the learning rate points stand in no order that a line could follow. */
function mode(points, options) {
  if (options.x === "learning_rate") return "markers";
  return points.length > MARKED_POINTS ? "lines" : "lines+markers";
}

function marker(series, colour, { ink }) {
  const fill = hollow(series.bits) ? ink.paper : colour;
  return { color: fill, size: 6, symbol: symbol(series.method), line: { color: colour, width: 1.5 } };
}

function curveTrace(series, points, options, more) {
  const scale = scaleOf(options.metric), colour = options.colourOf(series);
  const trace = {
    type: "scatter", mode: mode(points, options), xaxis: "x", yaxis: "y",
    x: points.map((point) => point.x), y: points.map((point) => scale * point.y),
    line: { color: colour, width: 2, dash: options.dashOf(series) }, marker: marker(series, colour, options),
    text: points.map((point) => hoverText(series, point, more, options.metric)),
    hovertemplate: "%{text}<extra></extra>", legendgroup: series.key, meta: { key: series.key, kind: "curve" },
    customdata: points.map((point) => point.checkpoint), name: plain(fullName(series)),
  };
  return hasBars(points, options.x) ? { ...trace, ...whiskersOf(points, scale, colour) } : trace;
}

/* The last point before a change, with the interval of its place across and what happens in words. */
function changeTrace(series, points, changes, options) {
  const found = changeOf(changes, series), point = found && points.find(({ x }) => x === found.after.x);
  if (!point) return null;
  const scale = scaleOf(options.metric), [low, high] = found.interval, { text } = options.ink;
  const test = changes.find(({ change }) => change === found);
  const sentence = changeSentence(options.metric, options.x, found, test.adjusted_p_value);
  return {
    type: "scatter", mode: "markers+text", xaxis: "x", yaxis: "y", x: [point.x], y: [scale * point.y],
    text: [changeWords(found)], textposition: found.size > 0 ? "bottom center" : "top center",
    textfont: { color: text, size: 12 },
    error_x: {
      type: "data", symmetric: false, array: [high - point.x], arrayminus: [point.x - low],
      color: text, thickness: 1.5, width: 6,
    },
    marker: { symbol: "diamond-open", size: 14, color: text, line: { color: text, width: 2 } },
    hovertext: [plain(`${series.trajectory}: ${sentence}`)], hovertemplate: "%{hovertext}<extra></extra>",
    showlegend: false, legendgroup: series.key, name: "change", meta: { key: series.key, kind: "change" },
  };
}

/* Rings around the points of checkpoints that are not what they claim to be. */
function flagTrace(series, points, axis, options) {
  const marked = points.filter((point) => point.flags?.length);
  if (!marked.length) return null;
  const scale = scaleIn(series, options), { bad } = options.ink;
  return {
    type: "scatter", mode: "markers", xaxis: "x", yaxis: axis,
    x: marked.map((point) => point.x), y: marked.map((point) => scale * point.y),
    marker: { symbol: "circle-open", size: 13, color: bad, line: { color: bad, width: 2 } },
    hoverinfo: "skip", showlegend: false, legendgroup: series.key, name: "marked",
    meta: { key: series.key, kind: "flag" },
  };
}

/* One trace of single points, each in the colour of its curve. */
function pointsTrace(kind, found, options, { text, ...more }) {
  const scale = scaleOf(options.metric);
  const shown = found.filter(({ point }) => point !== null && isNumber(point.x) && isNumber(point.y));
  if (!shown.length) return null;
  const colours = shown.map(({ series }) => options.colourOf(series));
  const look = text
    ? { text: shown.map(() => text), textfont: { size: 18, color: colours }, cliponaxis: false }
    : { marker: { symbol: "circle-open", size: 12, color: colours, line: { color: colours, width: 1.5 } } };
  return {
    type: "scatter", xaxis: "x", yaxis: "y",
    x: shown.map(({ point }) => point.x), y: shown.map(({ point }) => scale * point.y),
    ...look, ...more, hoverinfo: "skip", showlegend: false, name: kind, meta: { kind },
  };
}

/* From the point that a branch was taken from to its own first. */
function branchTrace({ series, from, to }, options) {
  const scale = scaleOf(options.metric);
  return {
    type: "scatter", mode: "lines", xaxis: "x", yaxis: "y", x: [from.x, to.x], y: [scale * from.y, scale * to.y],
    line: { color: options.colourOf(series), width: 1.2, dash: "dot" }, hoverinfo: "skip", showlegend: false,
    legendgroup: series.key, name: "branch", meta: { key: series.key, kind: "branch" },
  };
}

function markTraces(shown, model, options) {
  if (options.x === "learning_rate") return [];
  const of = (find) => shown.map((series) => ({ series, point: series.points.length ? find(series) : null }));
  const worst = of((series) => worstPoint(series, options.metric));
  return [
    ...branches(shown, model.parents, model.others).map((one) => branchTrace(one, options)),
    pointsTrace("worst", worst, options, { mode: "text", text: "▾", textposition: "top center" }),
    pointsTrace("newest", of(newestPoint), options, { mode: "markers" }),
  ];
}

/* Averages of a run's checkpoints, in the colour of the curve that was measured likewise; hidden with it. */
function averageTraces(shown, model, options, more) {
  const scale = scaleOf(options.metric), out = [];
  for (const { series, curve } of averagesOf(shown, model.averages)) {
    const points = drawable(series, options);
    if (!points.length) continue;
    const colour = options.colourOf(curve), fill = hollow(series.bits) ? options.ink.paper : colour;
    out.push({
      type: "scatter", mode: "markers", xaxis: "x", yaxis: "y", x: points.map((point) => point.x),
      y: points.map((point) => scale * point.y),
      marker: { symbol: "star", size: 12, color: fill, line: { color: colour, width: 1.5 } },
      text: points.map((point) => hoverText(series, point, more, options.metric)),
      hovertemplate: "%{text}<extra></extra>", customdata: points.map((point) => point.checkpoint),
      name: `${plain(series.trajectory)} · ${plain(series.text)}`, meta: { key: series.key, kind: "average" },
    });
  }
  return out;
}

/* Of a loss, the place of its evaluation among those of the losses; 0 for what is not told apart by evaluation. */
function placeOf(series, { evaluations }) {
  return series.panel === "loss" ? evaluations.findIndex(({ key }) => key === evaluationKey(series)) : 0;
}

/* The first losses of each evaluation stand in the legend of a file, where there are several. */
function withLegend(found, model) {
  const named = new Set();
  for (const { series, trace } of found) {
    const place = placeOf(series, model);
    if (series.panel !== "loss" || model.evaluations.length < 2 || named.has(place)) continue;
    named.add(place);
    const name = `${metricOf(below("loss", series.source)).axis}, on ${model.evaluations[place].words}`;
    Object.assign(trace, { showlegend: true, name: plain(name) });
  }
  return found.map(({ trace }) => trace);
}

function sideTrace(series, points, axis, options, more) {
  const colour = options.colour(series.trajectory), scale = scaleIn(series, options);
  const look = plainLook(placeOf(series, options));
  return {
    ...whiskersOf(points, scale, colour),
    type: "scatter", mode: mode(points, options), xaxis: "x", yaxis: axis,
    x: points.map((point) => point.x), y: points.map((point) => scale * point.y),
    line: { color: colour, width: 1.5, dash: look.dash }, marker: { color: colour, size: 4, symbol: look.symbol },
    showlegend: false, name: plain(series.trajectory), meta: { key: series.key, kind: series.panel },
    text: points.map((point) => hoverText(series, point, more, options.metric)),
    hovertemplate: "%{text}<extra></extra>", customdata: points.map((point) => point.checkpoint),
  };
}

/* Details and panels of a model do not change: they are made once. */
const kept = new WeakMap();

function detailsOf(model) {
  if (!kept.has(model)) kept.set(model, hoverDetails(model));
  return kept.get(model);
}

/* Points that can be drawn, by ascending x; as many as pixels can show. */
function drawable(series, options) {
  const seen = ({ x, y }) => isNumber(x) && isNumber(y) && !(options.xLog && !(x > 0));
  const points = series.points.filter(seen);
  return options.x === "learning_rate" ? points : thin(points, options.zoom?.x ?? null, options.xLog);
}

export function traces(model, options) {
  const more = detailsOf(model), floor = options.yLog ? logSpan(model, options)?.[0] / 10 : -Infinity;
  const { metric, x, evaluations } = model, full = { ...options, metric, x, evaluations, floor };
  const shown = model.curves.filter((series) => !options.hidden.has(fullName(series)));
  const points = new Map(shown.map((series) => [series, drawable(series, full)]));
  const out = [];
  if (model.x !== "learning_rate") for (const series of shown) out.push(bandTrace(series, points.get(series), full));
  for (const series of shown) out.push(curveTrace(series, points.get(series), full, more));
  out.push(...averageTraces(shown, model, full, more), ...markTraces(shown, model, full));
  for (const series of shown) out.push(flagTrace(series, series.points, "y", full));
  for (const series of shown) out.push(changeTrace(series, series.points, options.changes ?? [], full));
  /* A trajectory all of whose curves are hidden is hidden in the other panels too. */
  const present = new Set(model.curves.map((series) => series.trajectory));
  const left = new Set(shown.map((series) => series.trajectory));
  const visible = (series) => left.has(series.trajectory) || !present.has(series.trajectory);
  sides(model).forEach(({ series }, index) => {
    const axis = `y${index + 2}`, own = series.filter(visible);
    const drawn = own.map((one) => ({ series: one, trace: sideTrace(one, drawable(one, full), axis, full, more) }));
    out.push(...withLegend(drawn, model), ...own.map((one) => flagTrace(one, one.points, axis, full)));
  });
  return out.filter(Boolean);
}

/* The same figure for a file (paper.js), with a legend: on the screen the page has one. */
export function exported(model, options) {
  const figure = { data: traces(model, options), layout: layout(model, options) };
  Object.assign(figure.layout, { showlegend: true, legend: legendOf(options.ink) });
  return figure;
}
