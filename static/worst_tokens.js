/* worst_tokens.js: which predictions lost most, where a run left the losses of every token: sequence, position, both
 * losses, and the losses around. */
import { at, send } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, integer, loss, scientific } from "./format.js";
import { failure } from "./notice.js";
import { sparkline } from "./sparkline.js";
import { dataTable, numberColumn } from "./table.js";

const MOST = 50, AROUND = 12;

/* NumPy's format, float32 in one dimension -> Float32Array; an Error says what is wrong with other files. */
export function readNpy(buffer) {
  const view = new DataView(buffer), magic = String.fromCharCode(...new Uint8Array(buffer, 0, 6));
  if (magic !== "\x93NUMPY") throw new Error("this is no file in NumPy's format");
  const wide = view.getUint8(6) > 1, length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const start = (wide ? 12 : 10) + length;
  const header = new TextDecoder().decode(new Uint8Array(buffer, wide ? 12 : 10, length));
  if (!header.includes("'<f4'")) throw new Error(`float32 was expected, found ${header}`);
  return new Float32Array(buffer.slice(start));
}

/* Tokens of each sequence, out of losses.csv. */
export function readSequences(text) {
  const [head, ...lines] = text.trim().split(/\r?\n/), column = head.split(",").indexOf("tokens");
  return lines.map((line) => Number(line.split(",")[column]));
}

/* The places of the greatest values, the greatest first. */
export function greatest(values, most) {
  const kept = [];
  for (let place = 0; place < values.length; place++) {
    if (kept.length === most && !(values[place] > values[kept[most - 1]])) continue;
    let at = kept.length;
    while (at > 0 && values[kept[at - 1]] < values[place]) at--;
    kept.splice(at, 0, place);
    if (kept.length > most) kept.pop();
  }
  return kept;
}

/* Rows of the table; `first` of a sequence is its first prediction, that of its second token. */
export function worstTokens({ full, quantized, kl }, tokens) {
  const starts = [], sequences = [];
  let start = 0;
  tokens.forEach((count, sequence) => {
    starts.push(start);
    sequences.push({ start, end: start + count - 1, sequence });
    start += count - 1;
  });
  if (start !== full.length) throw new Error(`${full.length} losses for ${start} predictions`);
  const rise = quantized ? full.map((value, place) => quantized[place] - value) : full;
  return greatest(rise, MOST).map((place) => {
    let low = 0, high = sequences.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= place) low = middle;
      else high = middle - 1;
    }
    const { start: begin, end, sequence } = sequences[low];
    const from = Math.max(begin, place - AROUND), to = Math.min(end, place + AROUND + 1);
    const around = (values) => Array.from(values.slice(from, to), (y, index) => ({ x: from + index - place, y }));
    return {
      sequence, position: place - begin + 1, full: full[place], quantized: quantized?.[place] ?? null,
      rise: rise[place], kl: kl?.[place] ?? null, before: around(full), after: quantized ? around(quantized) : [],
    };
  });
}

function columnsOf(paired) {
  const number = (label, field, show = loss) => numberColumn(label, (row) => row[field], show);
  const curves = ({ before, after }) => [
    { points: before, bits: 4 }, ...(after.length ? [{ points: after, bits: 3 }] : []),
  ];
  const more = [
    number("Quantized (nats)", "quantized"), number("Rise (nats)", "rise"), number("KL (nats)", "kl", scientific),
  ];
  return [
    number("Sequence", "sequence", integer), number("Token", "position", integer),
    number(paired ? "Full precision (nats)" : "Loss (nats)", "full"), ...(paired ? more : []),
    {
      label: `Losses ${AROUND} tokens before and after`,
      cell: (row) => h("span", { class: "line c0" },
        sparkline(curves(row), "currentColor", "losses of the tokens around")),
    },
  ];
}

const FILES = {
  full: ["token_losses_fp.npy", "token_losses.npy"], quantized: ["token_losses_q.npy"], kl: ["token_kl.npy"],
};

/* null unless the run left such files; they may be large, so they are read on demand. */
export function tokensSection(run, artifacts, signal) {
  const fileOf = (names) => artifacts.find((item) => names.includes(item.name)) ?? null;
  const found = Object.fromEntries(Object.entries(FILES).map(([what, names]) => [what, fileOf(names)]));
  if (!found.full || !artifacts.some((item) => item.name === "losses.csv")) return null;
  const place = h("div"), size = Object.values(found).filter(Boolean).reduce((sum, item) => sum + item.bytes, 0);
  const fetched = async (name) => {
    const answer = await send("GET", at("runs", run.id, "artifacts", name), { accept: "*/*", signal });
    return answer.arrayBuffer();
  };
  const show = async () => {
    fill(place, h("p", { class: "muted" }, "Reading …"));
    try {
      const losses = (item) => (item ? fetched(item.name).then(readNpy) : null);
      const [csv, ...arrays] = await Promise.all([fetched("losses.csv"), ...Object.values(found).map(losses)]);
      const [full, quantized, kl] = arrays, tokens = readSequences(new TextDecoder().decode(csv));
      const rows = worstTokens({ full, quantized, kl }, tokens), columns = columnsOf(Boolean(quantized));
      const words = `The ${integer(rows.length)} predictions that ${quantized ? "quantization made worse most"
        : "cost most"}; tokens count from 0 in their sequence. `;
      fill(place,
        dataTable({ caption: "Predictions that lost most", className: "layers", sortable: true, rows, columns }),
        h("p", { class: "muted caption" }, words + (quantized ? "Solid: full precision, dashed: quantized." : "")));
    } catch (error) { if (!signal.aborted) fill(place, failure(error)); }
  };
  const button = { type: "button", id: "worst-tokens", events: { click: show } };
  return h("section", { "aria-label": "Worst tokens" },
    h("h2", {}, "Worst tokens"), h("p", {}, h("button", button, `Find them (${bytes(size)})`)), place);
}
