/* checkpoint_parts.js: the sections of a checkpoint's page. */
import { at, get } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, integer, isNumber, loss, percent, percentNumber, relativeChange, scientific } from "./format.js";
import { BLOCK_COLUMNS } from "./integrity.js";
import { heatFigure } from "./layers.js";
import { drawing } from "./look.js";
import {
  apartFrom, attributionOf, finished, layerChanges, numbersOf, questionOf, unitChanges,
} from "./measurements.js";
import { methodIn } from "./method_label.js";
import { failure } from "./notice.js";
import { compareLink } from "./pins.js";
import { checkpointLink, runLink } from "./router.js";
import { runForm } from "./run_form.js";
import { methodOf, precisionOf } from "./runs.js";
import { dataTable, facts, numberColumn } from "./table.js";
import { orderKept, sortedBy } from "./view.js";
import { calibrationIn, evaluationIn } from "./words.js";

function presetOf(run) {
  const { method, calibration, evaluation } = run.params;
  return structuredClone({
    method,
    ...(calibration ? { calibration } : {}),
    evaluation,
    ...precisionOf(run.params),
  });
}

/* Ids of datasets become names, so that the form and its command can be read. */
function named(preset, datasets) {
  const names = new Map(datasets.map((one) => [one.id, one.name]));
  for (const part of [preset.calibration, preset.evaluation]) {
    if (part) part.dataset = names.get(part.dataset) ?? part.dataset;
  }
  return preset;
}

/* Parameters of new runs like `run`, which is a quantization: to quantize, and to attribute. */
export function presetsOf(run, datasets) {
  const quantize = run ? named(presetOf(run), datasets) : {};
  const { overrides, embedding_bits: embedding, lm_head_bits: head, ...method } = quantize.method ?? {};
  return { quantize, attribution: { ...quantize, method } };
}

/* The checkpoint of the series with the least quantized loss: this one, or another one to go to. */
function bestLine({ point, own }, checkpoint) {
  if (point.checkpoint === checkpoint.id) {
    return h("li", {}, `This checkpoint has the least quantized loss of its series (${loss(own.y)} nats): `,
      "ΔQL alone does not speak against it.");
  }
  const name = point.checkpoint_name ?? point.checkpoint;
  return h("li", {}, "Least quantized loss of this series: ",
    h("a", { href: checkpointLink(point.checkpoint), id: "best-checkpoint", class: "name" }, name),
    ` with ${loss(point.y)} nats, ${loss(own.y)} here.`);
}

/* Another quantization of this checkpoint, that costs less than `run`. */
function otherLine(other, run) {
  return h("li", {}, h("a", { href: runLink(other.id) }, methodIn(other.params.method)),
    ` costs ΔQL ${percent(other.result.delta)} at ${scientific(other.result.bits_per_weight)} bits per weight, `,
    `instead of ${percent(run.result.delta)} at ${scientific(run.result.bits_per_weight)}.`);
}

function attributionLine(attribution, run) {
  if (attribution) {
    const apart = apartFrom(attribution, run);
    return h("li", {}, h("a", { href: runLink(attribution.id) }, `Its attribution${apart ? ` (${apart})` : ""}`),
      " names the layers to keep at more bits.");
  }
  return run ? h("li", {}, "Attribute it: which layers cost what, and where more bits pay.") : null;
}

/* The quantizations whose predictions can be looked at one by one. */
function tokensLine(runs) {
  const kept = finished(runs).filter(({ kind, params }) => kind === "quantize" && params.per_token);
  if (!kept.length) return null;
  const links = kept.map((run, index) => [
    index ? ", " : "", h("a", { href: runLink(run.id), class: "worst-tokens" }, methodIn(run.params.method)),
  ]);
  return h("li", {}, "See which tokens lost most, in their text: ", links, ".");
}

/* What to do, with the button that does it. `run`: the costliest quantization here, or null. */
export function whatToDoSection({ checkpoint, runs, around, run, best, other, datasets, health, signal }) {
  const neighbours = [...(around.before?.runs ?? []), ...(around.after?.runs ?? [])];
  const model = run ?? neighbours.find((one) => one.kind === "quantize");
  const presets = presetsOf(model, datasets);
  const place = h("div", { class: "form-place" });
  const open = (kind, verb, given) => {
    const form = runForm({
      kind, verb, checkpoint: `${checkpoint.trajectory}/${checkpoint.name}`, preset: structuredClone(given),
      context: { datasets: datasets.map(({ name }) => name) }, signal,
    });
    fill(place, form);
    form.querySelector("select, input, button")?.focus();
  };
  const button = (id, label, kind, given) =>
    h("button", { type: "button", id, events: { click: () => open(kind, label, given) } }, label);
  const advice = [
    best ? bestLine(best, checkpoint) : null,
    other ? otherLine(other, run) : null,
    attributionLine(attributionOf(runs, run), run),
    tokensLine(runs),
    run ? null : h("li", {}, "Quantize it: what each method costs here."),
    health ? null : h("li", {}, "Its weights were not read yet: read them to see whether they are sound."),
  ].filter(Boolean);
  const actions = [
    button("attribute-this", "Attribute this", "attribution", presets.attribution),
    button("quantize-this", "Quantize this", "quantize", presets.quantize),
    health ? null : button("read-weights", "Read its weights", "health", {}),
    around.before
      ? h("a", { href: compareLink(around.before.id, checkpoint.id) }, `Compare with ${around.before.name}`)
      : null,
  ];
  return h("section", { "aria-label": "What to do" }, h("h2", {}, "What to do"), h("ul", { class: "reasons" }, advice),
    h("div", { class: "row actions" }, actions), place);
}

