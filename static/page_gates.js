/* page_gates.js: what each gate holds the checkpoints of its trajectory to, and what it says of the newest one. */
import { age } from "./age.js";
import { list, newestCheckpoint, query } from "./api.js";
import { command, curl, fill, h } from "./dom.js";
import { integer } from "./format.js";
import { MOST_GATES, MOST_JUDGED, ruleWords, verdictBadge, verdictOf } from "./gates.js";
import { keep } from "./live.js";
import { loading } from "./notice.js";
import { checkpointLink, curvesLink } from "./router.js";
import { dataTable } from "./table.js";
import { sortedBy } from "./view.js";

const EXAMPLE = {
  name: "damage", trajectory: "my-run",
  rules: [
    { metric: "delta", series: { "method.bits": 4 }, max: 0.02 },
    { metric: "delta", series: { "method.bits": 4 }, against_last: 5, max_ratio: 1.5 },
    { integrity: "clean" },
  ],
};

/* The verdicts of the newest gates on the newest checkpoints of their trajectories, by the id of the gate: {verdict,
 * checkpoint, name}, with `checkpoint` null where there is none yet; undefined where it cannot be had. The list of
 * gates tells no verdicts, so each is asked for. */
async function newestVerdicts(gates, signal) {
  const asked = gates.slice(0, MOST_JUDGED), names = [...new Set(asked.map(({ trajectory }) => trajectory))];
  const newestOf = async (name) => [name, await newestCheckpoint(name, signal).catch(() => undefined)];
  const newest = new Map(await Promise.all(names.map(newestOf)));
  const judged = async (gate) => {
    const checkpoint = newest.get(gate.trajectory);
    if (!checkpoint) return [gate.id, checkpoint === null ? { verdict: null, checkpoint } : undefined];
    const { verdict } = await verdictOf(gate, checkpoint.id, signal);
    return [gate.id, { verdict, checkpoint: checkpoint.id, name: checkpoint.name }];
  };
  return Object.fromEntries(await Promise.all(asked.map(judged)));
}

/* `known`: what newestVerdicts() told of the gate; undefined before it did, or where it does not. */
function newestCell(known) {
  if (!known) return h("span", { class: "muted" }, "–");
  if (!known.checkpoint) return h("span", { class: "muted" }, "no checkpoint yet");
  return [
    verdictBadge(known.verdict), " ", h("a", { href: checkpointLink(known.checkpoint), class: "name" }, known.name),
  ];
}

const columnsOf = (newest) => [
  { label: "Gate", value: (row) => row.name, cell: (row) => h("span", { class: "name" }, row.name) },
  {
    label: "Trajectory", value: (row) => row.trajectory,
    cell: (row) => h("a", { href: curvesLink([row.trajectory]), class: "name" }, row.trajectory),
  },
  {
    label: "Rules", value: (row) => row.rules.length,
    cell: (row) => h("ul", { class: "plain rules" }, row.rules.map((rule) => h("li", {}, ruleWords(rule)))),
  },
  {
    label: "Newest checkpoint", value: (row) => newest[row.id]?.verdict,
    cell: (row) => newestCell(newest[row.id]),
  },
  {
    label: "Made", value: (row) => row.created_at,
    cell: (row) => age(row.created_at),
  },
];

function left({ items, more }) {
  if (more) return h("p", { class: "muted" }, `Only the newest ${integer(MOST_GATES)} are shown.`);
  if (items.length <= MOST_JUDGED) return null;
  return h("p", { class: "muted" }, `Only the newest ${integer(MOST_JUDGED)} were asked for a verdict.`);
}

export async function showGates({ root, signal }) {
  document.title = "Gates · deltaq";
  fill(root, h("h1", {}, "Gates"), loading("gates"));
  const board = () => list(query("/v1/gates", { limit: 200 }), signal, MOST_GATES);
  const judged = async (known) => ({ ...known, newest: await newestVerdicts(known.items, signal) });
  const read = async () => judged(await board());
  const show = (known) => {
    const columns = columnsOf(known.newest), rows = known.items;
    const table = { caption: "Gates", className: "boards cards gates-table" };
    fill(root, h("h1", {}, "Gates"),
      h("p", { class: "muted intro" }, "A gate holds every checkpoint of a trajectory to rules, which all must pass. "
        + "What was not measured or read is pending and never passes."),
      rows.length ? [dataTable({ ...table, columns, rows, sortable: true, ...sortedBy("sort", columns) }), left(known)]
        : h("p", { class: "notice" }, "No gate was made yet."),
      h("p", { class: "muted" }, rows.length ? "Another one:" : "Make one:"), command(curl("/v1/gates", EXAMPLE)));
  };
  const known = await board();
  show({ ...known, newest: {} });
  const first = await judged(known);
  if (signal.aborted) return;
  show(first);
  keep({ read, show, first, changes: ["verdict", "checkpoint"] }, signal);
}
