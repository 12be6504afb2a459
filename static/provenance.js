/* provenance.js: what the numbers of a figure were measured on and calibrated with, in a line for those who see the
 * figure without the page. */
import { at, get } from "./api.js";
import { isNumber } from "./format.js";
import { calibrationIn, evaluationIn } from "./words.js";

const MOST = 4; /* ways of measuring that are spelled out */

function several(texts) {
  const known = [...new Set(texts.filter(Boolean))];
  const left = known.length - MOST;
  return known.slice(0, MOST).join("; ") + (left > 0 ? `; and ${left} more` : "");
}

/* "Data: validation, 192 sequences of 128 tokens. Calibrated on train, 64 sequences of 128 tokens." `series` as
 * /v1/curves has them; of each protocol and calibration one run is read. Where it is gone the names of the data stand
 * alone. */
export async function provenance(series, signal) {
  const ways = new Map();
  for (const one of series) {
    const way = JSON.stringify([one.dataset, one.protocol_id, one.calibration_id, Boolean(one.method)]);
    if (!ways.has(way)) ways.set(way, { ...one, run: one.points.find(({ run }) => run)?.run });
  }
  const said = await Promise.all([...ways.values()].map(async ({ run, dataset, calibrated_on: calibrated }) => {
    const found = run ? await get(at("runs", run), signal).catch(() => null) : null;
    const words = found ? [evaluationIn(found), calibrationIn(found)] : [];
    return [words[0] || dataset, words[1] || calibrated];
  }));
  const data = several(said.map(([one]) => one)), calibration = several(said.map(([, one]) => one));
  return [data ? `Data: ${data}.` : "", calibration ? `Calibrated on ${calibration}.` : ""].filter(Boolean).join(" ");
}

/* Whether some point has an interval, as all intervals of curves are: of 95 %. */
export function bounded(series) {
  return series.some(({ points }) => points.some(({ low, high }) => isNumber(low) && isNumber(high)));
}
