/* controls.js: choices made by a press (a group of which one holds, a list, a question before an end), and a field that
 * is typed in. */
import { fill, h } from "./dom.js";

/* One of `choices` [[value, label]]; onChange(value). */
export function segmented(name, choices, value, onChange) {
  const group = h("div", { class: "segmented", role: "group", "aria-label": name });
  const choose = (chosen) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === chosen));
    onChange(chosen);
  };
  const entry = ([choice, label]) => h("button", {
    type: "button", "data-value": choice, "aria-pressed": String(choice === value),
    events: { click: () => choose(choice) },
  }, label);
  const buttons = choices.map(entry);
  group.append(...buttons);
  return h("div", { class: "control" }, h("span", { class: "label", "aria-hidden": "true" }, name), group);
}

/* A select; `choices` [[value, label]]. */
export function dropdown(name, choices, value, onChange) {
  const options = choices.map(([choice, label]) => h("option", { value: choice }, label));
  const select = h("select", { "aria-label": name }, options);
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  return h("label", { class: "control" }, h("span", { class: "label" }, name), select);
}

/* A field to type in: onChange(text) on Enter, or when a changed field is left. `wrong`: what the server says of
 * `value`, which is told beside the field. */
export function textField(id, name, value, onChange, { hint = null, title = null, wrong = null } = {}) {
  const input = h("input", {
    id, type: "text", size: 14, value, placeholder: hint, title, autocomplete: "off", spellcheck: "false",
    "aria-invalid": wrong ? "true" : null, "aria-describedby": wrong ? `${id}-wrong` : null,
    events: { change: () => onChange(input.value.trim()) },
  });
  return h("div", { class: "control typed" }, h("label", { for: id, class: "label" }, name), input,
    wrong ? h("span", { class: "bad", id: `${id}-wrong`, role: "alert" }, wrong) : null);
}

/* A button for what cannot be undone: a press asks, another one does it. */
export function sureButton(id, label, question, act) {
  const place = h("span", { class: "sure" });
  const ask = () => {
    const no = h("button", { type: "button", id: `${id}-no`, events: { click: () => { show(); focus(id); } } }, "Keep");
    const yes = h("button", { type: "button", id: `${id}-yes`, class: "danger", events: { click: act } }, label);
    fill(place, h("span", { role: "alert" }, question), " ", yes, " ", no);
    focus(`${id}-no`);
  };
  const focus = (one) => document.getElementById(one)?.focus();
  const show = () => fill(place, h("button", { type: "button", id, events: { click: ask } }, label));
  show();
  return place;
}
