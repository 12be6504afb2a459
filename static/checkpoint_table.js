/* checkpoint_table.js: the numbers of the figure, a line a checkpoint; each value leads to the run that measured it. */
import { table } from "./curves.js";
import { h } from "./dom.js";
import { compact, integer, scientific } from "./format.js";
import { badges } from "./integrity.js";
import { formatOf, heading, metric as metricOf } from "./metrics.js";
import { checkpointLink, runLink } from "./router.js";
import { dataTable } from "./table.js";

function value(metric, point) {
  const format = formatOf(metricOf(metric)), shown = format.number(point.y), interval = format.interval(point.low, point.high);
  const number = point.run ? h("a", { href: runLink(point.run), "aria-label": `${shown}, to the run` }, shown) : shown;
  return [number, " ", interval ? h("span", { class: "interval" }, interval.replace(" to ", " – ").replace(" %", "")) : null];
}

function columnLabel(label, metric) {
  return `${label} · ${heading(metric)}`;
}

const MOST_ROWS = 200; /* that are made at once */

/* `order`: {label, descending} or null; `ordered` is told of another one. */
export function checkpointTable(model, colours, flags, order, ordered) {
  const { columns, rows } = table(model);
  if (!model.whole) return h("p", { class: "muted" }, "Reading the checkpoints …");
  if (!rows.length) return h("p", { class: "muted" }, "None yet.");
  const several = model.names.length > 1;
  const all = [
    { label: "Checkpoint", value: (row) => row.checkpoint.name, cell: (row) => h("span", { class: "row" }, several ? h("span", { class: `swatch c${colours.get(row.checkpoint.trajectory)}`, "aria-hidden": "true" }) : null, h("a", { href: checkpointLink(row.checkpoint.id), class: row.checkpoint.name.length > 14 ? "name" : "short" }, row.checkpoint.name), badges(flags.get(row.checkpoint.id))) },
    several ? { label: "Trajectory", value: (row) => row.checkpoint.trajectory, cell: (row) => h("span", { class: "name" }, row.checkpoint.trajectory) } : null,
    { label: "Step", numeric: true, value: (row) => row.checkpoint.step, cell: (row) => integer(row.checkpoint.step) },
    { label: "Tokens", numeric: true, value: (row) => row.checkpoint.tokens, cell: (row) => compact(row.checkpoint.tokens) },
    { label: heading("learning_rate"), numeric: true, value: (row) => row.checkpoint.learning_rate, cell: (row) => scientific(row.checkpoint.learning_rate) },
    { label: heading("loss"), numeric: true, value: (row) => row.loss?.y, cell: (row) => formatOf(metricOf("loss")).number(row.loss?.y) },
    ...columns.map((column) => ({
      label: columnLabel(column.label, model.metric), numeric: true, value: (row) => row.values.get(column.key)?.y,
      cell: (row) => (row.values.has(column.key) ? value(model.metric, row.values.get(column.key)) : h("span", { class: "muted" }, "–")),
    })),
  ].filter(Boolean);
  const column = order ? all.findIndex(({ label }) => label === order.label) : -1;
  return dataTable({ caption: "Checkpoints and their measured values", columns: all, rows, sortable: true, className: "checkpoints", most: MOST_ROWS,
    sort: column >= 0 ? { column, descending: order.descending } : null, onSort: (sort) => ordered({ label: all[sort.column].label, descending: sort.descending }) });
}
