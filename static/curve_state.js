/* curve_state.js: the view of the curve page as its address has it: measure, axes, hidden curves, zoom, order of the
 * table. */
import { isMetric } from "./metrics.js";
import { curvesLink } from "./router.js";

const X = ["tokens", "step", "learning_rate"];

function range(text) {
  const ends = (text ?? "").split(",").map(Number);
  return ends.length === 2 && ends.every(Number.isFinite) && text !== "," ? ends : null;
}

/* A number with as many digits as a pixel needs. */
function short(value) {
  return String(Number(value.toPrecision(7)));
}

/* `tokens`: whether checkpoints have token counts. */
export function readView(search, tokens) {
  const asked = search.get("x"), metric = search.get("metric"), sort = search.get("sort");
  return {
    x: X.includes(asked) ? asked : tokens ? "tokens" : "step",
    metric: isMetric(metric) ? metric : "delta",
    xLog: search.get("xscale") === "log",
    yLog: search.get("yscale") === "log",
    hidden: new Set(search.getAll("hide")),
    zoom: { x: range(search.get("zoomx")), y: range(search.get("zoomy")) },
    order: sort ? { label: sort.replace(/^-/, ""), descending: sort.startsWith("-") } : null,
  };
}

/* `names` may be others than the page's: then what belongs to these curves stays behind. */
export function addressOf(names, view, alone = false) {
  const { x, metric, xLog, yLog, hidden, zoom, order } = view;
  const text = (ends) => (ends ? ends.map(short).join(",") : null);
  const own = alone ? {} : {
    hide: [...hidden].sort(),
    zoomx: text(zoom.x),
    zoomy: text(zoom.y),
    sort: order ? `${order.descending ? "-" : ""}${order.label}` : null,
  };
  return curvesLink(names, {
    x,
    metric: metric === "delta" ? null : metric,
    xscale: xLog ? "log" : null,
    yscale: yLog ? "log" : null,
    ...own,
  });
}
