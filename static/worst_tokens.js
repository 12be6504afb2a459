/* worst_tokens.js: which predictions of a run lost most, in the text around them. */
import { at, get, query } from "./api.js";
import { command, curl, fill, h } from "./dom.js";
import { integer, loss, scientific } from "./format.js";
import { failure } from "./notice.js";
import { sparkline } from "./sparkline.js";
import { dataTable, numberColumn } from "./table.js";
import { orderKept } from "./view.js";

const MOST = 50, AROUND = 16;
const KEPT = { quantize: "token_losses_q.npy", evaluate: "token_losses.npy" };

/* What could not be seen, or would break the line. */
function visible(text) {
  return text.replace(/\n/g, "↵").replace(/\r/g, "␍").replace(/\t/g, "⇥");
}

/* A token that is a part of a character has no text of its own; its id stands for it. */
function token({ text, token: id }) {
  if (text === null || text === "") return `‹${id}›`;
  return visible(text).replace(/^ +$/, (spaces) => "␣".repeat(spaces.length));
}

function inText(row) {
  const place = row.position - row.from, ids = (from, to) => row.tokens.slice(from, to).join(" ");
  const parts = row.text === null ? [`${ids(0, place)} `, ` ${ids(place + 1)}`]
    : [visible(row.before), visible(row.after)];
  return h("bdi", { class: "token-text" },
    parts[0], h("mark", { title: `token ${row.token}` }, token(row)), parts[1]);
}

/* Of one prediction: it is null only where it is not finite. */
function lossOrWhy(value) {
  return value === null ? "not finite" : loss(value);
}

/* The losses of the window; the first token of a sequence has none. */
function around(row, paired) {
  const points = (losses) => losses.map((y, index) => ({ x: row.from + index, y }));
  const curves = [{ points: points(row.losses), bits: paired ? 3 : 4 }];
  return paired ? [{ points: points(row.reference_losses), bits: 4 }, ...curves] : curves;
}

const REFERENCES = {
  nothing: { of: "Loss (nats)" },
  full_precision: { of: "Quantized (nats)", reference: "Full precision (nats)", solid: "full precision",
    words: "that quantization made worse most" },
  run: { of: "This run (nats)", reference: "Other run (nats)", solid: "the other run",
    words: "that lost most against the other run" },
};

function columnsOf({ kind, reference }) {
  const named = REFERENCES[reference], number = (label, field, show = loss) =>
    numberColumn(label, (row) => row[field], show);
  const paired = named.reference !== undefined;
  return [
    number("Sequence", "sequence", integer), number("Token", "position", integer),
    { label: "In its text", cell: inText },
    ...(paired ? [number(named.reference, "reference_loss", lossOrWhy)] : []), number(named.of, "loss", lossOrWhy),
    ...(paired ? [number("Rise (nats)", "difference", lossOrWhy)] : []),
    ...(kind === "quantize" ? [number("KL (nats)", "kl", scientific)] : []),
    {
      label: "Losses of the tokens around",
      cell: (row) => h("span", { class: "line c0" },
        sparkline(around(row, paired), "currentColor", "losses of the tokens around")),
    },
  ];
}

function shown(found, remark) {
  const { words = "that cost most", solid } = REFERENCES[found.reference], { items } = found;
  const caption = `The ${integer(items.length)} of ${integer(found.predictions)} predictions ${words}, in ${
    found.dataset}; tokens count from 0 in their sequence.`;
  return [
    remark ? h("p", { class: "notice remark" }, remark) : null,
    dataTable(orderKept("predictions", {
      caption: "Predictions that lost most", className: "layers", rows: items, columns: columnsOf(found),
    })),
    h("p", { class: "muted caption" }, caption, solid ? ` Solid: ${solid}, dashed: this run's.` : null),
  ];
}

/* Where the checkpoint has no tokenizer, ids stand for text, and why is said. */
async function read(path, fields, signal) {
  try {
    return [await get(query(path, fields), signal), null];
  } catch (error) {
    if (error.document?.errors?.[0]?.pointer !== "/decode") throw error;
    return [await get(query(path, { ...fields, decode: "ids" }), signal), error.document.detail];
  }
}

/* The same run with the losses of its tokens. */
function again(run) {
  return h("details", {}, h("summary", {}, "Worst tokens"),
    h("p", {}, "This run kept no losses of its tokens. Measured once more with them, it shows which lost most:"),
    command(curl("/v1/runs", { kind: run.kind, params: { ...run.params, per_token: true } })));
}

/* null for runs that have no losses of tokens and cannot. `against`: the id of another run over the same sequences that
 * this one is held against, or null. */
export function tokensSection(run, artifacts, against, signal) {
  if (!(run.kind in KEPT) || run.state !== "succeeded") return null;
  if (!artifacts.some(({ name }) => name === KEPT[run.kind]))
    return run.params?.calibration_draws > 1 ? null : again(run); /* each draw has tokens of its own */
  const place = h("div"), path = at("runs", run.id, "worst-tokens");
  const fields = { limit: MOST, context: AROUND, against };
  const show = async () => {
    fill(place, h("p", { class: "muted" }, "Reading …"));
    try {
      fill(place, shown(...await read(path, fields, signal)), command(curl(query(path, fields))));
    } catch (error) { if (!signal.aborted) fill(place, failure(error)); }
  };
  const button = { type: "button", id: "worst-tokens", events: { click: show } };
  return h("section", { "aria-label": "Worst tokens" },
    h("h2", {}, "Worst tokens"), h("p", {}, h("button", button, "Which predictions lost most")), place);
}
