/* page_checkpoint.js: one checkpoint: how bad it is, why, what to do about it; all that was measured, beside its
 * neighbours. */
import { age } from "./age.js";
import { at, curvesOf, get, list, query } from "./api.js";
import {
  besideSection, healthSection, layerSection, measuredSection, tensorsSection, whatToDoSection,
} from "./checkpoint_parts.js";
import { comparisons, notCompared, notRead, runsOf } from "./checkpoint_runs.js";
import { command, curl, fill, h } from "./dom.js";
import { bytes, compact, integer, scalar, scientific } from "./format.js";
import { gatesOf, gatesSection } from "./gates.js";
import { badges } from "./integrity.js";
import { beside, costliest, finished } from "./measurements.js";
import { loading } from "./notice.js";
import { pinButton } from "./pins.js";
import { checkpointLink, curvesLink } from "./router.js";
import { facts } from "./table.js";
import { evaluationIn } from "./words.js";
import { bestOf, cheaper, placeOf, reasons } from "./verdict.js";

const MOST_POINTS = 300; /* of a curve, of which the extremes and this checkpoint's place are needed */

/* The checkpoints next to this one in the order of training, with their runs: {before, after, flags, read}; `read`: a
 * run of the kind health has read its weights. */
async function neighbours(own, signal) {
  const integrity = query(at("trajectories", own.trajectory, "integrity"), { checkpoint: own.id });
  const { points } = await get(integrity, signal);
  const place = points.findIndex((point) => point.checkpoint === own.id);
  const full = async (point) => {
    if (!point) return null;
    const [checkpoint, { runs }] = await Promise.all([
      get(at("checkpoints", point.checkpoint), signal), runsOf(point.checkpoint, signal),
    ]);
    return { id: point.checkpoint, name: checkpoint.name, checkpoint, runs };
  };
  const [before, after] = await Promise.all([full(points[place - 1]), full(points[place + 1])]);
  return { before, after, flags: points[place]?.flags ?? [], read: (points[place]?.not_finite ?? null) !== null };
}

function origin(checkpoint) {
  const { source, derived_from: from } = checkpoint;
  const members = from?.checkpoints?.length ? `average of ${from.checkpoints.length} checkpoints` : null;
  return members ?? source?.path ?? (source?.repo ? `${source.repo}@${source.revision ?? ""}` : null);
}

function about(checkpoint) {
  const tags = Object.entries(checkpoint.tags ?? {});
  return facts([
    ["Step", integer(checkpoint.step)],
    ["Tokens", compact(checkpoint.tokens)],
    ["Learning rate", scientific(checkpoint.learning_rate)],
    ["Architecture", checkpoint.architecture],
    ["Parameters", compact(checkpoint.parameters)],
    ["Type", checkpoint.dtype],
    ["Size", bytes(checkpoint.bytes)],
    ["From", h("span", { class: "name" }, origin(checkpoint) ?? "–")],
    ["Registered", age(checkpoint.created_at)],
    ["Tags", tags.length ? tags.map(([name, value]) => `${name}: ${scalar(value)}`).join(", ") : null],
    ["SHA-256", checkpoint.sha256 ? h("code", { title: checkpoint.sha256 }, checkpoint.sha256.slice(0, 12)) : null],
  ]);
}

function heading(checkpoint, around) {
  const step = (one, mark, words) => {
    if (!one) return null;
    return h("a", { href: checkpointLink(one.id), title: one.name, "aria-label": `${words}: ${one.name}` }, mark);
  };
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Trajectories"), " · ",
      h("a", { href: curvesLink([checkpoint.trajectory]), class: "name" }, checkpoint.trajectory)),
    h("div", { class: "row between heading" },
      h("h1", {}, h("span", { class: "name" }, checkpoint.name), " ", badges(around.flags)),
      h("div", { class: "row" },
        step(around.before, "‹ before", "the checkpoint before"),
        step(around.after, "after ›", "the checkpoint after"),
        pinButton(checkpoint))),
  ];
}

/* `health`: null where the weights were not read, of which the server has no document then. */
function copies({ checkpoint, health }) {
  const own = at("checkpoints", checkpoint.id);
  const runs = query("/v1/runs", { checkpoint: checkpoint.id, state: "succeeded" });
  const paths = [own, runs, `${own}/tensors`, health ? `${own}/health` : null].filter(Boolean);
  return h("details", {}, h("summary", {}, "This page as curl"), paths.map((path) => command(curl(path))));
}

/* Its series with the extremes and this checkpoint, however long the trajectory is. */
async function curveOf({ id, trajectory }, metric, signal) {
  return (await curvesOf({ trajectory, metric, x: "step", points: MOST_POINTS, checkpoint: id }, signal)).series;
}

/* What the page knows, asked for at once as far as one answer does not need another. */
async function read(id, signal) {
  const checkpoint = await get(at("checkpoints", id), signal);
  const [{ runs, more }, around, deltas, losses, datasets, gates] = await Promise.all([
    runsOf(checkpoint.id, signal), neighbours(checkpoint, signal),
    curveOf(checkpoint, "delta", signal), curveOf(checkpoint, "loss_q", signal),
    list(query("/v1/datasets", { limit: 200 }), signal, 1000), gatesOf(checkpoint.trajectory, signal),
  ]);
  const pairs = beside(runs, around.before?.runs ?? [], around.after?.runs ?? []);
  const [health, paired] = await Promise.all([
    around.read ? get(`${at("checkpoints", checkpoint.id)}/health`, signal) : null,
    comparisons(pairs, costliest(runs), signal),
  ]);
  return { checkpoint, runs, more, around, deltas, losses, health, datasets: datasets.items, gates, pairs, paired };
}

function sentences(known) {
  const { checkpoint, runs, around, pairs, paired } = known, run = costliest(runs);
  if (!run) return { run: null, words: [] };
  const earlier = pairs.find((pair) => pair.run.id === run.id)?.before ?? null;
  const before = around.before ? { ...around.before, run: earlier } : null;
  const words = reasons({
    run, checkpoint, place: placeOf(run, known.deltas), before, comparison: paired.get(run.id), runs,
    flags: around.flags, evaluation: evaluationIn(run),
  });
  return { run, words };
}

export async function showCheckpoint({ root, parameters, signal }) {
  document.title = "Checkpoint · deltaq";
  fill(root, h("h1", {}, "Checkpoint"), loading("the checkpoint"));
  const known = await read(parameters.id, signal), { checkpoint, runs, around } = known;
  document.title = `${checkpoint.name} · ${checkpoint.trajectory} · deltaq`;
  const { run, words } = sentences(known);
  if (signal.aborted) return;
  const why = words.length ? h("ul", { class: "reasons", id: "why" }, words.map((text) => h("li", {}, text)))
    : h("p", { class: "muted" }, "No quantization of this checkpoint was measured yet; quantize it below.");
  fill(root, heading(checkpoint, around), about(checkpoint),
    h("section", { "aria-label": "Why" }, h("h2", {}, "Why"), why),
    gatesSection({ ...known, signal }),
    whatToDoSection({
      ...known, run, best: run ? bestOf(run, known.losses) : null, other: run ? cheaper(run, runs) : null, signal,
    }),
    measuredSection(finished(runs), notRead(known.more)),
    besideSection({ ...known, note: notCompared(known.pairs, known.paired) }),
    layerSection(known, run, signal),
    healthSection(known), tensorsSection(checkpoint, signal), copies(known),
  );
}
