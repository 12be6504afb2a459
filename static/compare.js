/* compare.js: the result of a run of the kind compare: two measurements of the same sequences, number by number. */
import { checkpoint } from "./api.js";
import { h } from "./dom.js";
import { integer, percent, percentInterval, plural, scientific } from "./format.js";
import { figuresOf } from "./metrics.js";
import { checkpointLink, runLink } from "./router.js";
import { dataTable, facts, numberColumn } from "./table.js";

/* Of the numbers that runs of the compared kind measure those that were compared, as the server calls them. */
function rowsOf(found, kind) {
  const compared = figuresOf(kind).filter(({ name }) => found[name] !== null && typeof found[name] === "object");
  return compared.map((figure) => ({ ...figure, ...found[figure.name] }));
}

function interval({ interval: ends, interval_method: how, gaps }) {
  return Array.isArray(ends) ? h("span", { title: how ?? "" }, gaps(...ends)) : "–";
}

/* A difference whose interval leaves out 0 stands out. */
function difference(row) {
  const clear = Array.isArray(row.interval) && (row.interval[0] > 0 || row.interval[1] < 0);
  return clear ? h("strong", {}, row.gap(row.difference)) : row.gap(row.difference);
}

function sequencesTable(found) {
  return dataTable({
    caption: "Differences by sequence", className: "cards", rows: rowsOf(found, found.kind),
    columns: [
      { label: "Number", cell: (row) => row.label },
      { label: "a", numeric: true, cell: (row) => row.show(row.a) },
      { label: "b", numeric: true, cell: (row) => row.show(row.b) },
      { label: "b − a", numeric: true, cell: difference },
      { label: "95 %", numeric: true, cell: interval },
      numberColumn("Worse", (row) => row.worse, integer),
      numberColumn("Better", (row) => row.better, integer),
      numberColumn("Sign test p", (row) => row.sign_p, scientific),
    ],
  });
}

function tokensSection(found, kind) {
  return h("section", {}, h("h2", {}, "Differences by token"),
    dataTable({
      caption: "Differences by token", className: "cards", rows: rowsOf(found, kind),
      columns: [
        { label: "Number", cell: (row) => row.label },
        { label: "95 %", numeric: true, cell: interval },
        numberColumn("Design effect", (row) => row.design_effect, scientific),
        numberColumn("Worse", (row) => row.worse_share, percent),
        {
          label: "Worse, 95 %", numeric: true,
          cell: (row) => (row.worse_share_interval ? percentInterval(...row.worse_share_interval) : "–"),
        },
      ],
    }),
    h("p", { class: "muted caption" }, `${plural(found.predictions, "prediction")}; `,
      "these intervals take each token as drawn by itself. Where the design effect is above 1, tokens of a sequence ",
      "vary together and the interval by sequence is the one to cite."));
}

function sideName(side) {
  const node = h("span", { class: "name" }, side.checkpoint);
  checkpoint(side.checkpoint).then((one) => {
    if (one) node.replaceChildren(h("a", { href: checkpointLink(side.checkpoint) }, `${one.trajectory}/${one.name}`));
  });
  return side.run ? h("span", {}, node, " in ", h("a", { href: runLink(side.run) }, "its run")) : node;
}

export function compareSection(found) {
  return [
    h("section", {}, h("h2", {}, "Differences by sequence"),
      facts([["a", sideName(found.a)], ["b", sideName(found.b)]]),
      sequencesTable(found),
      h("p", { class: "muted caption" },
        "Intervals are of pairs: what makes a sequence hard is in both and drops out. ",
        "Worse and better count sequences. Bold: the interval leaves out 0.")),
    found.by_token ? tokensSection(found.by_token, found.kind) : null,
  ];
}
