/* page_compare.js: two checkpoints beside each other: what was measured of both, with the intervals of pairs where
 * runs allow them. */
import { at, get } from "./api.js";
import { layerSection } from "./checkpoint_parts.js";
import { comparisons, notCompared, notRead, runsOf } from "./checkpoint_runs.js";
import { command, curl, fill, h } from "./dom.js";
import { compact, integer, isNumber, percentNumber, relativeChange, scientific } from "./format.js";
import { beside, costliest, numbersOf, pairable } from "./measurements.js";
import { loading } from "./notice.js";
import { compareLink } from "./pins.js";
import { checkpointLink, curvesLink, runLink } from "./router.js";
import { methodOf } from "./runs.js";
import { dataTable, numberColumn } from "./table.js";
import { sortedBy } from "./view.js";
import { evaluationIn } from "./words.js";

const FACTS = [
  ["Trajectory", (one) => one.trajectory],
  ["Step", (one) => integer(one.step)],
  ["Tokens", (one) => compact(one.tokens)],
  ["Learning rate", (one) => scientific(one.learning_rate)],
  ["Architecture", (one) => one.architecture ?? "–"],
  ["Parameters", (one) => compact(one.parameters)],
];

function linked(row, run, value) {
  if (!isNumber(value)) return "–";
  const text = row.figure.show(value);
  return h("a", { href: runLink(run.id), "aria-label": `${text}, to the run` }, text);
}

/* The paired difference of a row, with its interval where there is one. */
function difference({ figure, found, compared }) {
  if (!isNumber(found?.difference)) return h("span", { class: "muted" }, compared ? "not paired" : "not compared");
  const { interval } = found;
  return [
    figure.gap(found.difference), " ",
    Array.isArray(interval) ? h("span", { class: "interval" }, figure.gaps(...interval)) : null,
  ];
}

function columns(a, b) {
  return [
    {
      label: "Number", value: (row) => row.figure.label,
      cell: (row) => h("span", { title: row.figure.title }, row.figure.label),
    },
    { label: "Method", value: (row) => row.method, cell: (row) => row.method },
    {
      label: `A: ${a.name}`, numeric: true, value: (row) => row.earlier,
      cell: (row) => linked(row, row.before, row.earlier),
    },
    {
      label: `B: ${b.name}`, numeric: true, value: (row) => row.value,
      cell: (row) => linked(row, row.run, row.value),
    },
    numberColumn("B against A (%)", (row) => row.change, percentNumber),
    { label: "B − A, 95 % in pairs", numeric: true, value: (row) => row.found?.difference, cell: difference },
    numberColumn("Sequences worse in B (%)", (row) => row.found?.worse_share, (value) => percentNumber(value, 0)),
    numberColumn("Sign test p", (row) => row.found?.sign_p, (value) => scientific(value, 2)),
    { label: "Measured on", value: (row) => row.evaluation, cell: (row) => row.evaluation },
  ];
}

function rowsOf(pairs, paired) {
  const asked = new Set(pairable(pairs).map(({ run }) => run.id));
  return pairs.filter(({ before }) => before).flatMap(({ run, before }) => {
    const evaluation = evaluationIn(run), method = methodOf(run) || run.kind;
    return numbersOf(run).map((number) => {
      const earlier = before.result[number.figure.name];
      return {
        ...number, run, before, method, evaluation,
        earlier: isNumber(earlier) ? earlier : null,
        found: paired.get(run.id)?.[number.figure.name] ?? null, compared: paired.has(run.id) || !asked.has(run.id),
        change: relativeChange(number.value, earlier),
      };
    });
  });
}

function apart(a, b, own, other) {
  const link = (one) => h("a", { href: checkpointLink(one.id), class: "name" }, one.name);
  const why = own.length && other.length
    ? "Nothing was measured of both in the same way: same kind of run, method, calibration and evaluation."
    : "One of the two was not measured yet.";
  return h("div", {}, h("p", {}, why),
    h("p", {}, "Open ", link(a), " or ", link(b), " and quantize it as the other one was."));
}

