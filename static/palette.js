/* palette.js: one colour a trajectory, one dash a bit width, one marker a method, the same on every page and in every
 * export. */
import { quantizers } from "./metrics.js";

const LIGHT = ["#2457a6", "#b8450f", "#1f7a4d", "#7a3ea1", "#0f7288", "#b0235f", "#6b6a12", "#555b63"];
const DARK = ["#7fb0ff", "#ff9d6b", "#6fd39b", "#cf9df2", "#5fcbe0", "#ff8ab5", "#cfcb5a", "#b4bcc5"];
const DASHES = { 2: "dot", 3: "dash", 4: "solid", 8: "dashdot" };
const OTHER_DASHES = ["9px,2px,2px,2px", "14px,4px", "2px,2px,2px,7px", "14px,3px,2px,3px,2px,3px", "6px,2px"];
/* Plotly's symbol for the quantizer of each place in the server's list, and its outline about the origin, for legends:
 * as Plotly draws it, but small. The star is that of averages of checkpoints. */
const MARKERS = {
  square: "M-3 -3H3V3H-3Z",
  circle: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z",
  "triangle-up": "M0 -4L4 3H-4Z",
  "triangle-down": "M0 4L4 -3H-4Z",
  diamond: "M0 -4L4 0L0 4L-4 0Z",
  cross: "M-1.3 -4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4V-1.3H-1.3Z",
  x: "M-4 -2.3L-2.3 -4L0 -1.7L2.3 -4L4 -2.3L1.7 0L4 2.3L2.3 4L0 1.7L-2.3 4L-4 2.3L-1.7 0Z",
  bowtie: "M-3.5 -3.5V3.5L3.5 -3.5V3.5Z",
  hexagon: "M-2 -3.5H2L4 0L2 3.5H-2L-4 0Z",
  pentagon: "M0 -4L3.8 -1.2L2.4 3.2H-2.4L-3.8 -1.2Z",
  hourglass: "M-3.5 -3.5H3.5L-3.5 3.5H3.5Z",
  "triangle-left": "M-4 0L3 -4V4Z",
  "triangle-right": "M4 0L-3 -4V4Z",
  "diamond-tall": "M0 -4.5L2.3 0L0 4.5L-2.3 0Z",
  "diamond-wide": "M-4.5 0L0 -2.3L4.5 0L0 2.3Z",
};
const SYMBOLS = Object.keys(MARKERS);

const INK = {
  light: {
    paper: "#ffffff", text: "#1c2024", muted: "#59616a", bad: "#a8281e", grid: "#e8eaed", line: "#c4c9cf",
    heat: [[0, "#f1f5fb"], [0.5, "#7ea3d8"], [1, "#16386f"]],
    signed: [[0, "#1f7a4d"], [0.5, "#f4f5f6"], [1, "#b8450f"]],
  },
  dark: {
    paper: "#1a1e22", text: "#e6e8ea", muted: "#a2abb5", bad: "#ff9a8d", grid: "#2a3036", line: "#444c55",
    heat: [[0, "#1f2a3a"], [0.5, "#4878bb"], [1, "#c4dcff"]],
    signed: [[0, "#6fd39b"], [0.5, "#262b31"], [1, "#ff9d6b"]],
  },
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/* Names in the order of their making (the API lists the newest first) -> index of each one's colour. */
export function colourIndex(trajectories) {
  const made = [...trajectories].sort((a, b) => (
    a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : a.name < b.name ? -1 : 1));
  return new Map(made.map((trajectory, index) => [trajectory.name, index % LIGHT.length]));
}

/* The same, with the colours of the shown trajectories apart: of several with one usual colour the first keeps it, and
 * each other one takes a colour that none of them has, while there are any. */
export function apart(colours, shown) {
  const found = new Map(colours), kept = new Map();
  for (const name of shown) if (colours.has(name) && !kept.has(colours.get(name))) kept.set(colours.get(name), name);
  const free = LIGHT.map((_, index) => index).filter((index) => !kept.has(index));
  for (const name of shown) if (kept.get(colours.get(name)) !== name && free.length) found.set(name, free.shift());
  return found;
}

export function scheme(dark) {
  const colours = dark ? DARK : LIGHT;
  return { ...INK[dark ? "dark" : "light"], dark, colour: (index) => colours[(index ?? 7) % colours.length] };
}

export const COLOURS = LIGHT.length;

/* `other`: 0, or the place of a curve among those of one colour that neither width nor method tells apart. */
export function dash(bits, other = 0) {
  return other ? OTHER_DASHES[(other - 1) % OTHER_DASHES.length] : DASHES[bits] ?? "solid";
}

const DASH_WORDS = { dot: "dotted", dash: "dashed", solid: "solid", dashdot: "dash-dotted" };

/* "2-bit dotted, 3-bit dashed": what dashes mean, of those widths that are there. */
export function dashWords(widths) {
  const known = [...new Set(widths)].filter((bits) => typeof bits === "number").sort((a, b) => a - b);
  return known.map((bits) => `${bits}-bit ${DASH_WORDS[dash(bits)]}`).join(", ");
}

/* What filled and hollow markers mean, where there are hollow ones; null: there are none. */
export function hollowWords(widths) {
  return [...widths].some((bits) => hollow(bits)) ? "hollow markers: fewer than 4 bits" : null;
}

/* Below four bits markers are hollow, so that dash and marker both tell. */
export function hollow(bits) {
  return bits !== null && bits < 4;
}

/* A circle too where nothing was quantized. */
export function symbol(method) {
  return SYMBOLS[quantizers().indexOf(method) % SYMBOLS.length] ?? "circle";
}

export function marker(method) {
  return MARKERS[symbol(method)];
}

/* How lines of one colour differ where neither width nor method does: as the losses on several evaluations do. `stroke`
 * and `path` are the same for SVG. */
const PLAIN_LOOKS = [["solid", "circle", null], ["dot", "square", "2 3"], ["dash", "diamond", "6 4"],
  ["dashdot", "x", "7 3 2 3"]];

export function plainLook(index) {
  const [line, shape, stroke] = PLAIN_LOOKS[index % PLAIN_LOOKS.length];
  return { dash: line, symbol: shape, stroke, path: MARKERS[shape] };
}

/* "#2457a6", 0.15 -> "rgba(36, 87, 166, 0.15)" */
export function translucent(colour, alpha) {
  const part = (start) => parseInt(colour.slice(start, start + 2), 16);
  return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${alpha})`;
}

/* Lengths of an SVG stroke-dasharray that look like Plotly's dash. */
export function strokeDash(bits, other = 0) {
  const found = dash(bits, other);
  if (found.includes("px")) return found.replace(/px/g, "").replace(/,/g, " ");
  return { dot: "2 3", dash: "6 4", dashdot: "7 3 2 3" }[found] ?? null;
}
