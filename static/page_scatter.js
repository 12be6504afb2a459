/* page_scatter.js: any two metrics of checkpoints against each other, with fit and correlation. */
import { csv, get, namedTrajectories, query } from "./api.js";
import { dropdown, segmented } from "./controls.js";
import { fill, h, save } from "./dom.js";
import { integer, plural } from "./format.js";
import { drawing } from "./look.js";
import { inOrder, metric as metricOf } from "./metrics.js";
import { failure, loading } from "./notice.js";
import { apart, colourIndex } from "./palette.js";
import { sentence } from "./paper.js";
import { MOST, leftOut, picker, selection } from "./picker.js";
import { fileName } from "./plot.js";
import { amend, checkpointLink, curvesLink, link } from "./router.js";
import {
  captionOf, drawable, groupsOf, intervalWords, isLosses, scatterFigure, scatterKey, shortCaption,
} from "./scatter.js";
import { turns } from "./turns.js";
import { commonFields, readCommon } from "./view.js";

/* The ways to other views of what is chosen. */
function waysOn(options) {
  const chosen = [...options.names].slice(0, 8);
  const losses = link("/scatter", { trajectory: [...options.names], x: "loss_fp", y: "loss_q", path: 1 });
  return [
    isLosses(options) ? null : h("a", { href: losses, id: "losses" }, "Quantized over full-precision loss"),
    chosen.length ? h("a", { href: curvesLink(chosen), id: "curves" }, "Curves of these") : null,
  ];
}

const ALONG = ["step", "tokens", "learning_rate"]; /* of the checkpoint itself; always there */

/* The label of full precision is empty, which in a menu and an address means that nothing was chosen. */
const FULL = "full precision";

function readOptions(search) {
  const label = search.get("label");
  return {
    x: search.get("x") ?? "largest_algebraic", y: search.get("y") ?? "delta",
    xLog: search.get("xscale") === "log", yLog: search.get("yscale") === "log",
    label: label === FULL ? "" : label, names: new Set(search.getAll("trajectory")), path: search.get("path") === "1",
    ...readCommon(search),
  };
}

function address(options) {
  const { x, y, xLog, yLog, label, names, path } = options;
  return link("/scatter", {
    trajectory: [...names], x: x === "largest_algebraic" ? null : x, y: y === "delta" ? null : y,
    xscale: xLog ? "log" : null, yscale: yLog ? "log" : null, label: label === "" ? FULL : label, path: path ? 1 : null,
    zoomx: commonFields(options).zoomx, zoomy: commonFields(options).zoomy,
  });
}

/* What there is to draw before the first answer, and after one that the server refused. */
const NOTHING = { points: [], series: [] };

/* All are one request without names, however many there are. */
function chosenOf(trajectories, { names }) {
  return selection(trajectories, names, names.size ? MOST : Infinity);
}

/* What the figure shows and what is saved: the same request. */
function request({ x, y, names }) {
  return query("/v1/correlations", { x, y, trajectory: names.size ? selection([], names).shown : [] });
}

/* Whether the server refused a question for its size: it blames no field of the question. */
function tooMuch(error) {
  return error.status === 422 && !error.document.errors?.length;
}

/* The answer for what is chosen: {answer, names, refused}. Where all trajectories together are more than the server
 * takes, `names` are the newest that it takes at once and `refused` is what it said of all; else both are as asked and
 * null. */
async function readPairs(trajectories, options, signal) {
  let names = options.names, refused = null;
  for (;;) {
    try {
      return { answer: await get(request({ ...options, names }), signal), names, refused };
    } catch (error) {
      if (!tooMuch(error) || options.names.size || names.size === 1 || trajectories.length < 2) throw error;
      refused ??= error;
    }
    const fewer = names.size ? Math.ceil(names.size / 2) : Math.min(MOST, trajectories.length - 1);
    names = new Set(trajectories.slice(0, fewer).map(({ name }) => name));
  }
}

/* That not all are shown, and why. */
function refusal(refused, names) {
  if (!refused) return null;
  return h("p", {}, `The server refused all trajectories at once (${refused.message}). `,
    names.size === 1 ? "The newest one is shown; " : `The newest ${integer(names.size)} are shown; `,
    "the buttons choose others.");
}

function nothing(options) {
  const x = metricOf(options.x).label, y = metricOf(options.y).label;
  return h("div", {},
    h("p", {}, `No checkpoint of these trajectories has both ${x} and ${y}.`),
    h("p", {}, "Curvature comes from runs of the kind sharpness, ΔQL from quantize; "
      + "a sweep of each over a trajectory fills this page."));
}

/* What keeps points from being seen, in words; empty when nothing does. */
function remarks(points, chosen, options, refused) {
  const hidden = points.length - drawable(points, options).length;
  return [
    leftOut(chosen),
    refusal(refused, options.names),
    points.length ? null : nothing(options),
    hidden ? h("p", {}, `${plural(hidden, "value")} at or below zero cannot be drawn on a logarithmic axis; `
      + "the correlation counts them.") : null,
  ].filter(Boolean);
}

/* On logarithmic axes the line is not the correlation's. */
function scaleWords({ xLog, yLog, path }) {
  return (xLog || yLog) && !path ? "The fit is of the logarithms as drawn, the correlation of the numbers." : "";
}

