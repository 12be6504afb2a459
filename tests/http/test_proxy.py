"""The server behind a proxy: nginx as docs/deploy.md configures it, over TLS, where that is installed; and behind a
small proxy that does the same."""

import concurrent.futures
import http.client
import http.server
import json
import re
import threading
import time

import models
import nginx
import pytest
from echo import heads, read_all
from nginx import NAME, Nginx
from service import Service
from test_tokens import tool

without_nginx = pytest.mark.skipif(nginx.missing() is not None, reason=str(nginx.missing()))


def behind(directory, *options):
    service = Service(directory, "--workers", "0", "--log-format", "json", "--access-log", "--allow-host", NAME,
                      "--address-rate", "1", *options)
    service.token = tool(service, "create", "--scope", "admin", "--name", "admin")
    return service


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = behind(tmp_path_factory.mktemp("behind"), "--trust-proxy", "127.0.0.1")
    yield service
    assert service.stop() == 0


def lines_of(service):
    return [json.loads(line) for line in service.log.read_text().splitlines()]


# --- a small proxy, which needs nothing installed ---------------------------------------------------------------------
class Passing(http.server.BaseHTTPRequestHandler):
    """Passes requests on as nginx does: Host as it came, the client's address at the end."""

    def do_GET(self):
        onward = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=90)
        length = int(self.headers.get("Content-Length", 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        before = self.headers.get("X-Forwarded-For")
        headers["X-Forwarded-For"] = ", ".join(filter(None, [before, self.client_address[0]]))
        onward.request(self.command, self.path, self.rfile.read(length) if length else None, headers)
        answer = onward.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while chunk := answer.read1(65536):
            self.wfile.write(chunk)
            self.wfile.flush()
        onward.close()

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Listening(http.server.ThreadingHTTPServer):
    daemon_threads = True


@pytest.fixture
def small(service):
    proxy = Listening(("127.0.0.1", 0), Passing)
    proxy.upstream = service.port
    threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()

    def ask(method, path, body=None, token=service.token, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", proxy.server_address[1], timeout=90)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Host": NAME, **headers})
        answer = connection.getresponse()
        answer.connection = connection
        return answer

    yield ask
    proxy.shutdown()
    proxy.server_close()


def test_requests_pass_and_count_for_the_clients_address(service, small, name):
    made = small("POST", "/v1/datasets", {"name": name, "sequences": [[1, 2, 3]]},
                 **{"X-Forwarded-For": "192.0.2.1, 127.0.0.1"})
    assert made.status == 201
    (line,) = [line for line in lines_of(service)
               if line.get("request") == made.headers["X-Request-Id"] and line["component"] == "audit"]
    assert (line["token_name"], line["from"], line["object"]) == ("admin", "192.0.2.1", json.loads(made.read())["id"])
    assert small("GET", "/v1/runs", token=None).status == 401
    other = [small("GET", "/v1/runs", token=None, **{"X-Forwarded-For": "192.0.2.2"}).status for _ in range(3)]
    assert other == [401] * 3


def test_events_come_as_they_happen(service, small, name):
    events = small("GET", "/v1/events", Accept="text/event-stream")
    assert events.status == 200
    models.write_llama(service.files / name)
    made = small("POST", "/v1/checkpoints", {"trajectory": name, "name": "step0", "step": 0,
                                             "source": {"path": str(service.files / name)}})
    assert made.status == 201
    made, data = json.loads(made.read())["id"], b""
    while made.encode() not in data:
        chunk = events.read1(65536)
        assert chunk, data
        data += chunk
    events.connection.close()


# --- nginx by the recipe ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def proxy(service, tmp_path_factory):
    if nginx.missing():
        pytest.skip(nginx.missing())
    running = Nginx(tmp_path_factory.mktemp("nginx"), f"http://127.0.0.1:{service.port}")
    yield running
    running.stop()


@pytest.fixture(scope="module", autouse=True)
def long_wait(request, service):
    """A wait of 60 s, the longest, for a run that nobody takes, and a stream of events: both begin with the first test
    and go on beside the others."""
    if nginx.missing() or all(item.function is not test_a_wait_and_a_stream_outlast_nginxs_own_minute
                              for item in request.session.items):
        yield None
        return
    proxy = request.getfixturevalue("proxy")
    models.write_llama(service.files / "waited")
    service.checkpoint(service.files / "waited", "waited", "step0")
    service.sequences("waited", [[1, 2, 3, 4]])
    run = service.post("/v1/runs", {"kind": "evaluate", "params": {"checkpoint": "waited/step0", "dataset": "waited"}})
    assert run.status == 202

    def wait():
        began = time.monotonic()
        answer = proxy.ask("GET", f"/v1/runs/{run.json['id']}?wait=60", token=service.token)
        return answer, time.monotonic() - began

    stream = Told(proxy, service)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        yield pool.submit(wait), stream
    stream.close()


class Told:
    """A stream of events through the proxy."""

    def __init__(self, proxy, service):
        self.connection, self.data = proxy.open(), b""
        self.connection.request("GET", "/v1/events", headers={
            "Host": NAME, "Authorization": f"Bearer {service.token}", "Accept": "text/event-stream"})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200

    def until(self, text):
        while text.encode() not in self.data:
            chunk = self.answer.read1(65536)
            assert chunk, self.data
            self.data += chunk

    def close(self):
        self.connection.close()


def test_a_token_is_needed_and_passes(service, proxy):
    refused = proxy.ask("GET", "/v1/runs", source="127.0.0.3")
    assert refused.status == 401 and refused.json["code"] == "unauthorized", refused.body
    assert proxy.ask("GET", "/v1/runs", token="dq_wrong", source="127.0.0.3").status == 401
    assert proxy.ask("GET", "/v1/runs", token=service.token).status == 200
    page = proxy.ask("GET", "/")
    assert page.status == 200 and b"<html" in page.body


def test_the_name_in_host_is_checked(service, proxy):
    for host, status in ((NAME, 200), (NAME.upper(), 200), (f"{NAME}:{proxy.port}", 200), ("evil.example", 421)):
        answer = proxy.ask("GET", "/v1/runs", token=service.token, Host=host)
        assert answer.status == status, (host, answer.body)
    assert answer.json["code"] == "misdirected"


def test_names_conditions_and_origins_pass_as_they_are(service, proxy, name):
    models.write_llama(service.files / name)
    service.checkpoint(service.files / name, f"{name} 5%", "step0")
    path = f"/v1/trajectories/{name}%205%25"
    found = proxy.ask("GET", path, token=service.token)
    assert found.status == 200 and found.json["name"] == f"{name} 5%", found.body
    tag = found.headers["ETag"]
    assert proxy.ask("GET", path, token=service.token, If_None_Match=tag).status == 304
    small = proxy.ask("GET", "/openapi.yaml", Accept_Encoding="gzip")
    assert small.status == 200 and small.headers["Content-Encoding"] == "gzip"
    change = {"notes": "told"}
    for headers, status in ((dict(If_Match='"other"'), 412), (dict(Origin="https://evil.example"), 403),
                            (dict(If_Match=tag, Origin=f"https://{NAME}", Sec_Fetch_Site="same-origin"), 200)):
        answer = proxy.ask("PATCH", path, change, service.token, **headers)
        assert answer.status == status, (headers, answer.body)


def test_events_are_not_held_back(service, proxy, name):
    """The quickest of three is there within 2 s; a proxy that gathers them keeps them for much longer."""
    stream, took = Told(proxy, service), []
    for i in range(3):
        made = service.sequences(f"{name}-{i}", [[1, 2]])
        models.write_llama(service.files / f"{name}-{i}", seed=i)
        began = time.monotonic()
        made = service.checkpoint(service.files / f"{name}-{i}", name, f"step{i}")
        stream.until(made["id"])
        took.append(time.monotonic() - began)
    stream.close()
    assert min(took) < 2, took


def sequences(name, size):
    """A body of `size` bytes, of tokens with four digits."""
    head, tail = f'{{"name": "{name}", "sequences": [['.encode(), b"1000]]}"
    return head + b"1000," * ((size - len(head) - len(tail)) // 5) + tail


def test_bodies_up_to_the_servers_limit_pass_and_larger_ones_get_413(service, proxy, name):
    made = proxy.ask("POST", "/v1/datasets", sequences(name, 16_700_000), service.token)
    assert made.status == 201 and made.json["tokens"] > 3_300_000, made.body[:500]
    own = proxy.ask("POST", "/v1/datasets", sequences(name, 17_000_000), service.token)
    assert own.status == 413 and own.json["code"] == "too_large", "the server's own answer, a little above its 16 MiB"
    for path, size, token, status in (("/v1/datasets", 16_700_000, "dq_wrong", 401),
                                      ("/v1/runs", 1_000_000, None, 401), ("/v1/runs", 3 << 20, service.token, 413)):
        refused = proxy.ask("POST", path, b" " * size, token)
        assert refused.status == status and refused.json["status"] == status, "no bad gateway, though much is unread"
    connection = proxy.open()
    try:
        connection.request("POST", "/v1/datasets", sequences(name, 20 << 20), {
            "Host": NAME, "Content-Type": "application/json", "Authorization": f"Bearer {service.token}"})
    except OSError:
        pass  # refused before all of it was sent
    assert connection.getresponse().status == 413, "nginx's"
    connection.close()


def test_a_large_answer_is_whole(service, proxy, name):
    models.write_llama(service.files / name)
    tokenizer = {"path": str(service.files / name / "tokenizer.json")}
    body = {"tokenizer": tokenizer, "texts": ["low, lower, lowest; " * 150_000]}
    answer = proxy.ask("POST", "/v1/tokenize", body, service.token)
    assert answer.status == 200 and len(answer.body) > 9_000_000
    assert answer.json["ids"] == [list(body["texts"][0].encode())]


def test_each_client_of_the_proxy_has_a_rate_of_its_own(service, proxy):
    """A request a second, twenty at once, of an address, whatever the client says where it comes from."""
    connection, count = proxy.open("127.0.0.4"), 0
    while True:
        connection.request("GET", "/v1/runs", headers={"Host": NAME, "X-Forwarded-For": f"192.0.2.{count % 200}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status == 429:
            break
        assert answer.status == 401 and count < 2000
        count += 1
    connection.close()
    assert count >= 20 and answer.headers["Retry-After"]
    assert proxy.ask("GET", "/v1/runs", source="127.0.0.5").status == 401, "another client"
    assert proxy.ask("GET", "/v1/runs", token=service.token, source="127.0.0.4").status == 200, "a right token"
    told = {line["from"] for line in lines_of(service) if line.get("event") == "refused"}
    assert {"127.0.0.4", "127.0.0.5"} <= told and not any(address.startswith("192.0.2.") and address != "192.0.2.2"
                                                          for address in told - {"192.0.2.1"}), told


# A second request is hidden in each, where a reader might look for one. What nginx does not refuse it passes on in
# other words, so that one harmless answer is right, too.
HOST = f"Host: {NAME}\r\n".encode()
HIDDEN = b"GET /v1/hidden HTTP/1.1\r\n" + HOST + b"\r\n"


def probe(*lines, body=b""):
    return (b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
            + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)


CODED, SHORT, LONG = b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Content-Length: %d" % (5 + len(HIDDEN))
PROBES = {
    "two lengths": probe(SHORT, LONG, body=b"0\r\n\r\n" + HIDDEN),
    "two lengths, the longer first": probe(LONG, SHORT, body=b"0\r\n\r\n" + HIDDEN),
    "the same length twice": probe(SHORT, SHORT, body=b"{    " + HIDDEN),
    "a length, then chunks": probe(LONG, CODED, body=b"0\r\n\r\n" + HIDDEN),
    "chunks, then a length": probe(CODED, LONG, body=b"0\r\n\r\n" + HIDDEN),
    "a line that begins with a colon": b"GET /v1/runs HTTP/1.1\r\n" + HOST + b": b\r\n\r\n" + HIDDEN,
    "a line that is a colon": b"GET /v1/runs HTTP/1.1\r\n" + HOST + b":\r\n" + HIDDEN,
}
ODD = {
    "a blank before the colon of a length": probe(b"Content-Length : %d" % len(HIDDEN), body=HIDDEN),
    "a coding with a blank before its colon": probe(LONG, b"Transfer-Encoding : chunked", body=b"0\r\n\r\n" + HIDDEN),
    "another coding": probe(LONG, b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + HIDDEN),
    "two codings": probe(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n" + HIDDEN),
    "a coding after a vertical tab": probe(LONG, b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n" + HIDDEN),
    "a length of a sign": probe(b"Content-Length: +%d" % len(HIDDEN), body=HIDDEN),
    "a folded line": probe(LONG, b"X-A: a", b" Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    "a length in a name with an underscore": probe(b"Content_Length: %d" % len(HIDDEN), body=HIDDEN),
}


@pytest.fixture(scope="module")
def sharing(service, tmp_path_factory):
    """The recipe with connections to the server that all clients share."""
    before = f"upstream shared {{ server 127.0.0.1:{service.port}; keepalive 4; }}\n"
    running = Nginx(tmp_path_factory.mktemp("sharing"), "http://shared", before)
    yield running
    running.stop()


@without_nginx
@pytest.mark.parametrize("kind", ["proxy", "sharing"])
@pytest.mark.parametrize("text", [*PROBES, *ODD])
def test_no_request_is_hidden_in_another(request, service, kind, text):
    running = request.getfixturevalue(kind)
    with running.connect() as client:
        client.sendall({**PROBES, **ODD}[text])
        client.settimeout(60 if text in PROBES else 2)  # the others may leave the connection open
        data, closed = read_all(client)
    answers = heads(data)
    if text in PROBES:
        assert (answers, closed) == ([400], True), data
    else:
        # What stands behind a message that has ended is a request of its own, of the same client: not hidden.
        assert answers[0] in (400, 401, 403, 411, 413, 415, 422, 501), data
    for path in ("/v1/runs", "/v1/datasets", "/openapi.yaml"):  # nobody gets another's answer
        answer = running.ask("GET", path, token=service.token)
        assert answer.status == 200
        (line,) = [line for line in lines_of(service)
                   if line.get("request") == answer.headers["X-Request-Id"] and line["component"] != "audit"]
        assert line["path"] == path
    if len(answers) == 1:
        assert not any(line.get("path") == "/v1/hidden" and line.get("request") in data.decode("latin-1")
                       for line in lines_of(service))


@without_nginx
def test_over_a_unix_socket_in_a_directory_of_its_own(tmp_path):
    """As docs/deploy.md has it for machines with other users."""
    (tmp_path / "door").mkdir(mode=0o700)
    door = tmp_path / "door" / "socket"
    service = behind(tmp_path, "--socket", str(door), "--trust-proxy", "unix")
    (tmp_path / "nginx").mkdir()
    running = Nginx(tmp_path / "nginx", f"http://unix:{door}:")
    try:
        assert running.ask("GET", "/v1/runs", source="127.0.0.4").status == 401
        assert running.ask("GET", "/v1/runs", token=service.token).status == 200
        made = running.ask("POST", "/v1/datasets", {"name": "one", "sequences": [[1, 2]]}, service.token, "127.0.0.4")
        assert made.status == 201
        (line,) = [line for line in lines_of(service)
                   if line.get("request") == made.headers["X-Request-Id"] and line["component"] == "audit"]
        assert line["from"] == "127.0.0.4"
    finally:
        running.stop()
        assert service.stop() == 0


@without_nginx
def test_a_wait_and_a_stream_outlast_nginxs_own_minute(service, proxy, long_wait, name):
    waiting, stream = long_wait
    answer, took = waiting.result(timeout=120)
    assert answer.status == 200 and answer.json["state"] == "queued" and took >= 59, (took, answer.body)
    models.write_llama(service.files / name)
    stream.until(service.checkpoint(service.files / name, name, "step0")["id"])
