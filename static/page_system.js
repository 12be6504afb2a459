/* page_system.js: whether the service is well: workers and their devices, the queue, memory and disk, brought up to
 * date every few seconds. */
import { age } from "./age.js";
import { get, post, query, send } from "./api.js";
import { fill, h } from "./dom.js";
import { bytes, duration, integer, plural } from "./format.js";
import { keep } from "./live.js";
import { loading } from "./notice.js";
import { link, runLink } from "./router.js";
import { STATES, precisionOf, title } from "./runs.js";
import { dataTable, facts } from "./table.js";
import { sortedBy } from "./view.js";

const LATEST = 20;

/* Prometheus' text -> Map "name{labels}" -> number. */
export function readMetrics(text) {
  const lines = text.split("\n").filter((line) => line && !line.startsWith("#"));
  return new Map(lines.map((line) => {
    const cut = line.lastIndexOf(" ");
    return [line.slice(0, cut), Number(line.slice(cut + 1))];
  }));
}

/* Memory and disk as a run meets them: a dry run of the newest one tells. Null where there is none, or where the server
 * refuses it, to this token or of this run: the same one is not asked for again then (`refused`: ids of such). */
async function memoryPlan(refused, signal) {
  const newest = { kind: "quantize", state: "succeeded", limit: 1, view: "summary" };
  const { items } = await get(query("/v1/runs", newest), signal);
  if (!items.length || refused.has(items[0].id)) return null;
  const { checkpoint, method, calibration, evaluation } = items[0].params, same = precisionOf(items[0].params);
  const params = { checkpoint, method, ...(calibration ? { calibration } : {}), evaluation, ...same };
  try {
    return await post("/v1/runs", signal, { kind: "quantize", params, dry_run: true });
  } catch (error) {
    if (signal.aborted) throw error;
    if (error.status >= 400 && error.status < 500) refused.add(items[0].id);
    return null;
  }
}

/* Whether the device is in use, or what it failed with; on it, what a self-test measured. */
function stateCell({ device_state: found }) {
  if (!found) return h("span", { class: "muted" }, "–");
  const faults = found.faults ? ` (${plural(found.faults, "fault")})` : "";
  const why = found.reason ? `: ${found.reason}` : "";
  const number = (rate) => (rate < 100 ? rate.toPrecision(3) : integer(rate));
  const rates = found.selftest?.rates.map(({ name, rate, unit }) => `${name} ${number(rate)} ${unit}`);
  const words = { aside: "▲ set aside", failed: "▲ failed, the CPU works" }[found.state];
  if (words) return h("span", { class: "bad" }, `${words}${faults}${why}`);
  return h("span", { title: rates?.join("\n") ?? null }, `in use${faults}`);
}

/* Which matrix products a worker makes: OpenBLAS's, after they were held to plain loops, or others and why. */
function productsCell(blas) {
  if (!blas) return h("span", { class: "muted" }, "–");
  const { verdict, library, core, reason } = blas, title = [library, reason].filter(Boolean).join("; ") || null;
  if (verdict === "passed") return h("span", { title }, `OpenBLAS${core ? `, ${core}` : ""}`);
  const words = verdict === "other_core" ? `OpenBLAS as ${core ?? "another core"}` : "deltaq's own";
  return h("span", { class: "bad", title }, `▲ ${words}`);
}

const WORKERS = [
  {
    label: "Worker", value: (row) => `${row.host} ${row.pid}`,
    cell: (row) => h("span", { class: "name" }, `${row.host}, process ${row.pid}`),
  },
  {
    label: "Device", value: (row) => row.device,
    cell: (row) => `${row.device}${row.threads ? `, ${plural(row.threads, "thread")}` : ""}`,
  },
  { label: "Device's state", value: (row) => row.device_state?.state ?? "", cell: stateCell },
  {
    label: "UUID", value: (row) => row.device_state?.uuid ?? "",
    cell: ({ device_state: found }) => (found?.uuid
      ? h("span", { class: "name", title: [found.name, found.bus_id].filter(Boolean).join(", ") || null }, found.uuid)
      : "–"),
  },
  {
    label: "Memory for a run", value: (row) => row.memory_bytes ?? null,
    cell: ({ memory_bytes: host, device_state: found }) =>
      `${bytes(host)}${found?.memory_bytes ? `, device ${bytes(found.memory_bytes)}` : ""}`,
  },
  { label: "Matrix products", value: (row) => row.blas?.verdict ?? "", cell: (row) => productsCell(row.blas) },
  {
    label: "Doing",
    cell: (row) => (row.run ? h("a", { href: runLink(row.run) }, "a run") : h("span", { class: "muted" }, "idle")),
  },
  { label: "Labels", value: (row) => row.labels?.join(", ") ?? "", cell: (row) => row.labels?.join(", ") || "–" },
  { label: "Slurm job", value: (row) => row.slurm_job, cell: (row) => row.slurm_job ?? "–" },
  { label: "Version", value: (row) => row.version, cell: (row) => row.version ?? "–" },
  { label: "Up since", value: (row) => row.started_at, cell: (row) => age(row.started_at) },
  { label: "Last seen", value: (row) => row.seen_at, cell: (row) => age(row.seen_at) },
];

