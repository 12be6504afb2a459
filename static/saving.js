/* saving.js: the buttons that save a figure: as a picture as wide as a paper's column, both columns or the screen, as
 * PDF by way of the browser's print dialog, or its numbers as CSV. */
import { fill, h, save } from "./dom.js";
import { FONT, unescaped } from "./look.js";
import { failure } from "./notice.js";
import { isDark, scheme } from "./palette.js";
import { PAPERS, fitted } from "./paper.js";
import { NARROW, fileName, saveFigure } from "./plot.js";

const KEPT = "deltaq-width";
const PDF = "Opens the print dialog with the figure alone on a page of its size: choose “Save as PDF” there";

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/* Titles of an axis' own words for places on it, as bars have them. */
function placesOf(axis) {
  const texts = axis?.ticktext ? axis.tickvals.map((place, index) => [place, unescaped(axis.ticktext[index])]) : [];
  return new Map(texts);
}

/* "y2", as traces name their axes, -> layout.yaxis2 */
function axisIn(layout, name) {
  return layout[`${name[0]}axis${name.slice(1)}`];
}

/* [low, high] of a point as its bars show it, or as `meta.bounds` tells of a band; [] without an interval. */
function boundsOf({ error_x: across, error_y: upright, x, y, meta }, place) {
  if (meta?.bounds) return meta.bounds[place] ?? [];
  const bars = across ?? upright, value = (across ? x : y)[place];
  if (!bars || !(bars.array[place] || bars.arrayminus[place])) return [];
  return [value - bars.arrayminus[place], value + bars.array[place]];
}

/* The columns of all figures; each file has those that it fills. Axes give their titles to `x` and `y`. */
const COLUMNS = ["series", "x", "y", "value", "low", "high", "point"];

/* Names of the trace and, where a figure has several panels, of its panel. */
function seriesIn(trace, layout) {
  const panel = layout.yaxis2 ? unescaped(axisIn(layout, trace.yaxis ?? "y")?.title?.text ?? "") : "";
  const names = [trace.name ?? trace.meta?.kind ?? "", trace.meta?.label].filter(Boolean).map(unescaped);
  return [...new Set([...names, panel])].filter(Boolean).join(" · ");
}

function rowsOf(trace, layout) {
  const series = seriesIn(trace, layout);
  if (trace.z) {
    return trace.z.flatMap((line, row) => line.map((value, column) => (
      { series, x: trace.x[column], y: trace.y[row], value })));
  }
  const [across, upright] = ["x", "y"].map((letter) => placesOf(axisIn(layout, trace[`${letter}axis`] ?? letter)));
  return trace.x.map((x, place) => {
    const [low = null, high = null] = boundsOf(trace, place), y = trace.y[place];
    const point = trace.meta?.names?.[place] ?? null;
    return { series, x: across.get(x) ?? x, y: upright.get(y) ?? y, value: null, low, high, point };
  });
}

/* What the figure draws, a row a point; bands only repeat bounds of points. y of several panels is of each panel's
 * own. `meta` of a trace: {names: what each point is of, bounds: [low, high] of each}. */
export function csvOf({ data, layout }) {
  const drawn = data.filter((trace) => !["band", "legend"].includes(trace.meta?.kind));
  const rows = drawn.flatMap((trace) => rowsOf(trace, layout));
  const always = ["series", "x", "y"], filled = (row, column) => row[column] !== null && row[column] !== undefined;
  const columns = COLUMNS.filter((column) => always.includes(column) || rows.some((row) => filled(row, column)));
  const title = (axis, letter) => unescaped(axis?.title?.text ?? letter);
  const heads = { x: title(layout.xaxis, "x"), y: layout.yaxis2 ? "y" : title(layout.yaxis, "y") };
  const cells = rows.map((row) => columns.map((column) => row[column]));
  const lines = [columns.map((column) => heads[column] ?? column), ...cells];
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

/* The width that was chosen last, in this browser. */
function chosenWidth() {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept in PAPERS ? kept : "screen";
  } catch { return "screen"; }
}

function keepWidth(name) {
  try { localStorage.setItem(KEPT, name); } catch { /* storage forbidden: the choice holds for this figure */ }
}

let context = null;

/* Width of a text in pixels. */
function measure(text, size) {
  context ??= document.createElement("canvas").getContext("2d");
  context.font = `${size}px ${FONT}`;
  return context.measureText(text).width;
}

/* How a figure is drawn for a file: on paper always dark on white. */
function lookFor(paper) {
  const dark = paper === "screen" && isDark();
  return { ink: scheme(dark), dark, narrow: PAPERS[paper].width < NARROW, paper };
}

/* A choice of the width and a button a format. `picture(look)`: the figure, or a promise of it; `caption()`: what
 * stands below it in a file, or a promise of that; `numbers()`: saves the CSV. Ids of controls are `id`-png and so
 * on. */
export function saveGroup({ id, name, picture, caption = () => "", numbers }) {
  let paper = chosenWidth();
  const wrong = h("div");
  const act = (work) => async () => {
    try {
      await work();
      fill(wrong);
    } catch (error) { if (error.name !== "AbortError") fill(wrong, failure(error)); }
  };
  const made = async (format) => {
    const figure = fitted(await picture(lookFor(paper)), paper, { caption: await caption(), measure });
    await saveFigure(figure, format, name(), PAPERS[paper]);
  };
  const widths = h("select", { id: `${id}-width`, "aria-label": "Width of the saved picture" },
    Object.entries(PAPERS).map(([value, { label }]) => h("option", { value }, label)));
  widths.value = paper;
  widths.addEventListener("change", () => keepWidth(paper = widths.value));
  const words = id.replace(/^save$/, "figure").replace(/-plot$/, "").replace(/-/g, " ");
  const button = (format, work, title = null) => h("button", {
    type: "button", class: "small", id: `${id}-${format}`, title, events: { click: act(work) },
    "aria-label": `Save ${words} as ${format.toUpperCase()}`,
  }, format.toUpperCase());
  return h("div", { class: "saving" },
    h("span", { class: "muted", "aria-hidden": "true" }, "Save"), widths,
    h("div", { class: "segmented", role: "group", "aria-label": "Save" },
      ["png", "svg"].map((format) => button(format, () => made(format))),
      button("pdf", () => made("pdf"), PDF), button("csv", numbers)),
    wrong);
}

/* `figure(look, width)` and `caption()` as drawing() takes them; `id` names files and buttons. */
export function saveButtons(id, figure, caption) {
  const name = fileName(id.replace(/-plot$/, ""));
  const picture = (look) => figure(look, PAPERS[look.paper].width);
  const numbers = () => save(`${name}.csv`, csvOf(picture(lookFor("screen"))), "text/csv");
  return saveGroup({ id, name: () => name, picture, caption, numbers });
}
