/* attribution.js: where in a model the cost of its quantization comes from: each unit alone and left out, the frontier of bits and loss,
 * and what each unit got under a budget. */
import { segmented } from "./controls.js";
import { command, h } from "./dom.js";
import { plain } from "./figure.js";
import { integer, isNumber, percent, percentInterval, percentNumber, scientific } from "./format.js";
import { axisOf, drawing, legendOf, paperOf } from "./look.js";
import { axisTitle, formatOf, metric, scaleOf } from "./metrics.js";
import { dataTable } from "./table.js";

const PIXELS = 15, FEW = 60; /* a unit's bars; names stand beside them as long as there are no more of them */

function share(value) {
  return isNumber(value) ? 100 * value : null;
}

/* What two of "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj" … begin with alike is left out. */
function shortNames(names) {
  let head = names[0] ?? "";
  for (const name of names) while (!name.startsWith(head)) head = head.slice(0, -1);
  const cut = head.lastIndexOf(".") + 1;
  return names.map((name) => name.slice(cut));
}

function hover(unit, label, value, interval) {
  const text = [`<b>${plain(unit.name)}</b>`, `${label} <b>${isNumber(value) ? percent(value) : "not finite"}</b>`];
  if (interval) text.push(`95 %: ${percentInterval(...interval)}`);
  return text.join("<br>");
}

/* Bars across, first unit on top. Whiskers are the interval of the unit alone. */
export function unitsFigure(units, { ink, narrow }) {
  const names = shortNames(units.map((unit) => unit.name)), y = names.map((_, index) => index), both = units.some((unit) => isNumber(unit.marginal));
  const bar = (name, colour, value, text, more) => ({ type: "bar", orientation: "h", name, y, x: units.map((unit) => share(value(unit))), marker: { color: ink.colour(colour) }, text: units.map(text), textposition: "none",
    hovertemplate: "%{text}<extra></extra>", ...more });
  const bounded = units.map((unit) => (isNumber(unit.alone.delta) && unit.alone.delta_interval ? unit.alone.delta_interval : null));
  const data = [bar("alone", 0, (unit) => unit.alone.delta, (unit) => hover(unit, "alone", unit.alone.delta, unit.alone.delta_interval), { meta: { kind: "alone" }, error_x: { type: "data", symmetric: false, thickness: 1, width: 0, color: ink.muted,
    array: units.map((unit, index) => (bounded[index] ? share(bounded[index][1] - unit.alone.delta) : 0)), arrayminus: units.map((unit, index) => (bounded[index] ? share(unit.alone.delta - bounded[index][0]) : 0)) } })];
  if (both) data.push(bar("the whole less all but it", 1, (unit) => unit.marginal, (unit) => hover(unit, "the whole less all but it", unit.marginal), { meta: { kind: "marginal" } }));
  const named = units.length <= FEW;
  return {
    data,
    layout: { ...paperOf(ink, Math.max(240, PIXELS * (both ? 1.3 : 1) * units.length + 90), narrow ? 60 : 90), margin: { l: 20, r: 10, t: 34, b: 44 }, barmode: "group", bargap: 0.25, showlegend: both, legend: legendOf(ink),
      xaxis: { ...axisOf(ink, axisTitle("delta")), zeroline: true, zerolinecolor: ink.line },
      yaxis: { ...axisOf(ink, named ? null : "unit, in the model's order"), autorange: "reversed", showgrid: false, ...(named ? { tickvals: y, ticktext: names.map((name) => plain(narrow && name.length > 22 ? `…${name.slice(-21)}` : name)) } : {}),
        tickfont: { color: ink.muted, size: narrow ? 10 : 11 } } },
  };
}

/* What the frontier can be drawn against: [metric, type of axis]. Divergences are positive and span decades. */
const MEASURES = [["delta", "linear"], ["kl", "log"]];

