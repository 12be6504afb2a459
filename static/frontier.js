/* frontier.js: quantizations as points of bits and damage, and which of them no other one beats. Pure functions. */
import { bytes, isNumber, scientific } from "./format.js";
import { axisOf, legendOf, paperOf, plain, whiskersOf } from "./look.js";
import { formatOf, metric as metricOf, scaleOf } from "./metrics.js";
import { hollow, hollowWords, symbol } from "./palette.js";
import { bitsOf, evaluationKey, evaluationNames, labelOf } from "./series.js";
import { zoomed } from "./view.js";

/* Of the steps of each evaluation. */
const DASHES = [["dot", "dotted"], ["dash", "dashed"], ["dashdot", "dash-dotted"], ["solid", "solid"]];

/* Points of the series of a measure, with the bits per weight of the same run: of the quantized weights, and of the
 * whole model where that is known. `parameters`: Map trajectory -> count. */
export function frontierRows(values, bits, model, parameters) {
  const key = (series, point) => `${point.run} ${labelOf(series)}`;
  const byRun = (list) => new Map(list.flatMap((series) =>
    series.points.filter((point) => point.run).map((point) => [key(series, point), point.y])));
  const stored = byRun(bits), whole = byRun(model), evaluations = evaluationNames(values);
  const last = new Map();
  const rowOf = (series, point) => {
    const { trajectory } = series, width = stored.get(key(series, point));
    const all = whole.get(key(series, point)) ?? width, count = parameters.get(trajectory);
    last.set(trajectory, Math.max(last.get(trajectory) ?? -Infinity, point.x));
    return {
      trajectory, label: labelOf(series) || "full precision", method: series.method, width: bitsOf(series),
      evaluation: evaluations.get(evaluationKey(series)),
      checkpoint: point.checkpoint, name: point.checkpoint_name ?? point.checkpoint, run: point.run,
      step: point.x, y: point.y, low: point.low, high: point.high,
      bits: width, size: isNumber(count) ? (count * all) / 8 : null,
    };
  };
  const rows = values.flatMap((series) => series.points
    .filter((point) => isNumber(point.y) && stored.has(key(series, point)))
    .map((point) => rowOf(series, point)));
  return rows.map((row) => ({ ...row, newest: row.step === last.get(row.trajectory) }));
}

/* Trajectories of which a quantized series ends at a run without bits. */
export function lacking(values, bits) {
  const runs = new Set(bits.flatMap(({ points }) => points.map(({ run }) => run)));
  const lacks = ({ method, points }) => method && points.length > 0 && !runs.has(points.at(-1).run);
  return [...new Set(values.filter(lacks).map(({ trajectory }) => trajectory))];
}

/* As many names, from the first one on, as have at most `most` points together, and one at least. */
export function within(names, series, most) {
  const own = (name) => series.filter(({ trajectory }) => trajectory === name);
  let left = most;
  const end = names.findIndex((name, place) => {
    left -= own(name).reduce((sum, { total }) => sum + total, 0);
    return left < 0 && place > 0;
  });
  return end < 0 ? names : names.slice(0, end);
}

/* Marks the rows that no other of the same evaluation beats: none is as small and better. By cost, then by damage: a
 * row is unbeaten when it is better than all that come before it, or equal to the last of these in both, since neither
 * of two equal rows beats the other. `best` is null of a row that is alone in its evaluation, since nothing can be
 * compared with it. */
export function unbeaten(rows, { y, size }) {
  const sign = metricOf(y).better === "higher" ? -1 : 1, cost = (row) => (size ? row.size : row.bits);
  const best = new Set(), least = new Map(), counts = new Map();
  const ordered = rows.filter((row) => isNumber(cost(row))).sort((a, b) => cost(a) - cost(b) || sign * (a.y - b.y));
  for (const row of ordered) {
    counts.set(row.evaluation, (counts.get(row.evaluation) ?? 0) + 1);
    const damage = sign * row.y, last = least.get(row.evaluation);
    if (last && (damage > last.damage || (damage === last.damage && cost(row) > last.cost))) continue;
    least.set(row.evaluation, { damage, cost: cost(row) });
    best.add(row);
  }
  const verdict = (row) => (best.has(row) && counts.get(row.evaluation) === 1 ? null : best.has(row));
  return rows.map((row) => ({ ...row, best: verdict(row) }));
}

/* Evaluations of which something was compared, in the order of their dashes. */
function compared(rows) {
  return [...new Set(rows.filter(({ best }) => best).map(({ evaluation }) => evaluation))];
}