function unchosen() {
  return [
    h("h1", {}, "Two checkpoints"),
    h("p", {}, "Open a checkpoint and pin it, then open another one: its page leads here."),
    h("p", {}, h("a", { href: "#/" }, "To the trajectories")),
  ];
}

function heading(a, b) {
  const trajectories = [...new Set([a.trajectory, b.trajectory])];
  return h("div", { class: "row between heading" },
    h("h1", {}, "Two checkpoints"),
    h("div", { class: "row" },
      h("a", { href: compareLink(b.id, a.id) }, "Swap"),
      h("a", { href: curvesLink(trajectories) }, "Curves")));
}

function factsTable(a, b) {
  const head = (letter, one) => h("a", { href: checkpointLink(one.id), class: "name" }, `${letter}: ${one.name}`);
  return dataTable({
    caption: "The two checkpoints", rows: FACTS,
    columns: [
      { label: "Known", cell: ([name]) => name },
      { label: head("A", a), cell: ([, of]) => of(a) },
      { label: head("B", b), cell: ([, of]) => of(b) },
    ],
  });
}

/* The pairs whose predictions can be held against each other one by one; null without any. */
function tokensLine(pairs) {
  const kept = ({ params }) => params?.per_token === true;
  const found = pairs.filter(({ run, before }) => before && kept(run) && kept(before));
  if (!found.length) return null;
  const links = found.map(({ run, before }, index) => [
    index ? ", " : "", h("a", { href: runLink(run.id, before.id), class: "worst-tokens" }, methodOf(run) || run.kind),
  ]);
  return h("p", {}, "Which tokens lost most in B against A, in their text: ", links, ".");
}

/* What asks for the first of the comparisons in pairs; null when none could be made. */
function copies(pairs, paired) {
  const compared = [...paired].find(([, found]) => found !== null);
  if (!compared) return null;
  const [id] = compared, { before } = pairs.find((pair) => pair.run.id === id);
  return h("details", {}, h("summary", {}, "As curl"), command(curl(`/v1/compare?a=${before.id}&b=${id}`)));
}

export async function showCompare({ root, query: search, signal }) {
  document.title = "Comparison · deltaq";
  const ids = ["a", "b"].map((name) => search.get(name));
  fill(root, h("h1", {}, "Two checkpoints"), loading("both checkpoints"));
  if (ids.some((id) => !id)) return fill(root, unchosen());
  const [a, b] = await Promise.all(ids.map((id) => get(at("checkpoints", id), signal)));
  const [{ runs: earlier, more }, { runs: own, more: moreOwn }] = await Promise.all(
    [a, b].map((one) => runsOf(one.id, signal)));
  const pairs = beside(own, earlier, []);
  const run = costliest(own.filter((one) => pairs.some((pair) => pair.run.id === one.id && pair.before)));
  const paired = await comparisons(pairs, run, signal);
  const rows = rowsOf(pairs, paired);
  if (signal.aborted) return null;
  document.title = `${a.name} and ${b.name} · deltaq`;
  const shown = columns(a, b);
  const measured = {
    caption: "What was measured of both", className: "layers measured", sortable: true, columns: shown,
  };
  return fill(root, heading(a, b), factsTable(a, b),
    h("h2", {}, "What was measured of both"),
    rows.length ? dataTable({ ...measured, rows, ...sortedBy("sort", shown) }) : apart(a, b, own, earlier),
    h("p", { class: "muted caption" },
      "Intervals of pairs compare the same sequences in both runs, so what makes a sequence hard drops out. "
      + "Runs without the losses of their sequences, or of other kinds, are not paired. "
      + [notCompared(pairs, paired), notRead(more || moreOwn)].filter(Boolean).join(" ")),
    tokensLine(pairs),
    layerSection({ runs: own, around: { before: { name: a.name, runs: earlier } }, pairs }, run, signal),
    copies(pairs, paired));
}
