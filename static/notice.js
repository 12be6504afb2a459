/* notice.js: what a page says when there is nothing to show, not yet, or not at all. */
import { setToken } from "./api.js";
import { command, curl, fill, h } from "./dom.js";

export function loading(what) {
  return h("p", { class: "notice loading", role: "status" }, `Loading ${what} …`);
}

/* A problem document (RFC 9457), shown whole. */
export function problem(document, heading = null) {
  const errors = (document.errors ?? []).map(({ pointer, detail }) =>
    h("li", {}, h("code", {}, pointer ?? ""), " ", detail ?? ""));
  return h("div", { class: "notice problem", role: "alert" },
    h("strong", {}, heading ?? document.title ?? "Error"),
    document.status ? h("span", { class: "muted" }, ` ${document.status}`) : null,
    document.detail ? h("p", {}, document.detail) : null,
    errors.length ? h("ul", {}, errors) : null);
}

export function failure(error) {
  return problem(error.document ?? { title: "This page failed", detail: error.message });
}

/* A handler that does `work` once at a time. What goes wrong is shown in `place`, and what went wrong before goes. */
export function attempt(place, signal, work) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    fill(place);
    try {
      await work(...given);
    } catch (error) {
      if (!signal.aborted) fill(place, failure(error));
    } finally { busy = false; }
  };
}

/* Asks for a bearer token; again() shows the page once more. */
export function askToken(root, again, refused) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const submit = (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    again();
  };
  fill(root, h("h1", {}, "A token is needed"),
    h("form", { class: "token", events: { submit } },
      refused ? h("p", { class: "problem notice", role: "alert" }, "The server does not accept this token.") : null,
      h("label", { for: "token" }, "Bearer token with the scope ", h("code", {}, "read")),
      h("div", { class: "row" }, input, h("button", { type: "submit" }, "Continue")),
      h("p", { class: "muted" }, "It stays in this tab and goes when the tab is closed. ",
        "A new one is made on the server's machine with"),
      command("deltaq token create --scope read")));
  input.focus();
}

/* No trajectory yet: how to get one. */
export function firstSteps() {
  return h("div", { class: "notice empty" },
    h("h2", {}, "No trajectory yet"),
    h("p", {}, "A trajectory is the checkpoints of one training run. ",
      "Register a directory that holds some in the Hugging Face layout; their step is read from their names:"),
    command(curl("/v1/trajectories/my-run/scan", { path: "/path/to/checkpoints" })),
    h("p", {}, "Add two texts, one that quantizers are calibrated on and another one to measure on:"),
    command(curl("/v1/datasets", { name: "calibration", path: "/path/to/train.txt", format: "text" })),
    command(curl("/v1/datasets", { name: "validation", path: "/path/to/validation.txt", format: "text" })),
    h("p", {}, "Then quantize each checkpoint at 3 and 4 bits; the curves grow here as the runs finish:"),
    sweepCommand("my-run"));
}

const HELD = /valid|test|eval|held/i, TRAINED = /train|calib/i;

/* What to calibrate on and what to measure on, of the datasets there are, by their names: {calibration, evaluation}.
 * Token sequences that were given inline, which are samples and not texts, come last; undefined: there is none left. */
export function suggested(datasets) {
  const inline = ({ format }) => Number(format === "sequences");
  const names = [...datasets].sort((a, b) => inline(a) - inline(b)).map(({ name }) => name);
  const choose = (from, good, bad) =>
    from.find((name) => good.test(name)) ?? from.find((name) => !bad.test(name)) ?? from[0];
  const evaluation = choose(names, HELD, TRAINED);
  return { evaluation, calibration: choose(names.filter((name) => name !== evaluation), TRAINED, HELD) };
}

/* Calibrated on one text and measured on another: `names` are two registered datasets. How long sequences are is left
 * to the server, which knows the positions of the model. */
export function sweepCommand(trajectory, names = ["calibration", "validation"]) {
  const [calibration, evaluation] = names;
  return command(curl("/v1/sweeps", {
    name: `${trajectory}-gptq`, kind: "quantize",
    base: {
      method: { name: "gptq" },
      calibration: { dataset: calibration, packing: "blocks", max_sequences: 128 },
      evaluation: { dataset: evaluation },
    },
    grid: { checkpoint: { trajectory }, "method.bits": [3, 4] },
  }));
}
