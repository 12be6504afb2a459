/* integrity.js: what is wrong with the checkpoints of a trajectory, as GET …/integrity tells: a panel on the curve page, words for marks. */
import { at, get } from "./api.js";
import { command, curl, h } from "./dom.js";
import { integer, isNumber, percent, plural, scientific } from "./format.js";

/* A flag in a word, and in a sentence for the text that hovers. */
export const FLAGS = {
  identical: ["identical", "holds the same weights as another checkpoint"],
  mixed: ["mixed", "holds part of another checkpoint's weights"],
  jump: ["jump", "is far from its neighbours"],
  not_finite: ["not finite", "holds NaN or infinite weights"],
};
const MOST = 12; /* findings of a kind that are listed at once */

export async function loadIntegrity(names, signal) {
  return new Map(await Promise.all(names.map(async (name) => [name, await get(at("trajectories", name, "integrity"), signal)])));
}

/* Map id of a checkpoint -> flags, of those that have any. */
export function flagsOf(integrities) {
  const found = new Map();
  for (const { points } of integrities.values()) for (const point of points) if (point.flags.length) found.set(point.checkpoint, point.flags);
  return found;
}

export function badges(flags) {
  return (flags ?? []).map((flag) => h("span", { class: "badge bad", title: FLAGS[flag]?.[1] ?? flag }, FLAGS[flag]?.[0] ?? flag));
}

function name(reference) {
  return h("span", { class: "name" }, reference.name);
}

/* Some of many: a list that can be opened to the rest. */
function items(all, show) {
  const entry = (one) => h("li", {}, show(one));
  const rest = all.slice(MOST);
  return [h("ul", {}, all.slice(0, MOST).map(entry)), rest.length ? h("details", {}, h("summary", {}, `${integer(rest.length)} more`), h("ul", {}, rest.map(entry))) : null];
}

function names(references) {
  const shown = references.slice(0, MOST).map((one, index) => [index ? ", " : "", name(one)]);
  return [shown, references.length > MOST ? ` and ${integer(references.length - MOST)} more` : ""];
}

const KINDS = [
  ["identical", "Identical checkpoints", ({ checkpoints }) => [`${integer(checkpoints.length)} hold the same weights: `, names(checkpoints)]],
  ["mixed", "Mixed checkpoints", (row) => [name(row), ": ", row.file ? h("code", {}, row.file) : `${integer(row.matrices)} of ${integer(row.of)} matrices`, " as in ", name(row.with)]],
  ["jumps", "Jumps", (row) => [name(row), row.file ? [", ", h("code", {}, row.file)] : null, `: weights moved by ${percent(row.relative_l2)}, at most ${percent(row.expected)} expected`]],
  ["not_finite", "Broken numbers", (row) => [name(row), ", ", h("code", {}, row.tensor), `: ${[row.nan ? `${integer(row.nan)} NaN` : "", row.infinite ? `${integer(row.infinite)} infinite` : ""].filter(Boolean).join(", ")}`]],
  ["gaps", "Missing checkpoints", (row) => [`${integer(row.missing)} between `, name(row.after), " and ", name(row.before)]],
];

function healthCommand(trajectories) {
  return command(trajectories.map((trajectory) => curl("/v1/sweeps", { name: `${trajectory}-health`, kind: "health", standing: true, grid: { checkpoint: { trajectory } } })).join("\n"));
}

/* What nobody has read yet, of all trajectories at once. */
function unread(trajectories, integrities) {
  const names = integrities.map(([title]) => title), several = names.length > 1;
  if (!names.length) return null;
  return h("section", { class: "integrity", "aria-label": "Not read yet" }, several ? h("h3", {}, "Not read yet") : null, trajectories.filter((one) => names.includes(one.name)).map(watching),
    h("p", { class: "muted" }, several ? ["The weights of ", names.map((name, index) => [index ? ", " : "", h("span", { class: "name" }, name)]), " have not been read yet. Standing sweeps read them, and those to come:"]
      : "The weights have not been read yet. A standing sweep reads them, and those to come:"), healthCommand(names));
}

