/* saving.js: the buttons under a figure that save it: as a picture, or its numbers as CSV. */
import { h, save } from "./dom.js";
import { isDark, scheme } from "./palette.js";
import { fileName, saveFigure } from "./plot.js";

const WIDTH = 1100;

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/* What the figure draws, a row a point; bands only repeat bounds of points. */
export function csvOf({ data }) {
  const rows = [["series", "x", "y", "value"]];
  for (const trace of data) {
    if (trace.meta?.kind === "band") continue;
    const name = trace.name ?? trace.meta?.kind ?? "";
    if (trace.z) {
      trace.z.forEach((line, row) => line.forEach((value, column) => {
        rows.push([name, trace.x[column], trace.y[row], value]);
      }));
    } else {
      trace.x.forEach((x, place) => rows.push([name, x, trace.y[place], ""]));
    }
  }
  const columns = data.some((trace) => trace.z) ? 4 : 3;
  return rows.map((row) => row.slice(0, columns).map(quoted).join(",")).join("\r\n") + "\r\n";
}

/* `figure(look, width)` as drawing() takes it; `id` names files and buttons. */
export function saveButtons(id, figure) {
  const made = () => figure({ ink: scheme(isDark()), dark: isDark(), narrow: false }, WIDTH);
  const name = fileName(id.replace(/-plot$/, ""));
  const picture = (format) => {
    const { data, layout } = made();
    return saveFigure({ data, layout: { ...layout, autosize: false, width: WIDTH } }, format, name);
  };
  const button = (format, act) => h("button", {
    type: "button", class: "small", id: `${id}-${format}`, events: { click: act },
    "aria-label": `Save ${name.replace(/-/g, " ")} as ${format.toUpperCase()}`,
  }, format.toUpperCase());
  return h("div", { class: "saving" },
    h("span", { class: "muted", "aria-hidden": "true" }, "Save"),
    h("div", { class: "segmented", role: "group", "aria-label": "Save" },
      ["png", "svg"].map((format) => button(format, () => picture(format))),
      button("csv", () => save(`${name}.csv`, csvOf(made()), "text/csv"))));
}
