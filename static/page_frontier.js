/* page_frontier.js: what is paid for what: quantized loss, or another measure of damage, over bits per weight or size,
 * and which quantizations no other one beats. */
import { curvesOf, get, namedTrajectories, newestCheckpoint } from "./api.js";
import { dropdown, segmented } from "./controls.js";
import { fill, h } from "./dom.js";
import { frontierKey, frontierRows, lacking, quantizedFrontier, unbeaten, within } from "./frontier.js";
import { bytes, integer, isNumber, scientific } from "./format.js";
import { drawing } from "./look.js";
import { axisTitle, formatOf, heading, inOrder, metric as metricOf } from "./metrics.js";
import { failure, loading } from "./notice.js";
import { apart, colourIndex } from "./palette.js";
import { sentence } from "./paper.js";
import { leftOut, picker, selection } from "./picker.js";
import { provenance } from "./provenance.js";
import { amend, checkpointLink, link, runLink } from "./router.js";
import { dataTable, numberColumn } from "./table.js";
import { turns } from "./turns.js";
import { commonFields, readCommon, sorting } from "./view.js";

const MEASURES = ["loss_q", "delta", "kl"], MOST_ROWS = 200;
const MOST_POINTS = 10000; /* of all checkpoints, that one figure draws in a second or two */
const ALONE = "Nothing else that is shown is measured on this evaluation";
const ENDS = 4; /* the fewest points of a curve that the server gives: among them its last one */

function readView(search) {
  return {
    names: new Set(search.getAll("trajectory")), y: search.get("y") ?? "loss_q",
    size: search.get("x") === "size", all: search.get("which") === "all", ...readCommon(search),
  };
}

function address(view) {
  const { names, y, size, all } = view;
  return link("/frontier", {
    trajectory: [...names], y: y === "loss_q" ? null : y, x: size ? "size" : null, which: all ? "all" : null,
    ...commonFields(view),
  });
}

/* The series of the measure and of both sizes: of `points` points each, or whole. */
async function curves(names, y, signal, points = null) {
  if (!names.length) return [[], [], []];
  const read = (metric) => curvesOf({ trajectory: names, metric, x: "step", points }, signal);
  const found = await Promise.all([y, "bits_per_weight", "model_bits_per_weight"].map(read));
  return found.map(({ series }) => series);
}

/* The newest checkpoints need only the ends of the curves; of trajectories of which these have no bits, all of them. */
async function readNewest(names, y, signal) {
  const ends = await curves(names, y, signal, ENDS), again = lacking(ends[0], ends[1]);
  const whole = await curves(again, y, signal);
  return ends.map((list, place) => [...list.filter((one) => !again.includes(one.trajectory)), ...whole[place]]);
}

/* All checkpoints of as many of the names, from the first one on, as have no more points than a figure draws. */
async function readAll(names, chosen, y, signal) {
  const { series } = await curvesOf({ trajectory: names, metric: y, x: "step", points: ENDS }, signal);
  const fitting = chosen ? names : within(names, series, MOST_POINTS);
  return { found: await curves(fitting, y, signal), fitting };
}

/* {rows, series, names}: `names` are those that are read, which of trajectories that nobody chose may be fewer. */
async function read(names, { y, all, names: chosen }, signal) {
  const newest = Promise.all(names.map((name) => newestCheckpoint(name, signal)));
  newest.catch(() => {}); /* awaited below, unless the curves are refused before */
  const { found, fitting } = all ? await readAll(names, chosen.size > 0, y, signal)
    : { found: await readNewest(names, y, signal), fitting: names };
  const parameters = new Map((await newest).filter(Boolean).map((one) => [one.trajectory, one.parameters]));
  return { rows: frontierRows(...found, parameters), series: found[0], names: fitting };
}

/* That not all are shown, and why. */
function fewer(names) {
  const words = names === 1 ? "the newest one is" : `the newest ${integer(names)} are`;
  return h("p", {}, `All checkpoints of all trajectories are more than ${integer(MOST_POINTS)} points: ${words} shown; `
    + "the buttons choose others.");
}

/* What stands below the figure in a file. */
async function fileCaption(series, shown, view, signal) {
  const runs = new Set(shown.map(({ run }) => run)), has = ({ points }) => points.some(({ run }) => runs.has(run));
  const said = await provenance(series.filter(has), signal);
  const dots = `Each marker: ${metricOf(view.y).label} of ${view.all ? "a" : "a trajectory's newest"} checkpoint.`;
  return `${dots} ${said} ${sentence(frontierKey(shown))}`;
}

