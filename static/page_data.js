/* page_data.js: what runs read and how methods are called: datasets and recipes. */
import { age } from "./age.js";
import { get, list, query } from "./api.js";
import { command, curl, fill, h } from "./dom.js";
import { compact, integer, scalar } from "./format.js";
import { methodIn } from "./method_label.js";
import { loading, suggested } from "./notice.js";
import { dataTable } from "./table.js";
import { sortedBy } from "./view.js";

const MOST = 1000;

const DATASETS = [
  { label: "Dataset", value: (row) => row.name, cell: (row) => h("span", { class: "name" }, row.name) },
  {
    label: "Format", value: (row) => row.format,
    cell: (row) => [row.format, row.field ? `, field ${row.field}` : "", row.dtype ? `, ${row.dtype}` : ""],
  },
  {
    label: "Sequences", numeric: true, value: (row) => row.sequences,
    cell: (row) => (row.sequences === null ? "as packed" : integer(row.sequences)),
  },
  {
    label: "Tokens", numeric: true, value: (row) => row.tokens,
    cell: (row) => (row.tokens === null ? "by tokenizer" : compact(row.tokens)),
  },
  {
    label: "From", value: (row) => row.path ?? "",
    cell: (row) => h("span", { class: "name" }, row.path ?? "given inline"),
  },
  {
    label: "SHA-256",
    cell: (row) => (row.sha256 ? h("code", { title: row.sha256 }, row.sha256.slice(0, 12))
      : h("span", { class: "muted" }, "not read yet")),
  },
  {
    label: "Registered", value: (row) => row.created_at,
    cell: (row) => age(row.created_at),
  },
];

/* Every field that the recipe spells out. */
function spelled(method) {
  const words = (value) => (typeof value === "object" ? JSON.stringify(value) : scalar(value));
  return Object.entries(method)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => `${name.replace(/_/g, " ")} ${words(value)}`).join(", ");
}

const RECIPES = [
  { label: "Recipe", value: (row) => row.name, cell: (row) => h("span", { class: "name" }, row.name) },
  { label: "Method", value: (row) => methodIn(row.method), cell: (row) => methodIn(row.method) },
  {
    label: "Spelled out",
    cell: (row) => h("details", {},
      h("summary", {}, "all fields"), h("span", { class: "name" }, spelled(row.method))),
  },
];

/* A run with the recipe, on the datasets there are. */
function exampleOf(recipe, datasets) {
  const { calibration = "calibration", evaluation = "validation" } = suggested(datasets);
  return {
    kind: "quantize",
    params: {
      checkpoint: "TRAJECTORY/CHECKPOINT", method: { recipe: recipe.name },
      calibration: { dataset: calibration }, evaluation: { dataset: evaluation },
    },
  };
}

export async function showData({ root, signal }) {
  document.title = "Data · deltaq";
  fill(root, h("h1", {}, "Datasets and recipes"), loading("datasets"));
  const [{ items: datasets, more }, { items: recipes }] = await Promise.all([
    list(query("/v1/datasets", { limit: 200 }), signal, MOST), get("/v1/recipes", signal),
  ]);
  const boards = { className: "boards", sortable: true };
  const known = {
    ...boards, caption: "Datasets", columns: DATASETS, rows: datasets, most: 200, ...sortedBy("sort", DATASETS),
  };
  const named = { ...boards, caption: "Recipes", columns: RECIPES, rows: recipes, ...sortedBy("recipes", RECIPES) };
  const another = { name: "validation", path: "/path/to/text.txt", format: "text" };
  const example = recipes[0] ? exampleOf(recipes[0], datasets) : null;
  fill(root, h("h1", {}, "Datasets and recipes"),
    h("section", {}, h("h2", {}, "Datasets"), datasets.length ? dataTable(known) : h("p", {}, "None yet."),
      more ? h("p", { class: "muted" }, `Only the newest ${integer(MOST)} are shown.`) : null,
      h("p", { class: "muted" }, "Another one:"), command(curl("/v1/datasets", another))),
    h("section", {}, h("h2", {}, "Recipes"),
      h("p", { class: "muted" }, "Methods with names, for where a method is asked for."), dataTable(named),
      example ? [h("p", { class: "muted" }, "Used so:"), command(curl("/v1/runs", example))] : null));
}
