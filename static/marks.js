/* marks.js: what of a trajectory deserves a mark: its worst and its newest point, where its rate begins to fall, where
 * it branched off. Pure functions of the model (curves.js). */
import { isNumber } from "./format.js";
import { metric as metricOf } from "./metrics.js";
import { columnOf } from "./series.js";

const PEAK = 0.995; /* a rate below so much of the highest has begun to fall */

/* The worst point of a series, by what the server says is better; null where it says nothing. */
export function worstPoint(series, metric) {
  const { better } = metricOf(metric), points = series.points.filter((point) => isNumber(point.y));
  if (!better || !points.length) return null;
  return points.reduce((worst, point) => (isWorse(point, worst, better) ? point : worst));
}

function isWorse(point, other, better) {
  return better === "lower" ? point.y > other.y : point.y < other.y;
}

/* Of the shown curves: {series, point} of the worst, of the width that loses most. */
export function worstOf(shown, metric) {
  const { better } = metricOf(metric);
  const found = shown.map((series) => ({ series, point: worstPoint(series, metric) }))
    .filter(({ point }) => point !== null);
  const worse = (one, worst) => worst === null || isWorse(one.point, worst.point, better);
  return found.reduce((worst, one) => (worse(one, worst) ? one : worst), null);
}

export function newestPoint(series) {
  return series.points.reduce((last, point) => (last === null || point.x >= last.x ? point : last), null);
}

/* The last point before the learning rate falls: the last one at its highest, where the last rate is clearly lower;
 * null: it does not fall, or does so from the first point on, so that none is before. */
export function decayStart(rates) {
  const points = rates.filter((point) => isNumber(point.x) && isNumber(point.y));
  if (points.length < 2) return null;
  const most = points.reduce((highest, point) => Math.max(highest, point.y), -Infinity);
  if (!(points.at(-1).y < 0.9 * most)) return null;
  const last = points.filter((point) => point.y >= PEAK * most).at(-1) ?? null;
  return last === points[0] ? null : last;
}

/* Averages that are drawn beside the shown curves: [{series, curve}], each with the curve of its run that was measured
 * likewise. */
export function averagesOf(shown, averages) {
  const twin = (series) => shown.find((one) => one.trajectory === series.of && columnOf(one) === columnOf(series));
  return averages.map((series) => ({ series, curve: twin(series) }))
    .filter(({ series, curve }) => curve && series.points.length);
}

/* Segments from the point that a branch was taken from to its own first: [{series, from, to}]. `parents`: Map
 * trajectory -> id of the checkpoint; `others`: series of trajectories that are not shown but were branched from. */
export function branches(seriesList, parents, others) {
  const out = [];
  for (const series of seriesList) {
    const parent = parents.get(series.trajectory), first = series.points[0];
    if (!parent || !first) continue;
    for (const origin of [...seriesList, ...others]) {
      if (origin === series || columnOf(origin) !== columnOf(series)) continue;
      const from = origin.points.find((point) => point.checkpoint === parent);
      if (from && from.x <= first.x) {
        out.push({ series, from, to: first });
        break;
      }
    }
  }
  return out;
}
