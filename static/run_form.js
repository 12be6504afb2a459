/* run_form.js: a form that posts a run. What is left empty is not sent, so that the server's own defaults hold; a dry run tells them, and
 * what the run would need. The same request stands beside it as a curl command. */
import { at, post } from "./api.js";
import { command, curl, fill, h } from "./dom.js";
import { bytes, compact, duration } from "./format.js";
import { problem } from "./notice.js";
import { QUANTIZERS } from "./palette.js";
import { runLink } from "./router.js";

const WIDTHS = ["2", "3", "4", "8"];

const whole = (text) => (text === "" ? undefined : Number(text));

/* Fields of a method and of what it reads, a row each: where the value goes, its words, how it is typed. `of`: the kinds that have it. */
const FIELDS = [
  { path: "method.name", label: "Method", choices: () => QUANTIZERS, of: ["quantize", "attribution"] },
  { path: "method.bits", label: "Bits", choices: () => WIDTHS, empty: "default", number: true, of: ["quantize", "attribution"] },
  { path: "method.group_size", label: "Group size", number: true, empty: "default", of: ["quantize", "attribution"] },
  { path: "calibration.dataset", label: "Calibrated on", choices: ({ datasets }) => datasets, empty: "nothing", of: ["quantize", "attribution"] },
  { path: "calibration.sequence_length", label: "Calibration: tokens of a sequence", number: true, empty: "default", of: ["quantize", "attribution"] },
  { path: "calibration.max_sequences", label: "Calibration: most sequences", number: true, empty: "all", of: ["quantize", "attribution"] },
  { path: "evaluation.dataset", label: "Measured on", choices: ({ datasets }) => datasets, of: ["quantize", "attribution"] },
  { path: "evaluation.sequence_length", label: "Evaluation: tokens of a sequence", number: true, empty: "default", of: ["quantize", "attribution"] },
  { path: "evaluation.max_sequences", label: "Evaluation: most sequences", number: true, empty: "all", of: ["quantize", "attribution"] },
  { path: "unit", label: "Unit", choices: () => ["linear", "block"], of: ["attribution"] },
  { path: "left_out", label: "Left-out runs too", choices: () => ["yes", "no"], read: (text) => text === "yes", show: (value) => (value === false ? "no" : "yes"), of: ["attribution"] },
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
  const known = field.choices ? field.choices(context) : null, options = known && value && !known.includes(value) ? [...known, value] : known;
  const node = known
    ? h("select", { id }, field.empty ? h("option", { value: "" }, field.empty) : null, options.map((one) => h("option", { value: one }, one)))
    : h("input", { id, type: "text", inputmode: "numeric", pattern: "-?[0-9.]*", placeholder: field.empty ?? "", size: 8 });
  if (value || !known || field.empty) node.value = value;
  node.addEventListener("input", changed);
  return { field, node: h("label", { class: "field", for: id }, h("span", { class: "label" }, field.label), node), read: () => node.value.trim() };
}

/* The body of the form: what the preset had besides its fields stays, a field that was emptied goes. */
function bodyOf(kind, checkpoint, preset, inputs) {
  const params = structuredClone(preset);
  for (const { field, read } of inputs) {
    const text = read(), value = text === "" ? undefined : field.read ? field.read(text) : field.number ? whole(text) : text;
    if (value === undefined && reach(params, field.path) === undefined) continue;
    put(params, field.path, value);
  }
  if (params.calibration && params.calibration.dataset === undefined) delete params.calibration;
  /* Parameters of one method mean nothing to another. */
  if (params.method && params.method.name !== preset.method?.name) params.method = { name: params.method.name, bits: params.method.bits, group_size: params.method.group_size };
  return JSON.parse(JSON.stringify({ kind, params: { checkpoint, ...params } }));
}

function needs(plan) {
  const memory = plan.memory?.host?.peak_bytes, device = plan.memory?.device?.peak_bytes;
  const parts = [memory ? `${bytes(memory)} of memory` : null, device ? `${bytes(device)} on the device` : null,
    plan.disk?.peak_bytes ? `${bytes(plan.disk.peak_bytes)} of disk` : null, plan.tokens ? `${plan.at_most ? "at most " : ""}${compact(plan.tokens)} tokens in forward passes` : null,
    plan.seconds ? `about ${duration(plan.seconds)}` : null].filter(Boolean);
  return [h("p", {}, `It would need ${parts.join(", ") || "what is not known before it runs"}${plan.fits === false ? ". That does not fit." : "."}`),
    plan.problem ? problem(plan.problem, "It would fail") : null,
    h("details", {}, h("summary", {}, "All parameters, defaults written out"), h("pre", { class: "log", tabindex: 0, "aria-label": "parameters" }, JSON.stringify(plan.params, null, 2)))];
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
      return fill(answer, h("p", { class: "good" }, found.state === "succeeded" ? "This was measured already: " : "Queued: ",
        h("a", { href: runLink(found.id), id: "queued-run" }, `${found.kind} run`), found.state === "succeeded" ? "." : "; it can be followed there."));
    } catch (error) {
      if (!signal.aborted) fill(answer, problem(error.document ?? { title: error.message }));
    }
  };
  changed();
  return h("form", { class: "run-form", "aria-label": verb, events: { submit: (event) => { event.preventDefault(); send(false); } } },
    inputs.length ? h("div", { class: "fields" }, inputs.map(({ node }) => node)) : null,
    h("div", { class: "row" }, h("button", { type: "submit", id: `send-${kind}`, class: "button" }, verb),
      h("button", { type: "button", id: `plan-${kind}`, events: { click: () => send(true) } }, "What would it need?")),
    answer, h("details", {}, h("summary", {}, "As curl"), asCurl));
}
