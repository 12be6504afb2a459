/* paper.js: figures as files: as wide as a column of a paper, both columns or the screen, with the fonts that such a
 * width needs, the legend below the axis, and below that a line that says what was measured on what. Pure but for the
 * function that measures texts. */
import { isNumber } from "./format.js";
import { plain, unescaped } from "./look.js";

const INCH = 96; /* CSS pixels */

/* `text`: fonts as a share of those on the screen: on paper the 12 pixels of an axis are 8 points. `marks`: sizes of
 * markers and widths of lines likewise; `height`: of the plots, which are at most `tallest` times as high as the figure
 * is wide. `scale`: pixels of a PNG for each of the layout; on paper 600 an inch. */
export const PAPERS = {
  screen: { label: "screen", width: 1100, inches: null, text: 1, marks: 1, height: 1, tallest: 3, scale: 2 },
  single: {
    label: "3.5 in (column)", width: 3.5 * INCH, inches: 3.5, text: 8 / 9, marks: 0.7, height: 0.7, tallest: 1.4,
    scale: 600 / INCH,
  },
  double: {
    label: "7.2 in (page)", width: 7.2 * INCH, inches: 7.2, text: 8 / 9, marks: 0.8, height: 0.75, tallest: 0.9,
    scale: 600 / INCH,
  },
};

const LINE = 1.3; /* Plotly's, in heights of the font */
const AXIS = 48; /* pixels below the plot for ticks and title of the x axis, on the screen */
const SYMBOL = 46; /* pixels that Plotly takes for the symbol of a legend's entry and what is around it */
const EDGE = 6;

function times(share) {
  return (value) => (Array.isArray(value) ? value.map((one) => one * share) : isNumber(value) ? value * share : value);
}

/* All fonts below `value`, a share of their size. */
function fonts(value, share, key = "") {
  if (Array.isArray(value)) return value.map((one) => fonts(one, share, key));
  if (value === null || typeof value !== "object") return value;
  const out = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, fonts(inner, share, name)]));
  return /font$/i.test(key) && isNumber(out.size) ? { ...out, size: times(share)(out.size) } : out;
}

function lines(line, share) {
  return line ? { ...line, ...(isNumber(line.width) ? { width: line.width * share } : {}) } : line;
}

/* Groups stand apart in a legend, each in a row of its own. */
function ungrouped({ legendgroup, ...trace }) {
  return trace;
}

function smaller(trace, { text, marks }) {
  const out = { ...trace };
  if (out.line) out.line = lines(out.line, marks);
  if (out.marker) {
    const { size, line } = out.marker;
    out.marker = { ...out.marker, ...(size === undefined ? {} : { size: times(marks)(size) }) };
    if (line) out.marker.line = lines(line, marks);
  }
  for (const name of ["textfont", "colorbar"]) if (out[name]) out[name] = fonts(out[name], text, name);
  return out;
}

/* "Hollow markers: fewer than 4 bits; lines: a fit." */
export function sentence(parts) {
  const text = parts.join("; ");
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}

/* The word in parts that are at most so wide: names may be longer than a line. */
function broken(word, width, size, measure) {
  if (measure(word, size) <= width) return [word];
  const out = [""];
  for (const letter of word) {
    if (out.at(-1) && measure(out.at(-1) + letter, size) > width) out.push("");
    out[out.length - 1] += letter;
  }
  return out;
}

/* Lines of words that are at most so wide. */
export function wrapped(words, width, size, measure) {
  const out = [];
  for (const word of words.split(" ").flatMap((one) => broken(one, width, size, measure))) {
    const longer = out.length ? `${out.at(-1)} ${word}` : word;
    if (out.length && measure(longer, size) <= width) out[out.length - 1] = longer;
    else out.push(word);
  }
  return out;
}

/* As Plotly lays a flat legend out: in one row where all fit, else in columns as wide as the widest. */
function legendRows(data, width, size, measure) {
  const names = data.filter((trace) => trace.showlegend !== false && trace.name).map(({ name }) => name);
  if (!names.length) return 0;
  const wide = names.map((name) => measure(unescaped(name), size) + SYMBOL);
  if (wide.reduce((sum, one) => sum + one, 0) <= width) return 1;
  return Math.ceil(names.length / Math.max(1, Math.floor(width / Math.max(...wide))));
}

/* {data, layout} for a file. `caption`: what stands below; `measure(text, size)`: its width in pixels. */
export function fitted({ data, layout: given }, name, { caption = "", measure }) {
  const paper = PAPERS[name], { width } = paper, share = paper.text;
  const layout = fonts(given, share), size = 12 * share, small = 11 * share;
  const { margin: { l: left = 56, r: right = 10, t: top = 26, b: bottom = AXIS } = {}, height } = given;
  const inner = Math.min(paper.tallest * width, Math.max(150, (height - top - bottom) * paper.height));
  const axis = Math.max(AXIS, bottom) * share;
  const rows = layout.showlegend ? legendRows(data, width - left - right - EDGE, size, measure) : 0;
  const legend = rows ? rows * (LINE * size + 6) + 2 * EDGE : 0;
  const said = caption ? wrapped(caption, width - 2 * EDGE, small, measure) : [];
  const words = said.length ? said.length * LINE * small + 2 * EDGE : 0;
  const above = Math.min(top, 26), below = axis + legend + words, whole = above + inner + below;
  Object.assign(layout, {
    autosize: false, width, height: whole, margin: { l: left * share, r: right, t: above, b: below },
  });
  if (rows) {
    const old = layout.legend ?? {};
    layout.legend = { ...old, orientation: "h", x: 0, xanchor: "left", y: -axis / inner, yanchor: "top" };
  }
  if (said.length) {
    layout.title = {
      text: said.map(plain).join("<br>"), x: EDGE / width, xref: "container", xanchor: "left",
      y: (words - EDGE) / whole, yref: "container", yanchor: "top",
      font: { size: small, color: given.font?.color },
    };
  }
  return { data: data.map((trace) => smaller(ungrouped(trace), paper)), layout };
}
