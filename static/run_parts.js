/* run_parts.js: the result and the parameters of a run, by what stands in them. */
import { checkpoint, trajectory } from "./api.js";
import { planSection } from "./advice.js";
import { attributionSection } from "./attribution.js";
import { compareSection } from "./compare.js";
import { h } from "./dom.js";
import { integer, isNumber, plural, scalar } from "./format.js";
import { averageSection, landscapeSection, lineSection } from "./geometry.js";
import { BLOCK_COLUMNS } from "./integrity.js";
import { layersFigure, layersTable } from "./layers.js";
import { drawing } from "./look.js";
import { beyondRange } from "./measurements.js";
import { figuresOf } from "./metrics.js";
import { checkpointLink, curvesLink, runLink } from "./router.js";
import { groupsSection, spectrumSection, termsSection } from "./spectrum.js";
import { dataTable, facts } from "./table.js";
import { tasksSection } from "./tasks.js";
import { orderKept } from "./view.js";
import { nameOf } from "./words.js";

const IN_TABLE = /^(mean_accuracy_|flips|mcnemar)/; /* the tasks' table has them */
const QUIET = new Set([
  "layers", "checkpoint", "checkpoints", "sequence_losses", "note", "artifact", "losses_q", "deltas", "delta_intervals",
  "spectrum", "prediction_in_range",
]);

function spread(found, { interval, stderr, between, error }) {
  if (Array.isArray(found[interval])) return h("span", { class: "interval" }, `95 %: ${between(...found[interval])}`);
  const reach = isNumber(found[stderr]) ? `± ${error(found[stderr])} (standard error)` : null;
  return reach ? h("span", { class: "interval" }, reach) : null;
}

/* The numbers that the server names; one that was not asked for has no tile. */
function tiles(found, figures) {
  const shows = ({ name, optional }) => name in found && !IN_TABLE.test(name) && !(optional && found[name] === null);
  const entries = figures.filter(shows);
  if (!entries.length) return null;
  const number = ({ name, show }) => (isNumber(found[name]) ? show(found[name]) : "not finite");
  const beyond = ({ name }) => {
    const words = beyondRange(name, found);
    return words ? h("span", { class: "interval" }, words.long) : null;
  };
  return h("dl", { class: "tiles" }, entries.map((figure) => h("div", { title: figure.title },
    h("dt", {}, figure.label), h("dd", {}, number(figure), spread(found, figure), beyond(figure)))));
}

/* The others are shown as they are called. */
function others(found, figures) {
  const told = new Set(figures.flatMap(({ name, interval, stderr }) => [name, interval, stderr]));
  const untold = (name) => !told.has(name) && !QUIET.has(name) && !IN_TABLE.test(name);
  const text = (value) => (isNumber(value) && Number.isInteger(value) ? integer(value) : scalar(value));
  return facts(Object.entries(found)
    .filter(([name, value]) => untold(name) && (value === null || typeof value !== "object"))
    .map(([name, value]) => [name.replace(/_/g, " "), text(value)]));
}

function layersSection(layers, signal) {
  const words = "relative error by layer; the table below has the values";
  const plot = drawing("layers-plot", words, (look) => layersFigure(layers, look), signal);
  return h("section", {}, h("h2", {}, "Relative error by layer (%)"), plot.node, layersTable(layers));
}

function healthSection(blocks) {
  return h("section", {}, h("h2", {}, "Weights by block"),
    dataTable(orderKept("blocks", { caption: "Weights by block", columns: BLOCK_COLUMNS, rows: blocks })));
}

function filled(...lists) {
  return lists.every((list) => Array.isArray(list) && list.length > 0);
}

/* Sections by what stands in a result, so that a kind which learns to answer more is shown more. */
const SECTIONS = [
  [({ kind, result: found }) => kind === "tasks" && filled(found.tasks), tasksSection],
  [({ kind }) => kind === "compare", (run) => compareSection(run.result)],
  [({ kind, result: found }) => kind === "attribution" && filled(found.units), attributionSection],
  [({ kind, result: found }) => kind === "plan" && filled(found.options), planSection],
  [({ result: found }) => filled(found.x, found.y, found.losses, found.points), landscapeSection],
  [({ result: found }) => filled(found.alphas, found.losses), lineSection],
  [({ kind }) => kind === "average", averageSection],
  [({ result: found }) => filled(found.spectrum?.nodes), (run, signal) => spectrumSection(run.result.spectrum, signal)],
  [({ result: found }) => filled(found.by_layer), (run, signal) => termsSection(run.result, signal)],
  [({ result: found }) => filled(found.groups), (run) => groupsSection(run.result.groups)],
  [({ kind, result: found }) => kind === "health" && filled(found.blocks), (run) => healthSection(run.result.blocks)],
  [({ result: found }) => filled(found.layers), (run, signal) => layersSection(run.result.layers, signal)],
];

