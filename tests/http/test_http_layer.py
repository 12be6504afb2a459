"""What the HTTP layer does for handlers: routes, problems, tags, gzip, files, tokens, keys, waits, event streams,
stopping. No database: the server is echo_server."""

import gzip
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

import pytest
from echo import BINARY, Events, Server, problem, read_all, wait_for_metric


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    directory = tmp_path_factory.mktemp("static")
    (directory / "index.html").write_text(
        "<!doctype html><title>deltaq</title><link href=\"/deep/style.css\"><a href=\"#/\">all</a>"
        "<script src=\"/large.js\"></script>" + "<p>curves</p>" * 300)
    (directory / "app.0123abcd.js").write_text("'use strict';\n" * 400)
    (directory / "openapi.yaml").write_text("openapi: 3.1.0\n")
    (directory / "deep").mkdir()
    (directory / "deep" / "style.css").write_text("p { margin: 0 }\n")
    (directory / "large.js").write_text("".join(f"const x{k} = {k * k};\n" for k in range(200_000)))
    (directory / ".hidden.js").write_text("secret")
    (directory / "notes.bin").write_text("secret")
    return directory


@pytest.fixture(scope="module")
def server(static):
    running = Server("--static", str(static))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def short():
    running = Server("--short")
    yield running
    running.stop()


# --- routes and problems ----------------------------------------------------------------------------------------------
def test_path_segments_are_decoded_after_splitting(server):
    status, _, document = server.request("GET", "/v1/echo/a%2Fb%20c%25?trajectory=A&trajectory=B&x=1+2%2B")
    assert status == 200
    assert document["name"] == "a/b c%"
    assert document["query"] == [["trajectory", "A"], ["trajectory", "B"], ["x", "1 2+"]]


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/echo", "/v1/echo/", "/v1/echo/a/b", "/v1/../healthz", "//healthz",
                                  "/static/../main.c", "/%2e%2e/healthz", "/healthz/", "/.hidden.js", "/notes.bin",
                                  "/deep", "/deep/%2e%2e/index.html"])
def test_unknown_path_is_404_or_405(server, path):
    status, _, document = server.request("GET", path)
    assert status == (405 if path == "/v1/echo" else 404)
    assert document["instance"] == path


