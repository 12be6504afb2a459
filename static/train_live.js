/* train_live.js: a training run: loss, learning rate and gradient norm, out of its log as it goes and out of its file
 * training.csv when it has ended, and validation losses of its checkpoints. */
import { at, get, query, send } from "./api.js";
import { h } from "./dom.js";
import { isNumber } from "./format.js";
import { axisOf, drawing, legendOf, paperOf } from "./look.js";
import { thin } from "./thin.js";

const LINE = /^step (\d+) of (\d+): loss (\S+), learning rate ([^\s,]+)(?:, gradient norm ([^\s,]+))?/;
const CURVE = "training.csv"; /* the file that a finished run leaves, a row a step */
const SECONDS = 1; /* at most so often is the figure drawn again */

/* Validation losses are measurements only once the run has ended; until then its log alone has them. */
const KEPT = /^checkpoint step0*(\d+): (?:training loss \S+, )?validation loss (\S+)$/;

function number(text) {
  return text !== undefined && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null;
}

/* "step 20 of 300: loss 5.1234, learning rate 0.001, gradient norm 0.8, 900 tokens/s" -> {step, loss, rate, norm}; null
 * of other lines. */
export function readLine(text) {
  const found = LINE.exec(text ?? "");
  if (!found) return null;
  const [, step, total, loss, rate, norm] = found;
  return { step: Number(step), total: Number(total), loss: number(loss), rate: number(rate), norm: number(norm) };
}

/* "checkpoint step0000040: training loss 5.1, validation loss 5.2" -> {x: 40, y: 5.2}; null of other lines. */
export function readKept(text) {
  const [, step, loss] = KEPT.exec(text ?? "") ?? [];
  return isNumber(number(loss)) ? { x: Number(step), y: number(loss) } : null;
}

/* The rows of training.csv as {step, loss, rate, norm}. */
export function readCurve(text) {
  const [head, ...rows] = text.trimEnd().split("\n");
  const names = head.split(","), column = (name) => names.indexOf(name);
  const [step, loss, rate, norm] = ["step", "loss", "learning_rate", "gradient_norm"].map(column);
  return rows.map((row) => row.split(",")).map((cells) => (
    { step: number(cells[step]), loss: number(cells[loss]), rate: number(cells[rate]), norm: number(cells[norm]) }));
}

const PANELS = [["loss", "loss (nats)"], ["rate", "learning rate"], ["norm", "gradient norm"]];

/* The panels one above the other: the share of the height that each has, and that of a gap between two. */
function panelsOf(count) {
  const shares = { 1: [1], 2: [0.62, 0.3], 3: [0.5, 0.19, 0.19] }[count] ?? [1];
  const left = 1 - shares.reduce((sum, share) => sum + share, 0);
  return { shares, gap: count > 1 ? left / (count - 1) : 0 };
}

export function trainFigure(points, validation, { ink, narrow }) {
  const there = PANELS.filter(([field]) => points.some((point) => isNumber(point[field]))
    || (field === "loss" && validation.length));
  const { shares, gap } = panelsOf(there.length);
  const data = [], layout = {
    ...paperOf(ink, narrow ? 400 : 460, narrow ? 48 : 64), showlegend: validation.length > 0, legend: legendOf(ink),
    xaxis: { ...axisOf(ink, "step"), anchor: `y${there.length > 1 ? there.length : ""}` },
  };
  layout.margin = { ...layout.margin, t: 34 };
  let top = 1;
  there.forEach(([field, title], index) => {
    const axis = index ? `y${index + 1}` : "y";
    const known = thin(points.filter((point) => isNumber(point[field])).map((point) => (
      { x: point.step, y: point[field] })));
    layout[`yaxis${index ? index + 1 : ""}`] = {
      ...axisOf(ink, title), domain: [Math.max(0, top - shares[index]), top], nticks: index ? 3 : 6,
      rangemode: field === "rate" ? "tozero" : "normal",
    };
    top -= shares[index] + gap;
    data.push({
      type: "scatter", mode: known.length < 3 ? "lines+markers" : "lines", name: field === "loss" ? "batch" : title,
      x: known.map((point) => point.x), y: known.map((point) => point.y), yaxis: axis,
      line: { color: ink.colour(0), width: 1.5 }, showlegend: field === "loss", meta: { kind: field },
      hovertemplate: `step %{x}<br>${title} <b>%{y:.4g}</b><extra></extra>`,
    });
  });
  if (validation.length) {
    data.push({
      type: "scatter", mode: "lines+markers", name: "validation",
      x: validation.map((point) => point.x), y: validation.map((point) => point.y),
      customdata: validation.map((point) => point.checkpoint ?? null),
      line: { color: ink.colour(1), width: 1.5 }, marker: { size: 6 }, meta: { kind: "validation" },
      hovertemplate: "step %{x}<br>validation loss <b>%{y:.4f} nats</b><extra></extra>",
    });
  }
  return { data, layout };
}

