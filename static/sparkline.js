/* sparkline.js: the trend of ΔQL in a table's cell. Only its shape; the numbers stand beside it. */
import { svg } from "./dom.js";
import { isNumber } from "./format.js";
import { strokeDash } from "./palette.js";

const WIDTH = 120, HEIGHT = 28, MARGIN = 3;

/* `curves`: [{points: [{x, y}], bits}]; all share both axes, and y starts at zero. Null where none has two points. */
export function sparkline(curves, colour, description) {
  const known = (points) => points.filter(({ x, y }) => isNumber(x) && isNumber(y));
  const drawn = curves.map(({ points, bits }) => ({ bits, points: known(points) }));
  const all = drawn.flatMap(({ points }) => points);
  if (!drawn.some(({ points }) => points.length > 1)) return null;
  const xs = all.map((point) => point.x), ys = all.map((point) => point.y);
  const left = Math.min(...xs), right = Math.max(...xs), low = Math.min(0, ...ys), high = Math.max(...ys);
  const place = (point) => {
    const x = MARGIN + (right > left ? (point.x - left) / (right - left) : 0.5) * (WIDTH - 2 * MARGIN);
    const y = HEIGHT - MARGIN - (high > low ? (point.y - low) / (high - low) : 0.5) * (HEIGHT - 2 * MARGIN);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
  const line = ({ points, bits }) => svg("polyline", {
    points: points.map(place).join(" "), fill: "none", stroke: colour, "stroke-width": 1.5,
    "stroke-linejoin": "round", "stroke-dasharray": strokeDash(bits),
  });
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", { class: "sparkline", ...size, role: "img", "aria-label": description }, drawn.map(line));
}
