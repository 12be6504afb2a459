/* plot.js: Plotly, loaded when the first figure is needed, and what is asked of it: draw, resize, recolour, save. */
import { scheme, isDark } from "./palette.js";
import { script } from "./script.js";

export const NARROW = 640;
const CONFIG = {
  displayModeBar: false, displaylogo: false, responsive: false, scrollZoom: false,
  doubleClick: "reset", showTips: false,
};
const MISSING = "Plotly.js is not there; `make static` fetches it. The tables below hold the same numbers.";

export function plotly() {
  return script("/plotly.js", "Plotly").catch(() => { throw new Error(MISSING); });
}

/* Keeps a figure drawn in `element`: figure({ink, dark, narrow}) -> {data, layout}, asked for again when the colour
 * scheme or the width class changes. `on`: {pick(customdata), zoom(ranges)} are told what the reader does to it. Gives
 * {redraw}; ends with `signal`. */
export function keepDrawn(element, figure, signal, on = {}) {
  let narrow = null, asked = false, listening = false, queue = Promise.resolve();
  const draw = async () => {
    const Plotly = await plotly();
    if (signal.aborted || !element.clientWidth) return; /* not in the page yet: the observer draws it when it is */
    narrow = element.clientWidth < NARROW;
    const dark = isDark();
    const { data, layout } = figure({ ink: scheme(dark), dark, narrow });
    await Plotly.react(element, data, layout, CONFIG);
    if (!listening) listen(element, on);
    listening = true;
  };
  const redraw = () => {
    asked = true;
    queue = queue.then(draw, draw);
    return queue;
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

/* Presses on points, and ranges of the axes x and y that the reader chose: null for one that is as it was drawn. */
function listen(element, on) {
  element.on("plotly_click", ({ points }) => {
    const found = points.find(({ customdata }) => typeof customdata === "string");
    if (found) on.pick?.(found.customdata);
  });
  element.on("plotly_relayout", (change) => {
    if (!on.zoom || !Object.keys(change).some((name) => /^[xy]axis\.(range|autorange)/.test(name))) return;
    const { xaxis, yaxis } = element._fullLayout;
    on.zoom({ x: xaxis.autorange ? null : [...xaxis.range], y: yaxis.autorange ? null : [...yaxis.range] });
  });
}

/* Saves {data, layout} as name.png or name.svg. */
export async function saveFigure(figure, format, name) {
  const Plotly = await plotly();
  const { width, height } = figure.layout;
  const asked = { format, width, height, scale: format === "png" ? 2 : 1, filename: name };
  await Plotly.downloadImage({ ...figure, config: CONFIG }, asked);
}

/* A name that any file system takes. */
export function fileName(...parts) {
  return parts.join("-").replace(/[^\p{L}\p{N}._-]+/gu, "_").replace(/^[._]+/, "").slice(0, 100) || "deltaq";
}
