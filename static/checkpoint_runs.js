/* checkpoint_runs.js: the runs that measured a checkpoint, and comparisons in pairs of two checkpoints' runs. */
import { checkpoint as document, get, list, query } from "./api.js";
import { pause } from "./events.js";
import { integer } from "./format.js";
import { pairable } from "./measurements.js";

const MOST_RUNS = 2000; /* of one checkpoint: more than sweeps make */
const MOST_PAIRS = 48; /* comparisons that a page asks for; a browser has six under way at a time */
const AGAIN_SECONDS = 2;

/* Those of other checkpoints that have the weights of this one: Map id -> document. */
async function alike(id, others) {
  if (!others.length) return new Map();
  const [own, ...found] = await Promise.all([id, ...others].map((one) => document(one)));
  return new Map(found.filter((one) => one && own?.sha256 && one.sha256 === own.sha256).map((one) => [one.id, one]));
}

/* The runs that succeeded, the newest first, with those of other checkpoints of the same weights: such a run has
 * `measured`, the checkpoint that it read. What a run of the kind health says of the checkpoint before is another's. */
export async function runsOf(id, signal) {
  const asked = query("/v1/runs", { checkpoint: id, state: "succeeded", limit: 200 });
  const { items, more } = await list(asked, signal, MOST_RUNS);
  const read = items.map((run) => run.params?.checkpoint).filter((one) => typeof one === "string" && one !== id);
  const others = await alike(id, [...new Set(read)]);
  const runs = items.flatMap((run) => {
    if (run.params?.checkpoint === id) return [run];
    const measured = run.kind === "health" ? null : others.get(run.params?.checkpoint);
    return measured ? [{ ...run, measured }] : [];
  });
  return { runs, more };
}

/* That not all runs of the checkpoint were read, in words; empty when all were. */
export function notRead(more) {
  return more ? `This page has the newest ${integer(MOST_RUNS)} of its runs.` : "";
}

/* Two runs that have no sequences in common, or have kept no losses, are not paired. */
const NOT_PAIRED = new Set([404, 409, 422]);

/* The comparison; null: the two cannot be paired; undefined: the server had no answer, nor a moment later. */
async function comparison(a, b, signal) {
  const asked = query("/v1/compare", { a, b });
  for (let left = 1; ; left--) {
    try {
      return await get(asked, signal);
    } catch (error) {
      if (signal?.aborted) throw error;
      if (NOT_PAIRED.has(error.status)) return null;
      if (left === 0) return undefined;
    }
    await pause(AGAIN_SECONDS, signal);
  }
}

/* Paired differences to the checkpoint before, by the id of the own run; those of runs that cannot be paired are null.
 * Of too many `first`, of which the page speaks, is asked for before the others. */
export async function comparisons(pairs, first, signal) {
  const last = ({ run }) => Number(run.id !== first?.id);
  const asked = pairable(pairs).sort((a, b) => last(a) - last(b)).slice(0, MOST_PAIRS);
  const answers = await Promise.all(asked.map(({ run, before }) => comparison(before.id, run.id, signal)));
  const told = asked.map(({ run }, index) => [run.id, answers[index]]);
  return new Map(told.filter(([, answer]) => answer !== undefined));
}

/* That not all pairs were compared, in words; empty when all were. */
export function notCompared(pairs, paired) {
  const all = pairable(pairs).length, left = all - paired.size;
  return left ? `Of ${integer(all)} pairs of runs ${integer(left)} were not compared by sequence.` : "";
}