/* What markers and lines mean, of those that are there. */
export function frontierKey(rows) {
  if (!rows.length) return [];
  const steps = compared(rows).map((evaluation, index) => `${DASHES[index % DASHES.length][1]} on ${evaluation}`);
  return [
    "shape of a marker: the method", "its colour: the trajectory", hollowWords(rows.map(({ width }) => width)),
    steps.length ? "steps: unbeaten, that is, nothing as small loses less on the same evaluation "
      + `(${steps.join("; ")})` : null,
    rows.some(({ low }) => isNumber(low)) ? "whiskers: 95 %; unbeaten is by the values alone, and where whiskers "
      + "overlap a comparison in pairs decides" : null,
  ].filter(Boolean);
}

/* Entries of the legend: of each method its shape in no trajectory's colour; in a file also the colours, which the
 * buttons above the figure have on the screen. */
function legendTraces(rows, { ink, colour, paper }) {
  const entry = (name, shape, color) => ({
    type: "scatter", mode: "markers", x: [null], y: [null], name: plain(name), hoverinfo: "skip",
    marker: { symbol: shape, size: 9, color, line: { color, width: 2 } }, meta: { kind: "legend" },
  });
  const methods = [...new Set(rows.map(({ method }) => method))];
  const names = paper ? [...new Set(rows.map(({ trajectory }) => trajectory))] : [];
  return [
    ...methods.map((method) => entry(method ?? "full precision", symbol(method), ink.muted)),
    ...names.map((name) => entry(name, "square", colour(name))),
  ];
}

export function quantizedFrontier(rows, { ink, narrow, y, size, colour, title, zoom, paper }) {
  const { text, interval: between } = formatOf(metricOf(y));
  const at = (row) => (size ? row.size : row.bits), scale = scaleOf(y);
  const drawn = rows.filter((row) => isNumber(at(row)));
  const words = (row) => [
    `<b>${plain(row.name)}</b>  ${plain(row.trajectory)}`,
    plain(row.label), `on ${plain(row.evaluation)}`,
    `${scientific(row.bits, 4)} bits per weight${row.size ? `, ${bytes(row.size)}` : ""}`,
    `${plain(metricOf(y).label)} <b>${text(row.y)}</b>`,
    isNumber(row.low) && isNumber(row.high) ? `95 %: ${between(row.low, row.high)}` : "",
  ].filter(Boolean).join("<br>");
  const methods = [...new Set(drawn.map((row) => row.method))];
  const traces = methods.map((method) => {
    const own = drawn.filter((row) => row.method === method), colours = own.map((row) => colour(row.trajectory));
    const fills = own.map((row, place) => (hollow(row.width) ? ink.paper : colours[place]));
    return {
      type: "scatter", mode: "markers", name: plain(method ?? "full precision"), showlegend: false,
      x: own.map(at), y: own.map((row) => scale * row.y),
      text: own.map(words), hovertemplate: "%{text}<extra></extra>", customdata: own.map((row) => row.checkpoint),
      marker: { symbol: symbol(method), size: 9, color: fills, line: { color: colours, width: 2 } },
      ...whiskersOf(own, scale, ink.muted),
      meta: { kind: "points", method, names: own.map((row) => `${row.trajectory}/${row.name} · ${row.label}`) },
    };
  });
  const lines = compared(rows).map((evaluation, index) => {
    const line = drawn.filter((row) => row.best && row.evaluation === evaluation).sort((a, b) => at(a) - at(b));
    const [dash] = DASHES[index % DASHES.length];
    return {
      type: "scatter", mode: "lines", name: "unbeaten", showlegend: index === 0,
      x: line.map(at), y: line.map((row) => scale * row.y),
      line: { color: ink.muted, width: 1.5, dash, shape: "hv" }, hoverinfo: "skip",
      meta: { kind: "unbeaten", evaluation },
    };
  });
  return {
    data: [...lines, ...traces, ...legendTraces(drawn, { ink, colour, paper })],
    layout: {
      ...paperOf(ink, narrow ? 380 : 480), margin: { l: narrow ? 44 : 60, r: 14, t: 34, b: 48 },
      showlegend: true, legend: legendOf(ink), hoverdistance: 30, dragmode: narrow ? false : "zoom",
      xaxis: {
        ...axisOf(ink, size ? "size (bytes)" : "bits per weight"),
        exponentformat: size ? "B" : "none", ticks: "outside", ticklen: 3, nticks: narrow ? 5 : 10,
        ...zoomed(zoom?.x),
      },
      yaxis: { ...axisOf(ink, plain(title)), ticks: "outside", ticklen: 3, ...zoomed(zoom?.y) },
    },
  };
}
