/* page_curves.js: one trajectory or several: the figure, its controls and legend, runs in progress, the table of
 * checkpoints. */
import { csv, get, list, namedTrajectories, query } from "./api.js";
import { advicePanel, loadPlans } from "./advice.js";
import { changesPanel, loadChanges } from "./changepoints.js";
import { dropdown, segmented } from "./controls.js";
import { legend, marksKey, marksWords, summary } from "./curve_legend.js";
import { addressOf, readView } from "./curve_state.js";
import { areMany, averagedFrom, hiddenByLog, load, trajectory } from "./curves.js";
import { checkpointTable } from "./checkpoint_table.js";
import { command, curl, fill, h, save } from "./dom.js";
import { exported, hasBars, traces } from "./figure.js";
import { figureHeight, isBare, layout, sides } from "./figure_layout.js";
import { integer, isNumber, plural } from "./format.js";
import { flagsOf, integrityPanel, loadIntegrity, notRead } from "./integrity.js";
import { markOf, queued, running, watch } from "./live.js";
import { inOrder, metric as metricOf } from "./metrics.js";
import { failure, loading, problem, suggested, sweepCommand } from "./notice.js";
import { COLOURS, apart, colourIndex, dash } from "./palette.js";
import { sentence } from "./paper.js";
import { leftOut, selection } from "./picker.js";
import { fileName, keepDrawn, plotly } from "./plot.js";
import { bounded, provenance } from "./provenance.js";
import { amend, checkpointLink, link, runLink } from "./router.js";
import { badge, runningSection, subject } from "./runs.js";
import { saveGroup } from "./saving.js";
import { fullName, seriesLooks } from "./series.js";
import { MOST_POINTS, pointsFor } from "./thin.js";
import { turns } from "./turns.js";

const PLAIN = { colour: 0, dash: 0 };
const MOST_NAMES = 8; /* trajectories: as many as there are colours */

/* `left`: names that are chosen too, for which there is no space. */
function heading({ shown: names, left }, all, view, colours, averages) {
  const removable = names.length > 1;
  const badge = () => h("span", { class: "badge", title: "Its checkpoints are averages of others" }, "averages");
  const without = (name) => addressOf([...names.filter((other) => other !== name), ...left], view, true);
  const chips = names.map((name) => h("span", { class: "chip" },
    h("span", { class: `swatch c${colours.get(name)}`, "aria-hidden": "true" }),
    h("span", { class: "name" }, name),
    averages.has(name) ? badge() : null,
    removable ? h("a", { href: without(name), "aria-label": `remove ${name}`, title: "Remove" }, "×") : null));
  const others = all.filter((item) => !names.includes(item.name)).map((item) => [item.name, item.name]);
  const joined = (name) => (names.length < MOST_NAMES ? [...names, name] : [name, ...names, ...left]);
  const join = (name) => { if (name) location.hash = addressOf(joined(name), view, true); };
  const add = others.length ? dropdown("Compare with", [["", "…"], ...others], "", join) : null;
  return h("div", { class: "row between heading" },
    h("h1", {}, removable ? h("span", { class: "unseen" }, "Comparison of ") : null, chips),
    h("div", { class: "row" },
      h("a", { href: link("/scatter", { trajectory: [...names, ...left] }) }, "Scatter"),
      h("a", { href: link("/frontier", { trajectory: [...names, ...left] }) }, "Frontier"),
      add));
}

/* What to post where nothing was quantized: with the datasets there are, of two different ones. */
function firstSweep(name, datasets) {
  const { evaluation, calibration } = suggested(datasets);
  if (evaluation && calibration) return sweepCommand(name, [calibration, evaluation]);
  const addition = (given, path) => command(curl("/v1/datasets", { name: given, path, format: "text" }));
  return [
    h("p", {}, "Quantizers are calibrated on one text and measured on another; add the missing one first:"),
    evaluation ? null : addition("calibration", "/path/to/train.txt"),
    addition(evaluation ? "calibration" : "validation", "/path/to/another.txt"),
    sweepCommand(name, evaluation ? ["calibration", evaluation] : undefined),
  ];
}

/* Of each trajectory its newest training run, where that ended without success. */
async function endedTrainings(names, signal) {
  const newest = (name) => query("/v1/runs", { kind: "train", trajectory: name, limit: 1, view: "summary" });
  const pages = await Promise.all(names.map((name) => get(newest(name), signal)));
  return pages.flatMap(({ items }) => items).filter(({ state }) => ["failed", "cancelled"].includes(state));
}

