/* integrity.js: what is wrong with the checkpoints of a trajectory, as GET …/integrity tells: a panel on the curve
 * page, words for marks. */
import { at, get } from "./api.js";
import { command, curl, h } from "./dom.js";
import { integer, percent, plural, scientific } from "./format.js";
import { numberColumn } from "./table.js";

/* A flag in a word, and in a sentence for the text that hovers. */
export const FLAGS = {
  identical: ["identical", "holds the same weights as another checkpoint"],
  mixed: ["mixed", "holds part of another checkpoint's weights"],
  jump: ["jump", "is far from its neighbours"],
  not_finite: ["not finite", "holds NaN or infinite weights"],
};
const MOST = 12; /* findings of a kind that are listed at once */

export async function loadIntegrity(names, signal) {
  const asked = async (name) => [name, await get(at("trajectories", name, "integrity"), signal)];
  return new Map(await Promise.all(names.map(asked)));
}

/* Of more checkpoints than are read at once: the integrity is read with them. */
export function notRead({ checkpoints, left }, readAll) {
  const press = (event) => {
    event.target.disabled = true;
    readAll();
  };
  return h("section", { class: "panel", "aria-label": "Integrity" },
    h("p", { class: "muted" }, `Not read yet: it is told for each of ${integer(checkpoints.size + left)} checkpoints. `,
      h("button", { type: "button", class: "small", id: "read-integrity", events: { click: press } }, "Read it")));
}

/* Map id of a checkpoint -> flags, of those that have any; null: not read. */
export function flagsOf(integrities) {
  const found = new Map();
  if (!integrities) return found;
  for (const { points } of integrities.values()) {
    for (const point of points) if (point.flags.length) found.set(point.checkpoint, point.flags);
  }
  return found;
}

export function badges(flags) {
  return (flags ?? []).map((flag) => {
    const [word, sentence] = FLAGS[flag] ?? [flag, flag];
    return h("span", { class: "badge bad", title: sentence }, word);
  });
}

function name(reference) {
  return h("span", { class: "name" }, reference.name);
}

/* Some of many: a list that can be opened to the rest. */
function items(all, show) {
  const entry = (one) => h("li", {}, show(one));
  const rest = all.slice(MOST);
  const more = () => h("details", {}, h("summary", {}, `${integer(rest.length)} more`), h("ul", {}, rest.map(entry)));
  return [h("ul", {}, all.slice(0, MOST).map(entry)), rest.length ? more() : null];
}

function names(references) {
  const shown = references.slice(0, MOST).map((one, index) => [index ? ", " : "", name(one)]);
  return [shown, references.length > MOST ? ` and ${integer(references.length - MOST)} more` : ""];
}

function brokenNumbers({ nan, infinite }) {
  return [nan ? `${integer(nan)} NaN` : "", infinite ? `${integer(infinite)} infinite` : ""].filter(Boolean).join(", ");
}

/* [field of the answer, title, row -> what is told of it]. */
const KINDS = [
  ["identical", "Identical checkpoints", ({ checkpoints }) => [
    `${integer(checkpoints.length)} hold the same weights: `, names(checkpoints),
  ]],
  ["mixed", "Mixed checkpoints", (row) => [
    name(row), ": ",
    row.file ? h("code", {}, row.file) : `${integer(row.matrices)} of ${integer(row.of)} matrices`,
    " as in ", name(row.with),
  ]],
  ["jumps", "Jumps", (row) => [
    name(row), row.file ? [", ", h("code", {}, row.file)] : null,
    `: weights moved by ${percent(row.relative_l2)}, at most ${percent(row.expected)} expected`,
  ]],
  ["not_finite", "Broken numbers", (row) => [name(row), ", ", h("code", {}, row.tensor), `: ${brokenNumbers(row)}`]],
  ["gaps", "Missing checkpoints", (row) => [
    `${integer(row.missing)} between `, name(row.after), " and ", name(row.before),
  ]],
];

function healthCommand(trajectories) {
  const sweep = (trajectory) => curl("/v1/sweeps", {
    name: `${trajectory}-health`, kind: "health", standing: true, grid: { checkpoint: { trajectory } },
  });
  return command(trajectories.map(sweep).join("\n"));
}

