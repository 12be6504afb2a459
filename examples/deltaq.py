"""A thin client of deltaq: one file to copy into a project. Needs requests; .frame() needs pandas.

    from deltaq import Deltaq
    dq = Deltaq()                                   # DELTAQ_URL, DELTAQ_TOKEN, or http://127.0.0.1:8642
    run = dq.run("quantize", checkpoint="pythia/step1000", method={"name": "rtn", "bits": 4},
                 evaluation={"dataset": "held-out"}).wait()
    print(run["result"]["delta"])
    dq.measurements("pythia").frame().plot(x="tokens", y="delta")

Everything that the server answers is a plain dict; names work wherever an id does. A problem is raised as Problem,
whose text has the server's detail and every field that it blames."""

import os
import time
import urllib.parse

import requests

FINAL = ("succeeded", "failed", "cancelled")
HOLD = 30  # seconds that one request of wait() is held


class Problem(Exception):
    """What the server refused: .status, .document (RFC 9457) and .pointers."""

    def __init__(self, answer):
        try:
            self.document = answer.json()
        except ValueError:
            self.document = {"detail": answer.text[:300]}
        self.status = answer.status_code
        faults = self.document.get("errors", [])
        self.pointers = [fault["pointer"] for fault in faults]
        lines = [f"{self.status}: {self.document.get('detail') or self.document.get('title')}"]
        super().__init__("\n".join(lines + [f"  {fault['pointer']}: {fault['detail']}" for fault in faults]))


class Failed(Exception):
    """A run that ended otherwise than well: .run."""

    def __init__(self, run):
        self.run = run
        super().__init__(f"run {run['id']} {run['state']}: {(run['error'] or {}).get('detail', 'no reason given')}")


class Rows(list):
    """Rows of a table, dicts; .frame() makes a pandas.DataFrame of them."""

    def frame(self):
        import pandas

        return pandas.DataFrame(list(self))


class Run(dict):
    """A run as the server tells it."""

    def __init__(self, client, document):
        super().__init__(document)
        self.client = client

    def wait(self, timeout=None):
        """Until it has ended; returns itself, or raises Failed, or TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while self["state"] not in FINAL:
            left = HOLD if end is None else min(HOLD, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"run {self['id']} is still {self['state']}")
            self.update(self.client.get(f"/v1/runs/{self['id']}", wait=max(1, int(left))))
        if self["state"] != "succeeded":
            raise Failed(self)
        return self


class Sweep(dict):
    """A grid of runs as the server tells it."""

    def __init__(self, client, document):
        super().__init__(document)
        self.client = client

    def wait(self, timeout=None):
        """Until all of its runs have ended; returns itself. Which of them failed, runs(sweep=…) tells."""
        end = None if timeout is None else time.monotonic() + timeout
        while self["runs"]["queued"] + self["runs"]["running"] > 0:
            left = HOLD if end is None else min(HOLD, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"sweep {self['id']}: {self['runs']}")
            self.update(self.client.get(f"/v1/sweeps/{self['id']}", wait=max(1, int(left))))
        return self


class Deltaq:
    def __init__(self, url=None, token=None):
        self.url = (url or os.environ.get("DELTAQ_URL") or "http://127.0.0.1:8642").rstrip("/")
        host = urllib.parse.urlsplit(self.url).hostname or ""
        loopback = host in ("localhost", "::1") or host.startswith("127.")
        self.proxies = {"no_proxy": host} if loopback else None  # a proxy cannot reach this machine's loopback
        self.session = requests.Session()
        self.session.auth = lambda request: request  # else what ~/.netrc has of this host replaces the token
        token = token or os.environ.get("DELTAQ_TOKEN")
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def request(self, method, path, body=None, query=None):
        answer = self.session.request(method, self.url + path, json=body, params=query, timeout=120,
                                      proxies=self.proxies)
        if not answer.ok:
            raise Problem(answer)
        return answer.json() if answer.content else None

    def get(self, path, **query):
        return self.request("GET", path, query={name: value for name, value in query.items() if value is not None})

    def post(self, path, body):
        return self.request("POST", path, body)

    def all(self, path, **query):
        """Every item of a list, page after page."""
        page = self.get(path, **query)
        items = Rows(page["items"])
        while page.get("next"):
            page = self.get(page["next"])
            items += page["items"]
        return items

    # ---- what there is ----

    def checkpoint(self, path, trajectory, name, **more):
        """Registers a directory below a root of the server; the same again is the same one."""
        return self.post("/v1/checkpoints",
                         {"trajectory": trajectory, "name": name, "source": {"path": str(path)}, **more})

    def scan(self, trajectory, path, watch=None):
        """Registers every checkpoint below a directory."""
        return self.post(f"/v1/trajectories/{quoted(trajectory)}/scan", {"path": str(path), "watch": watch})

    def dataset(self, name, **more):
        """`path=` and `format=`, or `sequences=`."""
        return self.post("/v1/datasets", {"name": name, **more})

    def checkpoints(self, trajectory):
        return self.all("/v1/checkpoints", trajectory=trajectory, limit=200)

    # ---- work ----

    def run(self, kind, force=False, **params):
        return Run(self, self.post("/v1/runs", {"kind": kind, "params": params, "force": force}))

    def sweep(self, kind, base, grid, name=None):
        return Sweep(self, self.post("/v1/sweeps", {"kind": kind, "base": base, "grid": grid, "name": name}))

    def runs(self, **filters):
        return Rows(Run(self, run) for run in self.all("/v1/runs", limit=200, **filters))

    # ---- what was found ----

    def measurements(self, *trajectories, **filters):
        """A row for each checkpoint and series, every metric a column: .frame()."""
        return self.all("/v1/measurements", trajectory=list(trajectories), limit=500, **filters)

    def curve(self, *trajectories, metric="delta", x="step", **filters):
        """The points of all series below one another: .frame()."""
        found = self.get("/v1/curves", trajectory=list(trajectories), metric=metric, x=x, **filters)
        return Rows({"trajectory": series["trajectory"], "label": series["label"], **point}
                    for series in found["series"] for point in series["points"])


def quoted(name):
    return urllib.parse.quote(name, safe="")
