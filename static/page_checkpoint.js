/* page_checkpoint.js: one checkpoint: how bad it is, why, what to do about it; all that was measured, beside its
 * neighbours. */
import { age } from "./age.js";
import { at, curvesOf, get, list, query } from "./api.js";
import {
  besideSection, healthSection, layerSection, measuredSection, tensorsSection, whatToDoSection,
} from "./checkpoint_parts.js";
import { command, curl, fill, h } from "./dom.js";
import { bytes, compact, integer, scalar, scientific } from "./format.js";
import { gatesOf, gatesSection } from "./gates.js";
import { badges } from "./integrity.js";
import { beside, costliest, finished, pairable } from "./measurements.js";
import { loading } from "./notice.js";
import { pinButton } from "./pins.js";
import { checkpointLink, curvesLink } from "./router.js";
import { facts } from "./table.js";
import { evaluationIn } from "./words.js";
import { bestOf, cheaper, placeOf, reasons } from "./verdict.js";

const MOST_RUNS = 400; /* of one checkpoint */
const MOST_POINTS = 300; /* of a curve, of which the extremes and this checkpoint's place are needed */
const MOST_PAIRS = 48; /* comparisons that a page asks for; a browser has six under way at a time */

export async function runsOf(id, signal) {
  const { items } = await list(query("/v1/runs", { checkpoint: id, limit: 100 }), signal, MOST_RUNS);
  return items.filter((run) => run.params?.checkpoint === id);
}

/* The checkpoints next to this one in the order of training, with their runs: {before, after, flags, read}; `read`: a
 * run of the kind health has read its weights. */
async function neighbours(own, signal) {
  const integrity = query(at("trajectories", own.trajectory, "integrity"), { checkpoint: own.id });
  const { points } = await get(integrity, signal);
  const place = points.findIndex((point) => point.checkpoint === own.id);
  const full = async (point) => {
    if (!point) return null;
    const [checkpoint, runs] = await Promise.all([
      get(at("checkpoints", point.checkpoint), signal), runsOf(point.checkpoint, signal),
    ]);
    return { id: point.checkpoint, name: checkpoint.name, checkpoint, runs };
  };
  const [before, after] = await Promise.all([full(points[place - 1]), full(points[place + 1])]);
  return { before, after, flags: points[place]?.flags ?? [], read: (points[place]?.not_finite ?? null) !== null };
}

/* Paired differences to the checkpoint before, by the id of the own run; runs that cannot be paired have none. Of too
 * many `first`, of which the page speaks, is asked for before the others. */
export async function comparisons(pairs, first, signal) {
  const last = ({ run }) => Number(run.id !== first?.id);
  const asked = pairable(pairs).sort((a, b) => last(a) - last(b)).slice(0, MOST_PAIRS);
  const compare = ({ run, before }) => get(query("/v1/compare", { a: before.id, b: run.id }), signal).catch(() => null);
  const answers = await Promise.all(asked.map(compare));
  return new Map(asked.map(({ run }, index) => [run.id, answers[index]]));
}

/* That not all pairs were compared, in words; empty when all were. */
export function notCompared(pairs, paired) {
  const all = pairable(pairs).length, left = all - paired.size;
  return left ? `Of ${integer(all)} pairs of runs ${integer(left)} were not compared by sequence.` : "";
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

function copies(checkpoint) {
  const own = at("checkpoints", checkpoint.id);
  const runs = query("/v1/runs", { checkpoint: checkpoint.id, state: "succeeded" });
  const paths = [own, runs, `${own}/tensors`, `${own}/health`];
  return h("details", {}, h("summary", {}, "This page as curl"), paths.map((path) => command(curl(path))));
}

/* Its series with the extremes and this checkpoint, however long the trajectory is. */
async function curveOf({ id, trajectory }, metric, signal) {
  return (await curvesOf({ trajectory, metric, x: "step", points: MOST_POINTS, checkpoint: id }, signal)).series;
}

/* What the page knows, asked for at once as far as one answer does not need another. */
async function read(id, signal) {
  const checkpoint = await get(at("checkpoints", id), signal);
  const [runs, around, deltas, losses, datasets, gates] = await Promise.all([
    runsOf(checkpoint.id, signal), neighbours(checkpoint, signal),
    curveOf(checkpoint, "delta", signal), curveOf(checkpoint, "loss_q", signal),
    list(query("/v1/datasets", { limit: 200 }), signal, 1000), gatesOf(checkpoint.trajectory, signal),
  ]);
  const pairs = beside(runs, around.before?.runs ?? [], around.after?.runs ?? []);
  const [health, paired] = await Promise.all([
    around.read ? get(`${at("checkpoints", checkpoint.id)}/health`, signal) : null,
    comparisons(pairs, costliest(runs), signal),
  ]);
  return { checkpoint, runs, around, deltas, losses, health, datasets: datasets.items, gates, pairs, paired };
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
    measuredSection(finished(runs)), besideSection({ ...known, note: notCompared(known.pairs, known.paired) }),
    layerSection(known, run, signal),
    healthSection(known), tensorsSection(checkpoint, signal), copies(checkpoint),
  );
}
