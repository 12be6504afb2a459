/* geometry.js: what runs between checkpoints found: the plane of a path with its losses, the line between two,
 * averages. */
import { checkpoint } from "./api.js";
import { segmented } from "./controls.js";
import { fill, h } from "./dom.js";
import { integer, isNumber, loss, percentInterval, percentNumber, plural } from "./format.js";
import { axisOf, colourBar, drawing, legendOf, paperOf, plain } from "./look.js";
import { axisTitle, heading, metric, scaleOf, unitOf } from "./metrics.js";
import { translucent } from "./palette.js";
import { checkpointLink } from "./router.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

/* Fields of a landscape that can be shown: [field, the metric that it holds]. */
const KINDS = [["losses", "loss"], ["losses_q", "loss_q"], ["deltas", "delta"]];

function variance(found, index) {
  const share = found.explained_variance?.[index];
  return `direction ${index + 1}${isNumber(share) ? ` (${percentNumber(share)} % of variance)` : ""}`;
}

/* A height at which one unit is as long on both axes, within what a page can show. */
function evenHeight(found, width, narrow) {
  const span = (values) => values.at(-1) - values[0];
  const across = Math.max(120, width - (narrow ? 100 : 150));
  return Math.round(Math.min(narrow ? 460 : 640, Math.max(290, (across * span(found.y)) / span(found.x) + 76)));
}

function pathTrace(found, names, ink) {
  const last = found.points.length - 1, { points, point_losses: losses } = found;
  const text = points.map((_, index) => [
    `<b>${plain(names[index] ?? `checkpoint ${index + 1}`)}</b>`,
    isNumber(losses?.[index]) ? `loss ${loss(losses[index])}` : "",
  ].filter(Boolean).join("<br>"));
  return {
    type: "scatter", mode: "lines+markers", x: points.map(([x]) => x), y: points.map(([, y]) => y),
    text, hovertemplate: "%{text}<extra></extra>", line: { color: ink.text, width: 1.5 },
    marker: {
      size: points.map((_, index) => (index === 0 || index === last ? 10 : 7)),
      symbol: points.map((_, index) => (index === last ? "star" : index === 0 ? "square" : "circle")),
      color: ink.colour(1), line: { color: ink.paper, width: 1 },
    },
    meta: { kind: "path" },
  };
}

export function landscapeFigure(found, kind, names, { ink, narrow }, width) {
  const [field, name] = KINDS.find(([one]) => one === kind);
  const { label } = metric(name), unit = unitOf(metric(name)) ?? "", factor = scaleOf(name);
  const z = found[field].map((row) => row.map((value) => (isNumber(value) ? factor * value : null)));
  const axis = { showgrid: false, ticks: "outside", ticklen: 3, constrain: "domain", nticks: narrow ? 5 : 8 };
  return {
    data: [
      {
        type: "contour", x: found.x, y: found.y, z, colorscale: ink.heat, colorbar: colourBar(ink, unit),
        ncontours: 22, contours: { coloring: "heatmap" }, line: { width: 0.7, color: ink.muted }, connectgaps: false,
        hovertemplate: `${label} <b>%{z:.4f} ${unit}</b><extra></extra>`, meta: { kind: "landscape" },
      },
      pathTrace(found, names, ink),
    ],
    layout: {
      ...paperOf(ink, evenHeight(found, width, narrow), narrow ? 40 : 56),
      xaxis: { ...axisOf(ink, variance(found, 0)), ...axis },
      yaxis: { ...axisOf(ink, variance(found, 1)), ...axis, scaleanchor: "x", scaleratio: 1 },
    },
  };
}

/* Ids -> [{id, name, trajectory}], what is known of each. */
function known(ids) {
  return Promise.all((ids ?? []).map(async (id) => {
    const found = await checkpoint(id);
    return { id, name: found?.name ?? id, trajectory: found?.trajectory ?? null };
  }));
}

export function landscapeSection(run, signal) {
  const found = run.result, there = KINDS.filter(([field]) => Array.isArray(found[field]));
  let kind = "losses", names = [];
  const words = "losses over the plane of the path's first two principal directions, and the path";
  const figure = (look, width) => landscapeFigure(found, kind, names, look, width);
  const plot = drawing("landscape-plot", words, figure, signal);
  known(found.checkpoints ?? run.params?.checkpoints).then((rows) => {
    names = rows.map((row) => row.name);
    plot.redraw();
  });
  const choices = there.map(([field, name]) => [field, metric(name).label]);
  const show = (value) => { kind = value; plot.redraw(); };
  return h("section", {}, h("h2", {}, "Loss over the plane of the path"),
    there.length > 1 ? h("div", { class: "controls" }, segmented("Shown", choices, kind, show)) : null,
    plot.node,
    h("p", { class: "muted caption" },
      `The path of ${plural(found.points.length, "checkpoint")} from the square to the star, projected on its first `,
      "two principal directions with their shares of its variance; axes in units of the parameters."));
}

