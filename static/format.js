/* format.js: numbers, times and names as people read them. Pure functions; null gives an en dash. */

const NONE = "–";
/* Making one takes longer than a thousand uses. */
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function minus(text) {
  return text.replace(/^-/, "−");
}

/* 1234567 -> "1,234,567" */
export function integer(value) {
  return isNumber(value) ? minus(WHOLE.format(Math.round(value))) : NONE;
}

/* 299892736000 -> "300B", 2048000 -> "2.05M": three significant digits */
export function compact(value) {
  if (!isNumber(value)) return NONE;
  const units = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]];
  for (const [size, unit] of units) {
    if (Math.abs(value) >= size * 0.9995) return minus(String(Number((value / size).toPrecision(3))) + unit);
  }
  return minus(String(Number(value.toPrecision(3))));
}

/* Digits that keep about three that count: 12.3, 1.23, 0.123, 0.0123 */
export function decimals(value) {
  const size = Math.abs(value);
  if (size >= 100) return 0;
  if (size >= 10) return 1;
  if (size >= 0.995) return 2;
  if (size >= 0.0995 || size === 0) return 3;
  return 4;
}

const LARGE = 10000; /* percent, from which on digits are grouped: 97,586 */

/* A share as percent, without the sign: 0.0123 -> "1.23". What rounds to zero has a minus with `signed` alone. */
export function percentNumber(share, digits = null, signed = false) {
  if (!isNumber(share)) return NONE;
  if (Math.abs(100 * share) >= LARGE) return integer(100 * share);
  const text = (100 * share).toFixed(digits ?? decimals(100 * share));
  return minus(Number(text) === 0 && !signed ? text.replace("-", "") : text);
}

export function percent(share) {
  return isNumber(share) ? `${percentNumber(share)} %` : NONE;
}

/* now / before − 1, of amounts; null where one of them is not above zero: a ratio would have the wrong sign. */
export function relativeChange(now, before) {
  return isNumber(now) && isNumber(before) && now > 0 && before > 0 ? now / before - 1 : null;
}

const MOST_DECIMALS = 4; /* as many as decimals() gives */

/* Decimals of the ends of an interval, in percent: those of the larger one, and at least one digit of the width, or
 * 99.6 to 100.1 around 99.9 would become "100 to 100". */
function endDecimals(low, high) {
  const width = high - low, own = decimals(Math.max(Math.abs(low), Math.abs(high)));
  return width > 0 ? Math.max(own, Math.min(MOST_DECIMALS, Math.ceil(-Math.log10(width)))) : own;
}

/* [0.011, 0.013] -> "1.10 to 1.30 %"; of an interval that goes a little below zero the sign is kept: "−0.00 to 1.20
 * %". */
export function percentInterval(low, high) {
  if (!isNumber(low) || !isNumber(high)) return "";
  const digits = endDecimals(100 * low, 100 * high);
  return `${percentNumber(low, digits, low < 0)} to ${percentNumber(high, digits, high < 0)} %`;
}

/* A difference of two shares: 0.00197 -> "0.197 points". A percentage of it would be taken for a relative change. */
export function points(share) {
  return isNumber(share) ? `${percentNumber(share)} points` : NONE;
}

export function pointsInterval(low, high) {
  return percentInterval(low, high).replace(/%$/, "points");
}

/* Differences of losses: four decimals, below which they are none. */
export function nats(value) {
  return isNumber(value) ? minus(value.toFixed(4)) : NONE;
}

const SMALL = 1e-3; /* nats, of which four decimals leave too few digits */

/* Losses in nats and the like: 2.3456, 3.1×10⁻⁵ */
export function loss(value) {
  return isNumber(value) && value !== 0 && Math.abs(value) < SMALL ? scientific(value) : nats(value);
}

const SUPERSCRIPT = {
  "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹",
};

/* Learning rates and errors: 0.003 -> "0.003", 6e-05 -> "6×10⁻⁵" */
export function scientific(value, digits = 3) {
  if (!isNumber(value)) return NONE;
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent >= -3 && exponent < 5) return minus(String(Number(value.toPrecision(digits))));
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  return minus(`${Number(mantissa)}×10${[...String(Number(power))].map((sign) => SUPERSCRIPT[sign]).join("")}`);
}

/* Any scalar of a result or of parameters. */
export function scalar(value) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "number") return Number.isInteger(value) ? integer(value) : scientific(value, 5);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

export function duration(seconds) {
  if (!isNumber(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.round(minutes / 6) / 10;
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 2.4) / 10} d`;
}

export function bytes(value) {
  if (!isNumber(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

const ZONE = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

function zone(date) {
  return ZONE.formatToParts(date).find(({ type }) => type === "timeZoneName").value;
}

/* "2026-11-21 08:30:12 GMT+1": the reader's time, and which that is */
export function time(text) {
  const date = new Date(text ?? NaN);
  if (Number.isNaN(date.getTime())) return NONE;
  const two = (number) => String(number).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")} ${zone(date)}`;
}

export function ago(text) {
  const seconds = (Date.now() - new Date(text ?? NaN).getTime()) / 1000;
  return isNumber(seconds) ? (seconds < 5 ? "just now" : `${duration(Math.max(0, seconds))} ago`) : NONE;
}

export function plural(count, word) {
  return `${integer(count)} ${word}${count === 1 ? "" : "s"}`;
}
