/* controls.js: choices made by a press: a group of which one holds, a switch, a list. */
import { h } from "./dom.js";

/* One of `choices` [[value, label]]; onChange(value). */
export function segmented(name, choices, value, onChange) {
  const group = h("div", { class: "segmented", role: "group", "aria-label": name });
  const buttons = choices.map(([choice, label]) => h("button", { type: "button", "data-value": choice, "aria-pressed": String(choice === value), events: { click: () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === choice));
    onChange(choice);
  } } }, label));
  group.append(...buttons);
  return h("div", { class: "control" }, h("span", { class: "label", "aria-hidden": "true" }, name), group);
}

/* A select; `choices` [[value, label]]. */
export function dropdown(name, choices, value, onChange) {
  const select = h("select", { "aria-label": name }, choices.map(([choice, label]) => h("option", { value: choice }, label)));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  return h("label", { class: "control" }, h("span", { class: "label" }, name), select);
}
