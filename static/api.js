/* api.js: the HTTP interface. Every answer is JSON or a problem document (RFC 9457), which becomes a Problem. */

const TOKEN = "deltaq-token";

export class Problem extends Error {
  constructor(document, status) {
    super(document.detail || document.title || `the server answered ${status}`);
    this.document = document;
    this.status = status;
  }
}

export function token() {
  try { return sessionStorage.getItem(TOKEN) ?? ""; } catch { return ""; }
}

/* Kept for this tab only. */
export function setToken(value) {
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch { /* storage forbidden: the token is asked for again */ }
}

export function headers(more = {}) {
  const bearer = token();
  return bearer ? { ...more, Authorization: `Bearer ${bearer}` } : more;
}

async function problemOf(response) {
  let document = {};
  try { document = await response.json(); } catch { /* not JSON: the status must do */ }
  return new Problem({ title: response.statusText, status: response.status, ...document }, response.status);
}

let reached = true;

/* Tells the page (main.js) when the server can no longer be reached, and when it can again: what goes on to ask keeps
 * what it shows meanwhile. */
function tell(now) {
  if (reached === now) return;
  reached = now;
  document.dispatchEvent(new CustomEvent("deltaq-reached", { detail: now }));
}

function away() {
  tell(false);
  return new Problem({ title: "No connection", detail: "the server cannot be reached; is deltaq serve running?" }, 0);
}

/* The response, or a Problem; when the server cannot be reached, one of status 0. */
export async function send(method, path, { accept = "application/json", signal, more = {}, body } = {}) {
  let response;
  try {
    response = await fetch(path, { method, signal, body, headers: headers({ Accept: accept, ...more }) });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw away();
  }
  tell(true);
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get(path, signal) {
  return (await send("GET", path, { signal })).json();
}

/* `content`, where there is some, is sent as JSON. A dry run changes nothing, so that it needs no key to be kept. */
export async function post(path, signal, content) {
  const more = content?.dry_run ? {} : { "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) };
  if (content !== undefined) more["Content-Type"] = "application/json";
  const body = content === undefined ? undefined : JSON.stringify(content);
  return (await send("POST", path, { signal, more, body })).json();
}

export async function csv(path, signal) {
  return (await send("GET", path, { accept: "text/csv", signal })).text();
}

/* "/v1/runs" with {state: "running", trajectory: ["a", "b"], kind: ""}
 * -> "/v1/runs?state=running&trajectory=a&trajectory=b" */
export function query(path, fields) {
  const search = new URLSearchParams();
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) {
      if (value !== "" && value !== null && value !== undefined) search.append(name, value);
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/* GET /v1/curves: the answer with labels of the method and calibration alone, for pages have words of their own for the
 * evaluation (series.js), and find a curve again under another metric. */
export async function curvesOf(fields, signal) {
  const answer = await get(query("/v1/curves", fields), signal);
  return { ...answer, series: answer.series.map((one) => ({ ...one, label: one.method_label ?? one.label })) };
}

/* Path of one resource; its id or name is escaped, slash and all. */
export function at(...parts) {
  return "/v1/" + parts.map((part) => encodeURIComponent(part)).join("/");
}

/* Items of a list, following `next` until `most` are there: {items, more}. */
export async function list(path, signal, most = 1000) {
  const items = [];
  let next = path;
  while (next && items.length < most) {
    const page = await get(next, signal);
    items.push(...page.items);
    next = page.next ? ownPath(page.next) : null;
  }
  return { items, more: next !== null };
}

/* A link of the server's as this page reaches it: behind a proxy the server may know itself by another host. */
function ownPath(link) {
  const url = new URL(link, location.href);
  return url.pathname + url.search;
}

/* How long a document that others may rename is shown without being asked for again: as long as a page takes to be
 * made of many that name it. */
const KEPT_SECONDS = 5;
const known = new Map();

/* A document that many parts of a page name, asked for once for all of them; null when it is gone. */
function shared(path) {
  const found = known.get(path);
  if (found && performance.now() < found.until) return found.answer;
  const forget = () => { if (known.get(path) === entry) known.delete(path); };
  const entry = { until: performance.now() + 1000 * KEPT_SECONDS, answer: null };
  entry.answer = get(path).catch((error) => {
    if (error.status !== 404) forget();
    return null;
  });
  known.set(path, entry);
  return entry.answer;
}

/* What was renamed or deleted here is asked for again at once. */
export function forgetAll() {
  known.clear();
}

export function checkpoint(id) {
  return shared(at("checkpoints", id));
}

/* The newest checkpoint of a trajectory; null where there is none yet. */
export async function newestCheckpoint(trajectory, signal) {
  const fields = "id,name,trajectory,architecture,parameters";
  return (await get(query("/v1/checkpoints", { trajectory, limit: 1, fields }), signal)).items[0] ?? null;
}

/* Names of trajectories, the newest first, with when they were made: for buttons and colours. */
export async function namedTrajectories(signal) {
  return list(query("/v1/trajectories", { limit: 100, fields: "id,name,created_at" }), signal, 500);
}

export function trajectory(id) {
  return shared(at("trajectories", id));
}

/* A document and its entity tag, for a change of this version of it and of no other: {document, etag}. */
export async function tagged(path, signal) {
  const response = await send("GET", path, { signal });
  return { document: await response.json(), etag: response.headers.get("ETag") };
}

/* PATCH or DELETE of one resource, or an action on it without a body; the new document, null after a deletion. `etag`:
 * of the version that may be changed; of another one the server says 412. */
export async function change(method, path, signal, content, etag = null) {
  const more = content === undefined ? {} : { "Content-Type": "application/json" };
  if (etag) more["If-Match"] = etag;
  const body = content === undefined ? undefined : JSON.stringify(content);
  const response = await send(method, path, { signal, more, body });
  forgetAll();
  return response.status === 204 ? null : response.json();
}
