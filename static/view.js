/* view.js: what of a view stands in its address on every page: the zoom of a figure and the order of its table. */
import { amend } from "./router.js";

function range(text) {
  const ends = (text ?? "").split(",");
  return ends.length === 2 && ends.every((end) => end.trim() && Number.isFinite(Number(end))) ? ends.map(Number) : null;
}

/* A number with as many digits as a pixel needs. */
function short(value) {
  return String(Number(value.toPrecision(7)));
}

/* {zoom: {x, y}, order: {label, descending} or null} out of an address. */
export function readCommon(search) {
  const sort = search.get("sort");
  return {
    zoom: { x: range(search.get("zoomx")), y: range(search.get("zoomy")) },
    order: sort ? { label: sort.replace(/^-/, ""), descending: sort.startsWith("-") } : null,
  };
}

/* The fields of an address for them. */
export function commonFields({ zoom, order }) {
  const text = (ends) => (ends ? ends.map(short).join(",") : null);
  return {
    zoomx: text(zoom?.x),
    zoomy: text(zoom?.y),
    sort: order ? `${order.descending ? "-" : ""}${order.label}` : null,
  };
}

/* Of an axis that the reader zoomed: its range instead of its own. */
export function zoomed(ends) {
  return ends ? { range: ends, autorange: false } : {};
}

/* What dataTable takes for an `order` and to tell of another one: {sort, onSort}. */
export function sorting(columns, order, ordered) {
  const column = order ? columns.findIndex(({ label }) => label === order.label) : -1;
  return {
    sort: column >= 0 ? { column, descending: order.descending } : null,
    onSort: (sort) => ordered({ label: columns[sort.column].label, descending: sort.descending }),
  };
}

/* The present address with another value of a field; null takes the field away. */
function keepField(name, value) {
  const [path, text = ""] = location.hash.split(/\?(.*)/s), fields = new URLSearchParams(text);
  if (value === null) fields.delete(name);
  else fields.set(name, value);
  const search = fields.toString();
  amend(`${path || "#/"}${search ? `?${search}` : ""}`);
}

function presentField(name) {
  return new URLSearchParams(location.hash.split(/\?(.*)/s)[1] ?? "").get(name);
}

/* {name: value} of fields of the present address, for an address that is made anew: of those that are there. */
export function keptFields(...names) {
  return Object.fromEntries(names.map((name) => [name, presentField(name)]));
}

/* For dataTable: an order that stands in the address as `key`, of one table among others of a page. */
export function sortedBy(key, columns, usual = null) {
  const found = presentField(key);
  const order = found ? { label: found.replace(/^-/, ""), descending: found.startsWith("-") } : null;
  const keep = ({ label, descending }) => keepField(key, `${descending ? "-" : ""}${label}`);
  const given = sorting(columns, order, keep);
  return { ...given, sort: given.sort ?? usual };
}

/* A table, as dataTable takes it, whose order stands in the address as `key`. */
export function orderKept(key, table) {
  return { sortable: true, ...table, ...sortedBy(key, table.columns, table.sort ?? null) };
}