def test_other_method_is_405_with_allow(server):
    answer = server.request("PUT", "/v1/echo/a")
    problem(answer, 405, "method_not_allowed")
    assert answer[1]["Allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert server.request("TRACE", "/v1/echo/a")[1]["Allow"] == "GET, HEAD, DELETE, OPTIONS"
    status, headers, _ = server.request("OPTIONS", "/v1/echo/a")
    assert status == 204 and headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert server.request("POST", "/", {})[0] == 405


def test_refusal_with_a_small_body_keeps_the_connection(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for path, code in (("/v1/nothing", 404), ("/v1/echo/a", 405)):
        connection.request("POST", path, b'{"a": 1}', {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == code and answer.read() and not answer.will_close
    connection.request("POST", "/v1/echo", b'{"a": 1}', {"Content-Type": "text/plain"})
    answer = connection.getresponse()
    assert answer.status == 415 and answer.read() and not answer.will_close
    connection.close()


def test_several_faults_and_one_pointer(server):
    document = problem(server.request("POST", "/v1/echo", {"fail": 1}), 422, "invalid")
    assert [e["pointer"] for e in document["errors"]] == ["/a", "/b/0"]
    document = problem(server.request("POST", "/v1/echo", {"pointer": 1}), 422, "invalid")
    assert document["errors"] == [{"pointer": "/pointer", "detail": "one fault"}]


@pytest.mark.parametrize("body", [b'{"kind": ', b"", b"{}{}", b"{} x", b'{"a":1,"a":2}', b'{"a":1e999}', b'"\xff"',
                                  b'{"a":"\\u0000"}', b"[" * 33 + b"]" * 33, b"{'a':1}", b"nul", b"\xef\xbb\xbf{}",
                                  b'{"a":NaN}', b'{"a":123456789012345678901234567890}', b'"\\ud800"'])
def test_malformed_json_is_400_and_closed(server, body):
    answer = server.request("POST", "/v1/echo", body)
    problem(answer, 400, "malformed")
    assert answer[1]["Connection"] == "close"


def test_malformed_json_says_where(server):
    document = server.request("POST", "/v1/echo", b'{"a": 1,\n "b": }')[2]
    assert document["detail"].startswith("line 2, column ")


def test_depth_32_is_taken(server):
    assert server.request("POST", "/v1/echo", b"[" * 32 + b"]" * 32)[0] == 201


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                                  "application/jsonx", "application/json; charset=latin-1"])
def test_body_of_another_type_is_415(server, kind):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.putrequest("POST", "/v1/echo")
    if kind:
        connection.putheader("Content-Type", kind)
    connection.putheader("Content-Length", "2")
    connection.endheaders(b"{}")
    answer = connection.getresponse()
    assert answer.status == 415 and json.loads(answer.read())["code"] == "unsupported_media_type"
    connection.close()


def test_json_bomb_costs_little(server):
    problem(server.request("POST", "/v1/large", b"[" + b"{}," * 70000 + b"{}]"), 413, "too_large")


def test_bodies_that_wait_for_memory_hold_no_thread(server):
    """Each is a tree of 23 MiB for most of a second, so two of them are handled at a time, by two of four threads."""
    dear = b'{"pause": 990, "fail": 1, "x": [' + b"0," * 400_000 + b"0]}"
    taken, statuses, stop = [], [], threading.Event()

    def send():
        while not stop.is_set():
            statuses.append(server.request("POST", "/v1/echo", dear)[0])

    senders = [threading.Thread(target=send) for _ in range(5)]
    for sender in senders:
        sender.start()
    for _ in range(15):
        time.sleep(0.1)
        began = time.monotonic()
        assert server.request("GET", "/v1/echo/x")[0] == 200
        taken.append(time.monotonic() - began)
    stop.set()
    for sender in senders:
        sender.join()
    assert sorted(taken)[7] < 0.4, taken
    assert set(statuses) <= {422, 503} and 422 in statuses


# --- caching and coding -----------------------------------------------------------------------------------------------
def test_etag_and_304(server):
    status, headers, _ = server.request("GET", "/v1/big")
    assert status == 200 and headers["ETag"].startswith('"') and headers["Cache-Control"] == "no-cache"
    for tag in (headers["ETag"], "W/" + headers["ETag"], '"x", ' + headers["ETag"], "*"):
        status, again, body = server.request("GET", "/v1/big", headers={"If-None-Match": tag})
        assert status == 304 and again["ETag"] == headers["ETag"] and body == b""
    assert server.request("GET", "/v1/big", headers={"If-None-Match": '"x"'})[0] == 200


def test_a_list_may_come_in_several_lines(server):
    """As proxies and libraries send it: names that differ in case are lines of their own."""
    tag, there = (server.request("GET", path)[1]["ETag"] for path in ("/v1/big", "/v1/echo/there"))
    two = {"If-None-Match": '"x"', "if-none-match": tag}
    assert server.request("GET", "/v1/big", headers=two)[0] == 304
    assert server.request("DELETE", "/v1/echo/there", headers={"If-Match": '"x"', "if-match": there})[0] == 204
    problem(server.request("DELETE", "/v1/echo/there", headers={"If-Match": '"x"', "if-match": '"y"'}), 412,
            "precondition_failed")
    packed = server.request("GET", "/v1/big", headers={"Accept-Encoding": "br", "accept-encoding": "gzip"})[1]
    assert packed["Content-Encoding"] == "gzip"


def test_etag_is_of_the_body(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/v1/big")
    answer = connection.getresponse()
    assert answer.headers["ETag"] == '"' + hashlib.sha256(answer.read()).hexdigest()[:32] + '"'
    connection.close()


def test_gzip_when_asked_for(server):
    _, plain, document = server.request("GET", "/v1/big")
    status, packed, same = server.request("GET", "/v1/big", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert status == 200 and packed["Content-Encoding"] == "gzip" and same == document
    assert packed["ETag"] == plain["ETag"][:-1] + '-gzip"' and "Accept-Encoding" in packed["Vary"]
    assert server.request("GET", "/v1/big",
                          headers={"Accept-Encoding": "gzip", "If-None-Match": packed["ETag"]})[0] == 304
    for accept in ("gzip;q=0", "identity", "*;q=0"):
        assert "Content-Encoding" not in server.request("GET", "/v1/big", headers={"Accept-Encoding": accept})[1]
    assert "Content-Encoding" not in server.request("GET", "/healthz", headers={"Accept-Encoding": "gzip"})[1]


def test_head_has_the_headers_of_get(server):
    _, get, _ = server.request("GET", "/v1/big")
    status, head, body = server.request("HEAD", "/v1/big")
    assert (status == 200 and body == b"" and head["ETag"] == get["ETag"]
            and head["Content-Length"] == get["Content-Length"])
    assert server.request("HEAD", "/")[0] == 200
    assert server.request("HEAD", "/nothing")[0] == 404


def test_static_files(server, static):
    status, headers, body = server.request("GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    (seal,) = set(re.findall(rb'"(/[0-9a-f]{16})/', body))
    assert body.replace(seal, b"") == (static / "index.html").read_bytes()
    status, headers, body = server.request("GET", "/app.0123abcd.js", headers={"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip" and gzip.decompress(body) == (static / "app.0123abcd.js").read_bytes()
    assert "immutable" in headers["Cache-Control"] and headers["Content-Type"].startswith("text/javascript")
    assert server.request("GET", "/app.0123abcd.js", headers={"If-None-Match": headers["ETag"]})[0] == 304
    assert server.request("GET", "/openapi.yaml")[1]["Content-Type"] == "application/yaml"
    assert server.request("GET", "/deep/style.css")[0] == 200


def sealed(server):
    """The addresses that index.html names."""
    return re.findall(r'(?:href|src)="(/[^"]+)"', server.request("GET", "/")[2].decode())


def test_what_a_page_names_is_kept_by_browsers_and_the_page_is_asked_for_again(server, static):
    assert server.request("GET", "/")[1]["Cache-Control"] == "no-cache"
    for path, name in zip(sealed(server), ("deep/style.css", "large.js")):
        assert path.endswith(f"/{name}") and path != f"/{name}"
        status, headers, body = server.request("GET", path)
        assert status == 200 and body == (static / name).read_bytes()
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert server.request("GET", f"/{name}")[1]["Cache-Control"] == "no-cache"
        digit = "0" if path[1] != "0" else "1"
        problem(server.request("GET", f"/{digit}{path[2:]}"), 404, "not_found")  # of another version
        problem(server.request("GET", path.rpartition("/")[0] + "/nothing.js"), 404, "not_found")
    problem(server.request("GET", sealed(server)[0][:17] + "/"), 404, "not_found")


def test_other_files_have_other_addresses(server, static, tmp_path):
    first = sealed(server)[0]
    for name, content in (("index.html", (static / "index.html").read_text()), ("theme.js", "dark();")):
        (tmp_path / name).write_text(content)
    running = Server("--static", str(tmp_path))
    second = sealed(running)[0]
    running.stop()
    (tmp_path / "theme.js").write_text("light();")
    running = Server("--static", str(tmp_path))
    third = sealed(running)[0]
    running.stop()
    assert len({first, second, third}) == 3


def test_a_file_that_many_ask_for_first_is_compressed_for_all(server, static):
    found = []
    ask = lambda: found.append(server.request("GET", "/large.js", headers={"Accept-Encoding": "gzip"}))
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = (static / "large.js").read_bytes()
    assert len(found) == 8
    for status, headers, body in found:
        assert status == 200 and headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in headers["Vary"]
        assert int(headers["Content-Length"]) == len(body) < len(whole) / 2 and gzip.decompress(body) == whole
    status, headers, body = server.request("GET", "/large.js")
    assert (status == 200 and body == whole and "Content-Encoding" not in headers
            and "Accept-Encoding" in headers["Vary"])
    headers = server.request("GET", "/deep/style.css", headers={"Accept-Encoding": "gzip"})[1]
    assert "Content-Encoding" not in headers, "it would not be smaller"


# --- tokens and keys --------------------------------------------------------------------------------------------------
def test_tokens():
    running = Server("--token", "--listen", "0.0.0.0:0")
    try:
        bearer = lambda token: {"Authorization": "Bearer " + token}
        answer = running.request("GET", "/v1/big")
        problem(answer, 401, "unauthorized")
        assert answer[1]["WWW-Authenticate"].startswith("Bearer")
        problem(running.request("GET", "/v1/big", headers=bearer("wrong")), 401, "unauthorized")
        problem(running.request("GET", "/v1/big", headers={"Authorization": "Basic reader"}), 401, "unauthorized")
        assert running.request("GET", "/v1/big", headers=bearer("reader"))[0] == 200
        answer = running.request("POST", "/v1/echo", {}, bearer("reader"))
        problem(answer, 403, "forbidden")
        assert "insufficient_scope" in answer[1]["WWW-Authenticate"]
        assert running.request("POST", "/v1/echo", {}, bearer("writer"))[0] == 201
        # before the body is parsed
        problem(running.request("POST", "/v1/echo", b"{", bearer("reader")), 403, "forbidden")
        assert running.request("GET", "/healthz")[0] == 200
    finally:
        running.stop()


def test_one_address_gets_half_of_the_connections():
    running = Server("--token", "--listen", "0.0.0.0:0")
    held = []
    try:
        for _ in range(600):
            held.append(socket.create_connection(("127.0.0.1", running.port), timeout=2))
        held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % running.port)
        try:
            assert held[-1].recv(100) == b"", "a connection beyond the limit was served"
        except ConnectionResetError:
            pass
        held[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % running.port)
        assert held[0].recv(15) == b"HTTP/1.1 200 OK"
    finally:
        for connection in held:
            connection.close()
        running.stop()


def test_refuses_to_listen_beyond_loopback_without_a_token():
    for address in ("0.0.0.0:0", "[::]:0"):
        done = subprocess.run([BINARY, "--listen", address], capture_output=True, text=True, timeout=10)
        assert done.returncode == 1 and "token" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":80", "example.org:80", "[::1:80",
                                     "1.2.3.4.5:80"])
def test_bad_listen_address_is_refused(address):
    done = subprocess.run([BINARY, "--listen", address], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and done.stderr.startswith("invalid:")


def test_address_in_use_is_said(server):
    done = subprocess.run([BINARY, "--listen", server.host], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and done.stderr.startswith("unavailable:")


def test_idempotency_key_replays(server):
    key = {"Idempotency-Key": "key-1"}
    first = server.request("POST", "/v1/echo", {"a": 1}, key)
    again = server.request("POST", "/v1/echo", {"a": 1}, key)
    assert first[0] == again[0] == 201 and first[2] == again[2]
    assert again[1]["Idempotency-Replayed"] == "true" and again[1]["Location"] == first[1]["Location"]
    problem(server.request("POST", "/v1/echo", {"a": 2}, key), 422, "idempotency_key_reused")


def test_an_answer_that_the_handler_recorded_is_not_kept_again(server):
    key = {"Idempotency-Key": "key-4"}
    assert server.request("POST", "/v1/echo", {"record": 1}, key)[2]["body"] == {"record": 1}
    assert server.request("POST", "/v1/echo", {"record": 1}, key)[2] == {"recorded": True}


def test_a_condition_that_cannot_be_checked_is_not_taken_to_hold(server):
    tag = server.request("GET", "/v1/echo/there")[1]["ETag"]
    assert server.request("DELETE", "/v1/echo/there", headers={"If-Match": tag})[0] == 204
    problem(server.request("DELETE", "/v1/echo/there", headers={"If-Match": '"old"'}), 412, "precondition_failed")
    problem(server.request("DELETE", "/v1/echo/away", headers={"If-Match": tag}), 503, "unavailable")
    gone = server.request("DELETE", "/v1/echo/gone", headers={"If-Match": tag})
    assert gone[0] == 204, "the handler says what is not there"


def test_failed_request_leaves_its_key_free(server):
    key = {"Idempotency-Key": "key-2"}
    assert server.request("POST", "/v1/echo", {"fail": 1}, key)[0] == 422
    assert server.request("POST", "/v1/echo", {"b": 1}, key)[0] == 201


def test_concurrent_requests_with_one_key_do_the_work_once(server):
    answers = []
    body = {"pause": 200}
    threads = [threading.Thread(
        target=lambda: answers.append(server.request("POST", "/v1/echo", body, {"Idempotency-Key": "key-3"})))
               for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12 and {a[0] for a in answers} == {201}
    assert len({a[2]["calls"] for a in answers}) == 1


# --- waiting ----------------------------------------------------------------------------------------------------------
def test_waits_hold_no_thread_and_wake(server):
    topic = "wake-a"
    start = server.request("GET", f"/v1/wait/{topic}")[2]["value"]
    answers = []
    began = time.monotonic()
    waiting = [threading.Thread(
        target=lambda: answers.append(server.request("GET", f"/v1/wait/{topic}?wait=60&above={start}", timeout=90)))
               for _ in range(40)]
    for thread in waiting:
        thread.start()
    wait_for_metric(server, b"deltaq_http_waiting 40")
    assert server.request("GET", "/v1/big")[0] == 200  # 40 wait, 4 threads, and this goes through
    assert b"deltaq_http_waiting 40" in server.request("GET", "/metrics")[2]
    server.request("POST", f"/v1/wake/{topic}")
    for thread in waiting:
        thread.join()
    assert time.monotonic() - began < 55, "long before they end by themselves"
    assert {a[2]["value"] for a in answers} == {start + 1}


WAYS_TO_LEAVE = ("close", "reset", "half", "pipelined")


def leave(client, way):
    """As a client may: closed, reset, its sending half shut, or closed with bytes sent that nobody has read."""
    if way == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if way == "pipelined":
        client.sendall(b"GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n")
    if way == "half":
        client.shutdown(socket.SHUT_WR)
    else:
        client.close()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
def test_clients_that_leave_while_they_wait_are_let_go(server, way):
    """They held their descriptors until the wait ended, up to a minute."""
    topic = f"leave-{way}"
    value = server.request("GET", f"/v1/wait/{topic}")[2]["value"]
    head = f"GET /v1/wait/{topic}?wait=60&above={value} HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n"
    before, clients = descriptors(server), [server.connect() for _ in range(60)]
    for client in clients:
        client.sendall(head.encode())
    wait_for_metric(server, b"deltaq_http_waiting 60")
    for client in clients[1:]:
        leave(client, way)
    wait_for_metric(server, b"deltaq_http_waiting 1\n", limit=10)  # who stays waits on
    end = time.monotonic() + 10
    while descriptors(server) > before + 3:
        assert time.monotonic() < end, f"{descriptors(server) - before} descriptors are held"
        time.sleep(0.05)
    server.request("POST", f"/v1/wake/{topic}")
    assert b'{"value":%d}' % (value + 1) in read_all(clients[0])[0]
    for client in clients:
        client.close()


def test_wait_ends_at_its_deadline(server):
    value = server.request("GET", "/v1/wait/quiet-b")[2]["value"]
    began = time.monotonic()
    assert server.request("GET", f"/v1/wait/quiet-b?wait=1&above={value}")[0] == 200
    assert 0.95 < time.monotonic() - began < 30


def test_wake_between_look_and_wait_is_not_lost(server):
    """The handler looks, pauses 300 ms and then waits; the wake comes in the pause."""
    value = server.request("GET", "/v1/wait/race-c")[2]["value"]
    waker = threading.Timer(0.1, lambda: server.request("POST", "/v1/wake/race-c"))
    began = time.monotonic()
    waker.start()
    got = server.request("GET", f"/v1/wait/race-c?wait=30&pause=300&above={value}")[2]["value"]
    waker.join()
    assert got == value + 1 and time.monotonic() - began < 29


def test_waker_and_waiter_race(server):
    value = server.request("GET", "/v1/wait/race-c")[2]["value"]
    for _ in range(100):
        waker = threading.Thread(target=lambda: server.request("POST", "/v1/wake/race-c"))
        began = time.monotonic()
        waker.start()
        got = server.request("GET", f"/v1/wait/race-c?wait=30&above={value}")[2]["value"]
        waker.join()
        assert got == value + 1 and time.monotonic() - began < 29
        value = got


def test_events_come_as_they_happen_and_resume(server):
    value = server.request("GET", "/v1/wait/stream-d")[2]["value"]
    events = Events(server, "stream-d", last=value)
    assert events.until(b"retry: 2000")
    for _ in range(3):
        server.request("POST", "/v1/wake/stream-d")
    assert events.until(b"id: %d\nevent: count\ndata: {\"value\":%d}\n\n" % (value + 3, value + 3))
    assert b"Content-Type: text/event-stream" in events.data and b"no-store" in events.data
    events.close()
    again = Events(server, "stream-d", last=value + 2)
    assert again.until(b"id: %d\n" % (value + 3))
    assert b"id: %d\n" % (value + 2) not in again.data
    again.close()


def test_silent_stream_pings_and_ends(short):
    value = short.request("GET", "/v1/wait/silent-e")[2]["value"]
    began = time.monotonic()
    events = Events(short, "silent-e", last=value)
    assert events.until(b": ping\n\n")
    assert events.until(b"\r\n0\r\n\r\n", seconds=60)  # ends by itself after its life of 2 s
    assert 1.9 < time.monotonic() - began < 60
    assert events.data.count(b": ping") >= 2


def test_streams_are_limited(server):
    wait_for_metric(server, b"deltaq_http_streams 0")  # the streams of the tests before this one end
    opened = [Events(server, "many-f") for _ in range(32)]
    assert all(events.until(b"retry:") for events in opened)
    status, headers, document = server.request("GET", "/v1/events/many-f")
    assert status == 429 and document["code"] == "too_many" and headers["Retry-After"]
    assert "32 event streams, half of all 64" in document["detail"]
    assert server.request("GET", "/v1/big")[0] == 200
    server.request("POST", "/v1/wake/many-f")
    for events in opened:
        assert events.until(b"event: count")
        events.close()


def test_streams_of_clients_that_left_make_room(server):
    """The broadcaster looks every second; by its pings alone it would take 15 s."""
    wait_for_metric(server, b"deltaq_http_streams 0")
    streams = [Events(server, "left-j") for _ in range(30)]
    for k, events in enumerate(streams):
        assert events.until(b"retry:")
        leave(events.client, WAYS_TO_LEAVE[k % 4])
    wait_for_metric(server, b"deltaq_http_streams 0", limit=12)


# --- stopping ---------------------------------------------------------------------------------------------------------
def test_stop_finishes_what_runs_and_ends_streams():
    running = Server("--log")
    events = Events(running, "stop-g")
    assert events.until(b"retry:")
    answers = []
    slow = threading.Thread(target=lambda: answers.append(running.request("GET", "/v1/slow?ms=1500")))
    waiting = threading.Thread(
        target=lambda: answers.append(running.request("GET", "/v1/wait/stop-h?wait=30", timeout=40)))
    idle = running.connect()
    slow.start()
    waiting.start()
    wait_for_metric(running, b"deltaq_http_waiting 1")
    time.sleep(0.4)  # and the slow one has begun, of which no metric tells
    began = time.monotonic()
    errors = running.stop()
    assert 0.3 < time.monotonic() - began < 15
    slow.join()
    waiting.join()
    assert [a[0] for a in answers] == [200, 200]
    assert all(a[1]["Connection"] == "close" for a in answers)
    assert events.until(b": the server stops\n\n")
    assert idle.recv(10) == b""
    events.close()
    idle.close()
    assert re.search(r'^http [0-9a-f]{16} GET "/v1/slow" 200 \d+ bytes \d+ ms$', errors, re.M)


def test_stop_is_not_missed_while_the_streams_are_looked_at():
    """The only stream ends and the server is told to stop while it is asked whether the stream may be read on. Without
    streams the next look is a minute away."""
    running = Server("--hold")
    events = Events(running, "stop-g", last=-1000000)  # a million events, more than the sockets take
    assert events.until(b"event: count")
    running.request("POST", "/v1/wake/hold")
    while running.request("GET", "/v1/wait/looks")[2]["value"] == 0:
        time.sleep(0.05)
    events.close()
    wait_for_metric(running, b"deltaq_http_streams 0")
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 15


def test_stop_under_load_is_clean():
    running = Server()
    stop = threading.Event()

    def client():
        while not stop.is_set():
            try:
                running.request("GET", "/v1/wait/load-i?wait=1", timeout=5)
                running.request("POST", "/v1/wake/load-i", timeout=5)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    running.stop()
    stop.set()
    for thread in threads:
        thread.join()
