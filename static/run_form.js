/* run_form.js: a form that posts a run. What is left empty is not sent, so that the server's own defaults hold; a dry
 * run tells them, and what the run would need. The same request stands beside it as a curl command. */
import { at, post } from "./api.js";
import { command, curl, fill, h } from "./dom.js";
import { bytes, compact, duration } from "./format.js";
import { quantizers } from "./metrics.js";
import { problem } from "./notice.js";
import { runLink } from "./router.js";

const WIDTHS = ["2", "3", "4", "8"];

/* How a number is typed, and several. */
const NUMBER = { pattern: "-?[0-9]+(\\.[0-9]+)?", title: "A number, such as 128 or 3.5", inputmode: "decimal" };
const LIST = { pattern: "[0-9]+([, ]+[0-9]+)*", title: "Numbers with commas, such as 3, 4", inputmode: "text" };

/* Text that is no number is sent as it is, so that the server says which field it cannot read: NaN would become null,
 * which stands for all or the default. */
function numberOr(text) {
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

const BOTH = ["quantize", "attribution"]; /* the kinds that have a method */

/* Fields of a method and of what it reads, a row each: where the value goes, its words, how it is typed. `of`: the
 * kinds that have it. */
const FIELDS = [
  { path: "method.name", label: "Method", choices: quantizers, of: BOTH },
  { path: "method.bits", label: "Bits", choices: () => WIDTHS, empty: "default", number: true, of: BOTH },
  { path: "method.group_size", label: "Group size", number: true, empty: "default", of: BOTH },
  {
    path: "calibration.dataset", label: "Calibrated on", choices: ({ datasets }) => datasets, empty: "nothing",
    of: BOTH,
  },
  {
    path: "calibration.sequence_length", label: "Calibration: tokens of a sequence", number: true, empty: "default",
    of: BOTH,
  },
  { path: "calibration.max_sequences", label: "Calibration: most sequences", number: true, empty: "all", of: BOTH },
  { path: "evaluation.dataset", label: "Measured on", choices: ({ datasets }) => datasets, of: BOTH },
  {
    path: "evaluation.sequence_length", label: "Evaluation: tokens of a sequence", number: true, empty: "default",
    of: BOTH,
  },
  { path: "evaluation.max_sequences", label: "Evaluation: most sequences", number: true, empty: "all", of: BOTH },
  {
    path: "per_token", label: "Keep the losses of tokens", choices: () => ["no", "yes"],
    read: (text) => (text === "yes" ? true : undefined), show: (value) => (value ? "yes" : "no"), of: ["quantize"],
  },
  { path: "unit", label: "Unit", choices: () => ["linear", "block"], of: ["attribution"] },
  {
    path: "left_out", label: "Left-out runs too", choices: () => ["yes", "no"], read: (text) => text === "yes",
    show: (value) => (value === false ? "no" : "yes"), of: ["attribution"],
  },
  { /* without any there is nothing to choose from, and the server refuses a budget */
    path: "bits", label: "Widths", typed: LIST, empty: "none", of: ["attribution"],
    read: (text) => text.split(/[, ]+/).map(numberOr), show: (value) => (value ?? []).join(", "),
  },
  { path: "budget", label: "Budget (bits per weight)", number: true, empty: "none", of: ["attribution"] },
];

function reach(object, path) {
  return path.split(".").reduce((inner, part) => inner?.[part], object);
}

function put(object, path, value) {
  const parts = path.split("."), last = parts.pop();
  let inner = object;
  for (const part of parts) inner = inner[part] ??= {};
  inner[last] = value;
}

function input(field, given, context, changed) {
  const id = `form-${field.path.replace(/\W/g, "-")}`, now = reach(given, field.path);
  const value = field.show ? field.show(now) : now === null || now === undefined ? "" : String(now);
  const known = field.choices ? field.choices(context) : null;
  const options = known && value && !known.includes(value) ? [...known, value] : known;
  const node = known
    ? h("select", { id },
      field.empty ? h("option", { value: "" }, field.empty) : null,
      options.map((one) => h("option", { value: one }, one)))
    : h("input", { id, type: "text", ...(field.typed ?? NUMBER), placeholder: field.empty ?? "", size: 8 });
  if (value || !known || field.empty) node.value = value;
  node.addEventListener("input", changed);
  const label = h("label", { class: "field", for: id }, h("span", { class: "label" }, field.label), node);
  return { field, node: label, read: () => node.value.trim() };
}

/* A field's text as the value that is sent; undefined when it is empty. */
function valueOf(field, text) {
  if (text === "") return undefined;
  if (field.read) return field.read(text);
  return field.number ? numberOr(text) : text;
}

/* The body of the form: what the preset had besides its fields stays, a field that was emptied goes. */
function bodyOf(kind, checkpoint, preset, inputs) {
  const params = structuredClone(preset);
  for (const { field, read } of inputs) {
    const value = valueOf(field, read());
    if (value === undefined && reach(params, field.path) === undefined) continue;
    put(params, field.path, value);
  }
  if (params.calibration && params.calibration.dataset === undefined) delete params.calibration;
  /* Parameters of one method mean nothing to another. */
  if (params.method && params.method.name !== preset.method?.name) {
    params.method = { name: params.method.name, bits: params.method.bits, group_size: params.method.group_size };
  }
  return JSON.parse(JSON.stringify({ kind, params: { checkpoint, ...params } }));
}

function needs(plan) {
  const memory = plan.memory?.host?.peak_bytes, device = plan.memory?.device?.peak_bytes;
  const parts = [
    memory ? `${bytes(memory)} of memory` : null,
    device ? `${bytes(device)} on the device` : null,
    plan.disk?.peak_bytes ? `${bytes(plan.disk.peak_bytes)} of disk` : null,
    plan.tokens ? `${plan.at_most ? "at most " : ""}${compact(plan.tokens)} tokens in forward passes` : null,
    plan.seconds ? `about ${duration(plan.seconds)}` : null,
  ].filter(Boolean).join(", ") || "what is not known before it runs";
  return [
    h("p", {}, `It would need ${parts}${plan.fits === false ? ". That does not fit." : "."}`),
    plan.problem ? problem(plan.problem, "It would fail") : null,
    h("details", {}, h("summary", {}, "All parameters, defaults written out"),
      h("pre", { class: "log", tabindex: 0, "aria-label": "parameters" }, JSON.stringify(plan.params, null, 2))),
  ];
}

/* `preset`: parameters to begin with, of an earlier run. `context`: {datasets: [name]}. */
export function runForm({ kind, verb, checkpoint, preset = {}, context, signal }) {
  const answer = h("div", { role: "status" }), asCurl = h("div");
  const body = () => bodyOf(kind, checkpoint, preset, inputs);
  const changed = () => fill(asCurl, command(curl("/v1/runs", body())));
  const inputs = FIELDS.filter(({ of }) => of.includes(kind)).map((field) => input(field, preset, context, changed));
  const send = async (dry) => {
    fill(answer, h("p", { class: "muted" }, dry ? "Planning …" : "Sending …"));
    try {
      const found = await post(at("runs"), signal, { ...body(), ...(dry ? { dry_run: true } : {}) });
      if (dry) return fill(answer, needs(found));
      const done = found.state === "succeeded";
      return fill(answer, h("p", { class: "good" }, done ? "This was measured already: " : "Queued: ",
        h("a", { href: runLink(found.id), id: "queued-run" }, `${found.kind} run`),
        done ? "." : "; it can be followed there."));
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error.document ?? { title: error.message }));
    }
  };
  changed();
  const submit = (event) => { event.preventDefault(); send(false); };
  /* What is no number is told at its field, as the browser does before it submits. */
  const plan = () => { if (form.reportValidity()) send(true); };
  const form = h("form", { class: "run-form", "aria-label": verb, events: { submit } },
    inputs.length ? h("div", { class: "fields" }, inputs.map(({ node }) => node)) : null,
    h("div", { class: "row" }, h("button", { type: "submit", id: `send-${kind}`, class: "button" }, verb),
      h("button", { type: "button", id: `plan-${kind}`, events: { click: plan } }, "What would it need?")),
    answer, h("details", {}, h("summary", {}, "As curl"), asCurl));
  return form;
}
