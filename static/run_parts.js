/* run_parts.js: the result and the parameters of a run, by what stands in them. */
import { checkpoint, dataset } from "./api.js";
import { fill, h } from "./dom.js";
import { integer, isNumber, loss, percent, percentInterval, plural, scalar, scientific } from "./format.js";
import { layersFigure, layersTable } from "./layers.js";
import { failure } from "./notice.js";
import { keepDrawn } from "./plot.js";
import { curvesLink } from "./router.js";
import { facts } from "./table.js";

/* Fields of results with a name and a unit of their own; the others are shown as they are called. */
const FIGURES = {
  delta: ["ΔQL", percent], loss_fp: ["Loss (nats)", loss], loss_q: ["Quantized loss (nats)", loss], loss: ["Loss (nats)", loss], final_loss: ["Final loss (nats)", loss],
  perplexity: ["Perplexity", (value) => scientific(value, 4)], kl: ["KL divergence (nats)", (value) => scientific(value)], top1_agreement: ["Top-1 agreement", percent],
  bits_per_weight: ["Bits per weight", (value) => scientific(value, 4)], mean_accuracy: ["Mean accuracy", percent], top_eigenvalue: ["Top eigenvalue", (value) => scientific(value, 4)],
  trace: ["Trace", (value) => scientific(value, 4)], gradient_norm: ["Gradient norm", (value) => scientific(value, 4)],
};
const QUIET = new Set(["delta_interval", "layers", "checkpoints", "sequence_losses", "note", "artifact"]);

function tiles(found) {
  const entries = Object.entries(FIGURES).filter(([name]) => name in found);
  return h("dl", { class: "tiles" }, entries.map(([name, [label, show]]) => h("div", {}, h("dt", {}, label), h("dd", {}, isNumber(found[name]) ? show(found[name]) : "not finite",
    name === "delta" && found.delta_interval ? h("span", { class: "interval" }, `95 %: ${percentInterval(...found.delta_interval)}`) : null))));
}

function others(found) {
  return facts(Object.entries(found).filter(([name, value]) => !(name in FIGURES) && !QUIET.has(name) && (value === null || typeof value !== "object"))
    .map(([name, value]) => [name.replace(/_/g, " "), isNumber(value) && Number.isInteger(value) ? integer(value) : scalar(value)]));
}

function layersSection(layers, signal) {
  const plot = h("div", { class: "plot", id: "layers-plot", role: "img", "aria-label": "relative error by layer; the table below has the values" });
  const drawn = keepDrawn(plot, (look) => layersFigure(layers, look), signal);
  queueMicrotask(() => drawn.redraw().catch((error) => { if (!signal.aborted) fill(plot, failure(error)); }));
  return h("section", {}, h("h2", {}, "Relative error by layer (%)"), h("div", { class: "panel" }, plot), layersTable(layers));
}

export function result(run, signal) {
  const found = run.result;
  return h("section", { "aria-label": "Result" }, h("h2", {}, "Result"), found.note ? h("p", { class: "notice remark" }, found.note) : null, tiles(found), others(found),
    Array.isArray(found.checkpoints) && run.params?.trajectory ? h("p", {}, h("a", { href: curvesLink([run.params.trajectory]) }, plural(found.checkpoints.length, "checkpoint")), " registered") : null,
    Array.isArray(found.layers) && found.layers.length ? layersSection(found.layers, signal) : null);
}

/* {"method": {"bits": 4}} -> [["method.bits", 4]]; lists of objects stay JSON. */
function flatten(value, prefix = "") {
  if (value === null || typeof value !== "object") return [[prefix, value]];
  if (Array.isArray(value)) return [[prefix, value.some((item) => typeof item === "object") ? JSON.stringify(value) : value.map(scalar).join(", ")]];
  return Object.entries(value).flatMap(([name, inner]) => flatten(inner, prefix ? `${prefix}.${name}` : name));
}

function checkpointName(id) {
  const node = h("span", { class: "name" }, id);
  checkpoint(id).then((found) => { if (found) node.replaceChildren(h("a", { href: curvesLink([found.trajectory]) }, `${found.trajectory}/${found.name}`)); });
  return node;
}

function datasetName(id) {
  const node = h("span", { class: "name" }, id);
  dataset(id).then((found) => { if (found) node.textContent = found.name; });
  return node;
}

/* References are shown by name. */
function shown(name, value) {
  if (typeof value === "string" && name === "checkpoint") return checkpointName(value);
  if (typeof value === "string" && /(^|\.)(dataset|validation)$/.test(name)) return datasetName(value);
  return h("span", { class: "name" }, exact(value));
}

function exact(value) {
  return typeof value === "number" ? String(value) : scalar(value);
}

export function params(run) {
  const rows = flatten(run.params ?? {});
  return h("dl", { class: "params" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, shown(name, value)))));
}
