/* gates.js: what gates hold checkpoints to and what they say of them, in words; the section of a checkpoint's page. */
import { at, get, list, query } from "./api.js";
import { changeSentence } from "./changepoints.js";
import { fill, h } from "./dom.js";
import { integer, isNumber, plural, scalar } from "./format.js";
import { FLAGS } from "./integrity.js";
import { formatOf, metric, unitOf } from "./metrics.js";
import { runLink } from "./router.js";

export const MOST_GATES = 1000; /* that are read */
export const MOST_JUDGED = 20; /* gates whose verdict a page asks for */

/* A verdict as it is shown: [class, sign, word, what is not plain]. */
const VERDICTS = {
  pass: ["good", "✓ ", "pass", null],
  fail: ["bad", "▲ ", "fail", null],
  pending: ["", "", "pending", "Something was not measured or read yet; that never passes"],
};

/* "2.00 %" or "2.3456 nats": a value of a metric with its unit; `show`: "difference" for what two values differ by. */
function amount(name, value, show = "text") {
  const one = metric(name), text = formatOf(one)[show](value);
  return formatOf(one).unit === undefined && unitOf(one) ? `${text} ${unitOf(one)}` : text;
}

/* Limits of a rule, by their fields; `shown` is the limit as a value of the metric, `step` as a difference of two. */
const LIMITS = {
  max: ({ shown }) => `is at most ${shown}`,
  min: ({ shown }) => `is at least ${shown}`,
  max_ratio: ({ limit, median }) => `is at most ${scalar(limit)} times ${median}`,
  min_ratio: ({ limit, median }) => `is at least ${scalar(limit)} times ${median}`,
  max_change: ({ step, median }) => `minus ${median} is at most ${step}`,
  min_change: ({ step, median }) => `minus ${median} is at least ${step}`,
};
const STRADDLES = { fail: "it fails", pass: "it passes" }; /* by default the value decides, which needs no word */

/* "bits 4, dataset wikitext2" */
function seriesWords(series) {
  const field = (name) => (name === "method.name" ? "method" : name.replace(/^method\./, "").replace(/_/g, " "));
  return Object.entries(series ?? {}).map(([name, value]) => `${field(name)} ${scalar(value)}`).join(", ");
}

function condition(rule) {
  if (isNumber(rule.changepoint)) {
    const from = isNumber(rule.from) ? `, from step ${integer(rule.from)} on` : "";
    return `has no change point among its last ${integer(rule.changepoint)} measured checkpoints${from}`;
  }
  const field = Object.keys(LIMITS).find((name) => isNumber(rule[name]));
  if (!field) return "is held to a rule that this page does not know";
  const before = rule.against_last === 1 ? "that of the last measured checkpoint"
    : `the median of the last ${integer(rule.against_last)} measured checkpoints`;
  const limit = rule[field], shown = amount(rule.metric, limit), step = amount(rule.metric, limit, "difference");
  return LIMITS[field]({ limit, shown, step, median: `${before} before it` });
}

/* "ΔQL (bits 4) is at most 2.00 %" */
export function ruleWords(rule) {
  if (rule.integrity) return "The integrity check finds nothing wrong";
  const series = seriesWords(rule.series), subject = `${metric(rule.metric).label}${series ? ` (${series})` : ""}`;
  const straddle = STRADDLES[rule.straddle], change = isNumber(rule.changepoint);
  const where = change ? "of the change begins before them" : "holds the limit";
  return `${subject} ${condition(rule)}${straddle ? `; ${straddle} where the 95 % interval ${where}` : ""}`;
}

/* "the median before is 1.20 % (step1 to step5)": what the value was compared with. */
function medianWords({ rule, base, compared_with: names }) {
  if (!isNumber(base)) return null;
  const several = names?.length > 1, reach = several ? `${names[0]} to ${names.at(-1)}` : names?.[0];
  const before = several ? "the median before is" : "the one before is";
  return `${before} ${amount(rule.metric, base)}${reach ? ` (${reach})` : ""}`;
}

