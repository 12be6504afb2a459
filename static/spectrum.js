/* spectrum.js: the spectral density of a Hessian out of its quadrature, and the terms of a predicted ΔQL. */
import { h } from "./dom.js";
import { integer, isNumber, scientific } from "./format.js";
import { heatFigure } from "./layers.js";
import { axisOf, drawing, legendOf, paperOf } from "./look.js";
import { beyondRange } from "./measurements.js";
import { translucent } from "./palette.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

const POINTS = 500, WIDTH = 0.008; /* points of the curve; width of a bump, as a share of the range */
const FLOOR = 1e-10; /* the least density that is drawn, as a share of the highest */

/* Each node widened to a Gaussian: {x, density, floor}, `floor` below the top of the lowest bump; null without two
 * different nodes. */
export function density({ nodes, weights }) {
  const pairs = nodes.map((node, index) => [node, weights[index]])
    .filter(([node, weight]) => isNumber(node) && isNumber(weight) && weight > 0);
  const low = Math.min(...pairs.map(([node]) => node)), high = Math.max(...pairs.map(([node]) => node));
  if (!(high > low)) return null;
  const width = WIDTH * (high - low), start = low - 5 * width, end = high + 5 * width;
  const x = Array.from({ length: POINTS }, (_, index) => start + (index * (end - start)) / (POINTS - 1));
  const bump = (distance) => Math.exp(-0.5 * (distance / width) ** 2) / (width * Math.sqrt(2 * Math.PI));
  const values = x.map((at) => pairs.reduce((sum, [node, weight]) => sum + weight * bump(at - node), 0));
  const lowest = Math.min(...pairs.map(([, weight]) => weight)) * bump(0), most = Math.max(...values);
  return { x, density: values, floor: Math.min(1e-4 * most, Math.max(FLOOR * most, lowest / 10)) };
}

function spectrumFigure(spectrum, { ink }) {
  const smooth = density(spectrum);
  const axis = { ...axisOf(ink, "density (log)"), type: "log", showexponent: "all" };
  if (!smooth) {
    return {
      data: [{ type: "bar", x: spectrum.nodes, y: spectrum.weights, marker: { color: ink.colour(0) } }],
      layout: { ...paperOf(ink, 300), xaxis: axisOf(ink, "eigenvalue"), yaxis: axisOf(ink, "weight") },
    };
  }
  const most = Math.max(...smooth.density), { floor } = smooth;
  return {
    data: [
      {
        type: "scatter", mode: "lines", x: smooth.x, y: smooth.density.map((value) => Math.max(value, floor)),
        line: { color: ink.colour(0), width: 1.8 }, fill: "tozeroy", fillcolor: translucent(ink.colour(0), 0.14),
        hoverinfo: "skip", meta: { kind: "density" },
      },
      {
        type: "scatter", mode: "markers", x: spectrum.nodes, y: spectrum.nodes.map(() => floor * 1.6),
        marker: { symbol: "line-ns-open", size: 8, color: ink.muted }, customdata: spectrum.weights,
        hovertemplate: "eigenvalue <b>%{x:.4g}</b><br>weight %{customdata:.3g}<extra></extra>", meta: { kind: "nodes" },
      },
    ],
    layout: {
      ...paperOf(ink, 300), xaxis: { ...axisOf(ink, "eigenvalue"), zeroline: true, zerolinecolor: ink.line },
      yaxis: { ...axis, range: [Math.log10(floor), Math.log10(most) + 0.3], nticks: 6 },
    },
  };
}

export function spectrumSection(spectrum, signal) {
  const words = `spectral density of the Hessian over ${spectrum.nodes.length} nodes`;
  const plot = drawing("spectrum-plot", words, (look) => spectrumFigure(spectrum, look), signal);
  return h("section", {}, h("h2", {}, "Spectral density of the Hessian"), plot.node,
    h("p", { class: "muted caption" }, `Stochastic Lanczos quadrature; each node is widened by ${100 * WIDTH} % of the `
      + "range. Ticks below are the nodes."));
}

function number(value) {
  return value === null || value === undefined ? "–" : scientific(value);
}

/* The rise of the loss that a part predicts; null where a term is not finite. */
function rise({ gradient_term: gradient, curvature_term: curvature }) {
  return isNumber(gradient) && isNumber(curvature) ? gradient + curvature : null;
}

function termsTable(caption, parts, first) {
  const gradient = (part) => part.gradient_term, curvature = (part) => part.curvature_term;
  return dataTable(orderKept("terms", {
    caption, className: "layers", rows: parts,
    columns: [
      { label: first, value: (part) => part.name, cell: (part) => h("span", { class: "name mono" }, part.name) },
      numberColumn("Gradient term (nats)", gradient, number),
      numberColumn("Curvature term (nats)", curvature, number),
      numberColumn("Both (nats)", rise, number),
    ],
  }));
}

const TERMS = [["gradient_term", "gradient term", 0], ["curvature_term", "curvature term", 1]];

function blocksFigure(blocks, { ink }) {
  return {
    data: TERMS.map(([field, name, colour]) => ({
      type: "bar", name, x: blocks.map((block) => String(block.name)), y: blocks.map((block) => block[field]),
      marker: { color: ink.colour(colour) },
      hovertemplate: `block %{x}<br>${name} <b>%{y:.3g} nats</b><extra></extra>`, meta: { kind: field },
    })),
    layout: {
      ...paperOf(ink, 280), margin: { l: 56, r: 10, t: 34, b: 44 }, showlegend: true, legend: legendOf(ink),
      barmode: "relative", xaxis: { ...axisOf(ink, "block"), type: "category" },
      yaxis: { ...axisOf(ink, "rise of the loss (nats)"), zeroline: true, zerolinecolor: ink.line },
    },
  };
}

/* Where the predicted rise of the loss comes from: bars a block, a heat map and a table of the layers. */
export function termsSection(found, signal) {
  const both = { name: "predicted rise of the loss", unit: "nats", signed: true, valueOf: rise };
  const layers = (look) => heatFigure(found.by_layer, both, look);
  const drawable = layers({ ink: { heat: [], signed: [] }, narrow: false }) !== null;
  const words = "predicted rise of the loss by layer; the table below has the values";
  const heat = drawable ? drawing("terms-plot", words, layers, signal).node : null;
  const bars = (look) => blocksFigure(found.by_block, look);
  const blocks = found.by_block?.length
    ? drawing("blocks-plot", "gradient and curvature terms by block", bars, signal).node : null;
  const beyond = beyondRange("predicted_delta", found);
  return h("section", {}, h("h2", {}, "Where the predicted damage comes from"),
    beyond ? h("p", { class: "notice remark" }, `${beyond.long} The terms below add up to that prediction.`) : null,
    blocks, heat,
    termsTable("Terms by layer", found.by_layer, "Layer"));
}

/* Eigenvalues of kinds of parameters alone. */
export function groupsSection(groups) {
  const largest = (group) => group.largest_algebraic, smallest = (group) => group.smallest_algebraic;
  return h("section", {}, h("h2", {}, "Curvature by kind of parameters"), dataTable(orderKept("groups", {
    caption: "Groups", rows: groups,
    columns: [
      { label: "Parameters", value: (group) => group.name, cell: (group) => group.name },
      numberColumn("Count", (group) => group.parameters, integer),
      numberColumn("Largest", largest, number),
      numberColumn("Smallest", smallest, number),
      { label: "Converged", cell: (group) => (group.converged ? "yes" : "no") },
    ],
  })));
}