function spread({ low, high, stderr, figure }) {
  if (isNumber(low) && isNumber(high)) return figure.between(low, high);
  return isNumber(stderr) ? `± ${figure.error(stderr)} (standard error)` : "";
}

/* A number that leads to the run that measured it. */
function measuredBy(run, text) {
  return h("a", { href: runLink(run.id), "aria-label": `${text}, to the run` }, text);
}

/* Which runs read another checkpoint of the same weights, in words; empty where none did. */
function ofOthers(runs) {
  const found = new Map();
  for (const run of runs.filter(({ measured }) => measured)) {
    const { trajectory, name } = run.measured, place = `${trajectory}/${name}`;
    found.set(place, (found.get(place) ?? new Set()).add(methodOf(run) || run.kind));
  }
  return [...found].map(([place, methods]) =>
    `Measured of ${place}, which has the same weights: ${[...methods].join(", ")}.`).join(" ");
}

/* Every number with what it was measured on. `note`: words below the table. */
export function measuredSection(runs, note) {
  const told = runs.map((run) => ({
    run,
    method: methodOf(run),
    evaluation: evaluationIn(run),
    calibration: calibrationIn(run),
  }));
  const rows = told.flatMap((one) => numbersOf(one.run).map((number) => ({ ...one, ...number })));
  if (!rows.length) return null;
  const below = [ofOthers(runs), note].filter(Boolean).join(" ");
  const columns = [
    {
      label: "Number",
      value: ({ figure }) => figure.label, cell: ({ figure }) => h("span", { title: figure.title }, figure.label),
    },
    {
      label: "Value", numeric: true,
      value: (row) => row.value,
      cell: (row) => [
        measuredBy(row.run, row.figure.show(row.value)),
        row.beyond ? h("span", { class: "interval under", title: row.beyond.long }, row.beyond.short) : null,
      ],
    },
    { label: "95 %", cell: (row) => h("span", { class: "muted" }, spread(row)) },
    { label: "Method", value: (row) => row.method, cell: (row) => row.method || row.run.kind },
    { label: "Measured on", value: (row) => row.evaluation, cell: (row) => row.evaluation || "–" },
    { label: "Calibrated on", value: (row) => row.calibration, cell: (row) => row.calibration || "–" },
  ];
  return h("section", {}, h("h2", {}, "Measurements"), dataTable({
    caption: "Measurements", className: "layers measured", sortable: true, rows, columns,
    ...sortedBy("measured", columns),
  }), below ? h("p", { class: "muted caption" }, below) : null);
}

function difference(paired, name) {
  return paired?.[name] ?? null;
}

/* A row for each number of `run`, with the same number of the runs before and after. */
function besideRows({ run, before, after }, paired) {
  return numbersOf(run).map((number) => {
    const { name } = number.figure;
    const of = (other) => (isNumber(other?.result?.[name]) ? other.result[name] : null);
    const found = difference(paired.get(run.id), name);
    return { run, before, after, ...number, earlier: of(before), later: of(after), found };
  });
}

function differenceCell({ figure, found }) {
  if (!isNumber(found?.difference)) return "–";
  const interval = Array.isArray(found.interval) ? figure.gaps(...found.interval) : "";
  return [figure.gap(found.difference), " ", h("span", { class: "interval" }, interval)];
}

/* The same questions, answered for the checkpoints before and after. `note`: words below the table. */
export function besideSection({ pairs, around, paired, checkpoint, note }) {
  const shared = pairs.filter(({ before, after }) => before || after);
  const rows = shared.flatMap((pair) => {
    const evaluation = evaluationIn(pair.run);
    return besideRows(pair, paired).map((row) => ({ ...row, evaluation }));
  });
  if (!rows.length) return null;
  const value = (row, other, number) => (isNumber(number) ? measuredBy(other, row.figure.show(number)) : "–");
  const method = ({ run }) => h("span", { class: "muted" }, methodOf(run) || run.kind);
  const change = (row) => relativeChange(row.value, row.earlier);
  const name = (one) => (one ? one.name : "–");
  const columns = [
    { label: "Number", value: (row) => row.figure.label, cell: (row) => [row.figure.label, " ", method(row)] },
    {
      label: `Before: ${name(around.before)}`, numeric: true,
      value: (row) => row.earlier, cell: (row) => value(row, row.before, row.earlier),
    },
    {
      label: `Here: ${checkpoint.name}`, numeric: true,
      value: (row) => row.value, cell: (row) => value(row, row.run, row.value),
    },
    {
      label: `After: ${name(around.after)}`, numeric: true,
      value: (row) => row.later, cell: (row) => value(row, row.after, row.later),
    },
    numberColumn("Change since before (%)", change, percentNumber),
    { label: "Difference, 95 % in pairs", value: (row) => row.found?.difference, cell: differenceCell },
    { label: "Measured on", value: (row) => row.evaluation, cell: (row) => row.evaluation || "–" },
  ];
  return h("section", { "aria-label": "Neighbours" }, h("h2", {}, "Beside its neighbours"), dataTable({
    caption: "Beside its neighbours", className: "layers beside", sortable: true, rows, columns,
    ...sortedBy("beside", columns),
  }), note ? h("p", { class: "muted caption" }, note) : null);
}

