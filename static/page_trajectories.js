/* page_trajectories.js: the first page. What there is, what is going on, what went wrong of late. */
import { age } from "./age.js";
import { at, curvesOf, get, list, query } from "./api.js";
import { segmented } from "./controls.js";
import { fill, h } from "./dom.js";
import { compact, integer, percent, plural } from "./format.js";
import { markOf, queued, running, watch } from "./live.js";
import { worstOf } from "./marks.js";
import { metric } from "./metrics.js";
import { attempt, failure, firstSteps, loading, problem } from "./notice.js";
import { colourIndex } from "./palette.js";
import { checkpointLink, curvesLink, link } from "./router.js";
import { runningSection, title } from "./runs.js";
import { bitsOf, withTexts } from "./series.js";
import { sparkline } from "./sparkline.js";
import { dataTable, numberColumn } from "./table.js";
import { editPanel, readTrajectory } from "./trajectory_edit.js";
import { turns } from "./turns.js";
import { sortedBy } from "./view.js";

const CURVES_AT_ONCE = 32, FAILURES = 5, HEALTH = "Health";
const MOST_NEWEST = 4; /* values in a cell */
const TREND_POINTS = 60; /* of a curve: a cell shows no more; the worst and the newest are among them */
const MOST_CHECKED = 3000; /* checkpoints of a trajectory whose integrity is read here: the server compares them all */

/* "gptq 4-bit"; with what tells them apart, for two of a trajectory that would have the same name. */
function withNames(list) {
  const brief = ({ method, bits, label }) => (method ? `${method}${bits ? ` ${bits}-bit` : ""}` : label);
  const count = (name) => list.filter((one) => brief(one) === name).length;
  return withTexts(list).map((one) => ({ ...one, name: count(brief(one)) > 1 ? one.text : brief(one) }));
}

/* ΔQL curves by trajectory. */
async function trends(trajectories, signal) {
  const names = trajectories.map((trajectory) => trajectory.name);
  const curves = new Map();
  for (let start = 0; start < names.length; start += CURVES_AT_ONCE) {
    const asked = names.slice(start, start + CURVES_AT_ONCE);
    const answer = await curvesOf({ trajectory: asked, metric: "delta", x: "step", points: TREND_POINTS }, signal);
    for (const series of answer.series) {
      const known = curves.get(series.trajectory) ?? [];
      curves.set(series.trajectory, [...known, { ...series, bits: bitsOf(series) }]);
    }
  }
  return new Map([...curves].map(([name, own]) => [name, withNames(own)]));
}

/* Whether the weights of each trajectory are sound: {of(row), show(row, cell), askAll(rows)}. `of` gives {read, of,
 * marked} of what was read, `show` keeps a cell filled with words(row, health). A trajectory is asked for when its row
 * comes into view, and again only when it has other checkpoints or more runs that succeeded; `askAll` does not wait for
 * the view, and says whether there is news. */
function healthReader(words, signal) {
  const known = new Map(), cells = new Map(), lines = new WeakMap(), of = (row) => known.get(row.id)?.health ?? null;
  const tell = (id) => {
    const { row, cell } = cells.get(id);
    fill(cell, words(row, of(row)));
  };
  const ask = async (row) => {
    const { id, checkpoints, newest, runs } = row, mark = `${checkpoints} ${newest?.id} ${runs.succeeded}`;
    if (!newest || checkpoints > MOST_CHECKED) return false;
    if (known.get(id)?.mark === mark) return known.get(id).answer;
    const entry = { mark, health: of(row) };
    known.set(id, entry);
    entry.answer = read(id, newest, entry);
    return entry.answer;
  };
  const read = async (id, newest, entry) => {
    try {
      /* Of the newest one alone, for the answer for all is as long as the list of checkpoints. */
      const found = await get(query(at("trajectories", id, "integrity"), { checkpoint: newest.id }), signal);
      entry.health = { read: found.measured, of: found.checkpoints, marked: found.marked };
    } catch { /* the cell goes on saying that it is not known */
      if (known.get(id) === entry) known.delete(id);
      return false;
    }
    if (!signal.aborted) tell(id);
    return true;
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      ask(lines.get(target));
    }
  });
  signal.addEventListener("abort", () => seen.disconnect(), { once: true });
  const show = (row, cell) => {
    cells.set(row.id, { row, cell });
    tell(row.id);
    queueMicrotask(() => { /* it stands in its row by now */
      const line = cell.closest("tr");
      if (!line) return;
      lines.set(line, row);
      seen.observe(line);
    });
    return cell;
  };
  const askAll = async (rows) => {
    const news = rows.filter((row) => !of(row));
    return (await Promise.all(news.map(ask))).some(Boolean);
  };
  return { of, show, askAll };
}

/* A curve's name and a value of it. */
function named({ name, text }, value) {
  return h("span", { title: text }, h("span", { class: "muted" }, `${name} `), value);
}

