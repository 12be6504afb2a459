/* checkpoint_table.js: the numbers of the figure, a line a checkpoint; each value leads to the run that measured it. */
import { table } from "./curves.js";
import { h } from "./dom.js";
import { compact, integer, scientific } from "./format.js";
import { badges } from "./integrity.js";
import { formatOf, heading, metric as metricOf } from "./metrics.js";
import { checkpointLink, runLink } from "./router.js";
import { dataTable, numberColumn } from "./table.js";
import { sorting } from "./view.js";

/* `point`: undefined where nothing was measured. */
function value(metric, point) {
  if (point === undefined) return h("span", { class: "muted" }, "–");
  const format = formatOf(metricOf(metric)), shown = format.number(point.y);
  const interval = format.interval(point.low, point.high).replace(" to ", " – ").replace(/ (%|points)$/, "");
  const number = point.run ? h("a", { href: runLink(point.run), "aria-label": `${shown}, to the run` }, shown) : shown;
  return [number, " ", interval ? h("span", { class: "interval" }, interval) : null];
}

function columnLabel(label, metric) {
  return `${label} · ${heading(metric)}`;
}

function nameCell(checkpoint, swatch, flags) {
  const { id, name } = checkpoint;
  return h("span", { class: "row" },
    swatch === null ? null : h("span", { class: `swatch c${swatch}`, "aria-hidden": "true" }),
    h("a", { href: checkpointLink(id), class: name.length > 14 ? "name" : "short" }, name),
    badges(flags));
}

const MOST_ROWS = 200; /* that are made at once */

/* Losses on different evaluations cannot be compared: the column has those of one, and says of which. */
function lossColumn({ evaluations }) {
  const { number } = formatOf(metricOf("loss")), name = heading("loss");
  return {
    label: evaluations.length > 1 ? `${name}, on ${evaluations[0].words}` : name, numeric: true,
    value: (row) => row.loss?.y, cell: (row) => number(row.loss?.y),
  };
}

function lossCaption({ evaluations }) {
  if (!evaluations.length) return null;
  const others = evaluations.length > 1 ? "; checkpoints that were measured on another one alone have none here" : "";
  return h("p", { class: "muted caption" }, `${heading("loss")}: on ${evaluations[0].words}${others}.`);
}

/* Of many checkpoints those that the figure draws: the extremes are among them. `readAll` gets the others. */
function partly(model, rows, readAll) {
  const press = (event) => {
    event.target.disabled = true;
    event.target.textContent = "Reading …";
    readAll();
  };
  return h("p", { class: "muted more", id: "rows-read" },
    `The ${integer(rows)} checkpoints that the figure draws, each curve's extremes among them, of `
    + `${integer(rows + model.left)}. `,
    h("button", { type: "button", class: "small", id: "read-all", events: { click: press } },
      `Read all ${integer(rows + model.left)}`));
}

/* `order`: {label, descending} or null; `ordered` is told of another one. */
export function checkpointTable(model, colours, flags, { order, ordered, readAll }) {
  const { columns, rows } = table(model);
  if (!model.whole) return h("p", { class: "muted" }, "Reading the checkpoints …");
  if (!rows.length) return h("p", { class: "muted" }, "None yet.");
  const several = model.names.length > 1;
  const swatch = (checkpoint) => (several ? colours.get(checkpoint.trajectory) : null);
  const all = [
    {
      label: "Checkpoint", value: ({ checkpoint }) => checkpoint.name,
      cell: ({ checkpoint }) => nameCell(checkpoint, swatch(checkpoint), flags.get(checkpoint.id)),
    },
    several ? {
      label: "Trajectory", value: ({ checkpoint }) => checkpoint.trajectory,
      cell: ({ checkpoint }) => h("span", { class: "name" }, checkpoint.trajectory),
    } : null,
    numberColumn("Step", ({ checkpoint }) => checkpoint.step, integer),
    numberColumn("Tokens", ({ checkpoint }) => checkpoint.tokens, compact),
    numberColumn(heading("learning_rate"), ({ checkpoint }) => checkpoint.learning_rate, scientific),
    lossColumn(model),
    ...columns.map(({ key, label }) => ({
      label: columnLabel(label, model.metric), numeric: true, value: ({ values }) => values.get(key)?.y,
      cell: ({ values }) => value(model.metric, values.get(key)),
    })),
  ].filter(Boolean);
  const shown = dataTable({
    caption: "Checkpoints and their measured values", columns: all, rows, sortable: true, className: "checkpoints",
    most: MOST_ROWS, ...sorting(all, order, ordered),
  });
  return [model.left ? partly(model, rows.length, readAll) : null, shown, lossCaption(model)];
}
