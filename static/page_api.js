/* page_api.js: the interface as this server has it, described and tried: Swagger UI over openapi.yaml. `make static`
 * fetches it; without it the page says so. Its requests go to this server alone, with the reader's token. */
import { send, token } from "./api.js";
import { fill, h } from "./dom.js";
import { loading } from "./notice.js";
import { beside, script } from "./script.js";

const DESCRIPTION = "/openapi.yaml";
const SERVERS = /^servers:\n(?: +-.*\n)+/m; /* in the description: the default address, which need not be this one */

let styled = null;

/* Once, and then for good: it styles nothing but what stands below .swagger-ui. */
function style() {
  styled ??= document.head.appendChild(h("link", { rel: "stylesheet", href: beside("swagger-ui.css") }));
}

function authorized(request) {
  const url = new URL(request.url, location.href), bearer = token();
  if (url.origin === location.origin && bearer) request.headers.Authorization ??= `Bearer ${bearer}`;
  return request;
}

function here(text) {
  if (!SERVERS.test(text)) throw new Error(`${DESCRIPTION} names no servers`);
  return text.replace(SERVERS, `servers:\n  - {url: '${location.origin}', description: This server}\n`);
}

function shown(bundle, text) {
  const place = h("div", { class: "interface" });
  const page = bundle({
    domNode: place, deepLinking: false, docExpansion: "list", defaultModelsExpandDepth: -1, filter: true,
    tryItOutEnabled: true, displayRequestDuration: true, validatorUrl: null, requestInterceptor: authorized,
  });
  page.specActions.updateSpec(here(text));
  return place;
}

export async function showApi({ root, signal }) {
  document.title = "API · deltaq";
  const file = h("a", { href: DESCRIPTION, id: "description" }, "openapi.yaml");
  const head = [h("h1", {}, "API"), h("p", { class: "muted" }, "The whole interface, for clients and their makers: ",
    file, ". What is tried here is really done, with the token of this tab where one was given.")];
  fill(root, head, loading("the interface"));
  const text = await (await send("GET", DESCRIPTION, { accept: "application/yaml", signal })).text();
  const bundle = await script("swagger-ui.js", "SwaggerUIBundle").catch(() => null);
  if (signal.aborted) return;
  if (bundle === null) {
    const missing = "Swagger UI is not there, so requests cannot be tried here; `make static` fetches it.";
    fill(root, head, h("p", { class: "notice remark", id: "no-swagger" }, missing));
    return;
  }
  style();
  fill(root, head, shown(bundle, text));
}
