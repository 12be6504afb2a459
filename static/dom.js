/* dom.js: builds elements. Whatever comes from the server enters the page as a text node or an attribute value, never
 * as markup. */
import { token } from "./api.js";

const FORBIDDEN = /^(on|style$|srcdoc$|innerhtml$|outerhtml$)/i;
const SVG = "http://www.w3.org/2000/svg";

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function attributes(node, given) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "events") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (FORBIDDEN.test(name)) {
      throw new Error(`dom: attribute ${name} is not set from here`);
    } else if (name === "href" && !/^(#|\/(?!\/))/.test(value)) {
      throw new Error("dom: links lead to this server only");
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  return node;
}

/* h("a", {href: "#/", class: "quiet", events: {click: f}}, "text", node, [more]) */
export function h(tag, given = {}, ...children) {
  return append(attributes(document.createElement(tag), given), children);
}

export function svg(tag, given = {}, ...children) {
  return append(attributes(document.createElementNS(SVG, tag), given), children);
}

/* Replaces what `parent` holds; a control in it that had the focus and comes again under its id keeps it. */
export function fill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.id : "";
  parent.replaceChildren();
  append(parent, children);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  return parent;
}

/* Saves text or a Blob as a file of the reader's. */
export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/* Text as one word of a shell, whatever is in it: names may hold all that encodeURIComponent leaves, such as '()!*. */
function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

/* The curl command that sends `body` to `path`, or reads it where there is no body. Where this page needed a token, the
 * command takes the reader's own from the environment. */
export function curl(path, body = null) {
  const address = quoted(`${location.origin}${path}`);
  const asked = token() ? `${address} -H "Authorization: Bearer $DELTAQ_TOKEN"` : address;
  if (body === null) return `curl ${asked}`;
  return `curl ${asked} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}

/* A command to copy, with its button. */
export function command(text) {
  const button = h("button", { type: "button", class: "small" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text instead";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return h("div", { class: "command" },
    h("pre", { tabindex: 0, "aria-label": "command" }, h("code", {}, text)),
    button);
}
