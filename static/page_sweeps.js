/* page_sweeps.js: the grids of runs: how far each is, what it refused; and one sweep with its runs. */
import { age } from "./age.js";
import { at, change, get, list, post, query } from "./api.js";
import { sureButton } from "./controls.js";
import { command, curl, fill, h } from "./dom.js";
import { integer, plural, scalar, time } from "./format.js";
import { keep } from "./live.js";
import { methodIn } from "./method_label.js";
import { attempt, loading } from "./notice.js";
import { outcome, tellable } from "./outcome.js";
import { checkpointLink, curvesLink, link, sweepLink } from "./router.js";
import { STATES, badge, titles } from "./runs.js";
import { dataTable, facts, numberColumn } from "./table.js";
import { sortedBy } from "./view.js";

const MOST = 500, RUNS = 200;

/* A value of a grid: a method as everywhere, another named object with all that it gives. */
function valueWords(field, one) {
  if (one === null || typeof one !== "object") return scalar(one);
  if (field === "method" || field.endsWith(".method")) return methodIn(one);
  if (typeof one.name !== "string") return JSON.stringify(one);
  const { name, ...rest } = one;
  const more = Object.entries(rest).map(([key, value]) =>
    `${key} ${value !== null && typeof value === "object" ? JSON.stringify(value) : scalar(value)}`);
  return [name, ...more].join(" ");
}

/* "checkpoint: all of constant; method.bits: 3, 4" */
function gridWords(grid) {
  const words = (field, value) => {
    if (Array.isArray(value)) return value.map((one) => valueWords(field, one)).join(", ");
    return value?.trajectory ? `all of ${value.trajectory}` : scalar(value);
  };
  return Object.entries(grid ?? {}).map(([field, value]) => `${field}: ${words(field, value)}`).join("; ");
}

function total(counts) {
  return STATES.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}

/* A bar of finished runs, and the counts in words. */
function standing(sweep) {
  const counts = sweep.runs, all = total(counts), done = counts.succeeded + counts.failed + counts.cancelled;
  const count = (state) => h("a", { href: link("/runs", { sweep: sweep.name, state }), class: `count ${state}` },
    `${integer(counts[state])} ${state}`);
  const words = STATES.filter((state) => counts[state]).map(count);
  return h("div", { class: "standing" },
    h("progress", {
      max: Math.max(1, all), value: done, "aria-label": `progress of ${sweep.name}`,
      class: counts.failed > 0 && counts.failed === done ? "bad" : null,
    }),
    h("span", { class: "counts" }, words.length ? words : "no runs"));
}

function open(sweep) {
  return sweep.runs.queued + sweep.runs.running > 0 || sweep.standing;
}

function standingBadge() {
  return h("span", { class: "badge", title: "It takes in later checkpoints until it is cancelled" }, "standing");
}

function retryButton(sweep, retry) {
  const { failed } = sweep.runs;
  if (!failed) return null;
  return h("button", {
    type: "button", class: "small", id: `retry-${sweep.id}`, events: { click: () => retry(sweep) },
    "aria-label": `Queue the ${plural(failed, "failed run")} of ${sweep.name} again`,
  }, "Retry failed");
}

const columnsOf = (retry) => [
  {
    label: "Sweep", value: (row) => row.name,
    cell: (row) => [
      h("a", { href: sweepLink(row.name), class: "name" }, row.name), row.standing ? [" ", standingBadge()] : null,
    ],
  },
  { label: "Kind", value: (row) => row.kind, cell: (row) => row.kind },
  {
    label: "Grid", value: (row) => gridWords(row.grid),
    cell: (row) => h("span", { class: "name" }, gridWords(row.grid)),
  },
  numberColumn("Runs", (row) => total(row.runs), integer),
  {
    label: "State", value: (row) => row.runs.failed,
    cell: (row) => h("div", { class: "row" }, standing(row), retryButton(row, retry)),
  },
  {
    label: "Refused", numeric: true, value: (row) => row.refused.length,
    cell: (row) => (row.refused.length ? h("span", { class: "bad" }, integer(row.refused.length)) : "–"),
  },
  {
    label: "Made", value: (row) => row.created_at,
    cell: (row) => age(row.created_at),
  },
];

