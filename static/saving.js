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

/* Columns are called as the axes are; y of several panels is of each panel's own. */
function heads({ xaxis, yaxis, yaxis2 }) {
  const title = (axis, letter) => unescaped(axis?.title?.text ?? letter);
  return ["series", title(xaxis, "x"), yaxis2 ? "y" : title(yaxis, "y"), "value"];
}

/* What the figure draws, a row a point; bands only repeat bounds of points. */
export function csvOf({ data, layout }) {
  const rows = [heads(layout)];
  for (const trace of data) {
    if (["band", "legend"].includes(trace.meta?.kind)) continue;
    const names = [trace.name ?? trace.meta?.kind ?? "", trace.meta?.label].filter(Boolean);
    const name = unescaped(names.join(" · "));
    if (trace.z) {
      trace.z.forEach((line, row) => line.forEach((value, column) => {
        rows.push([name, trace.x[column], trace.y[row], value]);
      }));
    } else {
      trace.x.forEach((x, place) => rows.push([name, x, trace.y[place], ""]));
    }
  }
  const columns = data.some((trace) => trace.z) ? 4 : 3;
  return rows.map((row) => row.slice(0, columns).map(quoted).join(",")).join("\r\n") + "\r\n";
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
