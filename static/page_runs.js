/* page_runs.js: all runs by state, kind and trajectory, in an order that the server gives: the address has it all. */
import { get, namedTrajectories, query } from "./api.js";
import { dropdown } from "./controls.js";
import { fill, h } from "./dom.js";
import { ago, integer } from "./format.js";
import { keep } from "./live.js";
import { failure, loading } from "./notice.js";
import { link, sweepLink } from "./router.js";
import { outcome, tellable } from "./outcome.js";
import { KINDS, STATES, badge, title } from "./runs.js";
import { dataTable } from "./table.js";

const PAGE = 50, MOST = 1000; /* runs: as many more at a press, and at most in one answer */

/* Orders of GET /v1/runs; the first one is its own. By the end there are only runs that have ended. */
const ORDERS = [
  ["-created", "newest first"], ["created", "oldest first"],
  ["-finished", "ended latest first"], ["finished", "ended earliest first"],
];

const when = (label, field) => ({
  label, cell: (run) => h("span", { title: run[field] }, ago(run[field])),
});

/* The last column is the time that the runs stand in order of. */
function columnsOf(sort) {
  return [
    { label: "Run", cell: title },
    { label: "State", cell: (run) => badge(run.state) },
    { label: "Outcome", cell: (run) => h("span", { class: "name" }, outcome(run)) },
    sort.endsWith("finished") ? when("Ended", "finished_at") : when("Submitted", "created_at"),
  ];
}

function readView(search) {
  const of = (name) => search.get(name) ?? "";
  const known = ORDERS.some(([name]) => name === of("sort"));
  return {
    filter: { state: of("state"), kind: of("kind"), trajectory: of("trajectory"), sweep: of("sweep") },
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

function controls({ filter, sort }, names) {
  const all = (values) => [["", "all"], ...values.map((value) => [value, value])];
  const change = (field) => (value) => { location.hash = address({ ...filter, [field]: value }, sort); };
  return h("div", { class: "controls" },
    dropdown("State", all(STATES), filter.state, change("state")),
    dropdown("Kind", all(KINDS), filter.kind, change("kind")),
    names.length ? dropdown("Trajectory", all(names), filter.trajectory, change("trajectory")) : null,
    dropdown("Order", ORDERS, sort, (value) => { location.hash = address(filter, value); }));
}

export async function showRuns({ root, query: search, signal }) {
  document.title = "Runs · deltaq";
  const view = readView(search), { filter, sort } = view, columns = columnsOf(sort);
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
    else fill(body, dataTable({ caption: "Runs", className: "cards runs-table", columns, rows: items }));
    const button = () => h("button", { type: "button", id: "more", events: { click: extend } }, "Show more runs");
    const end = () => h("p", { class: "muted" }, `Only ${integer(count)} are shown; choose a state or a kind above.`);
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
  const first = await read();
  fill(root, h("h1", {}, "Runs"), home, controls(view, trajectories.map((item) => item.name)), body, more);
  show(first);
  const busy = ({ items }) => items.some((run) => run.state === "running"); /* their progress is not logged */
  keep({ read, show, first, changes: ["run"], busy }, signal);
}
