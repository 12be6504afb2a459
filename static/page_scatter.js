/* page_scatter.js: any two metrics of checkpoints against each other, with fit and correlation. */
import { csv, get, list, query } from "./api.js";
import { dropdown, segmented } from "./controls.js";
import { fill, h, save } from "./dom.js";
import { plural } from "./format.js";
import { drawing } from "./look.js";
import { inOrder, metric as metricOf } from "./metrics.js";
import { failure, loading } from "./notice.js";
import { colourIndex } from "./palette.js";
import { fileName } from "./plot.js";
import { amend, checkpointLink, curvesLink, link } from "./router.js";
import { captionOf, drawable, groupsOf, scatterFigure } from "./scatter.js";

const ALONG = ["step", "tokens", "learning_rate"]; /* of the checkpoint itself; always there */
const MOST = 32; /* trajectories that the interface takes at once */

function readOptions(search) {
  return {
    x: search.get("x") ?? "largest_algebraic", y: search.get("y") ?? "delta",
    xLog: search.get("xscale") === "log", yLog: search.get("yscale") === "log",
    label: search.get("label"), names: new Set(search.getAll("trajectory")),
  };
}

function address({ x, y, xLog, yLog, label, names }) {
  return link("/scatter", {
    trajectory: [...names], x: x === "largest_algebraic" ? null : x, y: y === "delta" ? null : y,
    xscale: xLog ? "log" : null, yscale: yLog ? "log" : null, label,
  });
}

function ask({ x, y, names }, signal) {
  return get(query("/v1/correlations", { x, y, trajectory: [...names].slice(0, MOST) }), signal);
}

/* A button a trajectory; pressed means that its checkpoints are among the points. */
function picker(trajectories, options, colours, changed) {
  const all = options.names.size === 0;
  return h("div", { class: "legend", role: "group", "aria-label": "Trajectories" }, trajectories.map(({ name }) => {
    const pressed = String(all || options.names.has(name));
    const button = h("button", { type: "button", class: "key", "aria-pressed": pressed },
      h("span", { class: `swatch c${colours.get(name)}`, "aria-hidden": "true" }),
      h("span", { class: "name" }, name));
    button.addEventListener("click", () => {
      if (options.names.size === 0) for (const other of trajectories) options.names.add(other.name);
      if (!options.names.delete(name)) options.names.add(name);
      changed();
    });
    return button;
  }));
}

function nothing(options) {
  const x = metricOf(options.x).label, y = metricOf(options.y).label;
  return h("div", {},
    h("p", {}, `No checkpoint of these trajectories has both ${x} and ${y}.`),
    h("p", {}, "Curvature comes from runs of the kind sharpness, ΔQL from quantize; "
      + "a sweep of each over a trajectory fills this page."));
}

/* What keeps points from being seen, in words; null when nothing does. */
function remark(points, options) {
  if (!points.length) return nothing(options);
  const hidden = points.length - drawable(points, options).length;
  if (!hidden) return null;
  return h("p", {}, `${plural(hidden, "value")} at or below zero cannot be drawn on a logarithmic axis; `
    + "the correlation counts them.");
}

/* Each group's correlations, and how they are to be read. */
function captions(groups, options) {
  const scale = options.xLog || options.yLog ? " of the logarithms as drawn" : "";
  return [
    groups.map((group) => h("p", {}, captionOf(group))),
    h("p", { class: "muted" }, "Trajectories are what is independent, not their checkpoints: with fewer than five only "
      + `the changes have an interval. The line is the least-squares fit${scale}.`),
  ];
}

export async function showScatter({ root, query: search, signal }) {
  document.title = "Scatter · deltaq";
  fill(root, h("h1", {}, "Scatter"), loading("measurements"));
  const options = readOptions(search);
  const [{ items: trajectories }, { metrics }] = await Promise.all([
    list(query("/v1/trajectories", { limit: 100 }), signal, 500), get("/v1/curves/metrics", signal),
  ]);
  const colours = colourIndex(trajectories);
  let answer = await ask(options, signal);

  const caption = h("div", { class: "caption" }), note = h("div", { class: "notice remark", role: "status" });
  const picks = h("div"), labels = h("div", { class: "control" });
  const figure = ({ ink, narrow }) => scatterFigure(groupsOf(answer, options.label), {
    ...options, ink, narrow, colour: (name) => ink.colour(colours.get(name)),
  });
  const words = "points of checkpoints and a least-squares fit; the text below has the correlations";
  const plot = drawing("scatter-plot", words, figure, signal, {
    pick: (id) => { location.hash = checkpointLink(id); },
  });
  plot.node.prepend(picks, note);
  plot.node.append(caption);

  const show = () => {
    amend(address(options));
    const ways = [...new Set(answer.points.map((point) => point.label ?? ""))].sort();
    if (options.label !== null && !ways.includes(options.label)) options.label = null;
    const groups = groupsOf(answer, options.label), points = groups.flatMap((group) => group.points);
    const remarks = remark(points, options);
    note.hidden = remarks === null;
    fill(note, remarks);
    fill(picks, picker(trajectories, options, colours, reload));
    const quantizers = [["", "each by itself"], ...ways.map((way) => [way, way || "full precision"])];
    const choose = (value) => { options.label = value || null; show(); };
    fill(labels, ways.length > 1 ? dropdown("Quantizer", quantizers, options.label ?? "", choose) : null);
    fill(caption, points.length ? captions(groups, options) : null);
    plot.redraw();
  };
  const reload = async () => {
    try {
      answer = await ask(options, signal);
      show();
    } catch (error) { if (!signal.aborted) fill(note, failure(error)).hidden = false; }
  };
  const saveCsv = async () => {
    try {
      const asked = { x: options.x, y: options.y, trajectory: [...options.names] };
      save(`${fileName(options.x, options.y)}.csv`, await csv(query("/v1/correlations", asked)), "text/csv");
    } catch (error) { fill(note, failure(error)).hidden = false; }
  };
  const choices = inOrder([options.x, options.y, "largest_algebraic", "delta", ...metrics, ...ALONG])
    .map((name) => [name, metricOf(name).label]);
  const scale = [["linear", "linear"], ["log", "log"]];
  const set = (field, fresh) => (value) => {
    options[field] = fresh ? value : value === "log";
    if (fresh) reload();
    else show();
  };
  const controls = h("div", { class: "controls" },
    dropdown("x", choices, options.x, set("x", true)),
    segmented("x scale", scale, options.xLog ? "log" : "linear", set("xLog", false)),
    dropdown("y", choices, options.y, set("y", true)),
    segmented("y scale", scale, options.yLog ? "log" : "linear", set("yLog", false)),
    labels,
    h("div", { class: "control export" },
      h("button", { type: "button", id: "save-csv", events: { click: saveCsv } }, "CSV")));
  const chosen = [...options.names].slice(0, 8);
  const curves = chosen.length ? h("a", { href: curvesLink(chosen) }, "Curves of these") : null;
  fill(root, h("div", { class: "row between heading" }, h("h1", {}, "Scatter"), curves), controls, plot.node);
  show();
}
