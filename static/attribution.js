/* attribution.js: where in a model the cost of its quantization comes from: each unit alone and left out, the frontier
 * of bits and loss, and what each unit got under a budget. */
import { segmented } from "./controls.js";
import { command, h } from "./dom.js";
import { integer, isNumber, percent, percentInterval, percentNumber, scientific } from "./format.js";
import { axisOf, drawing, legendOf, paperOf, plain } from "./look.js";
import { axisTitle, formatOf, metric, scaleOf } from "./metrics.js";
import { precisionOf } from "./runs.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

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
  const names = shortNames(units.map((unit) => unit.name)), y = names.map((_, index) => index);
  const both = units.some((unit) => isNumber(unit.marginal));
  const data = [aloneBars(units, y, ink)];
  if (both) data.push(marginalBars(units, y, ink));
  const height = Math.max(240, PIXELS * (both ? 1.3 : 1) * units.length + 90), named = units.length <= FEW;
  const tick = (name) => plain(narrow && name.length > 22 ? `…${name.slice(-21)}` : name);
  return {
    data,
    layout: {
      ...paperOf(ink, height, narrow ? 60 : 90),
      margin: { l: 20, r: 10, t: 34, b: 44 },
      barmode: "group",
      bargap: 0.25,
      showlegend: both,
      legend: legendOf(ink),
      xaxis: { ...axisOf(ink, axisTitle("delta")), zeroline: true, zerolinecolor: ink.line },
      yaxis: {
        ...axisOf(ink, named ? null : "unit, in the model's order"),
        autorange: "reversed",
        showgrid: false,
        ...(named ? { tickvals: y, ticktext: names.map(tick) } : {}),
        tickfont: { color: ink.muted, size: narrow ? 10 : 11 },
      },
    },
  };
}

/* For a file, where no names stand on the axis. */
function namesOf(units) {
  return units.length > FEW ? units.map((unit) => unit.name) : null;
}

function bars(name, y, values, colour, text) {
  return {
    type: "bar", orientation: "h", name, y, x: values.map(share), marker: { color: colour },
    text, textposition: "none", hovertemplate: "%{text}<extra></extra>",
  };
}

function aloneBars(units, y, ink) {
  const ends = units.map(({ alone }) => (isNumber(alone.delta) && alone.delta_interval ? alone.delta_interval : null));
  const text = units.map((unit) => hover(unit, "alone", unit.alone.delta, unit.alone.delta_interval));
  return {
    ...bars("alone", y, units.map((unit) => unit.alone.delta), ink.colour(0), text),
    meta: { kind: "alone", names: namesOf(units) },
    error_x: {
      type: "data", symmetric: false, thickness: 1, width: 0, color: ink.muted,
      array: units.map(({ alone }, index) => (ends[index] ? share(ends[index][1] - alone.delta) : 0)),
      arrayminus: units.map(({ alone }, index) => (ends[index] ? share(alone.delta - ends[index][0]) : 0)),
    },
  };
}

function marginalBars(units, y, ink) {
  const name = "the whole less all but it", values = units.map((unit) => unit.marginal);
  const text = units.map((unit) => hover(unit, name, unit.marginal));
  return { ...bars(name, y, values, ink.colour(1), text), meta: { kind: "marginal", names: namesOf(units) } };
}

/* What the frontier can be drawn against: [metric, type of axis]. Divergences are positive and span decades. */
const MEASURES = [["delta", "linear"], ["kl", "log"]];

