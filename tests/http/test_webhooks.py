"""Webhooks: events posted to an address, signed, in order, until they are taken, and never to a private address."""

import contextlib
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import threading
import time

import models
import pytest
from service import Service

LIMIT = 90


class Receiver:
    """An HTTP server that keeps what is posted to it. `answers`: statuses to give, in order; then 204."""

    def __init__(self):
        self.posts, self.answers, self.changed = [], [], threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.changed:
                    receiver.posts.append((self.path, self.headers, body))
                    status = receiver.answers.pop(0) if receiver.answers else 204
                    receiver.changed.notify_all()
                if callable(status):
                    status = status()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def wait(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.posts) >= count, LIMIT), (count, self.posts)
        return [json.loads(body) for _, _, body in self.posts]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def open_service(tmp_path_factory):
    with tempfile.TemporaryDirectory(prefix="dq-") as directory:
        service = Service(pathlib.Path(directory), "--workers", "0", "--allow-private-webhooks")
        yield service
        assert service.stop() == 0


def hook(service, url, secret="a secret of tests", **more):
    answer = service.post("/v1/webhooks", {"url": url, "secret": secret, **more})
    assert answer.status == 201, answer.body
    assert answer.headers["Location"] == f"/v1/webhooks/{answer.json['id']}"
    return answer.json


def happen(service, name, count=1, start=0):
    for i in range(start, start + count):
        service.checkpoint(models.write_llama(service.files / "hooks", seed=1), name, f"step{i}", step=i)


def deliveries(service, made):
    return service.get(f"/v1/webhooks/{made['id']}/deliveries?limit=1000").json["items"]


def settled(service, made, wanted):
    """The deliveries, oldest first, once wanted(them)."""
    end = time.monotonic() + LIMIT
    while not wanted(found := deliveries(service, made)[::-1]):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def sql(service, text):
    conninfo = f"host={service.data}/pg/socket port=5432 user=deltaq dbname=deltaq"
    done = subprocess.run(["psql", "-XAtq", "-d", conninfo, "-c", text], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_events_are_posted_in_order_and_signed(open_service, receiver, name):
    happen(open_service, f"{name}-before")
    secret = "the secret of ü and me"
    made = hook(open_service, f"{receiver.url}/at?x=1", secret, events=["checkpoint"])
    happen(open_service, name, 5)
    posts = receiver.wait(5)
    assert [post["data"]["checkpoint_name"] for post in posts] == [f"step{i}" for i in range(5)]  # none from before
    assert {post["data"]["trajectory"] for post in posts} == {name}
    ids = [int(post["id"]) for post in posts]
    assert ids == sorted(set(ids))
    for path, headers, body in receiver.posts:
        post = json.loads(body)
        assert path == "/at?x=1" and headers["Content-Type"] == "application/json"
        assert (post["event"], post["webhook"]) == ("checkpoint", made["id"])
        assert (headers["Deltaq-Event"], headers["Deltaq-Event-Id"]) == ("checkpoint", post["id"])
        seconds, signature = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["Deltaq-Signature"]).groups()
        assert abs(int(seconds) - time.time()) < LIMIT
        assert signature == hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    tries = settled(open_service, made, lambda found: len(found) >= 5)
    assert [(t["event"], t["try"], t["http_status"], t["outcome"], t["error"]) for t in tries] == [
        (str(i), 1, 204, "delivered", None) for i in ids]
    assert open_service.request("DELETE", f"/v1/webhooks/{made['id']}").status == 204
    happen(open_service, f"{name}-after")
    assert open_service.get(f"/v1/webhooks/{made['id']}").status == 404


def test_a_change_with_large_numbers_is_posted_and_one_that_cannot_be_read_is_left_out(open_service, receiver, name):
    made = hook(open_service, receiver.url, events=["alert"])
    for limit in ("1e20", "1e400", "3"):
        sql(open_service, f"insert into changes_pending (kind, data) values ('alert', '{{\"max\": {limit}}}')")
    assert [post["data"]["max"] for post in receiver.wait(2)] == [1e20, 3]
    assert open_service.request("DELETE", f"/v1/webhooks/{made['id']}").status == 204


def test_only_the_kinds_asked_for(open_service, receiver, name):
    made = hook(open_service, receiver.url, events=["verdict", "alert"])
    happen(open_service, name)
    sql(open_service, "insert into changes_pending (kind, data) values ('alert', '{\"what\": 1}')")
    assert [(post["event"], post["data"]["what"]) for post in receiver.wait(1)] == [("alert", 1)]
    assert open_service.get(f"/v1/webhooks/{made['id']}").json["events"] == ["verdict", "alert"]