/* What nobody has read yet, of all trajectories at once. */
function unread(trajectories, integrities) {
  const names = integrities.map(([title]) => title), several = names.length > 1;
  if (!names.length) return null;
  const listed = names.map((name, index) => [index ? ", " : "", h("span", { class: "name" }, name)]);
  return h("section", { class: "integrity", "aria-label": "Not read yet" },
    several ? h("h3", {}, "Not read yet") : null,
    trajectories.filter((one) => names.includes(one.name)).map(watching),
    h("p", { class: "muted" }, several
      ? ["The weights of ", listed, " have not been read yet. Standing sweeps read them, and those to come:"]
      : "The weights have not been read yet. A standing sweep reads them, and those to come:"),
    healthCommand(names));
}

/* "All 12 checkpoints read" */
function readWords({ measured, checkpoints }) {
  if (measured !== checkpoints) return `${integer(measured)} of ${plural(checkpoints, "checkpoint")} read`;
  return `${checkpoints === 1 ? "The only checkpoint is" : `All ${plural(checkpoints, "checkpoint")}`} read`;
}

function state(integrity) {
  const { clean, gaps, points } = integrity, read = readWords(integrity);
  if (clean === false) {
    const marked = points.filter((point) => point.flags.length).length;
    return stateLine("bad", "▲ ", `${read}, ${plural(marked, "checkpoint")} marked.`);
  }
  const verdict = gaps.length ? "nothing wrong with their weights." : "nothing wrong.";
  return stateLine(clean ? "good" : "muted", clean ? "✓ " : "", `${read}, ${verdict}`);
}

function stateLine(className, sign, text) {
  return h("p", { class: className }, h("span", { "aria-hidden": "true" }, sign), text);
}

/* How a directory is watched, where that is worth a word. */
const MODES = { poll: " (looked at every few seconds)", away: " (cannot be read at the moment)" };

function watching(trajectory) {
  const seen = trajectory?.watch_state;
  if (!trajectory?.watch) return null;
  const failed = (seen?.failed ?? []).map(({ path, detail }) => `${path}: ${detail}`);
  const trouble = [seen?.detail, ...failed].filter(Boolean);
  return h("div", { class: "watching" },
    h("p", { class: "muted" }, "Watching ", h("code", { class: "name" }, trajectory.watch), MODES[seen?.mode] ?? "",
      seen?.pending?.length ? `; being written: ${seen.pending.join(", ")}` : ""),
    trouble.length ? items(trouble, (text) => text) : null);
}

function block(trajectory, integrity, several) {
  const found = KINDS.filter(([field]) => integrity[field].length);
  const finding = ([field, title, show]) => h("div", {}, h("h4", {}, title), items(integrity[field], show));
  return h("section", { class: "integrity", "aria-label": `Integrity of ${integrity.trajectory}` },
    several ? h("h3", { class: "name" }, integrity.trajectory) : null,
    watching(trajectory),
    integrity.checkpoints ? state(integrity) : h("p", { class: "muted" }, "No checkpoint yet."),
    found.length ? h("div", { class: "findings" }, found.map(finding)) : null);
}

/* null while there is neither a checkpoint nor a directory where some are waited for. */
export function integrityPanel(trajectories, integrities) {
  const named = (title) => trajectories.find((one) => one.name === title);
  const own = [...integrities].filter(([title, integrity]) => integrity.checkpoints || named(title)?.watch);
  if (!own.length) return null;
  const waiting = own.filter(([, integrity]) => integrity.checkpoints && !integrity.measured);
  const read = own.filter((one) => !waiting.includes(one));
  return h("section", { class: "panel", "aria-label": "Integrity" },
    unread(trajectories, waiting),
    read.map(([title, integrity]) => block(named(title), integrity, own.length > 1)));
}

const four = (value) => scientific(value, 4);

/* Of a health run: the weights block by block. */
export const BLOCK_COLUMNS = [
  numberColumn("Block", (row) => row.layer, integer),
  numberColumn("L1", (row) => row.l1, four),
  numberColumn("L2", (row) => row.l2, four),
  numberColumn("L∞", (row) => row.linf, four),
  numberColumn("Kurtosis", (row) => row.kurtosis, four),
  numberColumn("Outliers", (row) => row.outlier_share, percent),
  numberColumn("Change", (row) => row.relative_l2, percent),
  numberColumn("Not finite", (row) => row.nan + row.infinite, integer),
];
