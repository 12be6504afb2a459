/* runs.js: how a run is named and shown wherever runs are listed. */
import { fill, h } from "./dom.js";
import { bytes, duration, integer, plural } from "./format.js";
import { methodIn } from "./method_label.js";
import { runLink } from "./router.js";
import { calibrationIn, calibrationOf, evaluationIn, evaluationOf, nameOf } from "./words.js";

/* Every kind that can be posted, as openapi.yaml has them (a test compares the two). */
export const KINDS = [
  "evaluate", "quantize", "train", "sharpness", "average", "interpolate", "landscape", "attribution", "compare", "plan",
  "tasks", "health", "fetch",
];
export const STATES = ["queued", "running", "succeeded", "failed", "cancelled"];

export function badge(state) {
  return h("span", { class: `badge ${STATES.includes(state) ? state : ""}` }, state);
}

/* What a run works on, as text. */
export function subject(run) {
  const given = run.params ?? {}, name = (id) => nameOf(run, id);
  if (typeof given.checkpoint === "string") return name(given.checkpoint);
  if (typeof given.from === "string" && typeof given.to === "string") {
    return `${name(given.from)} → ${name(given.to)}`;
  }
  const sides = () => [run.result?.a, run.result?.b].filter(Boolean).map((side) => side.checkpoint);
  const both = run.kind === "compare" ? given.checkpoints ?? sides() : [];
  if (both.length === 2) return [...new Set(both)].map(name).join(" and ");
  if (run.kind === "compare") return "two runs";
  if (!given.trajectory && Array.isArray(given.checkpoints)) return plural(given.checkpoints.length, "checkpoint");
  if (typeof given.repo === "string") return given.revision ? `${given.repo}@${given.revision}` : given.repo;
  if (typeof given.trajectory === "string") return name(given.trajectory);
  return String(given.name ?? "");
}

/* How a run does it, or along what: a direction is made by a quantizer. */
export function methodOf({ params }) {
  const along = params?.direction?.method;
  return [params?.method ? methodIn(params.method) : "", along ? `along ${methodIn(along)}` : ""]
    .filter(Boolean).join(" ");
}

/* The precision of a run's parameters, for those of another run like it: nothing where it is the default, which not
 * every kind names. */
export function precisionOf(params) {
  const { precision } = params ?? {};
  return precision && precision !== "f32" ? { precision } : {};
}

/* The run's subject and method as a link. `more`: words that stand below. */
export function title(run, more = "") {
  const name = h("span", { class: "name" }, subject(run)), how = methodOf(run);
  const below = more ? h("span", { class: "apart muted" }, more) : null;
  return h("a", { href: runLink(run.id), class: "run-title" },
    h("span", { class: "kind" }, run.kind), " ", name, how ? h("span", { class: "muted" }, ` ${how}`) : null, below);
}

/* What the runs of a list that have one kind and method differ in, each with its words. */
const APART = [
  [({ params }) => [calibrationOf({ params }), params?.calibration_draws ?? 1],
    (run) => { const text = calibrationIn(run); return text ? `calibrated on ${text}` : "not calibrated"; }],
  [(run) => [evaluationOf(run), run.params?.precision ?? null],
    (run) => { const text = evaluationIn(run); return text ? `measured on ${text}` : ""; }],
];

/* title() for the runs of a list: those of one kind and method that were calibrated or measured on something else say
 * on what. */
export function titles(runs) {
  const alike = new Map(), key = (run) => `${run.kind} ${methodOf(run)}`;
  for (const run of runs) alike.set(key(run), [...(alike.get(key(run)) ?? []), run]);
  const differing = new Map([...alike].map(([name, own]) => [name, APART.filter(([of]) =>
    new Set(own.map((run) => JSON.stringify(of(run)))).size > 1)]));
  return (run) => title(run, (differing.get(key(run)) ?? []).map(([, say]) => say(run)).filter(Boolean).join("; "));
}

export function progressText({ done, total, unit, eta_seconds: eta }, state = "running") {
  if (state === "queued") return "waiting for a worker";
  if (!total) return "starting";
  const left = eta === null || eta === undefined ? "" : ` · ${duration(eta)} to go`;
  const amount = unit === "byte" ? `${bytes(done)} of ${bytes(total)}`
    : `${integer(done)} of ${plural(total, unit || "step")}`;
  return `${amount}${left}`;
}

/* A bar and its words; update(run) moves both. */
export function progressBar(run) {
  const bar = h("progress", { max: 1, "aria-label": `progress of ${run.kind}` });
  const words = h("span", { class: "progress-words" });
  const update = ({ progress, state, waiting }) => {
    const waits = state === "queued" && waiting;
    words.textContent = waits ? `waits: ${waiting}` : progressText(progress ?? {}, state);
    if (progress?.total) {
      bar.max = progress.total;
      bar.value = Math.min(progress.done, progress.total);
    } else {
      bar.removeAttribute("value");
    }
  };
  update(run);
  return { node: h("div", { class: "progress" }, bar, words), update };
}

/* A section of runs in progress that is brought up to date in place: {node, show(runs, waiting), progress(run)}. */
export function runningSection() {
  const items = h("ul", { class: "runs" }), note = h("p", { class: "muted waiting" });
  const node = h("section", { class: "live", "aria-label": "Runs in progress", hidden: true },
    h("h2", {}, "In progress"), items, note);
  const rows = new Map();
  const show = (runs, waiting) => {
    node.hidden = runs.length === 0 && !waiting;
    const ids = new Set(runs.map((run) => run.id));
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      row.node.remove();
      rows.delete(id);
    }
    for (const run of runs) {
      if (!rows.has(run.id)) {
        const bar = progressBar(run);
        rows.set(run.id, { node: h("li", {}, title(run), bar.node), update: bar.update });
        items.append(rows.get(run.id).node);
      }
      rows.get(run.id).update(run);
    }
    fill(note, waiting ? `${plural(waiting, "run")} queued` : null);
  };
  return { node, show, progress: (run) => rows.get(run.id)?.update(run) };
}
