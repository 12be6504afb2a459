/* page_trajectories.js: the first page. What there is, what is going on, what went wrong of late. */
import { curvesOf, get, list, newestCheckpoint, query } from "./api.js";
import { fill, h } from "./dom.js";
import { ago, compact, integer, percent, plural } from "./format.js";
import { markOf, queued, running, watch } from "./live.js";
import { metric } from "./metrics.js";
import { failure, firstSteps, loading, problem } from "./notice.js";
import { colourIndex } from "./palette.js";
import { curvesLink, link } from "./router.js";
import { runningSection, title } from "./runs.js";
import { bitsOf } from "./series.js";
import { sparkline } from "./sparkline.js";
import { dataTable, numberColumn } from "./table.js";

const CURVES_AT_ONCE = 32, FAILURES = 5;

/* Newest checkpoint (architecture, size) and ΔQL curves by trajectory. */
async function details(trajectories, signal) {
  const names = trajectories.map((trajectory) => trajectory.name);
  const newest = Promise.all(names.map((name) => newestCheckpoint(name, signal)));
  const curves = new Map();
  for (let start = 0; start < names.length; start += CURVES_AT_ONCE) {
    const asked = names.slice(start, start + CURVES_AT_ONCE);
    const answer = await curvesOf({ trajectory: asked, metric: "delta", x: "step" }, signal);
    for (const series of answer.series) {
      const known = curves.get(series.trajectory) ?? [];
      curves.set(series.trajectory, [...known, { ...series, bits: bitsOf(series) }]);
    }
  }
  const checkpoints = await newest;
  const known = (name, index) => [name, { checkpoint: checkpoints[index], curves: curves.get(name) ?? [] }];
  return new Map(names.map(known));
}

/* The last value of each curve: "4-bit 0.41 %". */
function newestDelta(curves) {
  const last = curves.filter((series) => series.points.length)
    .map((series) => ({ series, point: series.points.at(-1) }));
  if (!last.length) return h("span", { class: "muted" }, "not measured");
  return h("span", { class: "deltas" }, last.slice(0, 4).map(({ series, point }) => {
    const words = series.bits ? `${series.bits}-bit ` : `${series.label} `;
    return h("span", { title: series.label }, h("span", { class: "muted" }, words), percent(point.y));
  }));
}

function columns(more, colours, chosen, changed) {
  const of = (trajectory) => more.get(trajectory.name) ?? { checkpoint: null, curves: [] };
  const pick = (trajectory) => {
    const box = h("input", {
      type: "checkbox", id: `pick-${colours.order.get(trajectory.name)}`, "aria-label": `compare ${trajectory.name}`,
    });
    box.checked = chosen.has(trajectory.name);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(trajectory.name);
      else chosen.delete(trajectory.name);
      changed();
    });
    return box;
  };
  const trend = (row) => sparkline(of(row).curves, "currentColor", `trend of ΔQL of ${row.name}`)
    ?? h("span", { class: "muted" }, "–");
  return [
    {
      label: "Trajectory",
      cell: (row) => h("span", { class: "row" }, pick(row),
        h("span", { class: `swatch c${colours.index.get(row.name)}`, "aria-hidden": "true" }),
        h("a", { href: curvesLink([row.name]), class: "name" }, row.name)),
    },
    numberColumn("Checkpoints", (row) => row.checkpoints, integer),
    { label: "Architecture", cell: (row) => of(row).checkpoint?.architecture ?? "–" },
    numberColumn("Parameters", (row) => of(row).checkpoint?.parameters, compact),
    numberColumn("Last step", (row) => row.last_step, integer),
    numberColumn("Tokens", (row) => row.last_tokens, compact),
    { label: `Newest ${metric("delta").label}`, cell: (row) => newestDelta(of(row).curves) },
    { label: "Trend", cell: (row) => h("span", { class: `line c${colours.index.get(row.name)}` }, trend(row)) },
  ];
}

function summary(trajectories) {
  const checkpoints = trajectories.reduce((sum, trajectory) => sum + (trajectory.checkpoints ?? 0), 0);
  return `${plural(trajectories.length, "training run")}, ${plural(checkpoints, "checkpoint")}. `
    + "ΔQL is the relative rise of the loss when the weights are quantized.";
}

async function showFailures(section, signal) {
  const { items } = await get(query("/v1/runs", { state: "failed", limit: FAILURES }), signal);
  section.hidden = items.length === 0;
  const item = (run) => h("li", {}, title(run), h("span", { class: "muted when" }, ago(run.finished_at)),
    problem(run.error ?? {}));
  fill(section,
    h("div", { class: "row between" },
      h("h2", {}, "Recent failures"), h("a", { href: link("/runs", { state: "failed" }) }, "All failed runs")),
    h("ul", { class: "runs" }, items.map(item)));
}

export async function showTrajectories({ root, signal }) {
  document.title = "Trajectories · deltaq";
  fill(root, h("h1", {}, "Trajectories"), loading("trajectories"));
  const chosen = new Set();
  const intro = h("p", { class: "muted intro" }), compare = h("div", { class: "compare" }), body = h("div");
  const live = runningSection();
  const failures = h("section", { hidden: true, "aria-label": "Recent failures" });

  const changed = () => {
    const address = curvesLink([...chosen]);
    const link = () => h("a", { href: address, class: "button" }, `Compare ${chosen.size} trajectories`);
    const hint = chosen.size ? "Tick another one to compare" : "Tick trajectories to compare them";
    fill(compare, chosen.size > 1 ? link() : h("span", { class: "muted" }, hint));
  };
  const refresh = async () => {
    const { items, more } = await list(query("/v1/trajectories", { limit: 100 }), signal, 500);
    const known = await details(items, signal);
    const index = colourIndex(items);
    const colours = { index, order: new Map([...index.keys()].map((name, place) => [name, place])) };
    intro.textContent = items.length ? summary(items) : "";
    if (!items.length) {
      fill(body, firstSteps());
    } else {
      const found = columns(known, colours, chosen, changed);
      fill(body, compare,
        dataTable({ caption: "Trajectories", className: "cards", columns: found, rows: items }),
        more ? h("p", { class: "muted" }, "Only the newest 500 are shown.") : null);
    }
    changed();
  };
  await refresh();
  await showFailures(failures, signal);
  fill(root, h("h1", {}, "Trajectories"), intro, body, live.node, failures);

  const read = async () => {
    const [runs, { items }] = await Promise.all([
      running(null, signal), list(query("/v1/trajectories", { limit: 100 }), signal, 500),
    ]);
    return { runs, mark: markOf(items), waiting: queued(items), busy: queued(items) > 0 };
  };
  let waiting = 0;
  watch({
    read: async () => {
      const found = await read();
      waiting = found.waiting;
      return found;
    },
    onRuns: (runs) => live.show(runs, waiting),
    onProgress: live.progress,
    onChange: () => Promise.all([refresh(), showFailures(failures, signal)]).catch((error) => {
      if (!signal.aborted) fill(body, failure(error));
    }),
  }, signal);
}