function changeWords({ rule, change, p_value: p }) {
  if (change) return `it ${changeSentence(rule.metric, "step", change, p)}`;
  return isNumber(p) ? `no change was found (p = ${Number(p.toPrecision(2))})` : null;
}

function straddleWords({ rule, straddles }) {
  if (!straddles) return null;
  return isNumber(rule.changepoint) ? "the interval of the change begins before the last ones"
    : "the limit lies inside the interval";
}

/* The value with its interval and series, as a link to the run that measured it. */
function valueWords({ rule, value, interval, series, run }) {
  if (!isNumber(value)) return null;
  const text = amount(rule.metric, value), reach = interval ? formatOf(metric(rule.metric)).interval(...interval) : "";
  const node = run ? h("a", { href: runLink(run), "aria-label": `${text}, to the run` }, text) : text;
  const label = series === "" ? "full precision" : series;
  return ["it is ", node, reach ? ` (95 %: ${reach})` : "", label ? `, ${label}` : ""];
}

function flagWords({ flags }) {
  return flags?.length ? flags.map((flag) => `it ${FLAGS[flag]?.[1] ?? flag}`).join("; ") : null;
}

/* Where the rule is a ratio or a change: its limit as a value. */
function limitWords({ rule, limit, base }) {
  return isNumber(limit) && isNumber(base) ? `the limit is ${amount(rule.metric, limit)}` : null;
}

/* ": it is 5.08 %; …": what a rule found, with its reason. */
function found(judged) {
  const told = [
    judged.reason, valueWords(judged), medianWords(judged), limitWords(judged), straddleWords(judged),
    changeWords(judged), flagWords(judged),
  ].filter(Boolean);
  return told.map((words, index) => [index ? "; " : ": ", words]);
}

/* A word with its sign; of what is no verdict, such as one that could not be had, neither good nor bad. */
export function verdictBadge(verdict) {
  const [className, sign, word, title] = VERDICTS[verdict] ?? ["", "", verdict ?? "not told", null];
  return h("span", { class: `badge verdict ${className}`, title },
    sign ? h("span", { "aria-hidden": "true" }, sign) : null, word);
}

/* A checkpoint held against a gate: the answer, or {verdict: null, detail} where there is none. */
export async function verdictOf(gate, checkpoint, signal) {
  try {
    return await get(query(at("gates", gate.id, "verdict"), { checkpoint }), signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return { verdict: null, rules: [], detail: error.message };
  }
}

/* Gates that hold the checkpoints of a trajectory to something, the newest first. */
export async function gatesOf(trajectory, signal) {
  const { items } = await list(query("/v1/gates", { limit: 200, fields: "id,name,trajectory" }), signal, MOST_GATES);
  return items.filter((gate) => gate.trajectory === trajectory);
}

function gateHeading({ name }, badge) {
  return h("h3", {}, h("a", { href: "#/gates", class: "name" }, name), " ", badge);
}

function judgement(gate, { verdict, rules, detail }) {
  const line = (judged) => h("li", {}, verdictBadge(judged.verdict), ` ${ruleWords(judged.rule)}`, found(judged), ".");
  return [
    gateHeading(gate, verdictBadge(verdict)),
    detail ? h("p", { class: "muted" }, `The verdict cannot be had: ${detail}`) : null,
    rules.length ? h("ul", { class: "reasons" }, rules.map(line)) : null,
  ];
}

/* What every gate of its trajectory says of a checkpoint; verdicts are filled in as they come. Null where there is no
 * gate. */
export function gatesSection({ checkpoint, gates, signal }) {
  if (!gates.length) return null;
  const left = gates.length - MOST_JUDGED;
  const block = (gate) => {
    const reading = h("span", { class: "muted" }, "…"), node = h("div", { class: "gate" }, gateHeading(gate, reading));
    verdictOf(gate, checkpoint.id, signal)
      .then((answer) => fill(node, judgement(gate, answer)), () => { /* the page was left */ });
    return node;
  };
  return h("section", { "aria-label": "Gates" }, h("h2", {}, "Gates"), gates.slice(0, MOST_JUDGED).map(block),
    left > 0 ? h("p", { class: "muted" }, `Not asked: ${plural(left, "older gate")}.`) : null);
}
