/* table.js: tables. A wide one scrolls within its frame, reachable by keyboard; a sortable one has buttons for headings. */
import { fill, h } from "./dom.js";

/* `columns`: [{label, value(row) -> what sorts, cell(row) -> what shows, numeric, heading}]. `sort`: {column, descending} or null: as given.
 * `caption` names the table for those who do not see it. */
export function dataTable({ caption, columns, rows, sort = null, sortable = false, className = "" }) {
  const body = h("tbody");
  const head = h("tr");
  const state = { ...sort };
  const ordered = () => {
    const column = columns[state.column];
    if (!column) return rows;
    const sign = state.descending ? -1 : 1;
    const value = (row) => column.value(row);
    return [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
      if (y === null || y === undefined) return -1;
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
  };
  const show = () => {
    fill(head, columns.map((column, index) => heading(column, index)));
    fill(body, ordered().map((row) => h("tr", {}, columns.map((column, index) => {
      const tag = index === 0 ? "th" : "td";
      return h(tag, { class: column.numeric ? "number" : "", scope: index === 0 ? "row" : null, "data-label": column.label }, column.cell(row));
    }))));
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
    };
    const mark = active ? (state.descending ? " ↓" : " ↑") : "";
    return h("th", { ...given, "aria-sort": sorted },
      h("button", { type: "button", class: "sort", id: `sort-${caption.replace(/\W+/g, "-")}-${index}`, events: { click: flip } }, column.label, h("span", { "aria-hidden": "true" }, mark)));
  };
  show();
  const table = h("table", { class: className }, h("caption", { class: "unseen" }, caption), h("thead", {}, head), body);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}

/* A list of names and values. */
export function facts(entries) {
  return h("dl", { class: "facts" }, entries.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
