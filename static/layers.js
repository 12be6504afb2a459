/* layers.js: what is known of each layer of a quantized model: where in the model it sits (Plotly), and as a table. */
import { h } from "./dom.js";
import { integer, isNumber, percentNumber, scientific } from "./format.js";
import { axisOf, colourBar, paperOf, plain } from "./look.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

/* "model.layers.3.self_attn.q_proj" -> {block: 3, part: "self_attn.q_proj"}; null when no number stands in the name. */
export function placeOf(name) {
  const found = /^(?:.*?\.)?(\d+)\.(.+)$/.exec(name);
  return found ? { block: Number(found[1]), part: found[2] } : null;
}

/* Rows are the parts of a block, columns the blocks: {blocks, parts, values[part][block]}; null unless every layer has
 * a place. */
export function grid(layers, valueOf) {
  const places = layers.map((layer) => placeOf(layer.name));
  if (!layers.length || places.some((place) => place === null)) return null;
  const parts = [...new Set(places.map((place) => place.part))];
  const blocks = [...new Set(places.map((place) => place.block))].sort((a, b) => a - b);
  const values = parts.map(() => blocks.map(() => null));
  layers.forEach((layer, index) => {
    const value = valueOf(layer), { part, block } = places[index];
    values[parts.indexOf(part)][blocks.indexOf(block)] = isNumber(value) ? value : null;
  });
  return { blocks, parts, values };
}

/* A heat map of valueOf(layer), called `name` in texts, in `unit`; null when the layers have no places. `signed`:
 * colours from zero both ways. */
export function heatFigure(layers, { name, unit, valueOf, signed = false }, { ink, narrow }) {
  const found = grid(layers, valueOf);
  if (!found) return null;
  const shown = (value) => value?.toPrecision(3).replace("-", "−") ?? "–";
  const hover = (part, block, value) => `block ${block} · ${plain(part)}<br>${name} <b>${shown(value)} ${unit}</b>`;
  const text = found.parts.map((part, row) =>
    found.blocks.map((block, column) => hover(part, block, found.values[row][column])));
  const most = Math.max(...found.values.flat().map((value) => Math.abs(value ?? 0)));
  const colours = signed && most > 0 ? { colorscale: ink.signed, zmin: -most, zmax: most } : { colorscale: ink.heat };
  const category = { ...axisOf(ink), type: "category", showgrid: false };
  return {
    data: [{
      type: "heatmap", x: found.blocks.map(String), y: found.parts.map(plain), z: found.values,
      text, hovertemplate: "%{text}<extra></extra>", xgap: 2, ygap: 2, ...colours, colorbar: colourBar(ink, unit),
    }],
    layout: {
      ...paperOf(ink, Math.max(190, 26 * found.parts.length + 70), narrow ? 60 : 90),
      xaxis: { ...category, title: { text: "block", standoff: 6 }, nticks: narrow ? 8 : 24 },
      yaxis: { ...category, autorange: "reversed" },
    },
  };
}

/* The relative error of a layer in percent. */
function errorOf(layer) {
  return isNumber(layer.relative_error) ? 100 * layer.relative_error : null;
}

export function layersFigure(layers, look) {
  const error = { name: "relative error", unit: "%", valueOf: errorOf };
  return heatFigure(layers, error, look) ?? barsFigure(layers, look.ink);
}

function barsFigure(layers, ink) {
  return {
    data: [{
      type: "bar", x: layers.map((_, index) => index), y: layers.map(errorOf), marker: { color: ink.colour(0) },
      text: layers.map((layer) => plain(layer.name)), textposition: "none",
      hovertemplate: "%{text}<br><b>%{y:.3g} %</b><extra></extra>",
    }],
    layout: {
      ...paperOf(ink, 280),
      xaxis: axisOf(ink, "layer, in the model's order"),
      yaxis: axisOf(ink, "relative error (%)"),
    },
  };
}

export function layersTable(layers) {
  return dataTable(orderKept("layers", {
    caption: "Layers", className: "layers", sort: { column: 1, descending: true }, rows: layers,
    columns: [
      {
        label: "Layer", value: (layer) => layer.name,
        cell: ({ name, degraded }) =>
          h("span", { class: "name mono", title: degraded ?? null }, degraded ? `${name} (degraded)` : name),
      },
      numberColumn("Relative error (%)", (layer) => layer.relative_error, percentNumber),
      numberColumn("Proxy error", (layer) => layer.proxy_error, scientific),
      numberColumn("Rows", (layer) => layer.rows, integer),
      numberColumn("Columns", (layer) => layer.columns, integer),
      {
        label: "Tokens", numeric: true, value: (layer) => layer.tokens ?? null,
        cell: (layer) => (layer.tokens === undefined ? "" : integer(layer.tokens)),
      },
    ],
  }));
}
