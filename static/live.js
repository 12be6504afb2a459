/* live.js: keeps a page true while runs go on. Trajectories' counts and the running runs are asked for every few
 * seconds; the first few running runs are also followed as event streams (a browser opens six connections to a server
 * and no more). */
import { get, query } from "./api.js";
import { followChanges, followRun, isFinal, pause } from "./events.js";

const STREAMS = 3, BUSY_SECONDS = 3, IDLE_SECONDS = 8, BOARD_SECONDS = 5, HIDDEN_SECONDS = 30;
const QUIET_SECONDS = 60, BURST_SECONDS = 0.5;

/* A pause that also ends when the function which `told` is given is called. */
async function nap(seconds, signal, told) {
  const next = new AbortController(), stop = () => next.abort();
  told(stop);
  signal.addEventListener("abort", stop, { once: true });
  await pause(seconds, next.signal);
  signal.removeEventListener("abort", stop);
}

/* `read(signal)` -> {runs: [running], mark: text}. Calls onRuns(runs) at each reading, onProgress(run) at each progress
 * event, and onChange() when `mark` differs from the reading before: again at the next one, when it fails. */
export async function watch({ read, onRuns, onProgress, onChange }, signal) {
  const streams = new Map();
  let mark = null, wake = () => {};
  const follow = (run) => {
    const end = new AbortController();
    signal.addEventListener("abort", () => end.abort(), { once: true });
    streams.set(run.id, { end, run });
    followRun(run.id, (type, data) => {
      if (type === "progress") onProgress({ ...run, progress: data });
      if (type === "state" && isFinal(data.to)) wake();
    }, end.signal);
  };
  while (!signal.aborted) {
    let busy = false;
    try {
      const found = await read(signal);
      if (signal.aborted) break;
      busy = found.runs.length > 0 || found.busy;
      for (const [id, { end }] of streams) {
        if (found.runs.some((run) => run.id === id)) continue;
        end.abort();
        streams.delete(id);
      }
      for (const run of found.runs) if (streams.size < STREAMS && !streams.has(run.id)) follow(run);
      onRuns(found.runs);
      if (mark !== null && mark !== found.mark) await onChange();
      mark = found.mark;
    } catch {
      /* The server is away or restarting: what is shown stays, and the next reading tries again. */
    }
    await nap(document.hidden ? HIDDEN_SECONDS : busy ? BUSY_SECONDS : IDLE_SECONDS, signal,
      (stop) => { wake = stop; });
  }
}

/* Reads again every few seconds and shows what was found, until the page is left: with `always` each time, for what
 * tells how long ago something was, else when it is not what was shown before, which `first` is at the beginning. A
 * hidden page reads seldom; a reading that fails is left to the next one. With `changes`, kinds of the change log, it
 * reads when one is logged and waits in between, unless busy(found): something moves that the log does not tell. */
export async function keep({ read, show, first = null, always = false, changes = null, busy = () => false }, signal) {
  let shown = JSON.stringify(first), found = first, told = false, live = false, wake = () => {};
  const changed = () => {
    told = true;
    wake();
  };
  const seconds = () => {
    if (document.hidden) return HIDDEN_SECONDS;
    return live && !busy(found) ? QUIET_SECONDS : BOARD_SECONDS;
  };
  if (changes) followChanges(changes, { changed, live: (is) => { live = is; changed(); } }, signal);
  while (!signal.aborted) {
    if (!told) await nap(seconds(), signal, (stop) => { wake = stop; });
    if (told) await pause(BURST_SECONDS, signal); /* a sweep changes many runs at once */
    told = false;
    try {
      found = await read();
      const text = JSON.stringify(found);
      if ((always || text !== shown) && !signal.aborted) show(found);
      shown = text;
    } catch { /* the server is away or restarting: what is shown stays */ }
  }
}

/* What of trajectories changes when something was measured or registered. */
export function markOf(trajectories) {
  const counts = ({ name, checkpoints, runs: { succeeded, failed, cancelled } = {} }) =>
    [name, checkpoints, succeeded, failed, cancelled];
  return JSON.stringify(trajectories.map(counts));
}

export function queued(trajectories) {
  return trajectories.reduce((sum, { runs = {} }) => sum + (runs.queued ?? 0), 0);
}

/* The running runs, of one trajectory or of all. */
export async function running(trajectory, signal) {
  return (await get(query("/v1/runs", { state: "running", trajectory, limit: 20, view: "summary" }), signal)).items;
}
