/* look.js: what the figures of runs have in common: font, axes, paper; and a figure in a section with its heading. */
import { fill, h } from "./dom.js";
import { isNumber } from "./format.js";
import { failure } from "./notice.js";
import { keepDrawn } from "./plot.js";
import { saveButtons } from "./saving.js";

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/* Plotly reads texts as a small markup language; names are not markup. */
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/* What plain() was given. */
export function unescaped(text) {
  return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
}

export function axisOf(ink, title = null) {
  const axis = {
    tickfont: { color: ink.muted, size: 11 }, linecolor: ink.line, gridcolor: ink.grid, tickcolor: ink.line,
    zeroline: false, automargin: true, exponentformat: "power",
  };
  return title ? { ...axis, title: { text: title, standoff: 6, font: { color: ink.text, size: 12 } } } : axis;
}

/* Whiskers of points {y, low, high}, for a trace; none where no point has an interval. `scale`: of drawn values. */
export function whiskersOf(points, scale, color) {
  if (!points.some(({ low, high }) => isNumber(low) && isNumber(high))) return {};
  const reach = (end) => points.map((point) => (isNumber(point[end]) ? scale * Math.abs(point[end] - point.y) : 0));
  const shape = { type: "data", symmetric: false, color, thickness: 1, width: 2 };
  return { error_y: { ...shape, array: reach("high"), arrayminus: reach("low") } };
}

export function paperOf(ink, height, left = 56) {
  return {
    autosize: true, height, margin: { l: left, r: 10, t: 8, b: 44 }, paper_bgcolor: ink.paper, plot_bgcolor: ink.paper,
    showlegend: false, dragmode: false, hovermode: "closest", font: { family: FONT, size: 11, color: ink.text },
    hoverlabel: hoverLabel(ink),
  };
}

/* The box that hovers beside a point. */
export function hoverLabel(ink) {
  return {
    bgcolor: ink.paper, bordercolor: ink.line, font: { family: FONT, color: ink.text, size: 12 }, align: "left",
  };
}

export function colourBar(ink, title) {
  return {
    title: { text: title, side: "top", font: { color: ink.text, size: 11 } },
    thickness: 10, outlinewidth: 0, tickfont: { color: ink.muted, size: 11 }, len: 1,
  };
}

/* A legend above the plot. */
export function legendOf(ink) {
  return {
    orientation: "h", x: 0, y: 1.02, yanchor: "bottom",
    font: { size: 12, color: ink.text }, bgcolor: "rgba(0, 0, 0, 0)",
  };
}

/* An element with id `id` in which figure(look, width) is kept drawn: {node, redraw, present}. `words` say what it is
 * for those who do not see it; `on` as keepDrawn takes it. Below it are buttons that save it; `on.caption()` is what
 * then stands below it. present(false) hides both, where there is nothing to draw. */
export function drawing(id, words, figure, signal, on = {}) {
  const plot = h("div", { class: "plot", id, role: "img", "aria-label": words });
  const drawn = keepDrawn(plot, (look) => figure(look, plot.clientWidth), signal, on);
  const redraw = () => drawn.redraw().catch((error) => { if (!signal.aborted) fill(plot, failure(error)); });
  queueMicrotask(redraw);
  const saving = saveButtons(id, figure, on.caption);
  const present = (is) => { plot.hidden = saving.hidden = !is; };
  return { node: h("div", { class: "panel" }, plot, saving), redraw, present };
}
