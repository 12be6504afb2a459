/* picker.js: which trajectories a page shows: those that its address names, or all; at most so many as the interface
 * takes at once. */
import { h } from "./dom.js";
import { integer } from "./format.js";

export const MOST = 32; /* trajectories in one request */

/* `names`: a Set of those that were chosen; empty: all. -> {shown, left}, names in order; `left` are chosen and too
 * many. */
export function selection(trajectories, names, most = MOST) {
  const wanted = names.size ? [...names] : trajectories.map(({ name }) => name);
  return { shown: wanted.slice(0, most), left: wanted.slice(most) };
}

/* The chosen names after a press on one: a shown one goes, another one comes, before those for which there is no
 * space. */
function pressed({ shown, left }, name) {
  if (shown.includes(name)) return [...shown.filter((other) => other !== name), ...left];
  const others = left.filter((other) => other !== name);
  return shown.length < MOST ? [...shown, name, ...others] : [name, ...shown, ...others];
}

/* A button a trajectory; pressed means that it is shown. changed(names) is told what is chosen after a press. */
export function picker(trajectories, chosen, colours, changed) {
  const shown = new Set(chosen.shown);
  const button = ({ name }) => h("button", {
    type: "button", class: "key", "aria-pressed": String(shown.has(name)),
    events: { click: () => changed(new Set(pressed(chosen, name))) },
  }, h("span", { class: `swatch c${colours.get(name)}`, "aria-hidden": "true" }), h("span", { class: "name" }, name));
  return h("div", { class: "legend", role: "group", "aria-label": "Trajectories" }, trajectories.map(button));
}

/* That some are left out, in words; null when none is. `way`: how to see one of them. */
export function leftOut({ left }, most = MOST, way = "Press the button of one to see it.") {
  if (!left.length) return null;
  return h("p", {}, `At most ${most} trajectories are shown at once: ${integer(left.length)} more `
    + `${left.length === 1 ? "is" : "are"} chosen and left out. ${way}`);
}