/* Validation losses that were measured, and of other steps those of the log, of which the last words hold: [{x, y,
 * checkpoint}] by step. */
function withKept(measured, kept) {
  const steps = new Set(measured.map(({ x }) => x)), said = new Map(kept.map((point) => [point.x, point]));
  return [...measured, ...[...said.values()].filter(({ x }) => !steps.has(x))].sort((a, b) => a.x - b.x);
}

/* {node, add(line), refresh(last), finish(files)}; hidden until there is something to draw. refresh() reads the
 * validation losses, at most every few seconds unless it is the `last` time: checkpoints come until the run ends.
 * finish() draws the curve that an ended run left among its `files`, in place of what its log said. */
export function trainSection(run, signal) {
  const title = h("h2", {}, "Loss, rate and gradient norm");
  const node = h("section", { hidden: true, "aria-label": "Training" }, title);
  let points = [], measured = [], kept = [], plot = null, asked = null, read = 0, readings = 0;
  let finishing = false, whole = false;
  const draw = () => {
    asked = null;
    if (signal.aborted) return;
    node.hidden = false;
    if (plot) return plot.redraw();
    const words = "training loss, learning rate and gradient norm by step; the log below has the values, and so has"
      + ` ${CURVE} of an ended run`;
    plot = drawing("train-plot", words, (look) => trainFigure(points, withKept(measured, kept), look), signal);
    return node.append(plot.node);
  };
  const soon = () => { asked ??= setTimeout(draw, plot ? 1000 * SECONDS : 50); };
  const refresh = async (last = false) => {
    if (!last && Date.now() - read < 5000 * SECONDS) return;
    read = Date.now();
    const reading = ++readings, fields = { trajectory: run.params.trajectory, metric: "validation_loss", x: "step" };
    try {
      const { series } = await get(query("/v1/curves", fields), signal);
      if (reading !== readings) return; /* a later one was asked meanwhile */
      /* Those of another run in the trajectory, a trunk or a branch, may be on other sequences. */
      const own = (one) => one.points.filter((point) => point.run === run.id);
      measured = series.flatMap(own);
      if (measured.length) soon();
    } catch { /* the trajectory is made with its first checkpoint */ }
  };
  const add = (text) => {
    const loss = readKept(text);
    if (loss) {
      kept.push(loss);
      soon();
    }
    const point = whole ? null : readLine(text);
    if (!point) return;
    /* A run that was taken up again says some steps twice: the later words hold. */
    while (points.length && points.at(-1).step >= point.step) points.pop();
    points.push(point);
    soon();
  };
  const finish = async (files) => {
    if (finishing || !files.some(({ name }) => name === CURVE)) return;
    finishing = true;
    try {
      const answer = await send("GET", at("runs", run.id, "artifacts", CURVE), { accept: "*/*", signal });
      points = readCurve(await answer.text());
      whole = true;
      soon();
    } catch { finishing = false; /* the log has said some steps */ }
  };
  return { node, add, refresh, finish };
}
