"""Questions to the server over HTTP, and the wait for runs with lines
that say how far they are. Standard library only."""

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request

from launch import Trouble

AGAIN_SECONDS = 120  # for so long a server that runs and does not answer is asked again
LINE_SECONDS = 15  # a line at least this often, while there is something new to say
STATES_ENDED = ("succeeded", "failed", "cancelled")


class NoAnswer(Trouble):
    """The server may answer the same question later: its database is away, or the whole machine was suspended."""


class Client:
    def __init__(self, server, line=None):
        """`line`: what tells a stage's progress, made as Line is."""
        self.server, self.line = server, line or Line

    def request(self, method, path, body=None):
        """Only what changes nothing is asked again."""
        until = None
        while True:
            try:
                return self.ask(method, path, body)
            except NoAnswer:
                until = until or time.monotonic() + AGAIN_SECONDS
                if method != "GET" or not self.server.alive() or time.monotonic() > until:
                    raise
                time.sleep(1)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        call = urllib.request.Request(self.server.url + path, data=data, method=method,
                                      headers={"Content-Type": "application/json"} if data else {})
        try:
            with urllib.request.urlopen(call, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            kind = NoAnswer if error.code == 503 else Trouble
            raise kind(f"{method} {path} was answered {error.code}: "
                       f"{error.read().decode(errors='replace')}") from None
        except (OSError, ValueError) as error:
            state = "runs" if self.server.alive() else "has ended"
            raise NoAnswer(f"{method} {path}: {error}; the server {state}; "
                           f"its last lines:\n{self.server.last_lines()}") from None

    def get(self, path, **fields):
        query = urllib.parse.urlencode(fields, doseq=True)
        return self.request("GET", path + ("?" + query if query else ""))

    def post(self, kind, params):
        """The id of a run. An equal request made earlier is the same run;
        one that did not succeed then is tried again."""
        run = self.request("POST", "/v1/runs", {"kind": kind, "params": params})
        if run["state"] in ("failed", "cancelled"):
            run = self.request("POST", f"/v1/runs/{run['id']}/retry")
        return run["id"]

    def checkpoints(self, trajectory):
        """{tokens: id} of a trajectory."""
        return {item["tokens"]: item["id"]
                for item in self.get("/v1/checkpoints", trajectory=trajectory, limit=200)["items"]}

    def finish(self, stage, runs, meanwhile=None):
        """Waits for runs {key: Run}; gives {key: result}.
        Any that does not succeed ends it all with what the server says of it. `meanwhile` is called at every look."""
        line = self.line(stage, len(runs))
        left = dict(runs)
        results = {}
        while left:
            hold = "?wait=2"  # the server holds only the first of the answers
            for key, run in list(left.items()):
                answer = self.request("GET", f"/v1/runs/{run.id}{hold}")
                hold = ""
                run.look(answer)
                if answer["state"] in STATES_ENDED:
                    del left[key]
                    if answer["state"] != "succeeded":
                        detail = (answer.get("error") or {}).get("detail", "")
                        raise Trouble(f"{run.label} {answer['state']}: {detail} ({self.server.url}/#/runs/{run.id})")
                    results[key] = answer["result"]
            if meanwhile is not None:
                meanwhile()
            line.show(sum(run.share * run.weight for run in runs.values()) / sum(run.weight for run in runs.values()),
                      len(runs) - len(left))
        return results


class Run:
    """A run that is waited for. `weight`: its part of the work of its stage; `start`: what its progress counts from,
    because a training run that branches off another goes on with the step of that run."""

    def __init__(self, run_id, label, weight=1, start=0):
        self.id, self.label, self.weight, self.start, self.share = run_id, label, weight, start, 0.0

    def look(self, answer):
        progress = answer["progress"]
        if answer["state"] == "succeeded":
            self.share = 1.0
        elif progress["total"] > self.start:
            self.share = max(0.0, min(1.0, (progress["done"] - self.start) / (progress["total"] - self.start)))


class Line:
    """A line at the start, then one for each tenth of the work or each quarter of a minute. The seconds to go follow
    from the whole stage so far, because those of single runs jump."""

    def __init__(self, stage, runs, clock=time.monotonic, say=lambda text: print(text, flush=True)):
        self.stage, self.runs, self.clock, self.say = stage, runs, clock, say
        self.began = self.told = clock()
        self.first, self.shown = None, -1.0

    def show(self, share, done):
        now = self.clock()
        if self.first is None:
            self.first = share  # of an earlier demo, not of this one's time
        new = (tenths(share) > tenths(self.shown) or share >= 1
               or (now - self.told >= LINE_SECONDS and share >= self.shown + 0.01))
        if self.shown >= 1 or not new:
            return
        gained, elapsed = share - self.first, now - self.began
        ahead = ""
        if share >= 1:
            ahead = f" in {elapsed:.0f} s"
        elif gained >= 0.05 and elapsed >= 3:
            ahead = f", about {round_up(elapsed / gained * (1 - share))} to go"
        counted = f", {done} of {self.runs} runs done" if self.runs > 1 and share < 1 else ""
        self.say(f"  {self.stage}: {100 * share:.0f} %{counted}{ahead}")
        self.told, self.shown = now, share


def tenths(share):
    return math.floor(10 * share + 1e-9)


def round_up(seconds):
    """Seconds in steps of 5 below a minute, of 10 below two minutes; minutes beyond."""
    if seconds >= 120:
        return f"{-(-seconds // 60):.0f} minutes"
    step = 5 if seconds < 60 else 10
    return f"{-(-seconds // step) * step:.0f} s"
