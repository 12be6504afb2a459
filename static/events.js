/* events.js: server-sent events, of a run and of the change log. Read through fetch because EventSource cannot carry a
 * bearer token. A run's stream that breaks is taken up again after the last event seen; when it cannot be had at all
 * the run's document is polled instead. */
import { at, get, headers, query } from "./api.js";

const FINAL = new Set(["succeeded", "failed", "cancelled"]);
const POLL_SECONDS = 2, RETRY_SECONDS = 15;

export function isFinal(state) {
  return FINAL.has(state);
}

export function pause(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/* Cuts the text of a stream into events: feed(text) gives those that it completes. */
export function parser() {
  let rest = "";
  return (text) => {
    rest += text;
    const events = [];
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: null, type: "message", data: [] };
      for (const line of block.split(/\r?\n/)) {
        const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
        if (field === "id") event.id = value;
        if (field === "event") event.type = value;
        if (field === "data") event.data.push(value);
      }
      if (event.data.length) events.push({ ...event, data: JSON.parse(event.data.join("\n")) });
    }
    return events;
  };
}

async function readStream(path, seen, handle, signal, opened = () => {}) {
  const more = { Accept: "text/event-stream" };
  if (seen.last) more["Last-Event-ID"] = seen.last;
  const response = await fetch(path, { headers: headers(more), signal, cache: "no-store" });
  if (!response.ok || !response.body) throw new Error(`events: ${response.status}`);
  opened();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const feed = parser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of feed(decoder.decode(value, { stream: true }))) {
      seen.events++;
      if (event.id) seen.last = event.id;
      handle(event.type, event.data);
    }
  }
}

/* Calls handle(type, data) for "progress", "state" and "log" events until the run is final or `signal` aborts. */
export async function followRun(id, handle, signal) {
  const seen = { last: null, events: 0 };
  for (let failures = 0; !signal.aborted;) {
    const before = seen.events;
    try {
      await readStream(at("runs", id, "events"), seen, handle, signal);
    } catch {
      if (signal.aborted) return;
    }
    failures = seen.events > before ? 0 : failures + 1;
    try {
      const run = await get(at("runs", id), signal);
      handle("state", { to: run.state }); /* who missed it in the stream that broke hears it here */
      if (isFinal(run.state)) return;
      if (failures > 0) handle("progress", run.progress);
    } catch {
      if (signal.aborted) return;
    }
    await pause(failures > 0 ? POLL_SECONDS : 0.5, signal);
  }
}

/* Calls changed() at each change of `kinds` ("run", "checkpoint" …) that the server logs, live(true) when the stream of
 * them begins, and live(false) when it ends or cannot be had. What changed between two streams is not told: who listens
 * reads again at each beginning. */
export async function followChanges(kinds, { changed, live }, signal) {
  while (!signal.aborted) {
    let broken = false;
    try {
      await readStream(query("/v1/events", { kind: kinds }), { last: null, events: 0 }, changed, signal,
        () => live(true));
    } catch { broken = true; }
    if (signal.aborted) return;
    live(false);
    await pause(broken ? RETRY_SECONDS : 0.5, signal); /* a whole stream was cut off at its ten minutes */
  }
}
