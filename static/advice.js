/* advice.js: what a run of kind `plan` forecasts of each option, and which one it recommends: on its own page, and the
 * newest on a trajectory's. */
import { at, get, query } from "./api.js";
import { h } from "./dom.js";
import { compact, isNumber, loss, percent, percentInterval, plural } from "./format.js";
import { metric as metricOf } from "./metrics.js";
import { link } from "./router.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

/* Map name -> newest plan that succeeded, of those trajectories that have one. */
export async function loadPlans(names, signal) {
  const newest = async (name) => {
    const asked = { kind: "plan", trajectory: name, state: "succeeded", limit: 1 };
    return (await get(query("/v1/runs", asked), signal)).items[0];
  };
  const whole = async (run) => (run.result ? run : await get(at("runs", run.id), signal));
  const found = await Promise.all(names.map(async (name) => [name, await newest(name)]));
  const planned = found.filter(([, run]) => run);
  return new Map(await Promise.all(planned.map(async ([name, run]) => [name, await whole(run)])));
}

function called({ decay, average, continue: more }) {
  if (isNumber(decay)) return `decay over ${compact(decay)} tokens`;
  if (isNumber(average)) return `average of the last ${plural(average, "checkpoint")}`;
  return `go on for ${compact(more)} tokens`;
}

/* A number, and below it what is known of it. */
function cell(text, note) {
  return [text, note ? h("span", { class: "interval under" }, note) : null];
}

function forecast(option, name, text, between) {
  const bounds = option[`${name}_interval`];
  return cell(text(option[name]), option.measured ? "measured" : bounds ? between(...bounds) : null);
}

function lossInterval(low, high) {
  return `${loss(low)} to ${loss(high)}`;
}

/* As dataTable takes it. */
function adviceTable({ options, recommended }) {
  const place = new Map(options.map((option, index) => [option, index]));
  const best = (option) => place.get(option) === recommended;
  const badge = () => [" ", h("span", { class: "badge" }, "recommended")];
  const column = (name, text, between) => ({
    label: metricOf(name).label, numeric: true, value: (option) => option[name],
    cell: (option) => forecast(option, name, text, between),
  });
  const behind = (option) => {
    if (option.behind === 0) return "lowest";
    return cell(loss(option.behind), option.behind_interval ? lossInterval(...option.behind_interval) : null);
  };
  return {
    caption: "Forecast of each option", rows: options, sortable: true,
    columns: [
      { label: "Option", value: called, cell: (option) => [called(option), best(option) ? badge() : null] },
      numberColumn("Tokens in all", (option) => option.tokens, compact),
      column("loss_fp", loss, lossInterval),
      column("loss_q", loss, lossInterval),
      column("delta", percent, percentInterval),
      { label: "Behind the lowest", numeric: true, value: (option) => option.behind, cell: behind },
    ],
  };
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function verdict({ recommended, reason }) {
  return h("p", { class: recommended === null ? "" : "good" }, sentence(reason));
}

/* Of a run's page. */
export function planSection({ result: found }) {
  const { points, trained_tokens: trained } = found;
  return h("section", {}, h("h2", {}, "Forecast of each option"),
    h("p", { class: "muted" }, "95 % intervals of what this evaluation would measure; ",
      `${plural(points.length, "model")} measured, ${compact(trained)} tokens trained.`),
    dataTable(orderKept("options", adviceTable(found))));
}

/* Of a trajectory's page; null without a plan. */
export function advicePanel(plans) {
  if (!plans.size) return null;
  const panel = ([name, { id, result }]) => h("section",
    { class: "panel advice", "aria-label": `What to do next with ${name}` },
    plans.size > 1 ? h("h3", { class: "name" }, name) : null,
    verdict(result),
    h("p", { class: "muted" }, `${result.method}, from ${compact(result.tokens)} tokens on; `,
      h("a", { href: link(`/runs/${id}`) }, "the plan's run"), "."),
    dataTable(orderKept(plans.size > 1 ? `options-${name}` : "options", adviceTable(result))));
  return [...plans].map(panel);
}