function state(integrity) {
  const { measured, checkpoints, clean, gaps } = integrity;
  const read = measured === checkpoints ? `${checkpoints === 1 ? "The only checkpoint is" : `All ${plural(checkpoints, "checkpoint")}`} read` : `${integer(measured)} of ${plural(checkpoints, "checkpoint")} read`;
  const marked = integrity.points.filter((point) => point.flags.length).length;
  const verdict = clean === false ? `${plural(marked, "checkpoint")} marked.` : gaps.length ? "nothing wrong with their weights." : "nothing wrong.";
  return h("p", { class: clean ? "good" : clean === false ? "bad" : "muted" }, h("span", { "aria-hidden": "true" }, clean ? "✓ " : clean === false ? "▲ " : ""), `${read}, ${verdict}`);
}

function watching(trajectory) {
  const seen = trajectory?.watch_state;
  if (!trajectory?.watch) return null;
  const trouble = [seen?.detail, ...(seen?.failed ?? []).map(({ path, detail }) => `${path}: ${detail}`)].filter(Boolean);
  return h("div", { class: "watching" }, h("p", { class: "muted" }, "Watching ", h("code", { class: "name" }, trajectory.watch), seen?.mode === "poll" ? " (looked at every few seconds)" : seen?.mode === "away" ? " (cannot be read at the moment)" : "",
    seen?.pending?.length ? `; being written: ${seen.pending.join(", ")}` : ""), trouble.length ? items(trouble, (text) => text) : null);
}

function block(trajectory, integrity, several) {
  const found = KINDS.filter(([field]) => integrity[field].length);
  return h("section", { class: "integrity", "aria-label": `Integrity of ${integrity.trajectory}` }, several ? h("h3", { class: "name" }, integrity.trajectory) : null,
    watching(trajectory),
    integrity.checkpoints ? state(integrity) : h("p", { class: "muted" }, "No checkpoint yet."),
    found.length ? h("div", { class: "findings" }, found.map(([field, title, show]) => h("div", {}, h("h4", {}, title), items(integrity[field], show)))) : null);
}

/* null while there is neither a checkpoint nor a directory where some are waited for. */
export function integrityPanel(trajectories, integrities) {
  const own = [...integrities].filter(([title, integrity]) => integrity.checkpoints || trajectories.find((one) => one.name === title)?.watch);
  if (!own.length) return null;
  const waiting = own.filter(([, integrity]) => integrity.checkpoints && !integrity.measured), read = own.filter((one) => !waiting.includes(one));
  return h("section", { class: "panel", "aria-label": "Integrity" }, unread(trajectories, waiting), read.map(([title, integrity]) => block(trajectories.find((one) => one.name === title), integrity, own.length > 1)));
}

/* Of a health run: the weights block by block. */
export const BLOCK_COLUMNS = [
  { label: "Block", numeric: true, value: (row) => row.layer, cell: (row) => integer(row.layer) },
  { label: "L1", numeric: true, value: (row) => row.l1, cell: (row) => scientific(row.l1, 4) },
  { label: "L2", numeric: true, value: (row) => row.l2, cell: (row) => scientific(row.l2, 4) },
  { label: "L∞", numeric: true, value: (row) => row.linf, cell: (row) => scientific(row.linf, 4) },
  { label: "Kurtosis", numeric: true, value: (row) => row.kurtosis, cell: (row) => (isNumber(row.kurtosis) ? scientific(row.kurtosis, 4) : "–") },
  { label: "Outliers", numeric: true, value: (row) => row.outlier_share, cell: (row) => percent(row.outlier_share) },
  { label: "Change", numeric: true, value: (row) => row.relative_l2, cell: (row) => (isNumber(row.relative_l2) ? percent(row.relative_l2) : "–") },
  { label: "Not finite", numeric: true, value: (row) => row.nan + row.infinite, cell: (row) => integer(row.nan + row.infinite) },
];
