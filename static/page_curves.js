/* page_curves.js: one trajectory or several: the figure, its controls and legend, runs in progress, the table of checkpoints. */
import { csv, get, list, query } from "./api.js";
import { dropdown, segmented } from "./controls.js";
import { averagedFrom, hiddenByLog, labelOf, load, trajectory } from "./curves.js";
import { checkpointTable } from "./checkpoint_table.js";
import { fill, h, save, svg } from "./dom.js";
import { exported, figureHeight, layout, traces } from "./figure.js";
import { plural } from "./format.js";
import { flagsOf, integrityPanel, loadIntegrity } from "./integrity.js";
import { markOf, queued, running, watch } from "./live.js";
import { inOrder, isMetric, metric as metricOf } from "./metrics.js";
import { failure, loading, sweepCommand } from "./notice.js";
import { colourIndex, hollow, isDark, scheme, strokeDash } from "./palette.js";
import { fileName, keepDrawn, saveFigure } from "./plot.js";
import { amend, curvesLink, link } from "./router.js";
import { runningSection } from "./runs.js";

function readOptions(search, checkpoints) {
  const asked = search.get("x"), metric = search.get("metric");
  const x = ["tokens", "step", "learning_rate"].includes(asked) ? asked : checkpoints.some((item) => item.tokens !== null && item.tokens !== undefined) ? "tokens" : "step";
  return { x, metric: isMetric(metric) ? metric : "delta", xLog: search.get("xscale") === "log", yLog: search.get("yscale") === "log", hidden: new Set() };
}

function address(names, options) {
  const { x, metric, xLog, yLog } = options;
  return curvesLink(names, { x, metric: metric === "delta" ? null : metric, xscale: xLog ? "log" : null, yscale: yLog ? "log" : null });
}

