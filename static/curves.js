/* curves.js: what the curve pages show, out of the API's answers. Pure but for load(). */
import { at, curvesOf, get, list, query } from "./api.js";
import { isNumber } from "./format.js";
import {
  bitsOf, columnOf, evaluationKey, evaluationNames, keyOf, protocolsToName, withTexts,
} from "./series.js";
import { evaluationIn } from "./words.js";

/* What curves are drawn against. A share is made here, of what the trajectory has reached. */
export const AXES = { tokens: "tokens", step: "step", share: "share of training", learning_rate: "learning rate" };

const MOST_CHECKPOINTS = 200000, PAGE = 1000;
const MOST_LISTED = 3000; /* checkpoints that are read without being asked for */
const CHECKPOINT_FIELDS = "id,name,trajectory,step,tokens,learning_rate,derived_from";

function compareSeries(a, b) {
  const text = (value) => value ?? "";
  return (bitsOf(b) ?? 0) - (bitsOf(a) ?? 0)
    || text(a.method).localeCompare(text(b.method))
    || text(a.label).localeCompare(text(b.label), "en", { numeric: true }) /* g4, g8, g16 */
    || text(a.dataset).localeCompare(text(b.dataset));
}

function along(a, b) {
  return (a.tokens ?? a.step ?? Infinity) - (b.tokens ?? b.step ?? Infinity)
    || a.name.localeCompare(b.name, "en", { numeric: true });
}

/* The evaluations of the losses, first the one that the page shows where there is space for one: that of most points,
 * and of several such that of the first curve. [{key, words}] */
function evaluationsOf(curves, loss, spoken) {
  const names = evaluationNames([...curves, ...loss], spoken), counts = new Map();
  for (const one of loss) {
    const key = evaluationKey(one);
    counts.set(key, (counts.get(key) ?? 0) + (one.total ?? one.points.length));
  }
  const [first] = [...curves].sort(compareSeries), own = first ? evaluationKey(first) : null;
  const rank = (key) => counts.get(key) + (key === own ? 0.5 : 0);
  return [...counts.keys()].sort((a, b) => rank(b) - rank(a)).map((key) => ({ key, words: names.get(key) }));
}

/* Answers for some trajectories -> {metric, x, names, checkpoints: Map id -> document, curves, loss, evaluations of the
 * losses, largest_algebraic, trace, rate, parents, others}. What was not answered yet is empty. */
export function assemble(names, metric, x, answers, spoken = new Map()) {
  const checkpoints = new Map();
  for (const item of (answers.checkpoints ?? []).flat()) checkpoints.set(item.id, item);
  const named = (answer, panel) => {
    const own = (series) => ({ ...series, panel, bits: bitsOf(series), key: keyOf(series) });
    return withTexts((answer?.series ?? []).map(own), spoken);
  };
  const curves = named(answers.curves, "curve");
  const order = (series) => names.indexOf(series.trajectory);
  curves.sort((a, b) => order(a) - order(b) || compareSeries(a, b));
  const loss = named(answers.loss, "loss");
  return {
    metric, x, names, checkpoints, curves, loss,
    evaluations: evaluationsOf(curves, loss, spoken),
    largest_algebraic: named(answers.largest_algebraic, "largest_algebraic"),
    trace: named(answers.trace, "trace"),
    rate: x === "learning_rate" ? [] : named(answers.rate, "rate"),
    parents: answers.parents ?? new Map(),
    others: answers.others?.series ?? [],
    averages: named(answers.averages, "curve"),
    base: answers.base ?? x,
    coarse: coarse(answers),
    whole: Boolean(answers.checkpoints),
    left: answers.left ?? 0,
  };
}

/* Whether the server left points out, since it was asked for fewer. */
function coarse({ curves, loss }) {
  const some = ({ total, points }) => isNumber(total) && total > points.length;
  return [...(curves?.series ?? []), ...(loss?.series ?? [])].some(some);
}

/* Losses of the full-precision checkpoints: as quantize runs measured them, or, for a trajectory where none did, as
 * training did. The two are not mixed in one curve: they may stand on different parts of the data; each series says
 * which it is. */
function losses(measured, trained) {
  const have = new Set(measured.series.map((series) => series.trajectory));
  const of = (series, source) => series.map((one) => ({ ...one, source }));
  const others = trained.series.filter((series) => !have.has(series.trajectory));
  return { series: [...of(measured.series, "loss_fp"), ...of(others, "validation_loss")] };
}

/* Words for evaluations that nothing but their protocol tells apart. */
async function speak(lists, signal) {
  const asked = protocolsToName(lists);
  const wordsOf = ({ run }) => get(at("runs", run), signal).then(evaluationIn).catch(() => "");
  const said = await Promise.all(asked.map(wordsOf));
  return new Map(asked.map(({ protocol_id }, index) => [protocol_id, said[index]]).filter(([, words]) => words));
}

