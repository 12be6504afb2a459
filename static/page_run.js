/* page_run.js: one run: what was asked, how far it is, what it says, what came out. */
import { at, checkpoint, get, list, post, query, send, tagged } from "./api.js";
import { changeShown } from "./changing.js";
import { presetsOf } from "./checkpoint_parts.js";
import { sureButton } from "./controls.js";
import { command, curl, fill, h, save } from "./dom.js";
import { followRun, isFinal } from "./events.js";
import { bytes, duration, time } from "./format.js";
import { attempt, failure, loading, problem } from "./notice.js";
import { link, runLink, sweepLink } from "./router.js";
import { badge, methodOf, progressBar, subject } from "./runs.js";
import { runForm } from "./run_form.js";
import { params, result } from "./run_parts.js";
import { facts } from "./table.js";
import { trainSection } from "./train_live.js";
import { turns } from "./turns.js";
import { nameOf } from "./words.js";
import { tokensSection } from "./worst_tokens.js";

const LOG_LINES = 2000;

const AGAIN = "The same request once more, measured anew: equal requests otherwise answer with this run";

const GONE = "The run goes with its result, its measurements and its files; checkpoints that it made stay.";

/* Whether somebody tried the ended run again. Other changes of its document, such as names of checkpoints, do not
 * hinder a deletion. */
function triedAgain(before, now) {
  return before.state !== now.state || before.finished_at !== now.finished_at;
}

/* `does`: {act(verb), again(), attribute(), remove()}. */
function buttons(run, does) {
  const button = (id, label, press, title = null) =>
    h("button", { type: "button", id, title, events: { click: press } }, label);
  if (!isFinal(run.state)) {
    return run.cancel_requested ? h("span", { class: "muted" }, "stopping …")
      : button("cancel", "Cancel", () => does.act("cancel"));
  }
  const deletion = sureButton("delete", "Delete", GONE, does.remove);
  if (run.state !== "succeeded") return [button("retry", "Try again", () => does.act("retry")), deletion];
  const quantized = run.kind === "quantize" && typeof run.params?.checkpoint === "string";
  return [
    quantized ? button("attribute-this", "Attribute this", does.attribute) : null,
    button("again", "Run again", does.again, AGAIN),
    deletion,
  ];
}

/* A form for the attribution of what a quantization did, with its parameters. */
async function attributionForm(run, signal) {
  const [{ items: datasets }, checkpoint] = await Promise.all([
    list(query("/v1/datasets", { limit: 200 }), signal, 1000), get(at("checkpoints", run.params.checkpoint), signal),
  ]);
  return runForm({
    kind: "attribution", verb: "Attribute this", checkpoint: `${checkpoint.trajectory}/${checkpoint.name}`,
    preset: presetsOf(run, datasets).attribution, context: { datasets: datasets.map(({ name }) => name) }, signal,
  });
}

function times(run) {
  const usage = run.usage ?? {};
  return facts([
    ["Submitted", time(run.created_at)],
    ["Started", run.started_at ? time(run.started_at) : null],
    ["Finished", run.finished_at ? time(run.finished_at) : null],
    ["Took", usage.seconds ? duration(usage.seconds) : null],
    ["Peak memory", usage.peak_host_bytes ? bytes(usage.peak_host_bytes) : null],
    ["Peak device memory", usage.peak_device_bytes ? bytes(usage.peak_device_bytes) : null],
    ["Device", run.device],
    ["Worker", run.worker],
    ["Attempt", run.attempt > 0 ? String(run.attempt + 1) : null],
    ["Sweep", run.sweep ? h("a", { href: sweepLink(run.sweep) }, "its sweep") : null],
    ["Id", h("code", {}, run.id)],
  ]);
}

async function artifacts(run, against, training, signal) {
  const { items } = await get(at("runs", run.id, "artifacts"), signal);
  if (!items.length) return null;
  training?.finish(items);
  return [tokensSection(run, items, against, signal), fileList(run, items, signal)];
}

function fileList(run, items, signal) {
  const fetchOne = async (item) => {
    const answer = await send("GET", at("runs", run.id, "artifacts", item.name), { accept: "*/*", signal });
    save(item.name.replace(/[/\\]/g, "_"), await answer.blob());
  };
  const wrong = h("div"), press = (item) => attempt(wrong, signal, () => fetchOne(item));
  return h("section", {}, h("h2", {}, "Files"), h("ul", { class: "plain" }, items.map((item) => h("li", {},
    h("button", { type: "button", class: "small", events: { click: press(item) } }, "Save"), " ",
    h("span", { class: "name" }, item.name), h("span", { class: "muted" }, ` ${bytes(item.bytes)}`)))), wrong);
}

/* The same run again, and what this page reads. */
function copies(run) {
  return h("details", {}, h("summary", {}, "As curl"),
    command(curl("/v1/runs", { kind: run.kind, params: run.params })), command(curl(at("runs", run.id))));
}

