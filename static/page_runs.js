/* page_runs.js: all runs by state, kind, trajectory, checkpoint and day, in an order that the server gives: the address
 * has it all. */
import { age } from "./age.js";
import { get, namedTrajectories, query } from "./api.js";
import { dropdown, textField } from "./controls.js";
import { fill, h } from "./dom.js";
import { integer } from "./format.js";
import { keep } from "./live.js";
import { failure, loading } from "./notice.js";
import { link, sweepLink } from "./router.js";
import { outcome, tellable } from "./outcome.js";
import { KINDS, STATES, badge, titles } from "./runs.js";
import { dataTable } from "./table.js";

const PAGE = 50, MOST = 1000; /* runs: as many more at a press, and at most in one answer */

/* Orders of GET /v1/runs; the first one is its own. By the end there are only runs that have ended. */
const ORDERS = [
  ["-created", "newest first"], ["created", "oldest first"],
  ["-finished", "ended latest first"], ["finished", "ended earliest first"],
];

/* Filters of GET /v1/runs that are typed; the server judges what was typed. */
const DAY = "2026-01-31";
const TYPED = [
  { field: "name", label: "Checkpoint", hint: "step*", title: "Name of a checkpoint that is read; * is any text" },
  { field: "tag", label: "Tag", hint: "KEY or KEY:VALUE", title: "Tag of a checkpoint that is read" },
  {
    field: "created_from", label: "Submitted from", hint: DAY,
    title: `This day of UTC or later; a time is written ${DAY}T12:00:00Z`,
  },
  {
    field: "created_to", label: "and before", hint: DAY,
    title: `Before this day of UTC, which does not count itself; a time is written ${DAY}T12:00:00Z`,
  },
];
const FILTERS = ["state", "kind", "trajectory", "sweep", ...TYPED.map(({ field }) => field)];

/* Id of what has the focus once a typed filter has changed the address: on Enter the field itself, on Tab what is
 * behind it, or the field where that has no id. The page that is made anew for the other address gives the focus
 * back. */
let focused = "";

const when = (label, field) => ({
  label, cell: (run) => age(run[field]),
});

/* The last column is the time that the runs stand in order of. */
function columnsOf(runs, sort) {
  return [
    { label: "Run", cell: titles(runs) },
    { label: "State", cell: (run) => badge(run.state) },
    { label: "Outcome", cell: (run) => h("span", { class: "name" }, outcome(run)) },
    sort.endsWith("finished") ? when("Ended", "finished_at") : when("Submitted", "created_at"),
  ];
}

function readView(search) {
  const of = (name) => search.get(name) ?? "";
  const known = ORDERS.some(([name]) => name === of("sort"));
  return {
    filter: Object.fromEntries(FILTERS.map((field) => [field, of(field)])),
    sort: known ? of("sort") : ORDERS[0][0],
  };
}

function address(filter, sort) {
  return link("/runs", { ...filter, sort: sort === ORDERS[0][0] ? null : sort });
}

function empty({ filter, sort }) {
  const narrowed = Object.values(filter).some(Boolean) || sort !== ORDERS[0][0];
  const why = narrowed ? "No run is like this." : "No run was asked for yet. The first page says how to begin.";
  const way = narrowed ? h("a", { href: "#/runs" }, "Show all runs") : h("a", { href: "#/" }, "First steps");
  return h("div", { class: "notice empty" }, h("p", {}, why), way);
}

/* What the server says of typed filters, by field; null where something else went wrong. */
function refusals(error) {
  const faults = (error.document?.errors ?? []).map(({ pointer, detail }) => [pointer?.slice(1), detail]);
  const typed = faults.filter(([field]) => TYPED.some((one) => one.field === field));
  return error.status === 422 && typed.length ? Object.fromEntries(typed) : null;
}

/* `wrong`: what refusals() gave. */
function controls({ filter, sort }, names, wrong) {
  const all = (values) => [["", "all"], ...values.map((value) => [value, value])];
  const change = (field) => (value) => { location.hash = address({ ...filter, [field]: value }, sort); };
  const typed = (field) => (value) => {
    focused = `filter-${field}`;
    change(field)(value);
  };
  return h("div", { class: "controls" },
    dropdown("State", all(STATES), filter.state, change("state")),
    dropdown("Kind", all(KINDS), filter.kind, change("kind")),
    names.length ? dropdown("Trajectory", all(names), filter.trajectory, change("trajectory")) : null,
    TYPED.map(({ field, label, hint, title: help }) => textField(`filter-${field}`, label, filter[field],
      typed(field), { hint, title: help, wrong: wrong[field] ?? null })),
    dropdown("Order", ORDERS, sort, (value) => { location.hash = address(filter, value); }));
}

export async function showRuns({ root, query: search, signal }) {
  document.title = "Runs · deltaq";
  const view = readView(search), { filter, sort } = view, back = focused;
  focused = "";
  const followed = ({ target }) => { if (focused && target !== root) focused = target.id || focused; };
  root.addEventListener("focusin", followed, { signal });
  fill(root, h("h1", {}, "Runs"), loading("runs"));
  const { items: trajectories } = await namedTrajectories(signal);
  const body = h("div"), more = h("div", { class: "more" });
  let count = PAGE;

  const read = async () => {
    const page = await get(query("/v1/runs", { ...filter, sort, limit: count, view: "summary" }), signal);
    return { ...page, items: await tellable(page.items, signal) };
  };
  const show = ({ items, next }) => {
    if (!items.length) fill(body, empty(view));
    else {
      const columns = columnsOf(items, sort);
      fill(body, dataTable({ caption: "Runs", className: "cards runs-table", columns, rows: items }));
    }
    const button = () => h("button", { type: "button", id: "more", events: { click: extend } }, "Show more runs");
    const end = () => h("p", { class: "muted" }, `Only ${integer(count)} are shown; narrow them down above.`);
    fill(more, next ? (count < MOST ? button() : end()) : null);
  };
  const extend = async () => {
    count = Math.min(MOST, count + PAGE);
    try {
      const found = await read();
      if (!signal.aborted) show(found);
    } catch (error) { if (!signal.aborted) fill(more, failure(error)); }
  };
  const home = filter.sweep ? h("p", { class: "crumbs" }, "Of the sweep ",
    h("a", { href: sweepLink(filter.sweep), class: "name" }, filter.sweep), " · ",
    h("a", { href: "#/runs" }, "all runs")) : null;
  let first = null, wrong = {};
  try {
    first = await read();
  } catch (error) {
    wrong = refusals(error);
    if (!wrong) throw error;
  }
  if (signal.aborted) return;
  fill(root, h("h1", {}, "Runs"), home, controls(view, trajectories.map((item) => item.name), wrong), body, more);
  if (back) document.getElementById(back)?.focus({ preventScroll: true });
  if (!first) {
    fill(body, h("p", { class: "notice" }, "No runs are shown: the server does not understand a filter."));
    return;
  }
  show(first);
  const busy = ({ items }) => items.some((run) => run.state === "running"); /* their progress is not logged */
  keep({ read, show, first, changes: ["run"], busy }, signal);
}
