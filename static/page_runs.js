/* page_runs.js: all runs, newest first, by state, kind and trajectory. */
import { get, list, ownPath, query } from "./api.js";
import { dropdown } from "./controls.js";
import { fill, h } from "./dom.js";
import { ago } from "./format.js";
import { keep } from "./live.js";
import { loading } from "./notice.js";
import { link, sweepLink } from "./router.js";
import { outcome } from "./outcome.js";
import { KINDS, STATES, badge, title } from "./runs.js";
import { dataTable } from "./table.js";

const PAGE = 50;

const columns = [
  { label: "Run", cell: title },
  { label: "State", cell: (run) => badge(run.state) },
  { label: "Outcome", cell: (run) => h("span", { class: "name" }, outcome(run)) },
  { label: "Submitted", cell: (run) => h("span", { title: run.created_at }, ago(run.created_at)) },
];

export async function showRuns({ root, query: search, signal }) {
  document.title = "Runs · deltaq";
  const filter = {
    state: search.get("state") ?? "", kind: search.get("kind") ?? "",
    trajectory: search.get("trajectory") ?? "", sweep: search.get("sweep") ?? "",
  };
  fill(root, h("h1", {}, "Runs"), loading("runs"));
  const { items: trajectories } = await list(query("/v1/trajectories", { limit: 100 }), signal, 500);
  const change = (field) => (value) => { location.hash = link("/runs", { ...filter, [field]: value }); };
  const all = (values) => [["", "all"], ...values.map((value) => [value, value])];
  const body = h("div"), more = h("div", { class: "more" });
  let older = [], next = null;

  const show = (items) => {
    const filtered = Object.values(filter).some(Boolean);
    const why = filtered ? "No run is like this." : "No run was asked for yet. The first page says how to begin.";
    const way = filtered ? h("a", { href: "#/runs" }, "Show all runs") : h("a", { href: "#/" }, "First steps");
    if (!items.length) fill(body, h("div", { class: "notice empty" }, h("p", {}, why), way));
    else fill(body, dataTable({ caption: "Runs", className: "cards runs-table", columns, rows: items }));
    fill(more, next ? h("button", { type: "button", id: "more", events: { click: extend } }, "Show older runs") : null);
  };
  const newest = async () => {
    const page = await get(query("/v1/runs", { ...filter, limit: PAGE }), signal);
    if (!older.length) next = page.next;
    return page.items;
  };
  let head = await newest();
  const extend = async () => {
    const page = await get(ownPath(next), signal);
    next = page.next;
    older = [...older, ...page.items];
    show(merged());
  };
  const merged = () => [...new Map([...head, ...older].map((run) => [run.id, run])).values()];
  const home = filter.sweep ? h("p", { class: "crumbs" }, "Of the sweep ",
    h("a", { href: sweepLink(filter.sweep), class: "name" }, filter.sweep), " · ",
    h("a", { href: "#/runs" }, "all runs")) : null;
  const names = trajectories.map((item) => item.name);
  fill(root, h("h1", {}, "Runs"), home,
    h("div", { class: "controls" },
      dropdown("State", all(STATES), filter.state, change("state")),
      dropdown("Kind", all(KINDS), filter.kind, change("kind")),
      names.length ? dropdown("Trajectory", all(names), filter.trajectory, change("trajectory")) : null),
    body, more);
  show(merged());

  keep({ read: newest, show: (items) => { head = items; show(merged()); }, first: head }, signal);
}