/* Map trajectory -> id of the checkpoint that it was continued from, of those that a train run made so. */
async function parentsOf(names, signal) {
  const asked = (name) => query("/v1/runs", { kind: "train", trajectory: name, limit: 100, fields: "id,params" });
  const pages = await Promise.all(names.map((name) => list(asked(name), signal, 200)));
  const found = new Map();
  pages.forEach(({ items }, index) => {
    const first = items.filter((run) => typeof run.params?.from === "string").at(-1);
    if (first) found.set(names[index], first.params.from);
  });
  return found;
}

const MOST_AVERAGES = 2000; /* runs of a trajectory */
const TOGETHER = 32; /* trajectories that one answer takes */

/* Curves of trajectories that were branched from and are not shown. */
async function origins(names, parents, curve, signal) {
  const home = (id) => get(at("checkpoints", id), signal).then((found) => found.trajectory).catch(() => null);
  const homes = await Promise.all([...parents.values()].map(home));
  const missing = [...new Set(homes)].filter((name) => name !== null && !names.includes(name));
  return missing.length ? curve(missing) : { series: [] };
}

/* Trajectories with averages of checkpoints of those that are shown: Map their name -> whose they are. */
async function averagesOf(names, signal) {
  const made = { kind: "average", state: "succeeded", limit: 200, fields: "id,result" };
  const asked = (name) => query("/v1/runs", { ...made, trajectory: name });
  const pages = await Promise.all(names.map((name) => list(asked(name), signal, MOST_AVERAGES)));
  const found = new Map();
  pages.forEach(({ items }, index) => {
    for (const { result } of items) if (result?.trajectory) found.set(result.trajectory, names[index]);
  });
  for (const name of names) found.delete(name);
  return found;
}

/* Curves of averages as points beside the runs that they are of: each says `of` whom. */
async function averageCurves(names, curve, signal) {
  const homes = await averagesOf(names, signal);
  if (!homes.size) return { series: [] };
  const known = [...homes.keys()], parts = [];
  for (let first = 0; first < known.length; first += TOGETHER) parts.push(known.slice(first, first + TOGETHER));
  /* One that was deleted since refuses the others of its part. */
  const read = (part) => curve(part).catch(async (error) => {
    if (error.status !== 404) throw error;
    const left = part.length > 1 ? await Promise.all(part.map((name) => read([name]))) : [];
    return { series: left.flatMap(({ series }) => series) };
  });
  const answers = await Promise.all(parts.map(read));
  return { series: answers.flatMap(({ series }) => series.map((one) => ({ ...one, of: homes.get(one.trajectory) }))) };
}

/* The same curves with x as a share of the last x of each trajectory. `ends`: Map name -> {tokens, step}. */
export function shared({ series, ...answer }, base, ends) {
  const share = (one) => {
    const end = ends.get(one.of ?? one.trajectory)?.[base];
    return { ...one, points: end > 0 ? one.points.map((point) => ({ ...point, x: point.x / end })) : [] };
  };
  return { ...answer, series: series.map(share) };
}

/* Documents of the checkpoints that are drawn, as far as their points tell. */
function drawnCheckpoints({ curves, rate }, base) {
  const rates = new Map((rate?.series ?? []).flatMap(({ points }) => points.map((one) => [one.checkpoint, one.y])));
  const known = new Map();
  for (const { trajectory: name, points } of curves.series) {
    for (const point of points) {
      known.set(point.checkpoint, {
        id: point.checkpoint, name: point.checkpoint_name ?? point.checkpoint, trajectory: name,
        step: point.step ?? (base === "step" ? point.x : null), tokens: base === "tokens" ? point.x : null,
        learning_rate: rates.get(point.checkpoint) ?? null, derived_from: null,
      });
    }
  }
  return [...known.values()];
}

/* Whether there are more checkpoints than are read without being asked for. */
export function areMany(names, { ends, all }) {
  return !all && names.reduce((sum, name) => sum + (ends.get(name)?.checkpoints ?? 0), 0) > MOST_LISTED;
}

/* All checkpoints, or of many the ones that are drawn, unless `all` are wanted. `left`: how many are not read. */
async function checkpointsOf(names, more, answers, base, signal) {
  if (areMany(names, more)) {
    const drawn = drawnCheckpoints(answers, base), count = (name) => more.ends.get(name)?.checkpoints ?? 0;
    const all = names.reduce((sum, name) => sum + count(name), 0);
    return { checkpoints: drawn, left: Math.max(0, all - drawn.length) };
  }
  const asked = (name) => query("/v1/checkpoints", { trajectory: name, limit: PAGE, fields: CHECKPOINT_FIELDS });
  const pages = await Promise.all(names.map((name) => list(asked(name), signal, MOST_CHECKPOINTS)));
  return { checkpoints: pages.flatMap(({ items }) => items), left: 0 };
}