/* Each group's correlations, and how they are to be read. */
function captions(groups, options) {
  return [
    groups.map((group) => h("p", {}, captionOf(group))),
    h("p", { class: "muted" }, [intervalWords(groups), scaleWords(options)].filter(Boolean).join(" ")),
  ];
}

/* What stands below the figure in a file. */
function fileCaption(groups, options) {
  const words = (field) => [...new Set(groups.map(({ found }) => found[field]).filter(Boolean))].join("; ");
  const data = words("dataset"), calibration = words("calibrated_on");
  return [
    `${groups.map(shortCaption).join("; ")}.`, data ? `Data: ${data}.` : null,
    calibration ? `Calibrated on ${calibration}.` : null, sentence(scatterKey(groups, options)), scaleWords(options),
  ].filter(Boolean).join(" ");
}

export async function showScatter({ root, query: search, signal }) {
  document.title = "Scatter · deltaq";
  fill(root, h("h1", {}, "Scatter"), loading("measurements"));
  const options = readOptions(search);
  const [{ items: trajectories }, { metrics }] = await Promise.all([
    namedTrajectories(signal), get("/v1/curves/metrics", signal),
  ]);
  const usual = colourIndex(trajectories);
  const turn = turns();
  let colours = usual, answer = NOTHING, refused = null, failed = null;
  const read = async () => {
    const current = turn();
    try {
      const found = await readPairs(trajectories, options, signal);
      if (!current()) return false;
      failed = null;
      ({ answer, refused, names: options.names } = found);
    } catch (error) {
      if (signal.aborted || !current()) return false;
      failed = error;
      answer = NOTHING;
    }
    return true;
  };
  await read();
  if (signal.aborted) return;

  const caption = h("div", { class: "caption" }), note = h("div", { class: "notice remark", role: "status" });
  const picks = h("div"), labels = h("div", { class: "control" });
  const figure = ({ ink, narrow, paper }) => scatterFigure(groupsOf(answer, options.label), {
    ...options, ink, narrow, paper, colour: (name) => ink.colour(colours.get(name)),
  });
  const words = "points of checkpoints and a least-squares fit; the text below has the correlations";
  const plot = drawing("scatter-plot", words, figure, signal, {
    pick: (id) => { location.hash = checkpointLink(id); },
    zoom: (ranges) => { options.zoom = { ...options.zoom, ...ranges }; amend(address(options)); },
    caption: () => fileCaption(groupsOf(answer, options.label), options),
  });
  const key = h("p", { class: "muted marks" });
  plot.node.prepend(picks, note);
  plot.node.append(key, caption);

  const on = h("div", { class: "row" });
  const show = () => {
    amend(address(options));
    fill(on, waysOn(options));
    const ways = [...new Set(answer.points.map((point) => point.label ?? ""))].sort();
    if (!failed && options.label !== null && !ways.includes(options.label)) options.label = null;
    const groups = groupsOf(answer, options.label), points = groups.flatMap((group) => group.points);
    const chosen = chosenOf(trajectories, options);
    colours = apart(usual, chosen.shown);
    const words = failed ? [failure(failed)] : remarks(points, chosen, options, refused);
    note.hidden = words.length === 0;
    fill(note, words);
    fill(picks, picker(trajectories, chosen, colours, (names) => { options.names = names; reload(); }));
    const named = (way) => way || FULL;
    const quantizers = [["", "each by itself"], ...ways.map(named).map((way) => [way, way])];
    const choose = (value) => { options.label = value === FULL ? "" : value || null; show(); };
    const now = options.label === null ? "" : named(options.label);
    fill(labels, ways.length > 1 ? dropdown("Quantizer", quantizers, now, choose) : null);
    fill(caption, points.length ? captions(groups, options) : null);
    fill(key, scatterKey(groups, options).join(" · "));
    plot.present(drawable(points, options).length > 0);
    plot.redraw();
  };
  const reload = async () => { if (await read()) show(); };
  const saveCsv = async () => {
    try {
      save(`${fileName(options.x, options.y)}.csv`, await csv(request(options), signal), "text/csv");
    } catch (error) { if (!signal.aborted) fill(note, failure(error)).hidden = false; }
  };
  const choices = inOrder([options.x, options.y, "largest_algebraic", "delta", ...metrics, ...ALONG])
    .map((name) => [name, metricOf(name).label]);
  const scale = [["linear", "linear"], ["log", "log"]];
  const set = (field, fresh) => (value) => {
    options[field] = fresh ? value : value === "log";
    options.zoom = { x: null, y: null };
    if (fresh) reload();
    else show();
  };
  const controls = h("div", { class: "controls" },
    dropdown("x", choices, options.x, set("x", true)),
    segmented("x scale", scale, options.xLog ? "log" : "linear", set("xLog", false)),
    dropdown("y", choices, options.y, set("y", true)),
    segmented("y scale", scale, options.yLog ? "log" : "linear", set("yLog", false)),
    segmented("Lines", [["fit", "fit"], ["path", "along training"]], options.path ? "path" : "fit", (value) => {
      options.path = value === "path";
      show();
    }),
    labels,
    h("div", { class: "control export" },
      h("button", { type: "button", id: "save-csv", events: { click: saveCsv } }, "CSV")));
  fill(root, h("div", { class: "row between heading" }, h("h1", {}, "Scatter"), on), controls, plot.node);
  show();
}
