/* main.js: puts the pages behind their addresses; the colour scheme's button; what to do when the server wants a
 * token. */
import { token } from "./api.js";
import { fill, h } from "./dom.js";
import { loadMetrics } from "./metrics.js";
import { askToken, failure } from "./notice.js";
import { showApi } from "./page_api.js";
import { showCheckpoint } from "./page_checkpoint.js";
import { showCompare } from "./page_compare.js";
import { showCurves } from "./page_curves.js";
import { showData } from "./page_data.js";
import { showFlips } from "./page_flips.js";
import { showFrontier } from "./page_frontier.js";
import { showRun } from "./page_run.js";
import { showRuns } from "./page_runs.js";
import { showScatter } from "./page_scatter.js";
import { showSweep, showSweeps } from "./page_sweeps.js";
import { showSystem } from "./page_system.js";
import { showTrajectories } from "./page_trajectories.js";
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

/* Every page names numbers as the server does. */
const told = (show) => async (given) => {
  await loadMetrics(given.signal);
  if (!given.signal.aborted) await show(given);
};

route("/", "trajectories", told(showTrajectories));
route("/curves", "trajectories", told(showCurves));
route("/checkpoints/{id}", "trajectories", told(showCheckpoint));
route("/compare", "trajectories", told(showCompare));
route("/scatter", "scatter", told(showScatter));
route("/frontier", "frontier", told(showFrontier));
route("/flips", "flips", told(showFlips));
route("/sweeps", "sweeps", told(showSweeps));
route("/sweeps/{id}", "sweeps", told(showSweep));
route("/data", "data", told(showData));
route("/system", "system", told(showSystem));
route("/runs", "runs", told(showRuns));
route("/runs/{id}", "runs", told(showRun));
route("/api", "api", showApi);

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
  fill(root, h("h1", {}, error.status === 404 ? "Not found" : "This page cannot be shown"), failure(error),
    h("p", {}, h("button", { type: "button", events: { click: () => go() } }, "Try again")),
    h("p", {}, h("a", { href: "#/" }, "To the trajectories")));
}

themeButton();
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); root.focus(); });
const go = start(root, { before, missing, failed });