/* Where the checkpoints of a training run went; null for other runs. */
function registered(run) {
  const { kind, params: given, result: found } = run;
  if (kind !== "train" || !Array.isArray(found.checkpoints) || !given?.trajectory) return null;
  const words = `${plural(found.checkpoints.length, "checkpoint")} registered in `;
  return h("p", {}, words, trajectoryLink(run, given.trajectory));
}

export function result(run, signal) {
  const found = run.result, named = figuresOf(run.kind), rest = others(found, named);
  const figures = [
    found.note ? h("p", { class: "notice remark" }, found.note) : null,
    tiles(found, named),
    rest.childElementCount ? rest : null,
  ].filter(Boolean);
  return h("section", { "aria-label": "Result" },
    figures.length ? [h("h2", {}, "Result"), figures] : null,
    registered(run),
    SECTIONS.filter(([holds]) => holds(run)).map(([, section]) => section(run, signal)));
}

/* {"method": {"bits": 4}} -> [["method.bits", 4]]; named objects of a list are told by their names, other lists of
 * objects stay JSON, lists of checkpoints lists. */
function flatten(value, prefix = "") {
  if (prefix === "checkpoints" && Array.isArray(value)) return [[prefix, value]];
  if (value === null || typeof value !== "object") return [[prefix, value]];
  if (Array.isArray(value) && value.length > 0 && value.every((item) => typeof item?.name === "string"))
    return value.flatMap(({ name, ...rest }) => flatten(rest, `${prefix}.${name}`));
  if (Array.isArray(value)) {
    if (value.length === 0) return [[prefix, null]];
    const nested = value.some((item) => typeof item === "object");
    return [[prefix, nested ? JSON.stringify(value) : value.map(scalar).join(", ")]];
  }
  return Object.entries(value).flatMap(([name, inner]) => flatten(inner, prefix ? `${prefix}.${name}` : name));
}

/* What is still there is a link. */
function checkpointName(run, id) {
  const node = h("span", { class: "name" }, nameOf(run, id));
  checkpoint(id).then((found) => {
    if (!found) return;
    node.replaceChildren(h("a", { href: checkpointLink(id) }, `${found.trajectory}/${found.name}`));
  });
  return node;
}

function trajectoryLink(run, id) {
  const node = h("span", { class: "name" }, nameOf(run, id));
  trajectory(id).then((found) => {
    if (found) node.replaceChildren(h("a", { href: curvesLink([found.name]) }, found.name));
  });
  return node;
}

function shown(run, name, value) {
  if (Array.isArray(value)) return value.map((id, index) => [index ? ", " : "", checkpointName(run, String(id))]);
  if (typeof value === "string" && ["checkpoint", "from", "to"].includes(name)) return checkpointName(run, value);
  if (typeof value === "string" && run.kind === "compare" && ["a", "b"].includes(name)) {
    return h("a", { href: runLink(value), class: "name" }, value);
  }
  if (typeof value === "string" && /(^|\.)(dataset|validation)$/.test(name)) {
    return h("span", { class: "name" }, nameOf(run, value));
  }
  if (typeof value === "string" && name === "trajectory" && run.kind !== "fetch") return trajectoryLink(run, value);
  return h("span", { class: "name" }, exact(value));
}

function exact(value) {
  return typeof value === "number" ? String(value) : scalar(value);
}

/* What was set or has a default, a line each; what was left at nothing is named in one. */
export function params(run) {
  const rows = flatten(run.params ?? {}), unset = rows.filter(([, value]) => value === null).map(([name]) => name);
  return [
    h("dl", { class: "params" }, rows.filter(([, value]) => value !== null).map(([name, value]) => h("div", {},
      h("dt", {}, name), h("dd", {}, shown(run, name, value))))),
    unset.length ? h("p", { class: "muted", id: "unset" }, `Not set: ${unset.join(", ")}.`) : null,
  ];
}
