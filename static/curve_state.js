/* curve_state.js: the view of the curve page as its address has it: measure, axes, hidden curves, zoom, order of the
 * table. */
import { isMetric } from "./metrics.js";
import { curvesLink } from "./router.js";
import { commonFields, readCommon } from "./view.js";

const X = ["tokens", "step", "share", "learning_rate"];

/* `tokens`: whether checkpoints have token counts. */
export function readView(search, tokens) {
  const asked = search.get("x"), metric = search.get("metric");
  return {
    x: X.includes(asked) ? asked : tokens ? "tokens" : "step",
    metric: isMetric(metric) ? metric : "delta",
    xLog: search.get("xscale") === "log",
    yLog: search.get("yscale") === "log",
    hidden: new Set(search.getAll("hide")),
    ...readCommon(search),
  };
}

/* `names` may be others than the page's: then what belongs to these curves stays behind. */
export function addressOf(names, view, alone = false) {
  const { x, metric, xLog, yLog, hidden } = view;
  const own = alone ? {} : { hide: [...hidden].sort(), ...commonFields(view) };
  return curvesLink(names, {
    x,
    metric: metric === "delta" ? null : metric,
    xscale: xLog ? "log" : null,
    yscale: yLog ? "log" : null,
    ...own,
  });
}
