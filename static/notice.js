/* notice.js: what a page says when there is nothing to show, not yet, or not at all. */
import { setToken } from "./api.js";
import { command, fill, h } from "./dom.js";

export function loading(what) {
  return h("p", { class: "notice loading", role: "status" }, `Loading ${what} …`);
}

/* A problem document (RFC 9457), shown whole. */
export function problem(document, heading = null) {
  const errors = document.errors ?? [];
  return h("div", { class: "notice problem", role: "alert" },
    h("strong", {}, heading ?? document.title ?? "Error"),
    document.status ? h("span", { class: "muted" }, ` ${document.status}`) : null,
    document.detail ? h("p", {}, document.detail) : null,
    errors.length ? h("ul", {}, errors.map((error) => h("li", {}, h("code", {}, error.pointer ?? ""), " ", error.detail ?? ""))) : null);
}

export function failure(error) {
  return problem(error.document ?? { title: "This page failed", detail: error.message });
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
      h("label", { for: "token" }, "Bearer token with the scope ", h("code", {}, "read")), h("div", { class: "row" }, input, h("button", { type: "submit" }, "Continue")),
      h("p", { class: "muted" }, "It stays in this tab and goes when the tab is closed. A new one is made on the server's machine with"),
      command("deltaq token create --scope read")));
  input.focus();
}

/* No trajectory yet: how to get one. */
export function firstSteps() {
  const here = location.origin;
  const json = "-H 'Content-Type: application/json'";
  return h("div", { class: "notice empty" },
    h("h2", {}, "No trajectory yet"),
    h("p", {}, "A trajectory is the checkpoints of one training run. Register a directory that holds some in the Hugging Face layout; their step is read from their names:"),
    command(`curl ${here}/v1/trajectories/my-run/scan ${json} \\\n  -d '{"path": "/path/to/checkpoints"}'`),
    h("p", {}, "Add text to measure on:"),
    command(`curl ${here}/v1/datasets ${json} \\\n  -d '{"name": "validation", "path": "/path/to/text.txt", "format": "text"}'`),
    h("p", {}, "Then quantize each checkpoint at 3 and 4 bits; the curves grow here as the runs finish:"),
    sweepCommand("my-run"));
}

export function sweepCommand(trajectory) {
  const body = {
    name: `${trajectory}-gptq`, kind: "quantize",
    base: { method: { name: "gptq" }, calibration: { dataset: "validation" }, evaluation: { dataset: "validation" } },
    grid: { checkpoint: { trajectory }, "method.bits": [3, 4] },
  };
  const quoted = JSON.stringify(body).replace(/'/g, "'\\''");
  return command(`curl ${location.origin}/v1/sweeps -H 'Content-Type: application/json' \\\n  -d '${quoted}'`);
}