function devices(workers) {
  const found = new Map();
  for (const { device, run } of workers) {
    const one = found.get(device) ?? { device, workers: 0, busy: 0 };
    found.set(device, { ...one, workers: one.workers + 1, busy: one.busy + (run ? 1 : 0) });
  }
  const words = ({ device, workers: count, busy }) => `${device}: ${integer(busy)} of ${integer(count)} busy`;
  return [...found.values()].map(words).join("; ");
}

function tile(label, value, words = null) {
  return h("div", {}, h("dt", {}, label), h("dd", {}, value, words ? h("span", { class: "interval" }, words) : null));
}

/* The numbers of a metric whose labels hold `label`. */
function having(numbers, name, label = "") {
  return [...numbers].filter(([key]) => key.startsWith(`${name}{`) && key.includes(label)).map(([, value]) => value);
}

const sum = (values) => values.reduce((one, other) => one + other, 0);

function queueTiles(numbers, workers) {
  const of = (state) => sum(having(numbers, "deltaq_runs", `state="${state}"`));
  const oldest = Math.max(0, ...having(numbers, "deltaq_oldest_queued_seconds")), waiting = of("queued") > 0;
  const runs = STATES.map((state) => tile(
    `Runs ${state}`, h("a", { href: link("/runs", { state }) }, integer(of(state))),
    state === "queued" && waiting ? `the oldest since ${duration(oldest)}` : null));
  return h("dl", { class: "tiles" },
    tile("Workers", integer(workers.length), devices(workers)),
    ...runs,
    tile("Crashed workers", integer(sum(having(numbers, "deltaq_run_crashes_total")))));
}

/* The disk is known at once, memory once something was quantized. */
function memoryFacts(plan, numbers) {
  const free = numbers.get("deltaq_data_directory_free_bytes"), stored = having(numbers, "deltaq_stored_bytes");
  const disk = [
    ["Free on the data directory's disk", free === undefined ? null : bytes(free)],
    ["Stored there", stored.length ? bytes(sum(stored)) : null],
  ];
  const unknown = "Memory is known once something was quantized: a dry run of it tells.";
  if (!plan) return [facts(disk), h("p", { class: "muted" }, unknown)];
  const host = plan.memory?.host, device = plan.memory?.device;
  const again = [bytes(host?.peak_bytes), plan.seconds ? `, ${duration(plan.seconds)}` : ""];
  return facts([
    ...disk,
    ["Free memory for a run", bytes(host?.available_bytes)],
    ["Free device memory", device ? bytes(device.available_bytes) : null],
    ["Free disk for a run", bytes(plan.disk?.available_bytes)],
    ["The newest quantization again would take", again],
  ]);
}

export async function showSystem({ root, signal }) {
  document.title = "System · deltaq";
  fill(root, h("h1", {}, "System"), loading("the state of the service"));
  const refused = new Set();
  let plan = null; /* asked for once: a dry run is work for the server */
  const read = async () => {
    const [workers, text, queued, planned] = await Promise.all([
      get("/v1/workers", signal),
      send("GET", "/metrics", { accept: "text/plain", signal }).then((response) => response.text()),
      get(query("/v1/runs", { state: "queued", limit: LATEST, view: "summary" }), signal),
      plan ?? memoryPlan(refused, signal),
    ]);
    plan = planned;
    return { workers: workers.items, numbers: readMetrics(text), queued: queued.items, plan };
  };
  const workersTable = (rows) => dataTable({
    caption: "Workers", className: "boards", columns: WORKERS, rows, sortable: true,
    ...sortedBy("sort", WORKERS),
  });
  const item = (run) => h("li", {}, title(run), h("span", { class: "muted when" }, age(run.created_at)));
  const show = ({ workers, numbers, queued, plan }) => fill(root, h("h1", {}, "System"),
    numbers.get("deltaq_database_up") === 0 ? h("p", { class: "bad" }, "▲ The database does not answer.") : null,
    workers.length ? null : h("p", { class: "bad" }, "▲ No worker was seen in the last minute: queued runs wait."),
    queueTiles(numbers, workers),
    h("section", {}, h("h2", {}, "Workers"), workers.length ? workersTable(workers) : h("p", {}, "None.")),
    h("section", {}, h("h2", {}, "Memory and disk"), memoryFacts(plan, numbers)),
    queued.length
      ? h("section", {}, h("h2", {}, "Queued last"), h("ul", { class: "runs" }, queued.map(item))) : null);
  show(await read());
  keep({ read, show, always: true }, signal);
}