/* The last value of each curve, a line each: "gptq 4-bit 0.41 %". */
function newestDelta(row, curves) {
  const last = curves.filter((series) => series.points.length), left = last.length - MOST_NEWEST;
  /* One of a checkpoint without a step has no place on these curves. */
  if (!last.length) return h("span", { class: "muted deltas" }, "no measurement of a checkpoint with a step");
  return h("span", { class: "deltas" },
    last.slice(0, MOST_NEWEST).map((series) =>
      named(series, h("span", { class: "value" }, percent(series.points.at(-1).y)))),
    left > 0 ? h("a", { href: curvesLink([row.name]) }, `${integer(left)} more`) : null);
}

/* The largest of the newest values, by which the column is sorted; null without any. */
function largestNewest(curves) {
  const last = curves.filter((series) => series.points.length).map((series) => series.points.at(-1).y);
  return last.length ? Math.max(...last) : null;
}

/* The worst point of all curves, with the way to its checkpoint. */
function worstCell(found) {
  if (!found) return h("span", { class: "muted" }, "–");
  const { series, point } = found, name = point.checkpoint_name ?? point.checkpoint;
  const way = { href: checkpointLink(point.checkpoint), title: name, "aria-label": `${percent(point.y)}, to ${name}` };
  return h("span", { class: "deltas" }, named(series, h("a", { ...way, class: "value" }, percent(point.y))));
}

/* More is worse: what is marked before what was not read. */
function healthRank(health) {
  if (!health) return null;
  return health.marked > 0 ? 2 + health.marked : health.read < health.of ? 1 + (1 - health.read / health.of) / 2 : 0;
}

function healthCell(row, health) {
  if (!row.checkpoints) return h("span", { class: "muted" }, "–");
  if (!health) return h("span", { class: "muted" }, "…");
  const { marked, read, of } = health, words = `${integer(read)} of ${integer(of)} read`;
  const way = (mood, text) => h("a", { href: curvesLink([row.name]), class: mood, title: words }, text);
  if (marked) return way("bad", `▲ ${integer(marked)} marked`);
  if (!read) return h("span", { class: "muted" }, "not read");
  return read < of ? h("span", { class: "muted", title: words }, words) : h("span", { class: "good" }, "✓ sound");
}

/* A name with its tick, its colour and its notes. */
function nameCell(row, colours, { chosen, changed }) {
  const place = colours.order.get(row.name);
  const box = h("input", { type: "checkbox", id: `pick-${place}`, "aria-label": `compare ${row.name}` });
  box.checked = chosen.has(row.name);
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(row.name);
    else chosen.delete(row.name);
    changed();
  });
  return [
    h("span", { class: "row" }, box,
      h("span", { class: `swatch c${colours.index.get(row.name)}`, "aria-hidden": "true" }),
      h("a", { href: curvesLink([row.name]), class: "name" }, row.name)),
    row.notes ? h("span", { class: "muted notes", title: row.notes }, row.notes) : null,
  ];
}

function modelCell(checkpoint) {
  if (!checkpoint) return "–";
  const { architecture, parameters } = checkpoint;
  return h("span", {}, architecture ?? "–", " ", h("span", { class: "muted" }, compact(parameters)));
}

function editButton(row, { edit }) {
  return h("button", {
    type: "button", class: "small", id: `edit-${row.id}`, "aria-label": `Edit ${row.name}`,
    events: { click: () => edit(row) },
  }, "Edit");
}

/* `curves`: Map name -> series; `does`: {chosen, changed(), edit(row)}; `health`: a healthReader. */
function columns(curves, colours, health, does) {
  const of = (trajectory) => curves.get(trajectory.name) ?? [];
  const trend = (row) => sparkline(of(row), "currentColor", `trend of ΔQL of ${row.name}`)
    ?? h("span", { class: "muted" }, "–");
  const worst = (row) => worstOf(of(row), "delta"), { label } = metric("delta");
  return [
    { label: "Trajectory", value: (row) => row.name, cell: (row) => nameCell(row, colours, does) },
    numberColumn("Checkpoints", (row) => row.checkpoints, integer),
    {
      label: "Model", value: (row) => row.newest?.parameters,
      cell: (row) => modelCell(row.newest),
    },
    numberColumn("Last step", (row) => row.last_step, integer),
    numberColumn("Tokens", (row) => row.last_tokens, compact),
    {
      label: HEALTH, numeric: true, value: (row) => healthRank(health.of(row)),
      cell: (row) => health.show(row, h("span")),
    },
    {
      label: `Newest ${label}`, numeric: true, value: (row) => largestNewest(of(row)),
      cell: (row) => newestDelta(row, of(row)),
    },
    {
      label: `Worst ${label}`, numeric: true, value: (row) => worst(row)?.point.y, cell: (row) => worstCell(worst(row)),
    },
    { label: "Trend", cell: (row) => h("span", { class: `line c${colours.index.get(row.name)}` }, trend(row)) },
    { label: "Change", cell: (row) => editButton(row, does) },
  ];
}

