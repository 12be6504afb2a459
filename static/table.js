/* table.js: tables. A wide one scrolls within its frame, reachable by keyboard; a sortable one has buttons for
 * headings. */
import { fill, h } from "./dom.js";
import { integer } from "./format.js";

const COLLATOR = new Intl.Collator("en", { numeric: true });

/* A column that shows, and is sorted by, the number of(row); show(number) is what stands in the cell. */
export function numberColumn(label, of, show) {
  return { label, numeric: true, value: of, cell: (row) => show(of(row)) };
}

/* `columns`: [{label, value(row) -> what sorts, cell(row) -> what shows, numeric}]. `sort`: {column, descending} or
 * null: as given. `caption` names the table for those who do not see it. Of more rows than `most` the first ones in the
 * present order are shown, and a button for the rest. `onSort({column, descending})` is told when the reader sorts. */
export function dataTable({
  caption, columns, rows, sort = null, sortable = false, className = "", most = Infinity, onSort = () => {},
}) {
  const body = h("tbody");
  const head = h("tr");
  const state = { ...sort }, more = h("div", { class: "more" });
  let count = most;
  const ordered = () => {
    const column = columns[state.column];
    if (!column) return rows;
    const sign = state.descending ? -1 : 1;
    const value = (row) => column.value(row);
    return [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
      if (y === null || y === undefined) return -1;
      return sign * (typeof x === "string" ? COLLATOR.compare(x, y) : x - y);
    });
  };
  const showMore = () => {
    const left = rows.length - count, next = Math.min(1000, left);
    const extend = () => { count += next; show(); };
    fill(more, left > 0 ? [
      h("span", { class: "muted" }, `${integer(count)} of ${integer(rows.length)} rows; sorting sorts them all. `),
      h("button", { type: "button", class: "small", events: { click: extend } }, `Show ${integer(next)} more`),
    ] : null);
  };
  const cell = (row) => (column, index) => {
    const first = index === 0;
    return h(first ? "th" : "td", {
      class: column.numeric ? "number" : "", scope: first ? "row" : null, "data-label": column.label,
    }, column.cell(row));
  };
  const show = () => {
    fill(head, columns.map((column, index) => heading(column, index)));
    showMore();
    fill(body, ordered().slice(0, count).map((row) => h("tr", {}, columns.map(cell(row)))));
  };
  const heading = (column, index) => {
    const active = state.column === index;
    const given = { scope: "col", class: column.numeric ? "number" : "" };
    if (!sortable || !column.value) return h("th", given, column.label);
    const sorted = active ? (state.descending ? "descending" : "ascending") : "none";
    const flip = () => {
      state.descending = active ? !state.descending : Boolean(column.numeric);
      state.column = index;
      show();
      onSort({ ...state });
    };
    const mark = active ? (state.descending ? " ↓" : " ↑") : "";
    const button = { type: "button", class: "sort", id: `sort-${caption.replace(/\W+/g, "-")}-${index}` };
    return h("th", { ...given, "aria-sort": sorted },
      h("button", { ...button, events: { click: flip } }, column.label, h("span", { "aria-hidden": "true" }, mark)));
  };
  show();
  const table = h("table", { class: className },
    h("caption", { class: "unseen" }, caption), h("thead", {}, head), body);
  const frame = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
  return rows.length > most ? h("div", {}, frame, more) : frame;
}

/* A list of names and values. */
export function facts(entries) {
  const known = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" },
    known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
