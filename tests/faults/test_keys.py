"""A server that is killed while it answers POSTs with an Idempotency-Key:
whoever asks again gets one run, or one webhook, and gets it at once."""

import http.client
import json
import os
import subprocess
import threading
import time
import uuid

from faults import body_of, prepare
from test_kills import kill_server

KILLS = int(os.environ.get("DELTAQ_KEY_KILLS", "4"))


class Asker(threading.Thread):
    """Posts runs that are never shared, each under a key of its own
    and again under the same key until it is answered."""

    def __init__(self, service, stop):
        super().__init__()
        self.service, self.stop, self.answered, self.worst = service, stop, {}, 0.0

    def post(self, body, key):
        try:
            return self.service.post("/v1/runs", body, {"Idempotency-Key": key})
        except (OSError, http.client.HTTPException):
            return None  # killed

    def run(self):
        body = {**body_of("evaluate"), "priority": -5}
        while not self.stop.is_set():
            key, began = uuid.uuid4().hex, None
            while True:
                answer = self.post(body, key)
                if answer is not None and answer.status == 202:
                    self.answered[key] = answer.json["id"]
                    if began is not None:
                        self.worst = max(self.worst, time.monotonic() - began)
                    break
                if answer is not None:
                    assert answer.status in (409, 503), answer.body
                    began = began or time.monotonic()  # the server is back, and the key is not
                time.sleep(0.02)


def count(service):
    ids, address = set(), "/v1/runs?limit=200&kind=evaluate"
    while address:
        page = service.get(address).json
        ids |= {run["id"] for run in page["items"]}
        address = page["next"]
    return ids


def test_no_key_makes_two_runs(own):
    prepare(own)
    own.gate.hold("evaluate", 1, "chunk", lease="*")  # they wait in the queue: computing them would only take time
    before, stop = count(own), threading.Event()
    askers = [Asker(own, stop) for _ in range(4)]
    for asker in askers:
        asker.start()
    for i in range(KILLS):
        time.sleep(0.3 + 0.1 * (i % 4))
        kill_server(own)
    enough = time.monotonic() + 60  # a server that is killed as soon as it answers may have answered few
    while sum(len(asker.answered) for asker in askers) <= KILLS and time.monotonic() < enough:
        time.sleep(0.1)
    stop.set()
    for asker in askers:
        asker.join(120)
        assert not asker.is_alive()
    asked = [run for asker in askers for run in asker.answered.values()]
    assert len(asked) > KILLS and len(set(asked)) == len(asked)
    assert count(own) - before == set(asked), "a run without an answer: its key made another one"
    # A claim used to be kept for 60 s after its server's end.
    assert max(asker.worst for asker in askers) < 30
    print(json.dumps({"kills": KILLS, "keys": len(asked), "worst_seconds": max(asker.worst for asker in askers)}))


def test_no_key_makes_two_webhooks(own):
    """Killed at the one moment that counts: the webhook is made, its answer is about to be kept. A lock that this test
    holds stops the server there."""
    def sql(text):
        conninfo = f"host={own.data}/pg/socket port=5432 user=deltaq dbname=deltaq"
        return subprocess.run(["psql", "-XAtqd", conninfo, "-c", text], capture_output=True, text=True, check=True,
                              timeout=120).stdout.strip()

    def wait_for(what):
        end = time.monotonic() + 120
        while sql(f"select exists ({what})") != "t":
            assert time.monotonic() < end, what
            time.sleep(0.02)

    def post():
        try:
            return own.post("/v1/webhooks", {"url": "https://example.com/", "secret": "k" * 16},
                            {"Idempotency-Key": "one"})
        except (OSError, http.client.HTTPException):
            return None  # killed

    sql("create function stop() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(17);"
        " return new; end $$; create trigger stop before update on idempotency_keys for each row execute function"
        " stop()")
    holder = subprocess.Popen(["psql", "-XAtqd", f"host={own.data}/pg/socket port=5432 user=deltaq dbname=deltaq"],
                              stdin=subprocess.PIPE, text=True)
    holder.stdin.write("select pg_advisory_lock(17);\n")
    holder.stdin.flush()
    wait_for("select from pg_locks where locktype = 'advisory' and objid = 17 and granted")
    asker = threading.Thread(target=post)
    asker.start()
    wait_for("select from pg_locks where locktype = 'advisory' and objid = 17 and not granted")
    own.process.kill()
    own.process.wait()
    own.process.stdout.close()
    holder.stdin.close()
    holder.wait(120)
    asker.join(120)
    own.start()
    end = time.monotonic() + 120
    while (answer := post()) is None or answer.status in (409, 503):
        assert time.monotonic() < end, answer and answer.body
        time.sleep(0.02)
    assert answer.status == 201
    assert [webhook["id"] for webhook in own.get("/v1/webhooks").json["items"]] == [answer.json["id"]]
    assert post().json == answer.json