/* Predicted against measured: the frontier is a line, quantizations that were run are markers. */
export function frontierFigure({ frontier, widths, allocation }, measure, { ink }) {
  const [field, type] = MEASURES.find(([name]) => name === measure), { label } = metric(field);
  const y = (row) => (isNumber(row[field]) ? scaleOf(field) * row[field] : null);
  const shown = (row, words) => [
    words,
    `${scientific(row.bits_per_weight, 4)} bits per weight`,
    `${label} <b>${formatOf(metric(field)).text(row[field])}</b>`,
  ].join("<br>");
  const trace = (kind, name, rows, words, more) => ({
    type: "scatter", name, x: rows.map((row) => row.bits_per_weight), y: rows.map(y),
    text: rows.map((row) => shown(row, words(row))), hovertemplate: "%{text}<extra></extra>",
    meta: { kind }, ...more,
  });
  const marks = (colour, symbol, size) => ({
    mode: "markers", marker: { color: ink.colour(colour), symbol, size, line: { color: ink.paper, width: 1 } },
  });
  const step = ({ unit, bits }) => (unit ? `${plain(unit)} to ${bits} bits` : `all at ${bits} bits, predicted`);
  const data = [
    trace("frontier", "frontier, predicted", frontier, step,
      { mode: "lines", line: { color: ink.colour(0), width: 2 } }),
    trace("widths", "one width, measured", widths, ({ bits }) => `all at ${bits} bits, measured`,
      marks(1, "circle", 9)),
  ];
  if (allocation) {
    const { predicted, measured } = allocation;
    data.push(
      trace("predicted", "budget, predicted", [predicted], () => "under the budget, predicted",
        marks(0, "diamond", 10)),
      trace("measured", "budget, measured", [measured], () => "under the budget, measured",
        marks(2, "star", 13)),
    );
  }
  const title = axisTitle(field) + (type === "log" ? ", log" : "");
  return {
    data,
    layout: {
      ...paperOf(ink, 380),
      margin: { l: 56, r: 14, t: 56, b: 44 },
      showlegend: true,
      legend: legendOf(ink),
      xaxis: axisOf(ink, "bits per weight"),
      yaxis: { ...axisOf(ink, title), type, zeroline: true, zerolinecolor: ink.line },
    },
  };
}

function unitsTable({ units, widths, allocation }) {
  const atWidth = ({ bits }, index) =>
    numberColumn(`ΔQL alone at ${bits} bits (%)`, (unit) => unit.widths[index].delta, percentNumber);
  const choice = widths.length > 1
    ? widths.map(atWidth)
    : [numberColumn("ΔQL alone (%)", (unit) => unit.alone.delta, percentNumber)];
  const left = units.some((unit) => unit.left_out) ? [
    numberColumn("Left out (%)", (unit) => unit.left_out?.delta, percentNumber),
    numberColumn("Whole less left out (%)", (unit) => unit.marginal, percentNumber),
    numberColumn("Interaction (%)", (unit) => unit.interaction, percentNumber),
  ] : [];
  const picked = allocation
    ? [numberColumn("Bits under the budget", (unit) => allocation.bits[unit.name], integer)] : [];
  return dataTable(orderKept("units", {
    caption: "Units", className: "layers", rows: units,
    columns: [
      { label: "Unit", value: (unit) => unit.name, cell: (unit) => h("span", { class: "name mono" }, unit.name) },
      numberColumn("Weights", (unit) => unit.weights, integer),
      ...choice,
      numberColumn("KL alone (nats)", (unit) => unit.alone.kl, scientific),
      ...left,
      ...picked,
    ],
  }));
}

function frontierSection(run, signal) {
  const found = run.result, { allocation } = found;
  let measure = "delta";
  const plot = drawing("frontier-plot", "bits per weight against what is lost, predicted and measured",
    (look) => frontierFigure(found, measure, look), signal);
  const choices = MEASURES.map(([field]) => [field, metric(field).label]);
  const show = (value) => { measure = value; plot.redraw(); };
  return h("section", {}, h("h2", {}, "Bits and loss"),
    h("div", { class: "controls" }, segmented("Shown", choices, measure, show)),
    plot.node,
    h("p", { class: "muted caption" },
      "Predictions add up what each unit costs alone; measured points show what they miss."),
    allocation === null ? null : allocationPart(run, allocation));
}

/* What the budget came to, and the run that quantizes so. */
function allocationPart({ params }, { budget, predicted, measured, overrides }) {
  const { checkpoint, method, calibration, evaluation } = params ?? {};
  const same = { calibration, evaluation, ...precisionOf(params) };
  const quantize = { checkpoint, method: { ...method, overrides }, ...same };
  return [
    h("p", {}, `Under a budget of ${scientific(budget, 4)} bits per weight: `,
      `${scientific(measured.bits_per_weight, 4)} used, `,
      `ΔQL ${percent(predicted.delta)} predicted, ${percent(measured.delta)} measured. `,
      "As a body for POST /v1/runs:"),
    command(JSON.stringify({ kind: "quantize", params: quantize })),
  ];
}

export function attributionSection(run, signal) {
  const found = run.result;
  const plot = drawing("units-plot", "ΔQL of each unit alone and left out; the table below has the values",
    (look) => unitsFigure(found.units, look), signal);
  return [
    found.frontier.length > 1 ? frontierSection(run, signal) : null,
    h("section", {}, h("h2", {}, "ΔQL by unit (%)"), plot.node, unitsTable(found)),
  ];
}