def test_what_is_not_taken_comes_again_and_holds_up_what_follows(open_service, receiver, name):
    receiver.answers = [500, 302, 404]
    made = hook(open_service, receiver.url, events=["checkpoint"])
    happen(open_service, name, 2)
    posts = receiver.wait(5)
    assert [post["data"]["checkpoint_name"] for post in posts] == ["step0"] * 4 + ["step1"]
    assert len({body for _, _, body in receiver.posts[:4]}) == 1  # the same event, word for word
    assert {path for path, _, _ in receiver.posts} == {"/"}  # where the 302 leads nobody went
    tries = settled(open_service, made, lambda found: len(found) >= 5)
    assert [(t["try"], t["http_status"], t["outcome"]) for t in tries] == [
        (1, 500, "retry"), (2, 302, "retry"), (3, 404, "retry"), (4, 204, "delivered"), (1, 204, "delivered")]
    assert "redirects are not followed" in tries[1]["error"]
    address = f"/v1/webhooks/{made['id']}/deliveries"
    newest = tries[::-1]
    page = open_service.get(f"{address}?fields=outcome,try&limit=2").json
    assert page["items"] == [{key: one[key] for key in ("outcome", "try")} for one in newest[:2]]
    assert open_service.get(page["next"]).json["items"] == [
        {key: one[key] for key in ("outcome", "try")} for one in newest[2:4]]
    assert open_service.get(f"{address}?view=summary").json["items"] == [
        {key: one[key] for key in ("event", "kind", "try", "at", "outcome")} for one in newest]
    assert open_service.get(f"{address}?fields=secret").pointers == ["/fields"]


def test_delays_grow_and_after_enough_tries_the_next_event_comes(open_service, receiver, name):
    receiver.answers = [500] * 16
    made = hook(open_service, receiver.url, events=["checkpoint"])
    happen(open_service, name, 2)
    delays = []  # (which try of its event failed, the seconds that were set until the next one)
    kept = ("select t.try, extract(epoch from w.due_at - t.at) as seconds from webhooks w join webhook_deliveries t"
            f" on t.webhook = w.id where w.id = '{made['id']}' order by t.number desc limit 1")
    for tried in range(1, 16):  # rather than for hours, the test waits until each try is kept, and makes the next due
        settled(open_service, made, lambda found: len(found) >= tried)
        delays.append([float(value) for value in sql(open_service, kept).split("|")])
        # unless it came by itself meanwhile: then the delay behind that one stands there already
        sql(open_service, f"update webhooks set due_at = clock_timestamp() where id = '{made['id']}' and"
                          f" (select count(*) from webhook_deliveries where webhook = '{made['id']}') = {tried}")
    tries = settled(open_service, made, lambda found: len(found) >= 17)
    assert [t["outcome"] for t in tries] == ["retry"] * 15 + ["given_up", "delivered"]
    assert [t["try"] for t in tries] == [*range(1, 17), 1]
    for number, delay in delays:
        longest = min(3600, 2 ** (number - 1))
        assert longest / 2 - 0.1 < delay < longest + 0.1, (number, delay)  # 0.1: within the statement that set both


def test_one_that_fails_holds_up_no_other(open_service, receiver, name):
    hook(open_service, "http://127.0.0.1:9/", events=["checkpoint"])
    slow = threading.Event()
    other = Receiver()
    other.answers = [lambda: (slow.wait(LIMIT), 204)[1]]
    held = hook(open_service, other.url, events=["checkpoint"])
    hook(open_service, receiver.url, events=["checkpoint"])
    happen(open_service, name, 3)
    assert len(receiver.wait(3)) == 3 and deliveries(open_service, held) == []
    slow.set()
    other.wait(3)
    other.close()


def test_those_that_fail_and_then_say_nothing_hold_up_no_other(open_service, receiver, name):
    """Three addresses whose first answer is 500 and who are silent from then on; the fourth is told all the while, for
    never are two of the three asked at once, though all are due."""
    slow = threading.Event()
    silent = [Receiver() for _ in range(3)]
    made = []
    for one in silent:
        one.answers = [500] + [lambda: (slow.wait(LIMIT), 204)[1]] * 8
        made.append(hook(open_service, one.url, events=["checkpoint"]))
    hook(open_service, receiver.url, events=["checkpoint"])
    happen(open_service, name)
    for one in made:
        settled(open_service, one, lambda found: len(found) >= 1)
    receiver.wait(1)
    ids = ", ".join(f"'{one['id']}'" for one in made)
    sql(open_service, f"update webhooks set due_at = clock_timestamp() where id in ({ids}) and tries = 1")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [one.close() for one in silent])
        stack.callback(slow.set)
        end, asked = time.monotonic() + LIMIT, 0
        happen(open_service, name, 3, start=1)
        while asked < 4 or len(receiver.posts) < 4:
            assert time.monotonic() < end
            asked = sum(len(one.posts) for one in silent)  # before the tries that have ended since
            assert asked - sum(len(deliveries(open_service, one)) for one in made) <= 1