/* Why there are no checkpoints. `ended`: as endedTrainings() gives them. */
function unregistered(ended) {
  if (!ended.length) return h("p", {}, "No checkpoint is registered here yet; they appear as training goes on.");
  const way = (run) => h("a", { href: runLink(run.id) }, "the newest training run of ", subject(run));
  return h("div", {}, ended.map((run) => [
    h("p", {}, "No checkpoint is registered here: ", way(run), " ", badge(run.state)),
    run.state === "failed" ? problem(run.error ?? {}) : null,
  ]));
}

/* Whether the figure has a point to draw. */
function hasPoints(model) {
  const lists = [model.curves, model.averages, ...sides(model).map(({ series }) => series)];
  return lists.some((list) => list.some(({ points }) => points.length));
}

/* Whether the measure has no point at all. */
function isEmpty({ curves }) {
  return curves.every((series) => series.points.length === 0);
}

/* Whether the measure is known of a checkpoint, be it one that has no place on the axis. */
async function isMeasured(names, metric, signal) {
  if (!metricOf(metric).kinds?.length) return false; /* no run measures it */
  const asked = query("/v1/measurements", { trajectory: names, metric, fields: "checkpoint", limit: 1 });
  return (await get(asked, signal)).items.length > 0;
}

const PLACES = { tokens: "token count", step: "step", share: "share of training", learning_rate: "learning rate" };

/* What keeps curves from being seen, in words; null when nothing does. `placeless`: what was measured has no place. */
function remark(model, view, datasets, ended, placeless) {
  const nothing = isEmpty(model), { label } = metricOf(model.metric);
  if (model.whole && !model.checkpoints.size) return unregistered(ended);
  if (nothing && model.whole && placeless) {
    return h("p", {}, `${label} was measured here, but of no checkpoint with a ${PLACES[model.x]}. `
      + "Another x may show it.");
  }
  if (nothing && model.whole && view.metric !== "delta") return h("p", {}, `${label} was not measured here yet.`);
  if (nothing && model.whole) {
    return h("div", {},
      h("p", {}, "Nothing is quantized yet. Start with a sweep; curves grow here as its runs finish:"),
      firstSweep(model.names[0], datasets));
  }
  const hidden = hiddenByLog(model, view);
  const most = model.curves.reduce((count, { total, points }) => Math.max(count, total ?? points.length), 0);
  const parts = [
    hidden ? `${plural(hidden, "value")} at or below zero cannot be drawn on a logarithmic axis; `
      + "the table has them." : null,
    most > MOST_POINTS ? `Up to ${integer(most)} points a curve: drawn are the extremes of each few pixels, `
      + "and in a closer look all points." : null,
  ].filter(Boolean);
  return parts.length ? h("p", {}, parts.join(" ")) : null;
}

/* What trajectories have reached: what shares of training are of, and whether their checkpoints are many. */
function endsOf(shown) {
  const end = ({ name, last_tokens: tokens, last_step: step, checkpoints }) => [name, { tokens, step, checkpoints }];
  return new Map(shown.map(end));
}

/* The part of the x axis that is shown, and the whole, as the axis counts. */
function spanOf(model, view) {
  const at = (x) => (view.xLog ? Math.log10(x) : x);
  const ends = model.curves.flatMap(({ points }) => [points[0], points.at(-1)]).filter(Boolean)
    .map((point) => at(point.x)).filter(isNumber);
  const whole = Math.max(...ends) - Math.min(...ends);
  return { whole, visible: view.zoom.x ? Math.abs(view.zoom.x[1] - view.zoom.x[0]) : whole };
}

/* What the intervals of the figure are drawn as: those of the measure as bands, of the panels below it as bars. */
function boundsWords(model, visible) {
  const known = visible.filter((series) => bounded([series])), barred = ({ points }) => hasBars(points, model.x);
  const bands = known.some((series) => !barred(series));
  const bars = sides(model).some(({ series }) => bounded(series)) || known.some(barred);
  const ways = [bands ? "shaded" : null, bars ? "bars" : null].filter(Boolean);
  return ways.length ? `${sentence([ways.join(" and ")]).slice(0, -1)}: 95 % interval.` : "";
}

/* What stands below the figure in a file. */
async function fileCaption(model, visible, flagged, signal) {
  const { label } = metricOf(model.metric), said = await provenance(visible, signal);
  const along = model.x === "learning_rate" ? "against the learning rate" : "along training";
  const marks = sentence(marksWords(model, visible, flagged));
  return [`${label} ${along}.`, said, boundsWords(model, visible), marks].filter(Boolean).join(" ");
}

function noTrajectory(root) {
  document.title = "Curves · deltaq";
  const way = h("a", { href: "#/" }, "Choose among the trajectories");
  fill(root, h("h1", {}, "No trajectory chosen"),
    h("p", {}, "Curves are those of a trajectory, or of several compared. ", way));
}