function columnsOf(view) {
  const { number, interval: between } = formatOf(metricOf(view.y));
  const damage = ({ run, y, low, high }) => {
    const text = number(y);
    return [
      run ? h("a", { href: runLink(run), "aria-label": `${text}, to the run` }, text) : text,
      isNumber(low) && isNumber(high) ? h("span", { class: "interval under" }, between(low, high)) : null,
    ];
  };
  return [
    {
      label: "Checkpoint", value: (row) => row.name,
      cell: (row) => h("a", { href: checkpointLink(row.checkpoint), class: "name" }, `${row.trajectory}/${row.name}`),
    },
    { label: "Method", value: (row) => row.label, cell: (row) => row.label },
    numberColumn("Bits per weight", (row) => row.bits, (value) => scientific(value, 4)),
    numberColumn("Size", (row) => row.size, bytes),
    { label: heading(view.y), numeric: true, value: (row) => row.y, cell: damage },
    {
      label: "Unbeaten", value: (row) => (row.best === null ? null : Number(row.best)),
      cell: ({ best }) => (best ? h("span", { class: "good" }, "✓ yes")
        : h("span", { class: "muted", title: best === null ? ALONE : null }, best === null ? "–" : "no")),
    },
    { label: "Measured on", value: (row) => row.evaluation, cell: (row) => row.evaluation },
  ];
}

function nothing() {
  return h("p", {}, "These trajectories have no measurement of a quantized checkpoint with a step; "
    + "a sweep over methods and bits fills this page.");
}

export async function showFrontier({ root, query: search, signal }) {
  document.title = "Frontier · deltaq";
  fill(root, h("h1", {}, "Frontier"), loading("quantizations"));
  const view = readView(search), [{ items: trajectories }, { metrics }] = await Promise.all([
    namedTrajectories(signal), get("/v1/curves/metrics", signal),
  ]);
  const usual = colourIndex(trajectories), picks = h("div"), table = h("div");
  const note = h("div", { class: "notice remark", role: "status" });
  const chosen = () => selection(trajectories, view.names);
  const turn = turns();
  let colours = usual, rows = [], series = [], cut = null; /* `cut`: the names that are read, where they are fewer */
  const shown = () => unbeaten(view.all ? rows : rows.filter((row) => row.newest), view);
  const figure = ({ ink, narrow, paper }) => quantizedFrontier(shown(), {
    ...view, ink, narrow, paper, colour: (name) => ink.colour(colours.get(name)), title: axisTitle(view.y),
  });
  const words = "damage over bits per weight or size; the table below has the values";
  const plot = drawing("quantized-frontier-plot", words, figure, signal, {
    pick: (id) => { location.hash = checkpointLink(id); },
    zoom: (ranges) => { view.zoom = { ...view.zoom, ...ranges }; amend(address(view)); },
    caption: () => fileCaption(series, shown(), view, signal),
  });
  plot.present(false); /* until there is something to draw, which a refusal never brings */
  const key = h("p", { class: "muted marks" });
  const arrange = (order) => { view.order = order; amend(address(view)); };
  plot.node.prepend(picks, note);
  plot.node.append(key);

  const show = () => {
    amend(address(view));
    const found = shown();
    const remarks = [
      cut ? fewer(cut.length) : leftOut(chosen()), found.length ? null : nothing(),
    ].filter(Boolean);
    note.hidden = remarks.length === 0;
    fill(note, remarks);
    const pressed = cut ? { shown: cut, left: [] } : chosen();
    colours = apart(usual, pressed.shown);
    fill(picks, picker(trajectories, pressed, colours, (names) => { view.names = names; refresh(); }));
    fill(table, found.length ? dataTable({
      caption: "Quantizations", className: "boards", columns: columnsOf(view), rows: found,
      sortable: true, most: MOST_ROWS, ...sorting(columnsOf(view), view.order, arrange),
    }) : null);
    fill(key, frontierKey(found).join(" · "));
    plot.present(found.length > 0);
    plot.redraw();
  };
  const refresh = async () => {
    const current = turn(), names = chosen().shown;
    try {
      const found = names.length ? await read(names, view, signal) : { rows: [], series: [], names };
      if (!current()) return;
      ({ rows, series } = found);
      cut = found.names.length < names.length ? found.names : null;
      show();
    } catch (error) { if (!signal.aborted) fill(note, failure(error)).hidden = false; }
  };
  const set = (field, fresh) => (value) => {
    view[field] = value;
    view.zoom = { x: null, y: null };
    if (fresh) refresh();
    else show();
  };
  const measures = inOrder([view.y, ...MEASURES.filter((name) => metrics.includes(name))])
    .map((name) => [name, metricOf(name).label]);
  const sizes = [["bits", "bits per weight"], ["size", "size"]], ages = [["newest", "newest"], ["all", "all"]];
  fill(root, h("div", { class: "row between heading" }, h("h1", {}, "Frontier")),
    h("div", { class: "controls" },
      dropdown("y", measures, view.y, set("y", true)),
      segmented("x", sizes, view.size ? "size" : "bits", (value) => set("size")(value === "size")),
      segmented("Checkpoints", ages, view.all ? "all" : "newest", (value) => set("all", true)(value === "all"))),
    plot.node, h("h2", {}, "Quantizations"), table,
    h("p", { class: "muted caption" },
      "Unbeaten: no other one shown, measured on the same evaluation, is as small and loses less; "
      + "– where no other one is measured on it. "
      + "Size is that of the whole checkpoint where its runs tell it, else all parameters at these bits."));
  await refresh();
}