def test_a_killed_server_loses_nothing_and_repeats_under_the_same_id(receiver, name):
    """Killed while a delivery is under way, and between deliveries."""
    with tempfile.TemporaryDirectory(prefix="dq-") as directory:
        service = Service(pathlib.Path(directory), "--workers", "0", "--allow-private-webhooks")
        hook(service, receiver.url, events=["checkpoint"])

        def die():
            service.process.kill()
            return 204

        receiver.answers = [204, die]
        happen(service, name, 2)
        receiver.wait(2)
        service.process.wait()
        service.process.stdout.close()
        service.start()
        happen(service, name, 3, start=2)
        receiver.wait(6)
        names = [json.loads(body)["data"]["checkpoint_name"] for _, _, body in receiver.posts]
        assert names == ["step0", "step1", "step1", "step2", "step3", "step4"]
        assert receiver.posts[1][2] == receiver.posts[2][2]
        assert service.stop() == 0


def test_private_addresses_are_refused_when_asked_for_and_when_connected_to(service, receiver, name):
    """This server was started without --allow-private-webhooks. A name is judged by what it stands for then."""
    port = receiver.server.server_port
    for url in (receiver.url, "http://10.1.2.3/", "http://[::1]/", "http://169.254.169.254/latest",
                "https://[fe80::1]/", "http://0x7f000001/", "http://2130706433/", "http://0177.1/"):
        answer = service.post("/v1/webhooks", {"url": url, "secret": SECRET})
        assert answer.status == 422 and answer.pointers == ["/url"] and "private" in answer.json["detail"], url
    made = [hook(service, f"http://localhost:{port}/", events=["checkpoint"]),
            hook(service, f"http://localhost:{port}/", events=[])]
    happen(service, name)
    for one in made:
        refused = settled(service, one, lambda found: len(found) >= 1)[0]
        assert refused["outcome"] == "retry" and refused["http_status"] is None
        assert "webhooks do not go" in refused["error"]
        assert service.request("DELETE", f"/v1/webhooks/{one['id']}").status == 204
    assert receiver.posts == []


SECRET = "sixteen bytes it"  # as short as it may be


@pytest.mark.parametrize("body,pointer", [
    ({"secret": SECRET}, "/url"),
    ({"url": "https://example.com/"}, "/secret"),
    ({"url": "https://example.com/", "secret": ""}, "/secret"),
    ({"url": "https://example.com/", "secret": SECRET[1:]}, "/secret"),
    ({"url": "http:/example.com/", "secret": SECRET}, "/url"),
    ({"url": "https:///example.com/", "secret": SECRET}, "/url"),
    ({"url": "http:example.com", "secret": SECRET}, "/url"),
    ({"url": "https://example.com/", "secret": SECRET, "events": ["weather"]}, "/events/0"),
    ({"url": "https://example.com/", "secret": SECRET, "event": []}, "/event"),
    ({"url": "example.com", "secret": SECRET}, "/url"),
    ({"url": "ftp://example.com/", "secret": SECRET}, "/url"),
    ({"url": "file:///etc/passwd", "secret": SECRET}, "/url"),
    ({"url": "https://user:word@example.com/", "secret": SECRET}, "/url"),
    ({"url": "https://example.com/#part", "secret": SECRET}, "/url"),
])
def test_bad_webhooks_are_pointed_at(service, body, pointer):
    answer = service.post("/v1/webhooks", body)
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_how_short_a_secret_is_and_how_an_address_looks_is_said(service):
    answer = service.post("/v1/webhooks", {"url": "https://example.com/", "secret": "x"})
    assert "must have at least 16 bytes, found 1" in answer.json["detail"]
    answer = service.post("/v1/webhooks", {"url": "http:/example.com/", "secret": SECRET})
    assert "must be an address like https://host/path" in answer.json["detail"]
    hook(service, "https://example.invalid/", SECRET, events=["alert"])


def test_a_secret_is_never_shown_again(service):
    secret = "only-the-two-of-us-know"
    made = hook(service, "https://example.invalid/", secret, events=["alert"])
    for answer in (service.get(f"/v1/webhooks/{made['id']}"), service.get("/v1/webhooks"),
                   service.get(f"/v1/webhooks/{made['id']}/deliveries")):
        assert answer.status == 200 and secret not in answer.body.decode()
    assert secret not in json.dumps(made) and "secret" not in made
    assert service.get("/v1/webhooks?limit=1").json["items"][0]["id"] == made["id"]
    assert service.request("DELETE", f"/v1/webhooks/{made['id']}").status == 204
    for path in (f"/v1/webhooks/{made['id']}", f"/v1/webhooks/{made['id']}/deliveries"):
        assert service.get(path).status == 404
