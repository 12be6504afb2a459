/* main.js: puts the pages behind their addresses; the colour scheme's button; what to do when the server wants a
 * token. */
import { RENEWED_SECONDS, renewAges } from "./age.js";
import { Problem, token } from "./api.js";
import { fill, h } from "./dom.js";
import { loadMetrics } from "./metrics.js";
import { askToken, failure, loading } from "./notice.js";
import { isDark } from "./palette.js";
import { route, start } from "./router.js";

const root = document.getElementById("main");

function themeButton() {
  const button = document.getElementById("theme");
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("deltaq-theme", next); } catch { /* storage forbidden: it holds for this visit */ }
    show();
    document.dispatchEvent(new Event("deltaq-theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

/* Says that what a page shows may be old by now, while the server cannot be reached. */
function awayNotice() {
  const words = "The server cannot be reached. What is shown is what it said last; this page goes on when it answers.";
  const notice = document.getElementById("away");
  document.addEventListener("deltaq-reached", ({ detail: reached }) => {
    notice.textContent = reached ? "" : words;
    notice.hidden = reached;
  });
}

/* A module that could not be fetched is not fetched again by this document, and a server that was brought up to date
 * has modules at other addresses: trying again is loading it anew. */
function unreachable() {
  const detail = "the server cannot be reached, or it has another version of this page by now";
  throw Object.assign(new Problem({ title: "Not loaded", detail }, 0), { reload: true });
}

/* A page's module is fetched when it is first shown; every page but that of the API names numbers as the server
 * does. */
function page(pattern, part, read, show) {
  route(pattern, part, async (given) => {
    fill(root, loading("the page"));
    const [module] = await Promise.all([read().catch(unreachable), part === "api" ? null : loadMetrics(given.signal)]);
    if (!given.signal.aborted) await module[show](given);
  });
}

const sweeps = () => import("./page_sweeps.js");

page("/", "trajectories", () => import("./page_trajectories.js"), "showTrajectories");
page("/curves", "trajectories", () => import("./page_curves.js"), "showCurves");
page("/checkpoints/{id}", "trajectories", () => import("./page_checkpoint.js"), "showCheckpoint");
page("/compare", "trajectories", () => import("./page_compare.js"), "showCompare");
page("/scatter", "scatter", () => import("./page_scatter.js"), "showScatter");
page("/frontier", "frontier", () => import("./page_frontier.js"), "showFrontier");
page("/flips", "flips", () => import("./page_flips.js"), "showFlips");
page("/sweeps", "sweeps", sweeps, "showSweeps");
page("/sweeps/{id}", "sweeps", sweeps, "showSweep");
page("/gates", "gates", () => import("./page_gates.js"), "showGates");
page("/data", "data", () => import("./page_data.js"), "showData");
page("/system", "system", () => import("./page_system.js"), "showSystem");
page("/runs", "runs", () => import("./page_runs.js"), "showRuns");
page("/runs/{id}", "runs", () => import("./page_run.js"), "showRun");
page("/api", "api", () => import("./page_api.js"), "showApi");

let visits = 0;

function before(page) {
  for (const anchor of document.querySelectorAll("nav a[data-page]")) {
    if (anchor.dataset.page === page) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  if (visits++ > 0) {
    root.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function missing() {
  document.title = "Not found · deltaq";
  fill(root, h("h1", {}, "No such page"), h("p", {}, h("a", { href: "#/" }, "To the trajectories")));
}

function failed(error) {
  if (error.status === 401) {
    askToken(root, go, token() !== "");
    return;
  }
  const again = () => (error.reload ? location.reload() : go());
  fill(root, h("h1", {}, error.status === 404 ? "Not found" : "This page cannot be shown"), failure(error),
    h("p", {}, h("button", { type: "button", events: { click: again } }, "Try again")),
    h("p", {}, h("a", { href: "#/" }, "To the trajectories")));
}

themeButton();
awayNotice();
setInterval(renewAges, 1000 * RENEWED_SECONDS);
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); root.focus(); });
const go = start(root, { before, missing, failed });