export async function showCurves({ root, query: search, signal }) {
  const chosen = selection([], new Set(search.getAll("trajectory")), MOST_NAMES), { shown: names, left } = chosen;
  if (!names.length) return noTrajectory(root);
  document.title = `${names.join(", ")} · deltaq`;
  fill(root, h("h1", {}, names.join(", ")), loading("curves"));
  plotly().catch(() => {}); /* fetched meanwhile; the figure says when it could not be */
  const [{ items: all }, { metrics: measured }, { items: datasets }, ...first] = await Promise.all([
    namedTrajectories(signal),
    get("/v1/curves/metrics", signal),
    get(query("/v1/datasets", { limit: 100 }), signal),
    ...names.map((name) => trajectory(name, signal)),
  ]);
  const asked = { points: MOST_POINTS, all: false };
  let shown = first, model = null, integrities = new Map(), changes = [], plans = new Map(), ended = [];
  let placeless = false;
  let lookOf = () => PLAIN;
  const knowsTokens = shown.some((item) => item.last_tokens !== null && item.last_tokens !== undefined);
  const colours = apart(colourIndex(all.length ? all : shown), names), view = readView(search, knowsTokens);

  const head = h("div"), legendPlace = h("div"), words = h("div"), key = h("div"), tablePlace = h("div");
  const integrityPlace = h("div"), changesPlace = h("div"), advicePlace = h("div");
  const note = h("div", { class: "notice remark", role: "status" });
  const plot = h("div", { class: "plot", id: "plot", role: "img" }, loading("the figure")), live = runningSection();
  const paint = ({ ink, dark, narrow, paper }) => ({
    ink, dark, narrow, paper, height: figureHeight(model, narrow), ...view, changes,
    colour: (name) => ink.colour(colours.get(name)), colourOf: (series) => ink.colour(lookOf(series).colour),
    dashOf: (series) => dash(series.bits, lookOf(series).dash),
  });
  const figure = (look) => ({ data: traces(model, paint(look)), layout: layout(model, paint(look)) });
  const visible = () => model.curves.filter((series) => !view.hidden.has(fullName(series)));
  const remember = () => amend(addressOf([...names, ...left], view));
  const drawn = keepDrawn(plot, figure, signal, {
    pick: (id) => { location.hash = checkpointLink(id); },
    zoom: (ranges) => {
      view.zoom = { ...view.zoom, ...ranges };
      remember();
      refine();
    },
  });

  const redraw = () => {
    plot.querySelector(".loading")?.remove();
    const more = leftOut(chosen, MOST_NAMES, "Remove one above to see another one.");
    const remarks = [more, remark(model, view, datasets, ended, placeless)].filter(Boolean);
    note.hidden = remarks.length === 0;
    fill(note, remarks);
    plot.classList.toggle("bare", isBare(model));
    plot.hidden = exporting.hidden = model.whole && !hasPoints(model);
    fill(words, summary(model, visible()));
    fill(key, marksKey(model, visible(), flagsOf(integrities).size > 0));
    drawn.redraw().catch((error) => { if (!signal.aborted) fill(plot, failure(error)); });
  };
  const showFlags = () => {
    const panel = integrities ? integrityPanel(shown, integrities) : notRead(model, readAll);
    fill(integrityPlace, panel ? [h("h2", {}, "Integrity"), panel] : null);
  };
  const showAdvice = () => {
    const found = changesPanel(model, changes), advice = advicePanel(plans);
    fill(changesPlace, found ? [h("h2", {}, "Change points"), found] : null);
    fill(advicePlace, advice ? [h("h2", {}, "What to do next"), advice] : null);
  };
  const show = (known) => {
    if (signal.aborted) return;
    model = known;
    const looks = seriesLooks(model.curves, colours, COLOURS);
    lookOf = (series) => looks.get(series.key) ?? PLAIN;
    plot.setAttribute("aria-label", `${metricOf(model.metric).label}, loss, curvature where measured and learning rate `
      + `against ${model.x.replace("_", " ")}; the table below has the values`);
    const averages = new Set([...model.checkpoints.values()].filter(averagedFrom).map((item) => item.trajectory));
    fill(head, heading(chosen, all, view, colours, averages));
    fill(legendPlace, legend(model, view, lookOf, () => { remember(); redraw(); }));
    const arrange = (order) => { view.order = order; remember(); };
    fill(tablePlace, checkpointTable(model, colours, flagsOf(integrities), {
      order: view.order, ordered: arrange, readAll,
    }));
    redraw();
  };
  /* Large trajectories are shown step by step when the page opens; else all at once. */
  const turn = turns(), looks = turns();
  let current = turn();
  const reload = async (opening = false) => {
    const own = current = turn();
    let last = null, read = null;
    const more = { ...asked, ends: endsOf(shown) };
    const many = areMany(names, more); /* their integrity is as long as their list */
    changes = [];
    await load(names, view.metric, view.x, signal, (known) => {
      last = known;
      read ??= Promise.all([
        many ? null : loadIntegrity(names, signal), loadChanges(names, { ...known, ends: more.ends }, signal),
        loadPlans(names, signal),
      ]);
      read.catch(() => {}); /* awaited below */
      if (opening && known.coarse && own()) show(known);
    }, more);
    const failures = last.whole && !last.checkpoints.size ? await endedTrainings(names, signal) : [];
    const elsewhere = last.checkpoints.size > 0 && isEmpty(last) && await isMeasured(names, view.metric, signal);
    if (!own()) return;
    ended = failures;
    placeless = elsewhere;
    if (model !== last || placeless) show(last);
    const found = await read, flagged = flagsOf(integrities).size > 0;
    if (!own()) return;
    [integrities, changes, plans] = found;
    showFlags();
    showAdvice();
    /* Marks that were drawn go, too: what they told may be mended. */
    if (flagged || flagsOf(integrities).size || changes.some(({ change }) => change)) show(last);
    if (asked.points > more.points) await reload(); /* a closer look meanwhile */
  };
  const wrong = (error) => { if (!signal.aborted) fill(note, failure(error)).hidden = false; };
  const readAll = () => {
    asked.all = true;
    reload().catch(wrong);
  };
  /* A closer look at curves of which points were left out asks for more of them; of several looks the last counts. */
  const refine = () => {
    if (!model?.coarse) {
      if (visible().some((series) => series.points.length > MOST_POINTS)) drawn.redraw().catch(() => {});
      return;
    }
    const { whole, visible: part } = spanOf(model, view), wanted = pointsFor(whole, part);
    if (wanted <= asked.points) return;
    const before = asked.points, all = current, look = looks();
    asked.points = wanted;
    load(names, view.metric, view.x, signal, (known) => { if (known.whole && all() && look()) show(known); },
      { ...asked, ends: endsOf(shown) }).catch((error) => {
      if (look()) asked.points = before;
      wrong(error);
    });
  };
  const set = (field, value, fresh) => {
    view[field] = value;
    view.zoom = ["x", "xLog"].includes(field) ? { ...view.zoom, x: null } : { ...view.zoom, y: null };
    remember();
    if (fresh) reload().catch(wrong);
    else show(model);
  };
  const saveCsv = async () => {
    const path = query("/v1/curves", { trajectory: names, metric: view.metric, x: model.base });
    save(`${fileName(...names, view.metric)}.csv`, await csv(path, signal), "text/csv");
  };
  const saving = saveGroup({
    id: "save", name: () => fileName(...names, view.metric), picture: (look) => exported(model, paint(look)),
    caption: () => fileCaption(model, visible(), flagsOf(integrities).size > 0, signal), numbers: saveCsv,
  });
  const exporting = h("div", { class: "control export" }, saving), scale = [["linear", "linear"], ["log", "log"]];
  const measures = inOrder(["delta", view.metric, ...measured]).map((name) => [name, metricOf(name).label]);
  const axes = [["tokens", "tokens"], ["step", "step"], ["share", "share"], ["learning_rate", "learning rate"]];
  const controls = h("div", { class: "controls" },
    segmented("x", axes, view.x, (value) => set("x", value, true)),
    segmented("x scale", scale, view.xLog ? "log" : "linear", (value) => set("xLog", value === "log", false)),
    segmented("y scale", scale, view.yLog ? "log" : "linear", (value) => set("yLog", value === "log", false)),
    dropdown("Measure", measures, view.metric, (value) => set("metric", value, true)),
    exporting);
  fill(root, head, controls,
    h("section", { class: "panel", "aria-label": "Curves" }, legendPlace, words, note, plot, key),
    live.node, changesPlace, advicePlace, h("h2", {}, "Checkpoints"), tablePlace, integrityPlace);
  await reload(true);
  if (view.zoom.x) refine();

  let waiting = 0;
  watch({
    read: async () => {
      const [found, ...runs] = await Promise.all([
        Promise.all(names.map((name) => trajectory(name, signal))), ...names.map((name) => running(name, signal)),
      ]);
      waiting = queued(found);
      shown = found;
      const one = new Map(runs.flat().map((run) => [run.id, run]));
      return { runs: [...one.values()], mark: markOf(found), busy: waiting > 0 };
    },
    onRuns: (runs) => live.show(runs, waiting),
    onProgress: live.progress,
    onChange: () => reload().catch((error) => {
      wrong(error);
      throw error;
    }),
  }, signal);
}