/* Predicted against measured: the frontier is a line, quantizations that were run are markers. */
export function frontierFigure({ frontier, widths, allocation }, measure, { ink }) {
  const [field, type] = MEASURES.find(([name]) => name === measure), { label } = metric(field);
  const y = (row) => (isNumber(row[field]) ? scaleOf(field) * row[field] : null);
  const shown = (row, words) => `${words}<br>${scientific(row.bits_per_weight, 4)} bits per weight<br>${label} <b>${formatOf(metric(field)).text(row[field])}</b>`;
  const trace = (kind, name, rows, words, more) => ({ type: "scatter", name, x: rows.map((row) => row.bits_per_weight), y: rows.map(y), text: rows.map((row) => shown(row, words(row))), hovertemplate: "%{text}<extra></extra>", meta: { kind }, ...more });
  const marks = (colour, symbol, size) => ({ mode: "markers", marker: { color: ink.colour(colour), symbol, size, line: { color: ink.paper, width: 1 } } });
  const data = [
    trace("frontier", "frontier, predicted", frontier, (point) => (point.unit ? `${plain(point.unit)} to ${point.bits} bits` : `all at ${point.bits} bits, predicted`), { mode: "lines", line: { color: ink.colour(0), width: 2 } }),
    trace("widths", "one width, measured", widths, (width) => `all at ${width.bits} bits, measured`, marks(1, "circle", 9)),
  ];
  if (allocation) {
    data.push(trace("predicted", "budget, predicted", [allocation.predicted], () => "under the budget, predicted", { ...marks(0, "diamond", 10) }),
      trace("measured", "budget, measured", [allocation.measured], () => "under the budget, measured", marks(2, "star", 13)));
  }
  return { data, layout: { ...paperOf(ink, 380), margin: { l: 56, r: 14, t: 56, b: 44 }, showlegend: true, legend: legendOf(ink), xaxis: axisOf(ink, "bits per weight"), yaxis: { ...axisOf(ink, axisTitle(field) + (type === "log" ? ", log" : "")), type, zeroline: true, zerolinecolor: ink.line } } };
}

function unitsTable({ units, widths, allocation }) {
  const choice = widths.length > 1 ? widths.map((width, index) => ({ label: `ΔQL alone at ${width.bits} bits (%)`, numeric: true, value: (unit) => unit.widths[index].delta, cell: (unit) => percentNumber(unit.widths[index].delta) }))
    : [{ label: "ΔQL alone (%)", numeric: true, value: (unit) => unit.alone.delta, cell: (unit) => percentNumber(unit.alone.delta) }];
  const left = units.some((unit) => unit.left_out) ? [
    { label: "Left out (%)", numeric: true, value: (unit) => unit.left_out?.delta, cell: (unit) => percentNumber(unit.left_out?.delta) },
    { label: "Whole less left out (%)", numeric: true, value: (unit) => unit.marginal, cell: (unit) => percentNumber(unit.marginal) },
    { label: "Interaction (%)", numeric: true, value: (unit) => unit.interaction, cell: (unit) => percentNumber(unit.interaction) }] : [];
  const picked = allocation ? [{ label: "Bits under the budget", numeric: true, value: (unit) => allocation.bits[unit.name], cell: (unit) => integer(allocation.bits[unit.name]) }] : [];
  return dataTable({
    caption: "Units", className: "layers", sortable: true, rows: units,
    columns: [{ label: "Unit", value: (unit) => unit.name, cell: (unit) => h("span", { class: "name mono" }, unit.name) },
      { label: "Weights", numeric: true, value: (unit) => unit.weights, cell: (unit) => integer(unit.weights) },
      ...choice, { label: "KL alone (nats)", numeric: true, value: (unit) => unit.alone.kl, cell: (unit) => scientific(unit.alone.kl) }, ...left, ...picked],
  });
}

function frontierSection(run, signal) {
  const found = run.result, { allocation } = found;
  let measure = "delta";
  const plot = drawing("frontier-plot", "bits per weight against what is lost, predicted and measured", (look) => frontierFigure(found, measure, look), signal);
  return h("section", {}, h("h2", {}, "Bits and loss"),
    h("div", { class: "controls" }, segmented("Shown", MEASURES.map(([field]) => [field, metric(field).label]), measure, (value) => { measure = value; plot.redraw(); })), plot.node,
    h("p", { class: "muted caption" }, "Predictions add up what each unit costs alone; measured points show what they miss."), allocation === null ? null : allocationPart(run, allocation));
}

/* What the budget came to, and the run that quantizes so. */
function allocationPart(run, { budget, predicted, measured, overrides }) {
  const { checkpoint, method, calibration, evaluation } = run.params ?? {};
  return [
    h("p", {}, `Under a budget of ${scientific(budget, 4)} bits per weight: ${scientific(measured.bits_per_weight, 4)} used, ΔQL ${percent(predicted.delta)} predicted, ${percent(measured.delta)} measured. As a body for POST /v1/runs:`),
    command(JSON.stringify({ kind: "quantize", params: { checkpoint, method: { ...method, overrides }, calibration, evaluation } })),
  ];
}

export function attributionSection(run, signal) {
  const found = run.result;
  const plot = drawing("units-plot", "ΔQL of each unit alone and left out; the table below has the values", (look) => unitsFigure(found.units, look), signal);
  return [
    found.frontier.length > 1 ? frontierSection(run, signal) : null,
    h("section", {}, h("h2", {}, "ΔQL by unit (%)"), plot.node, unitsTable(found)),
  ];
}