/* Everything, in steps: show(model) is called with the measure first, then with the panels, then with the checkpoints,
 * which may be many. `more`: {ends: Map name -> {tokens, step, checkpoints}, points: most points of a curve, all: read
 * all checkpoints}. */
export async function load(names, metric, x, signal, show, more) {
  const { ends, points } = more, byTokens = names.every((name) => isNumber(ends.get(name)?.tokens));
  const base = x !== "share" ? x : byTokens ? "tokens" : "step";
  const plainCurve = (which, of = names) => curvesOf({ trajectory: of, metric: which, x: base, points }, signal);
  const placed = (answer) => (x === "share" ? shared(answer, base, ends) : answer);
  const curve = async (which, of) => placed(await plainCurve(which, of));
  const answers = { curves: await curve(metric), base };
  show(assemble(names, metric, x, answers));
  const [measured, trained, rate, largest_algebraic, trace, parents, averages] = await Promise.all([
    curve("loss_fp"),
    curve("validation_loss"),
    curve("learning_rate"),
    curve("largest_algebraic"),
    curve("trace"),
    x === "share" ? new Map() : parentsOf(names, signal), /* branches and their origins have other ends */
    x === "learning_rate" ? { series: [] } : averageCurves(names, (of) => plainCurve(metric, of), signal),
  ]);
  Object.assign(answers, {
    loss: losses(measured, trained), rate, largest_algebraic, trace, parents, averages: placed(averages),
  });
  const [spoken, others] = await Promise.all([
    speak([answers.curves.series, measured.series], signal),
    origins(names, parents, (of) => curve(metric, of), signal),
  ]);
  answers.others = others;
  show(assemble(names, metric, x, answers, spoken));
  Object.assign(answers, await checkpointsOf(names, more, answers, x, signal));
  show(assemble(names, metric, x, answers, spoken));
}

export function trajectory(name, signal) {
  return get(at("trajectories", name), signal);
}

/* The losses on the evaluation that is shown where there is space for one. */
function firstLosses({ loss, evaluations }) {
  return loss.filter((series) => evaluationKey(series) === evaluations[0].key);
}

/* Rows of the table of checkpoints, with losses of the first evaluation alone:
 * {columns: [{key, label}], rows: [{checkpoint, loss, values: Map column -> point}]}. */
export function table(model) {
  const columns = new Map();
  for (const series of [...model.curves].sort(compareSeries)) {
    columns.set(columnOf(series), { key: columnOf(series), label: series.text, bits: series.bits });
  }
  const rows = new Map();
  const sorted = [...model.checkpoints.values()].sort(along);
  for (const name of model.names) {
    for (const checkpoint of sorted) {
      if (checkpoint.trajectory === name) rows.set(checkpoint.id, { checkpoint, loss: null, values: new Map() });
    }
  }
  for (const series of model.curves) {
    for (const point of series.points) rows.get(point.checkpoint)?.values.set(columnOf(series), point);
  }
  for (const series of firstLosses(model)) {
    for (const point of series.points) {
      const row = rows.get(point.checkpoint);
      if (row) row.loss = point;
    }
  }
  return { columns: [...columns.values()], rows: [...rows.values()] };
}

/* Of how many checkpoints this one is an average; 0: it is none. */
export function averagedFrom(checkpoint) {
  const from = checkpoint?.derived_from;
  return Array.isArray(from?.checkpoints) && Array.isArray(from.weights) ? from.checkpoints.length : 0;
}

/* By checkpoint: all that is known about it besides the curve at hand, for the text that hovers. */
export function hoverDetails(model) {
  const found = new Map();
  const note = (seriesList, field) => {
    for (const series of seriesList) {
      for (const point of series.points) {
        const entry = found.get(point.checkpoint) ?? {};
        entry[field] ??= point.y;
        if (series.source) entry.source ??= series.source;
        found.set(point.checkpoint, entry);
      }
    }
  };
  note(firstLosses(model), "loss");
  for (const field of ["largest_algebraic", "trace"]) note(model[field], field);
  if (model.evaluations.length > 1) {
    for (const entry of found.values()) if (isNumber(entry.loss)) entry.on = ` on ${model.evaluations[0].words}`;
  }
  for (const [id, checkpoint] of model.checkpoints) {
    const { learning_rate: rate, step, tokens, name } = checkpoint;
    found.set(id, { ...found.get(id), rate, step, tokens, name, averaged: averagedFrom(checkpoint) });
  }
  return found;
}

/* How many points cannot be drawn on a logarithmic axis. */
export function hiddenByLog(model, { xLog, yLog }) {
  let count = 0;
  for (const series of model.curves) {
    for (const point of series.points) if ((yLog && !(point.y > 0)) || (xLog && !(point.x > 0))) count++;
  }
  return count;
}