export async function showSweeps({ root, signal }) {
  document.title = "Sweeps · deltaq";
  fill(root, h("h1", {}, "Sweeps"), loading("sweeps"));
  const wrong = h("div");
  const retry = attempt(wrong, signal, async (sweep) => {
    await post(`${at("sweeps", sweep.id)}/retry-failed`, signal);
    show(await read());
  });
  const columns = columnsOf(retry), board = { caption: "Sweeps", className: "boards", columns, sortable: true };
  const show = ({ items, more }) => fill(root, h("h1", {}, "Sweeps"), wrong,
    h("p", { class: "muted intro" }, "A sweep is a grid of runs posted at once. What is equal is measured once; "
      + "methods on one checkpoint share a forward pass."),
    items.length ? dataTable({ ...board, rows: items, ...sortedBy("sort", columns) })
      : h("p", { class: "notice" }, "No sweep was posted yet. ", h("a", { href: "#/" }, "First steps")),
    more ? h("p", { class: "muted" }, `Only the newest ${MOST} are shown.`) : null);
  const fields = "id,name,kind,grid,standing,refused,runs,created_at";
  const read = () => list(query("/v1/sweeps", { limit: 100, fields }), signal, MOST);
  const first = await read();
  show(first);
  keep({ read, show, first, changes: ["run"] }, signal);
}

const runColumns = (runs) => [
  { label: "Run", cell: titles(runs) }, { label: "State", value: (run) => run.state, cell: (run) => badge(run.state) },
  { label: "Outcome", cell: (run) => h("span", { class: "name" }, outcome(run)) },
];

function refusals(sweep) {
  if (!sweep.refused.length) return null;
  return h("section", {}, h("h2", {}, "Refused"), h("ul", { class: "reasons" }, sweep.refused.map((one) => h("li", {},
    h("a", { href: checkpointLink(one.checkpoint), class: "name" }, one.name), ": ",
    one.error.detail, " ", h("code", {}, one.error.pointer)))));
}

/* `does`: {act(verb), remove()}. */
function headings(sweep, does) {
  const trajectory = sweep.grid?.checkpoint?.trajectory;
  const curves = trajectory ? h("a", { href: curvesLink([trajectory]), class: "name" }, trajectory) : null;
  const { failed } = sweep.runs, button = (id, label, press) =>
    h("button", { type: "button", id, events: { click: press } }, label);
  const gone = "The sweep goes; its runs and measurements stay.";
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/sweeps" }, "Sweeps"), curves ? [" · ", curves] : null),
    h("div", { class: "row between heading" },
      h("h1", {}, h("span", { class: "name" }, sweep.name), " ", h("span", { class: "muted" }, sweep.kind)),
      h("div", { class: "row" },
        failed ? button("retry-failed", `Retry ${integer(failed)} failed`, () => does.act("retry-failed")) : null,
        open(sweep) ? button("cancel", "Cancel", () => does.act("cancel"))
          : sureButton("delete", "Delete", gone, does.remove))),
  ];
}

function about(sweep) {
  return facts([
    ["Grid", gridWords(sweep.grid)],
    ["Standing", sweep.standing ? "takes in later checkpoints" : null],
    ["Made", time(sweep.created_at)],
    ["Id", h("code", {}, sweep.id)],
  ]);
}

/* The same grid again, and what this page reads. */
function copies({ name, kind, base, grid, standing: stands }) {
  const body = { name: `${name}-again`, kind, base, grid, standing: stands };
  return h("details", {}, h("summary", {}, "As curl"),
    command(curl("/v1/sweeps", body)), command(curl(at("sweeps", name))));
}

export async function showSweep({ root, parameters, signal }) {
  document.title = "Sweep · deltaq";
  fill(root, h("h1", {}, "Sweep"), loading("the sweep"));
  const wrong = h("div"), read = async () => {
    const sweep = await get(at("sweeps", parameters.id), signal);
    const asked = query("/v1/runs", { sweep: sweep.name, limit: 100, view: "summary" });
    const { items, more } = await list(asked, signal, RUNS);
    return { sweep, runs: { items: await tellable(items, signal), more } };
  };
  let id = null;
  const does = {
    act: attempt(wrong, signal, async (verb) => {
      await post(`${at("sweeps", id)}/${verb}`, signal);
      show(await read());
    }),
    remove: attempt(wrong, signal, async () => {
      await change("DELETE", at("sweeps", id), signal);
      location.hash = "#/sweeps";
    }),
  };
  const show = ({ sweep, runs }) => {
    document.title = `${sweep.name} · deltaq`;
    id = sweep.id;
    const { items, more } = runs, columns = runColumns(items);
    const table = { caption: "Runs", className: "cards runs-table", columns };
    fill(root, headings(sweep, does), wrong, standing(sweep), about(sweep), refusals(sweep),
      h("h2", {}, "Runs"),
      items.length ? dataTable({ ...table, rows: items }) : h("p", { class: "muted" }, "None."),
      more ? h("p", { class: "more" },
        h("a", { href: link("/runs", { sweep: sweep.name }) }, `All ${plural(total(sweep.runs), "run")}`)) : null,
      copies(sweep));
  };
  const first = await read();
  show(first);
  const busy = ({ runs }) => runs.items.some((run) => run.state === "running"); /* their progress is not logged */
  keep({ read, show, first, changes: ["run"], busy }, signal);
}
