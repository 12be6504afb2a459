/* layers.js: the errors of a quantized model's layers: where in the model they sit (Plotly), and as a table. */
import { h } from "./dom.js";
import { integer, isNumber, percentNumber, scientific } from "./format.js";
import { plain } from "./figure.js";
import { dataTable } from "./table.js";

/* "model.layers.3.self_attn.q_proj" -> {block: 3, part: "self_attn.q_proj"}; null when no number stands in the name. */
export function placeOf(name) {
  const found = /^(?:.*?\.)?(\d+)\.(.+)$/.exec(name);
  return found ? { block: Number(found[1]), part: found[2] } : null;
}

/* Rows are the parts of a block, columns the blocks: {blocks, parts, errors[part][block]}; null unless every layer has a place. */
export function grid(layers) {
  const places = layers.map((layer) => placeOf(layer.name));
  if (!layers.length || places.some((place) => place === null)) return null;
  const parts = [...new Set(places.map((place) => place.part))], blocks = [...new Set(places.map((place) => place.block))].sort((a, b) => a - b);
  const errors = parts.map(() => blocks.map(() => null));
  layers.forEach((layer, index) => {
    errors[parts.indexOf(places[index].part)][blocks.indexOf(places[index].block)] = isNumber(layer.relative_error) ? 100 * layer.relative_error : null;
  });
  return { blocks, parts, errors };
}

function look(ink, height, left) {
  const axis = { tickfont: { color: ink.muted, size: 11 }, linecolor: ink.line, gridcolor: ink.grid, zeroline: false, automargin: true };
  return {
    axis, base: { autosize: true, height, paper_bgcolor: ink.paper, plot_bgcolor: ink.paper, margin: { l: left, r: 10, t: 8, b: 44 }, showlegend: false, dragmode: false,
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 11, color: ink.text }, hoverlabel: { bgcolor: ink.paper, bordercolor: ink.line, font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", color: ink.text, size: 12 }, align: "left" } },
  };
}

export function layersFigure(layers, { ink, narrow }) {
  const found = grid(layers);
  if (!found) return barsFigure(layers, ink);
  const { axis, base } = look(ink, Math.max(190, 26 * found.parts.length + 70), narrow ? 60 : 90);
  const text = found.parts.map((part, row) => found.blocks.map((block, column) => `block ${block} · ${plain(part)}<br>relative error <b>${found.errors[row][column]?.toPrecision(3) ?? "–"} %</b>`));
  return {
    data: [{ type: "heatmap", x: found.blocks.map(String), y: found.parts.map(plain), z: found.errors, text, hovertemplate: "%{text}<extra></extra>", colorscale: ink.heat, xgap: 2, ygap: 2,
      colorbar: { title: { text: "%", side: "top" }, thickness: 10, outlinewidth: 0, tickfont: { color: ink.muted, size: 11 }, len: 1 } }],
    layout: { ...base, xaxis: { ...axis, type: "category", title: { text: "block", standoff: 6 }, showgrid: false, nticks: narrow ? 8 : 24 }, yaxis: { ...axis, type: "category", autorange: "reversed", showgrid: false } },
  };
}

function barsFigure(layers, ink) {
  const { axis, base } = look(ink, 280, 56);
  return {
    data: [{ type: "bar", x: layers.map((_, index) => index), y: layers.map((layer) => (isNumber(layer.relative_error) ? 100 * layer.relative_error : null)), marker: { color: ink.colour(0) },
      text: layers.map((layer) => plain(layer.name)), textposition: "none", hovertemplate: "%{text}<br><b>%{y:.3g} %</b><extra></extra>" }],
    layout: { ...base, xaxis: { ...axis, title: { text: "layer, in the model's order", standoff: 6 } }, yaxis: { ...axis, title: { text: "relative error (%)", standoff: 6 } } },
  };
}

export function layersTable(layers) {
  return dataTable({
    caption: "Layers", className: "layers", sortable: true, sort: { column: 1, descending: true }, rows: layers,
    columns: [
      { label: "Layer", value: (layer) => layer.name, cell: (layer) => h("span", { class: "name mono" }, layer.name) },
      { label: "Relative error (%)", numeric: true, value: (layer) => layer.relative_error, cell: (layer) => percentNumber(layer.relative_error) },
      { label: "Proxy error", numeric: true, value: (layer) => layer.proxy_error, cell: (layer) => scientific(layer.proxy_error) },
      { label: "Rows", numeric: true, value: (layer) => layer.rows, cell: (layer) => integer(layer.rows) },
      { label: "Columns", numeric: true, value: (layer) => layer.columns, cell: (layer) => integer(layer.columns) },
    ],
  });
}
