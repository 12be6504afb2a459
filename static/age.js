/* age.js: how long ago something was, which stays true while a page is open. */
import { h } from "./dom.js";
import { ago, time } from "./format.js";

export const RENEWED_SECONDS = 30;

/* Null of what has not been yet is an en dash. */
export function age(text) {
  return text ? h("time", { datetime: text, title: time(text) }, ago(text)) : ago(null);
}

/* All ages of the document as they are now. */
export function renewAges() {
  for (const node of document.querySelectorAll("time[datetime]")) node.textContent = ago(node.dateTime);
}