export function lineFigure(found, ends, { ink }) {
  const colour = ink.colour(0), quantized = ink.colour(1);
  const deltas = Array.isArray(found.deltas) && found.deltas.some(isNumber);
  const line = (field, name, look) => ({
    type: "scatter", mode: "lines", x: found.alphas, y: found[field], name, line: { width: 2, ...look },
    hovertemplate: `alpha %{x:.3g}<br>${name} <b>%{y:.4f} nats</b><extra></extra>`, meta: { kind: field },
  });
  const data = [line("losses", "full precision", { color: colour })];
  if (found.losses_q) data.push(line("losses_q", "quantized", { color: quantized, dash: "dash" }));
  if (deltas) data.push(...deltaTraces(found, quantized));
  const mark = (x, name, xanchor) => ({
    x, y: 0, xref: "x", yref: "paper", text: plain(name), showarrow: false,
    xanchor, yanchor: "bottom", font: { color: ink.muted, size: 11 },
  });
  const layout = {
    ...paperOf(ink, deltas ? 460 : 340), margin: { l: 56, r: 14, t: 34, b: 44 },
    showlegend: Boolean(found.losses_q), legend: legendOf(ink),
    xaxis: { ...axisOf(ink, "alpha"), anchor: deltas ? "y2" : "y" },
    yaxis: { ...axisOf(ink, axisTitle("loss")), domain: deltas ? [0.42, 1] : [0, 1] },
    annotations: [mark(0, ends[0], "left"), mark(1, ends[1], "right")],
  };
  if (deltas) layout.yaxis2 = { ...axisOf(ink, axisTitle("delta")), domain: [0, 0.32], rangemode: "tozero" };
  return { data, layout };
}

function deltaTraces(found, colour) {
  const { label } = metric("delta"), intervals = found.delta_intervals ?? [];
  const text = found.deltas.map((value, index) =>
    `${plain(label)} <b>${percentNumber(value)} %</b><br>${percentInterval(...(intervals[index] ?? []))}`);
  const trace = {
    type: "scatter", mode: "lines", x: found.alphas,
    y: found.deltas.map((value) => (isNumber(value) ? 100 * value : null)), yaxis: "y2",
    line: { color: colour, width: 2 }, text, hovertemplate: "%{text}<extra></extra>", showlegend: false,
    meta: { kind: "deltas", bounds: intervals.map((ends) => (ends ?? []).map((end) => 100 * end)) },
  };
  const bounds = found.alphas.map((alpha, index) => [alpha, ...(intervals[index] ?? [null, null])])
    .filter(([, low, high]) => isNumber(low) && isNumber(high));
  return bounds.length > 1 ? [deltaBand(bounds, colour), trace] : [trace];
}

/* `bounds`: [alpha, low, high]; along the lower ones and back along the upper ones. */
function deltaBand(bounds, colour) {
  const back = [...bounds].reverse();
  return {
    type: "scatter", mode: "lines", x: [...bounds, ...back].map(([x]) => x),
    y: [...bounds.map(([, low]) => 100 * low), ...back.map(([, , high]) => 100 * high)], yaxis: "y2",
    fill: "toself", fillcolor: translucent(colour, 0.16), line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    meta: { kind: "band" },
  };
}

export function lineSection(run, signal) {
  let ends = ["from", "to"];
  const plot = drawing("line-plot", "losses on the line between the two checkpoints",
    (look) => lineFigure(run.result, ends, look), signal);
  known([run.params?.from, run.params?.to].filter(Boolean)).then((rows) => {
    if (rows.length === 2) ends = rows.map((row) => row.name);
    plot.redraw();
  });
  return h("section", {}, h("h2", {}, "Losses between the two checkpoints"), plot.node);
}

/* The averages that a run made, and the windows that a search tried. */
export function averageSection(run) {
  const found = run.result, made = h("ul", { class: "plain" });
  const nameOf = ({ id, name, trajectory }) => (trajectory
    ? h("a", { href: checkpointLink(id), class: "name" }, `${trajectory}/${name}`)
    : h("span", { class: "name" }, name));
  known(found.checkpoints ?? [found.checkpoint].filter(Boolean))
    .then((rows) => fill(made, rows.map((row) => h("li", {}, nameOf(row)))));
  return h("section", {}, h("h2", {}, "Averages"), made, Array.isArray(found.windows) ? windowsTable(found) : null);
}

function windowsTable(found) {
  return dataTable(orderKept("windows", {
    caption: "Windows", rows: found.windows,
    columns: [
      {
        label: "Window", numeric: true, value: (row) => row.window,
        cell: (row) => [integer(row.window), row.window === found.window ? " (best)" : ""],
      },
      numberColumn(heading("loss"), (row) => row.loss, loss),
      numberColumn(heading("loss_q"), (row) => row.loss_q, loss),
      numberColumn(heading("delta"), (row) => row.delta, percentNumber),
    ],
  }));
}