function changesTable(caption, what, rows) {
  const columns = [
    { label: "Layer", value: (row) => row.name, cell: (row) => h("span", { class: "name mono" }, row.name) },
    numberColumn(`${what} before (%)`, (row) => row.before, percentNumber),
    numberColumn(`${what} here (%)`, (row) => row.here, percentNumber),
    numberColumn("Change (points)", (row) => row.change, percentNumber),
  ];
  const usual = { column: 3, descending: true }, key = what.toLowerCase().replace(/\W+/g, "-");
  return dataTable({
    caption, className: "layers", sortable: true, rows, columns, ...sortedBy(key, columns, usual),
  });
}

/* Where in the model this checkpoint differs from the one before: by attribution where both have one, else by the
 * errors of layers. */
export function layerSection({ runs, around, pairs }, run, signal) {
  if (!around.before) return null;
  const attribution = attributionOf(runs, run), apart = attribution ? apartFrom(attribution, run) : "";
  const other = attribution && finished(around.before.runs).find((one) => questionOf(one) === questionOf(attribution));
  const units = other ? unitChanges(attribution, other) : [];
  const errors = run ? layerChanges(run, pairs.find((pair) => pair.run.id === run.id)?.before) : [];
  const part = (rows, id, what, words, how) => {
    if (!rows.length) return null;
    if (rows.every((row) => row.change === 0)) {
      return h("p", { class: "muted" }, `${what}, ${how}: the same in every layer.`);
    }
    const look = { name: `change of ${words}`, unit: "points", signed: true, valueOf: (row) => 100 * row.change };
    const fits = heatFigure(rows, look, { ink: { heat: [], signed: [] }, narrow: false }) !== null;
    const text = `change of ${words} by layer; the table below has the values`;
    return [
      h("h3", {}, `${what} by layer, ${how}`),
      fits ? drawing(id, text, (paint) => heatFigure(rows, look, paint), signal).node : null,
      h("details", {}, h("summary", {}, "As a table"), changesTable(what, what, rows)),
    ];
  };
  const parts = [
    part(units, "unit-changes", "ΔQL alone", "ΔQL of each unit alone", apart || methodOf(attribution ?? {})),
    part(errors, "layer-changes", "Relative error", "the relative error", methodOf(run ?? {})),
  ].filter(Boolean);
  if (!parts.length) return null;
  return h("section", { "aria-label": "By layer" }, h("h2", {}, `By layer, against ${around.before.name}`), parts);
}

export function healthSection({ health }) {
  if (!health) return null;
  return h("section", { "aria-label": "Weights" }, h("h2", {}, "Weights"),
    facts([
      ["Numbers", integer(health.elements)],
      ["Not finite", integer(health.nan + health.infinite)],
      ["L2", scientific(health.l2, 4)],
      ["Largest", scientific(health.linf, 4)],
      ["Kurtosis", scientific(health.kurtosis, 4)],
      ["Outliers", percent(health.outlier_share)],
      ["Change since before", isNumber(health.relative_l2) ? percent(health.relative_l2) : null],
    ]),
    h("details", {}, h("summary", {}, "By block"),
      dataTable(orderKept("blocks", { caption: "Weights by block", columns: BLOCK_COLUMNS, rows: health.blocks }))));
}

const TENSOR_COLUMNS = [
  { label: "Tensor", value: (row) => row.name, cell: (row) => h("span", { class: "name mono" }, row.name) },
  { label: "Type", value: (row) => row.dtype, cell: (row) => row.dtype },
  { label: "Shape", cell: (row) => row.shape.map((length) => integer(length)).join(" × ") || "scalar" },
  numberColumn("Size", (row) => row.bytes, bytes),
];

/* Read when it is opened: large models have thousands. */
export function tensorsSection(checkpoint, signal) {
  const body = h("div"), details = h("details", { id: "tensors" }, h("summary", {}, "Names, types and shapes"), body);
  details.addEventListener("toggle", async () => {
    if (!details.open || body.childElementCount) return;
    fill(body, h("p", { class: "muted" }, "Reading …"));
    try {
      const { items } = await get(`${at("checkpoints", checkpoint.id)}/tensors`, signal);
      fill(body, dataTable(orderKept("tensors", {
        caption: "Tensors", className: "layers", rows: items, columns: TENSOR_COLUMNS,
      })));
    } catch (error) { if (!signal.aborted) fill(body, failure(error)); }
  });
  return h("section", { "aria-label": "Tensors" }, h("h2", {}, "Tensors"), details);
}
