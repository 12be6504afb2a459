/* curve_legend.js: what is above and below the figure of curves: a button a curve, what the marks mean, the worst and
 * the newest in words. */
import { h, svg } from "./dom.js";
import { decays } from "./figure_layout.js";
import { averagesOf, branches, newestPoint, worstOf } from "./marks.js";
import { formatOf, metric as metricOf } from "./metrics.js";
import { hollow, marker, plainLook, strokeDash } from "./palette.js";
import { checkpointLink } from "./router.js";
import { fullName } from "./series.js";

function mark(series, { colour, dash }) {
  const stroke = { stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": strokeDash(series.bits, dash) };
  const fill = hollow(series.bits) ? "var(--surface)" : "currentColor";
  return svg("svg", { width: 30, height: 12, "aria-hidden": "true", class: `line c${colour}` },
    svg("line", { x1: 0, y1: 6, x2: 30, y2: 6, ...stroke }),
    svg("path", {
      d: marker(series.method), transform: "translate(15 6)", fill, stroke: "currentColor", "stroke-width": 1.5,
    }));
}

/* What the lines of the losses are measured on, where there is more than one evaluation. */
function lossKeys({ evaluations }) {
  if (evaluations.length < 2) return null;
  const look = (index) => {
    const { stroke, path } = plainLook(index), line = { stroke: "currentColor", "stroke-width": 1.5 };
    return svg("svg", { width: 30, height: 12, "aria-hidden": "true" },
      svg("line", { x1: 0, y1: 6, x2: 30, y2: 6, ...line, "stroke-dasharray": stroke }),
      svg("path", { d: path, transform: "translate(15 6)", fill: "currentColor" }));
  };
  return h("div", { class: "keys", id: "loss-evaluations" }, h("span", { class: "name" }, metricOf("loss_fp").axis),
    evaluations.map(({ words }, index) => h("span", { class: "look" }, look(index), `on ${words}`)));
}

/* A button a curve; pressed means shown. */
export function legend(model, view, lookOf, changed) {
  const entry = (series) => {
    const name = fullName(series);
    const pressed = String(!view.hidden.has(name));
    const button = h("button", { type: "button", class: "key", "aria-pressed": pressed },
      mark(series, lookOf(series)), series.text);
    button.addEventListener("click", () => {
      if (!view.hidden.delete(name)) view.hidden.add(name);
      button.setAttribute("aria-pressed", String(!view.hidden.has(name)));
      changed();
    });
    return button;
  };
  const keys = model.names.map((name) => {
    const own = model.curves.filter((series) => series.trajectory === name);
    return own.length ? h("div", { class: "keys" }, h("span", { class: "name" }, name), own.map(entry)) : null;
  });
  return h("div", { class: "legend", role: "group", "aria-label": "Curves shown" }, keys, lossKeys(model));
}

function value(metric, point) {
  return formatOf(metricOf(metric)).text(point.y);
}

/* "Worst: step-3662, ΔQL 5.08 % (gptq 3-bit g128). Newest: …", each with the way to its page. */
export function summary(model, shown) {
  const worst = worstOf(shown, model.metric), newest = newestOf(shown, worst?.series);
  const { label } = metricOf(model.metric), several = model.names.length > 1;
  const one = (id, words, { series, point }) => h("span", { id }, `${words}: `,
    h("a", { href: checkpointLink(point.checkpoint), class: "name" }, point.checkpoint_name ?? point.checkpoint),
    `, ${label} ${value(model.metric, point)} (${several ? fullName(series) : series.text}). `);
  if (!worst && !newest) return null;
  return h("p", { class: "summary" },
    worst ? one("worst", "Worst", worst) : null,
    newest && model.x !== "learning_rate" ? one("newest", "Newest", newest) : null);
}

/* {series, point} of the newest point; of several as new that of `preferred`. */
function newestOf(shown, preferred) {
  const last = shown.map((series) => ({ series, point: newestPoint(series) })).filter(({ point }) => point !== null);
  const newer = (next, found) => next.point.x > found.point.x
    || (next.point.x === found.point.x && next.series === preferred);
  return last.reduce((found, next) => (found === null || newer(next, found) ? next : found), null);
}

/* What the marks of the figure mean, of those that are in it. */
export function marksWords(model, shown, flagged) {
  const line = model.x !== "learning_rate";
  return [
    line && metricOf(model.metric).better ? "▾ worst of a curve" : null,
    line ? "○ newest" : null,
    decays(model).length ? "upright line: the last checkpoint before the learning rate falls" : null,
    line && branches(shown, model.parents, model.others).length
      ? "dotted: from the checkpoint that a branch continues"
      : null,
    averagesOf(shown, model.averages).length ? "★ average of checkpoints of the run" : null,
    flagged ? "red ring: marked by the integrity check" : null,
  ].filter(Boolean);
}

export function marksKey(model, shown, flagged) {
  if (!shown.some((series) => series.points.length)) return null;
  const keys = [...marksWords(model, shown, flagged), "press a point for its checkpoint"];
  return h("p", { class: "muted marks" }, keys.join(" · "));
}
