/* router.js: addresses after the hash, `#/curves?trajectory=a&x=tokens`, so that every view has a link and the back
 * button works. Each visit has an AbortSignal that ends with it. */
import { query } from "./api.js";

const routes = [];
let visit = null;

/* `pattern` "/runs/{id}"; `show(context)` with {parameters, query, signal, root}. */
export function route(pattern, page, show) {
  const names = [...pattern.matchAll(/\{(\w+)\}/g)].map((found) => found[1]);
  const expression = new RegExp("^" + pattern.replace(/\{\w+\}/g, "([^/]+)") + "$");
  routes.push({ expression, names, page, show });
}

/* Fields as query() takes them. */
export function link(path, fields = {}) {
  return "#" + query(path, fields);
}

export function curvesLink(trajectories, fields = {}) {
  return link("/curves", { trajectory: trajectories, ...fields });
}

export function checkpointLink(id, fields = {}) {
  return link("/checkpoints/" + encodeURIComponent(id), fields);
}

/* `against`: another run, where the page holds the run against it. */
export function runLink(id, against = null) {
  return link("/runs/" + encodeURIComponent(id), { against });
}

export function sweepLink(id) {
  return link("/sweeps/" + encodeURIComponent(id));
}

/* Changes the address of the present view without a new entry in the history. */
export function amend(address) {
  history.replaceState(null, "", address);
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function find() {
  const [path, search = ""] = (location.hash.slice(1) || "/").split(/\?(.*)/s);
  for (const { expression, names, page, show } of routes) {
    const found = expression.exec(path);
    if (found) {
      const parameters = Object.fromEntries(names.map((name, index) => [name, decode(found[index + 1])]));
      return { show, page, parameters, query: new URLSearchParams(search) };
    }
  }
  return null;
}

/* Shows what the address says, now and whenever it changes. before(page) runs first, failed(error) when a page cannot
 * be shown. */
export function start(root, { before, missing, failed }) {
  const go = async () => {
    if (location.hash === "#main") return; /* the skip link */
    visit?.abort();
    visit = new AbortController();
    const { signal } = visit;
    const found = find();
    before(found?.page ?? "");
    try {
      if (found) await found.show({ ...found, root, signal });
      else missing(root);
    } catch (error) {
      if (!signal.aborted) failed(error, root);
    }
  };
  addEventListener("hashchange", go);
  go();
  return go;
}