/* A button a curve; pressed means shown. */
function legend(model, options, colours, changed) {
  const mark = (series) => svg("svg", { width: 26, height: 10, "aria-hidden": "true", class: `line c${colours.get(series.trajectory)}` },
    svg("line", { x1: 0, y1: 5, x2: 26, y2: 5, stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": strokeDash(series.bits) }),
    svg("circle", { cx: 13, cy: 5, r: 3, fill: hollow(series.bits) ? "var(--surface)" : "currentColor", stroke: "currentColor", "stroke-width": 1.5 }));
  const entry = (series) => {
    const button = h("button", { type: "button", class: "key", "aria-pressed": String(!options.hidden.has(series.key)) }, mark(series), labelOf(series, model.datasets));
    button.addEventListener("click", () => {
      if (!options.hidden.delete(series.key)) options.hidden.add(series.key);
      button.setAttribute("aria-pressed", String(!options.hidden.has(series.key)));
      changed();
    });
    return button;
  };
  return h("div", { class: "legend", role: "group", "aria-label": "Curves shown" }, model.names.map((name) => {
    const own = model.curves.filter((series) => series.trajectory === name);
    return own.length ? h("div", { class: "keys" }, h("span", { class: "name" }, name), own.map(entry)) : null;
  }));
}

function heading(names, all, options, colours, averages) {
  const removable = names.length > 1;
  const chips = names.map((name) => h("span", { class: "chip" }, h("span", { class: `swatch c${colours.get(name)}`, "aria-hidden": "true" }), h("span", { class: "name" }, name),
    averages.has(name) ? h("span", { class: "badge", title: "Its checkpoints are averages of others" }, "averages") : null,
    removable ? h("a", { href: address(names.filter((other) => other !== name), options), "aria-label": `remove ${name}`, title: "Remove" }, "×") : null));
  const others = all.filter((item) => !names.includes(item.name)).map((item) => [item.name, item.name]);
  const add = others.length ? dropdown("Compare with", [["", "…"], ...others], "", (name) => { if (name) location.hash = address([...names, name], options); }) : null;
  return h("div", { class: "row between heading" }, h("h1", {}, removable ? h("span", { class: "unseen" }, "Comparison of ") : null, chips),
    h("div", { class: "row" }, h("a", { href: link("/scatter", { trajectory: names }) }, "Scatter"), add));
}

/* What keeps curves from being seen, in words; null when nothing does. */
function remark(model, options) {
  const nothing = model.curves.every((series) => series.points.length === 0);
  if (!model.checkpoints.size) return h("p", {}, "No checkpoint is registered here yet; they appear as training goes on.");
  if (nothing && options.x !== "step") return h("p", {}, `No measured checkpoint has a value on this axis (${options.x === "tokens" ? "token counts" : "learning rates"}), or none is measured yet. Try another axis.`);
  if (nothing) return h("div", {}, h("p", {}, "Nothing is quantized yet. Start with a sweep; curves grow here as its runs finish:"), sweepCommand(model.names[0]));
  const hidden = hiddenByLog(model, options);
  return hidden ? h("p", {}, `${plural(hidden, "value")} at or below zero cannot be drawn on a logarithmic axis; the table has them.`) : null;
}

export async function showCurves({ root, query: search, signal }) {
  const names = [...new Set(search.getAll("trajectory"))].slice(0, 8);
  if (!names.length) throw new Error("no trajectory is named in the address");
  document.title = `${names.join(", ")} · deltaq`;
  fill(root, h("h1", {}, names.join(", ")), loading("curves"));
  const [{ items: all }, { metrics: measured }] = await Promise.all([list(query("/v1/trajectories", { limit: 100 }), signal, 500), get("/v1/curves/metrics", signal)]);
  let shown = await Promise.all(names.map((name) => trajectory(name, signal)));
  const colours = colourIndex(all.length ? all : shown);
  const newest = (await Promise.all(names.map((name) => list(query("/v1/checkpoints", { trajectory: name, limit: 1 }), signal, 1)))).flatMap((page) => page.items);
  const options = readOptions(search, newest);
  let model = await load(names, options.metric, options.x, signal), integrities = await loadIntegrity(names, signal);

  const head = h("div"), legendPlace = h("div"), note = h("div", { class: "notice remark", role: "status" }), tablePlace = h("div"), integrityPlace = h("div");
  const plot = h("div", { class: "plot", id: "plot", role: "img" }, loading("the figure")), live = runningSection();
  const paint = ({ ink, dark, narrow }) => ({ ink, dark, narrow, height: figureHeight(model, narrow), ...options, colour: (name) => ink.colour(colours.get(name)) });
  const figure = (look) => ({ data: traces(model, paint(look)), layout: layout(model, paint(look)) });
  const drawn = keepDrawn(plot, figure, signal);

  const redraw = () => {
    plot.querySelector(".loading")?.remove();
    const words = remark(model, options);
    note.hidden = words === null;
    fill(note, words);
    drawn.redraw().catch((error) => { if (!signal.aborted) fill(plot, failure(error)); });
  };
  const show = () => {
    plot.setAttribute("aria-label", `${metricOf(model.metric).label}, validation loss, curvature where measured and learning rate against ${model.x.replace("_", " ")}; the table below has the values`);
    const averages = new Set([...model.checkpoints.values()].filter(averagedFrom).map((item) => item.trajectory));
    fill(head, heading(names, all, options, colours, averages));
    fill(legendPlace, legend(model, options, colours, redraw));
    fill(tablePlace, checkpointTable(model, colours, flagsOf(integrities)));
    const panel = integrityPanel(shown, integrities);
    fill(integrityPlace, panel ? [h("h2", {}, "Integrity"), panel] : null);
    redraw();
  };
  const reload = async () => {
    [model, integrities] = await Promise.all([load(names, options.metric, options.x, signal), loadIntegrity(names, signal)]);
    show();
  };
  const set = (field, value, fresh) => {
    options[field] = value;
    amend(address(names, options));
    if (fresh) reload().catch((error) => { if (!signal.aborted) fill(note, failure(error)).hidden = false; });
    else show();
  };
  const saveAs = (format) => {
    const look = { ink: scheme(isDark()), dark: isDark(), narrow: false };
    return saveFigure(exported(model, { ...paint(look), width: 1100, height: figureHeight(model, false) + 220 }), format, fileName(...names, options.metric)).catch((error) => { fill(note, failure(error)).hidden = false; });
  };
  const saveCsv = async () => {
    try {
      save(`${fileName(...names, options.metric)}.csv`, await csv(query("/v1/curves", { trajectory: names, metric: options.metric, x: options.x })), "text/csv");
    } catch (error) { fill(note, failure(error)).hidden = false; }
  };
  const scale = [["linear", "linear"], ["log", "log"]];
  const controls = h("div", { class: "controls" },
    segmented("x", [["tokens", "tokens"], ["step", "step"], ["learning_rate", "learning rate"]], options.x, (value) => set("x", value, true)),
    segmented("x scale", scale, options.xLog ? "log" : "linear", (value) => set("xLog", value === "log", false)),
    segmented("y scale", scale, options.yLog ? "log" : "linear", (value) => set("yLog", value === "log", false)),
    dropdown("Measure", inOrder(["delta", options.metric, ...measured]).map((name) => [name, metricOf(name).label]), options.metric, (value) => set("metric", value, true)),
    h("div", { class: "control export" }, h("span", { class: "label", "aria-hidden": "true" }, "Save"), h("div", { class: "segmented", role: "group", "aria-label": "Save" },
      ["png", "svg"].map((format) => h("button", { type: "button", id: `save-${format}`, events: { click: () => saveAs(format) } }, format.toUpperCase())),
      h("button", { type: "button", id: "save-csv", events: { click: saveCsv } }, "CSV"))));
  fill(root, head, controls, h("section", { class: "panel", "aria-label": "Curves" }, legendPlace, note, plot), live.node, h("h2", {}, "Checkpoints"), tablePlace, integrityPlace);
  show();

  let waiting = 0;
  watch({
    read: async () => {
      const [found, ...runs] = await Promise.all([Promise.all(names.map((name) => trajectory(name, signal))), ...names.map((name) => running(name, signal))]);
      waiting = queued(found);
      shown = found;
      return { runs: [...new Map(runs.flat().map((run) => [run.id, run])).values()], mark: markOf(found), busy: waiting > 0 };
    },
    onRuns: (runs) => live.show(runs, waiting),
    onProgress: live.progress,
    onChange: () => reload().catch(() => {}),
  }, signal);
}
