/* plot.js: Plotly, loaded when the first figure is needed, and what is asked of it: to draw, resize, recolour, save and
 * print. */
import { save } from "./dom.js";
import { scheme, isDark } from "./palette.js";
import { printFigure } from "./print.js";
import { script } from "./script.js";

export const NARROW = 640;
/* A double press is answered here: to Plotly the ranges of an address would be those to go back to. */
const CONFIG = {
  displayModeBar: false, displaylogo: false, responsive: false, scrollZoom: false,
  doubleClick: false, showTips: false,
};
const MISSING = "Plotly.js is not there; `make static` fetches it. The tables below hold the same numbers.";

export function plotly() {
  return script("plotly.js", "Plotly").catch(() => { throw new Error(MISSING); });
}

/* Keeps a figure drawn in `element`: figure({ink, dark, narrow}) -> {data, layout}, asked for again when the colour
 * scheme or the width class changes. `on`: {pick(customdata), zoom(ranges)} are told what the reader does to it. Gives
 * {redraw}; ends with `signal`. */
export function keepDrawn(element, figure, signal, on = {}) {
  let narrow = null, asked = false, listening = false, resets = 0, queue = Promise.resolve();
  const draw = async () => {
    const Plotly = await plotly();
    if (signal.aborted || !element.clientWidth) return; /* not in the page yet: the observer draws it when it is */
    narrow = element.clientWidth < NARROW;
    const dark = isDark();
    const { data, layout } = figure({ ink: scheme(dark), dark, narrow });
    if (layout.uirevision) layout.uirevision += `,${resets}`;
    await Plotly.react(element, data, layout, CONFIG);
    if (!listening) listen(element, on, reset);
    listening = true;
  };
  const redraw = () => {
    asked = true;
    queue = queue.then(draw, draw);
    return queue;
  };
  const reset = () => {
    resets++;
    on.zoom?.({ x: null, y: null });
    redraw().catch(() => {});
  };
  const observer = new ResizeObserver(() => {
    if (!asked || signal.aborted || !element.clientWidth) return;
    if (narrow === null || (element.clientWidth < NARROW) !== narrow) redraw().catch(() => {});
    else globalThis.Plotly.Plots.resize(element);
  });
  observer.observe(element);
  const recolour = () => { redraw().catch(() => {}); };
  const preference = matchMedia("(prefers-color-scheme: dark)");
  document.addEventListener("deltaq-theme", recolour, { signal });
  preference.addEventListener("change", recolour, { signal });
  signal.addEventListener("abort", () => {
    observer.disconnect();
    globalThis.Plotly?.purge(element);
  }, { once: true });
  return { redraw };
}

/* Presses on points, and ranges of the axes x and y that the reader chose: null for one that is as it was drawn, none
 * for one that was not touched. */
function listen(element, on, reset) {
  element.on("plotly_doubleclick", reset);
  element.on("plotly_click", ({ points }) => {
    const found = points.find(({ customdata }) => typeof customdata === "string");
    if (found) on.pick?.(found.customdata);
  });
  element.on("plotly_relayout", (change) => {
    const named = (axis) => Object.keys(change).some((name) => name.startsWith(`${axis}axis.`));
    if (!on.zoom || !(named("x") || named("y"))) return;
    const { xaxis, yaxis } = element._fullLayout, ends = ({ autorange, range }) => (autorange ? null : [...range]);
    on.zoom({ ...(named("x") ? { x: ends(xaxis) } : {}), ...(named("y") ? { y: ends(yaxis) } : {}) });
  });
}

/* The figure as SVG, `across` wide in `unit`. Plotly keeps lines as thin as they are on the screen however large the
 * picture is drawn; in a file they are a part of the picture. */
async function svgOf({ data, layout }, across, unit) {
  const Plotly = await plotly(), { width, height } = layout;
  const address = await Plotly.toImage({ data, layout, config: CONFIG }, { format: "svg", width, height });
  const text = decodeURIComponent(address.slice(address.indexOf(",") + 1)).replace(/vector-effect: ?[a-z-]+;?/g, "");
  const { documentElement: root } = new DOMParser().parseFromString(text, "image/svg+xml");
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  root.setAttribute("width", `${across}${unit}`);
  root.setAttribute("height", `${(across * height) / width}${unit}`);
  return new XMLSerializer().serializeToString(root);
}

/* A picture of an SVG of so many pixels. */
async function pngOf(svg, width, height) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image(), canvas = document.createElement("canvas");
    image.src = address;
    await image.decode();
    Object.assign(canvas, { width: Math.round(width), height: Math.round(height) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, failed) => {
      canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the browser made no PNG of this size"))));
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}

/* Saves {data, layout} as name.png or name.svg, or prints it; `paper` as paper.js has them. */
export async function saveFigure(figure, format, name, { inches, scale }) {
  const { width, height } = figure.layout;
  if (format === "png") {
    const svg = await svgOf(figure, scale * width, "px");
    save(`${name}.png`, await pngOf(svg, scale * width, scale * height));
    return;
  }
  const svg = await (inches ? svgOf(figure, inches, "in") : svgOf(figure, width, "px"));
  if (format === "pdf") await printFigure(svg, width, height);
  else save(`${name}.svg`, svg, "image/svg+xml");
}

/* A name that any file system takes. */
export function fileName(...parts) {
  return parts.join("-").replace(/[^\p{L}\p{N}._-]+/gu, "_").replace(/^[._]+/, "").slice(0, 100) || "deltaq";
}