/* The log: lines are appended as they come, and the view follows its end unless the reader scrolled up. */
function logView() {
  const lines = h("pre", { class: "log", role: "log", tabindex: 0, "aria-label": "log" });
  const node = h("section", { hidden: true }, h("h2", {}, "Log"), lines);
  const add = (text) => {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 30;
    lines.append(document.createTextNode(`${text}\n`));
    while (lines.childNodes.length > LOG_LINES) lines.firstChild.remove();
    node.hidden = false;
    if (atEnd) lines.scrollTop = lines.scrollHeight;
  };
  return { node, add, clear: () => lines.replaceChildren() };
}

function headings(run, name, trajectory, does) {
  const curves = trajectory ? h("a", { href: link("/curves", { trajectory }), class: "name" }, trajectory) : null;
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/runs" }, "Runs"), curves ? [" · ", curves] : null),
    h("div", { class: "row between heading" },
      h("h1", {}, h("span", { class: "kind" }, run.kind), " ", h("span", { class: "name" }, name), " ",
        h("span", { class: "muted" }, methodOf(run))),
      h("div", { class: "row" }, badge(run.state), buttons(run, does))),
  ];
}

export async function showRun({ root, parameters, query: search, signal }) {
  document.title = "Run · deltaq";
  fill(root, h("h1", {}, "Run"), loading("the run"));
  let { document: run, etag } = await tagged(at("runs", parameters.id), signal);
  const head = h("div"), state = h("div"), wrong = h("div"), outcome = h("div"), files = h("div"), log = logView();
  const formPlace = h("div", { class: "form-place" });
  const training = run.kind === "train" ? trainSection(run, signal) : null;
  const bar = progressBar(run);
  const turn = turns();
  let shownResult = null;

  const does = {
    act: attempt(wrong, signal, async (verb) => {
      try {
        run = await post(`${at("runs", run.id)}/${verb}`, signal);
        if (!isFinal(run.state)) follow();
      } finally {
        await show();
      }
    }),
    again: attempt(wrong, signal, async () => {
      const made = await post(at("runs"), signal, { kind: run.kind, params: run.params, force: true });
      location.hash = runLink(made.id);
    }),
    attribute: attempt(wrong, signal, async () => {
      const form = await attributionForm(run, signal);
      fill(formPlace, form);
      form.querySelector("select, input, button")?.focus();
    }),
    remove: attempt(wrong, signal, async () => {
      const shown = { document: run, etag };
      const now = await changeShown(at("runs", run.id), { shown, differs: triedAgain, method: "DELETE" }, signal);
      if (!now) {
        location.hash = "#/runs";
        return;
      }
      ({ document: run, etag } = now);
      await show();
      if (!isFinal(run.state)) follow();
      fill(wrong, problem({ detail: "Nothing was deleted. This is the run as it is now." },
        "Somebody else tried this run again meanwhile"));
    }),
  };
  const showFiles = async () => {
    try {
      fill(files, await artifacts(run, search.get("against"), training, signal));
    } catch (error) {
      const again = h("button", { type: "button", class: "small", events: { click: showFiles } }, "Try again");
      if (!signal.aborted) fill(files, h("h2", {}, "Files"), failure(error), again);
    }
  };
  const show = async () => {
    const given = run.params ?? {}, name = subject(run);
    const home = typeof given.checkpoint === "string" ? await checkpoint(given.checkpoint) : null;
    const named = typeof given.trajectory === "string" && run.kind !== "fetch";
    const made = run.kind === "average" ? run.result?.trajectory : null;
    const trajectory = home?.trajectory ?? made ?? (named ? nameOf(run, given.trajectory) : null);
    document.title = `${run.kind} ${name} · deltaq`;
    fill(head, headings(run, name, trajectory, does));
    bar.update(run);
    fill(state, isFinal(run.state) ? null : bar.node,
      run.state === "failed" ? problem(run.error ?? {}, run.error?.title ?? "The run failed") : null, times(run));
    const text = JSON.stringify(run.result);
    if (text !== shownResult) fill(outcome, run.result ? result(run, signal) : null);
    shownResult = text;
    if (!isFinal(run.state)) return;
    await showFiles();
  };
  const refresh = async () => {
    const last = turn(), found = await tagged(at("runs", run.id), signal);
    if (!last()) return;
    ({ etag } = found);
    /* The stream tells the progress before any state, and later than the document. */
    run = { ...found.document, progress: run.progress };
    await show();
  };
  let following = null;
  const follow = () => {
    following?.abort();
    following = new AbortController();
    log.clear(); /* a stream begins with all that was said before */
    signal.addEventListener("abort", () => following.abort(), { once: true });
    followRun(run.id, (type, data) => {
      if (type === "progress") {
        run = { ...run, progress: data };
        bar.update(run);
        training?.refresh();
      }
      if (type === "log") {
        log.add(data.line ?? "");
        training?.add(data.line);
      }
      const news = type === "state" && data.to !== run.state && (isFinal(data.to) || !isFinal(run.state));
      if (!news) return;
      refresh().catch(() => {});
      if (isFinal(data.to)) training?.refresh(true);
    }, following.signal);
  };
  await show();
  if (signal.aborted) return;
  training?.refresh();
  fill(root, head, wrong, formPlace, state, training?.node, outcome, files, log.node,
    h("section", {}, h("h2", {}, "Parameters"), params(run)), copies(run));
  follow();
}
