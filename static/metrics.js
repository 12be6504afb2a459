/* metrics.js: what the server says of the numbers that runs measure (GET /v1/metrics): how each is called, its unit,
 * how it is shown. A new metric is a row there and needs nothing here; so is a new quantizer. */
import { get } from "./api.js";
import {
  bytes, isNumber, loss, percent, percentInterval, percentNumber, points, pointsInterval, scientific,
} from "./format.js";

const digits = (value) => scientific(value, 4);
const between = (show) => (low, high) => (isNumber(low) && isNumber(high) ? `${show(low)} to ${show(high)}` : "");

/* `scale`: of drawn values; `unit`: in place of the metric's; `number`: without the unit, `text`: where no unit stands
 * beside it; `error`: a standard error; `difference`, `differences`: of two values, and the interval of that. */
const FORMATS = {
  number: {
    scale: 1, number: digits, text: digits, interval: between(digits), error: scientific,
    difference: digits, differences: between(digits),
  },
  fixed: {
    scale: 1, number: loss, text: loss, interval: between(loss), error: scientific,
    difference: loss, differences: between(loss),
  },
  percent: {
    scale: 100, unit: "%", number: percentNumber, text: percent, interval: percentInterval, error: points,
    difference: points, differences: pointsInterval,
  },
  points: {
    scale: 100, unit: "points", number: percentNumber, text: points, interval: pointsInterval, error: points,
    difference: points, differences: pointsInterval,
  },
  bytes: {
    scale: 1, unit: "", number: bytes, text: bytes, interval: between(bytes), error: bytes,
    difference: bytes, differences: between(bytes),
  },
};

let told = null;

/* What two shares differ by is in points: in percent it would be read as a relative change. `shares`: names of the
 * metrics in percent; the change of anything else in percent is a relative one. */
function inPoints(row, shares) {
  const share = /^(.+)_change$/.exec(row.name)?.[1];
  return row.format === "percent" && shares.has(share) ? { ...row, format: "points" } : row;
}

/* Asked for once, before the first page; what is below needs it. */
export async function loadMetrics(signal) {
  if (told) return;
  const answer = await get("/v1/metrics", signal), { methods } = answer;
  const shares = new Set(answer.items.filter(({ format }) => format === "percent").map(({ name }) => name));
  const [items, figures] = [answer.items, answer.figures].map((rows) => rows.map((row) => inPoints(row, shares)));
  told = { items, metrics: new Map(items.map((item) => [item.name, item])), figures, methods };
}

/* Names of the quantizers; the place of one never changes. */
export function quantizers() {
  return told?.methods ?? [];
}

/* Names of metrics, in the server's order; those that it does not list come last. */
export function inOrder(names) {
  const place = new Map((told?.items ?? []).map(({ name }, index) => [name, index]));
  const order = (name) => place.get(name) ?? Infinity;
  return [...new Set(names)].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
}

export function isMetric(name) {
  return Boolean(told?.metrics.has(name));
}

/* A number of a checkpoint that no run measures (step, tokens) is called by its name. */
export function metric(name) {
  const words = name.replace(/_/g, " ");
  const unknown = { name, label: words, axis: words, unit: null, format: "number", better: null, help: null };
  return told?.metrics.get(name) ?? unknown;
}

export function formatOf({ format }) {
  return FORMATS[format] ?? FORMATS.number;
}

/* "Loss (nats)"; "ΔQL" for what is shown with its unit. */
function named(text, unit) {
  return unit && !text.toLowerCase().includes(unit) ? `${text} (${unit})` : text;
}

/* Of what is drawn or listed. */
export function unitOf(one) {
  return formatOf(one).unit ?? one.unit;
}

/* Of an axis and of a column: "ΔQL (%)". */
export function axisTitle(name) {
  return named(metric(name).axis, unitOf(metric(name)));
}

export function heading(name) {
  return named(metric(name).label, unitOf(metric(name)));
}

export function scaleOf(name) {
  return formatOf(metric(name)).scale;
}

/* A damage, of which zero is the best that there can be. */
export function fromZero(name) {
  return scaleOf(name) === 100 && metric(name).better === "lower";
}

/* What tiles show of a result: [{name, label, show, between, error, gap, gaps, interval, stderr, optional, title}]. */
export function figuresOf(kind) {
  const own = (one) => ({
    ...one,
    label: named(one.label, formatOf(one).unit === undefined ? one.unit : null),
    show: formatOf(one).text,
    between: formatOf(one).interval,
    error: formatOf(one).error,
    gap: formatOf(one).difference,
    gaps: formatOf(one).differences,
    title: [one.help, one.better ? `${one.better} is better` : null].filter(Boolean).join("; ") || null,
  });
  return (told?.figures ?? []).filter((one) => one.kind === kind).map(own);
}