function summary(trajectories) {
  const checkpoints = trajectories.reduce((sum, trajectory) => sum + (trajectory.checkpoints ?? 0), 0);
  return `${plural(trajectories.length, "training run")}, ${plural(checkpoints, "checkpoint")}. `
    + "ΔQL is the relative rise of the loss when the weights are quantized.";
}

async function showFailures(section, signal) {
  /* By their end: what was submitted long before may have failed just now. */
  const failed = { state: "failed", sort: "-finished" };
  const { items } = await get(query("/v1/runs", { ...failed, limit: FAILURES, view: "summary" }), signal);
  const all = h("a", { href: link("/runs", failed) }, "All failed runs");
  section.hidden = items.length === 0;
  const item = (run) => h("li", {}, title(run), h("span", { class: "muted when" }, age(run.finished_at)),
    problem(run.error ?? {}));
  fill(section,
    h("div", { class: "row between" }, h("h2", {}, "Recent failures"), all),
    h("ul", { class: "runs" }, items.map(item)));
}

export async function showTrajectories({ root, query: search, signal }) {
  document.title = "Trajectories · deltaq";
  fill(root, h("h1", {}, "Trajectories"), loading("trajectories"));
  const chosen = new Set(), archived = search.get("archived") === "true";
  const intro = h("p", { class: "muted intro" }), compare = h("div", { class: "compare" }), body = h("div");
  const live = runningSection(), editing = h("div"), table = h("div");
  const failures = h("section", { hidden: true, "aria-label": "Recent failures" });
  const asked = query("/v1/trajectories", { limit: 100, archived: archived || null });

  const changed = () => {
    const address = curvesLink([...chosen]);
    const link = () => h("a", { href: address, class: "button" }, `Compare ${chosen.size} trajectories`);
    const hint = chosen.size ? "Tick another one to compare" : "Tick trajectories to compare them";
    fill(compare, chosen.size > 1 ? link() : h("span", { class: "muted" }, hint));
  };
  const back = (id) => (document.getElementById(`edit-${id}`) ?? root).focus();
  const open = (shown) => {
    const { id, name } = shown.document;
    const close = () => {
      fill(editing);
      back(id);
    };
    const done = async () => {
      chosen.delete(name);
      fill(editing);
      await refresh();
      back(id);
    };
    fill(editing, editPanel(shown, { done, close, reload: open }, signal));
    editing.querySelector("input").focus();
  };
  const edit = attempt(editing, signal, async ({ id }) => open(await readTrajectory(id, signal)));
  const turn = turns();
  const health = healthReader(healthCell, signal);
  let last = null; /* the rows that are shown */
  const show = (items, known) => {
    const index = colourIndex(items);
    const colours = { index, order: new Map([...index.keys()].map((name, place) => [name, place])) };
    const found = columns(known, colours, health, { chosen, changed, edit });
    const order = sortedBy("sort", found);
    /* The order by health is that of all rows, also of those out of sight. */
    const byHealth = async ({ column }) => {
      if (found[column].label !== HEALTH || !(await health.askAll(items)) || signal.aborted || last !== items) return;
      const focused = document.activeElement?.id;
      show(items, known);
      if (focused) document.getElementById(focused)?.focus();
    };
    const onSort = (sort) => {
      order.onSort(sort);
      byHealth(sort);
    };
    fill(table, dataTable({
      caption: "Trajectories", className: "cards wide", columns: found, rows: items, sortable: true, ...order, onSort,
    }));
    last = items;
    if (order.sort) byHealth(order.sort);
  };
  const refresh = async () => {
    const current = turn(), { items, more } = await list(asked, signal, 500);
    const known = await trends(items, signal);
    if (!current()) return;
    intro.textContent = items.length ? summary(items) : "";
    if (!items.length) {
      fill(body, archived ? h("p", { class: "notice" }, "No trajectory is archived.") : firstSteps());
    } else {
      show(items, known);
      fill(body, compare, table, more ? h("p", { class: "muted" }, "Only the newest 500 are shown.") : null);
    }
    changed();
  };
  await refresh();
  await showFailures(failures, signal);
  const which = h("div", { class: "controls" },
    segmented("Show", [["", "current"], ["true", "archived"]], archived ? "true" : "", (value) => {
      location.hash = link("/", { archived: value });
    }));
  fill(root, h("div", { class: "row between heading" }, h("h1", {}, "Trajectories"), which), intro, editing, body,
    live.node, failures);

  const read = async () => {
    const [runs, { items }] = await Promise.all([
      running(null, signal), list(asked, signal, 500),
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
      throw error;
    }),
  }, signal);
}

