/* thin.js: fewer points than were measured, of the same picture: what lies in one column of a few pixels is drawn by
 * its first, last, least and greatest point, so that no spike is lost. Pure. */

export const MOST_POINTS = 1200; /* of a curve; fewer are drawn as they are */
const COLUMNS = 300;
const MOST_ASKED = 100000; /* by the interface, of a curve */

/* How many points of a curve are worth asking for, where `visible` of the `whole` length of its axis is shown: twice as
 * many for each halving, so that few different answers are asked for. */
export function pointsFor(whole, visible) {
  const closer = visible > 0 ? Math.max(1, whole / visible) : 1;
  return Math.min(MOST_ASKED, MOST_POINTS * 2 ** Math.ceil(Math.log2(closer)));
}

/* `points` by ascending x. `range`: what is shown of x, or null for all; one point beyond each end is kept. */
export function thin(points, range = null, log = false) {
  if (points.length <= MOST_POINTS) return points;
  const at = log ? (point) => Math.log10(point.x) : (point) => point.x;
  let start = 0, end = points.length;
  if (range) {
    const [low, high] = [Math.min(...range), Math.max(...range)];
    while (start < end && at(points[start]) < low) start++;
    while (end > start && at(points[end - 1]) > high) end--;
    start = Math.max(0, start - 1);
    end = Math.min(points.length, end + 1);
  }
  if (end - start <= MOST_POINTS) return points.slice(start, end);
  const first = at(points[start]), width = (at(points[end - 1]) - first) / COLUMNS || 1, kept = new Set();
  for (let from = start; from < end;) {
    const column = Math.floor((at(points[from]) - first) / width);
    let low = from, high = from, next = from;
    for (; next < end && (next === from || Math.floor((at(points[next]) - first) / width) === column); next++) {
      if (points[next].y < points[low].y) low = next;
      if (points[next].y > points[high].y) high = next;
    }
    for (const place of [from, low, high, next - 1]) kept.add(place);
    from = next;
  }
  return [...kept].sort((a, b) => a - b).map((place) => points[place]);
}
