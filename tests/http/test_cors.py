"""--allow-origin: which pages of other origins may read and write."""

import subprocess

import pytest
from echo import Server, heads, problem
from service import BINARY, Service

PAGE, EVIL = "http://localhost:8888", "http://evil.example"


def cors_headers(headers):
    return {name.lower(): value for name, value in headers.items() if name.lower().startswith("access-control-")}


def varies(headers):
    return "Origin" in [word.strip() for value in headers.get_all("Vary", []) for word in value.split(",")]


@pytest.fixture(scope="module")
def named():
    running = Server("--token", "--allow-origin", PAGE)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def anybody():
    running = Server("--token", "--allow-origin", "*")
    yield running
    running.stop()


def preflight(server, path, origin=PAGE, method="POST"):
    return server.request("OPTIONS", path, headers={"Origin": origin, "Access-Control-Request-Method": method,
                                                    "Access-Control-Request-Headers": "authorization,content-type"})


def test_a_preflight_is_answered_from_the_table_without_a_token(named):
    status, headers, body = preflight(named, "/v1/echo/a")
    assert (status, body) == (204, b"")
    assert cors_headers(headers) == {
        "access-control-allow-origin": PAGE, "access-control-allow-methods": "GET, HEAD, DELETE, OPTIONS",
        "access-control-allow-headers": "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                                        "If-Range, Last-Event-ID, Prefer, Range",
        "access-control-max-age": "600"}
    assert varies(headers)
    assert cors_headers(preflight(named, "/v1/echo")[1])["access-control-allow-methods"] == "POST, OPTIONS"


def test_a_preflight_of_another_origin_or_of_nothing_allows_nothing(named):
    for origin in (EVIL, "null", "http://localhost:8889", "https://localhost:8888", PAGE + ".evil"):
        status, headers, _ = preflight(named, "/v1/echo", origin)
        assert status == 204 and cors_headers(headers) == {} and varies(headers)
    status, headers, _ = preflight(named, "/v1/nothing")
    assert status == 404 and "access-control-allow-methods" not in cors_headers(headers)


def test_answers_errors_and_304_may_be_read(named):
    token = {"Authorization": "Bearer reader", "Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
    status, headers, _ = named.request("GET", "/v1/echo/a", headers=token)
    assert status == 200 and varies(headers) and headers["Access-Control-Allow-Origin"] == PAGE
    exposed = headers["Access-Control-Expose-Headers"].split(", ")
    assert {"ETag", "Location", "Link", "Retry-After", "X-Request-Id"} <= set(exposed)
    assert "Access-Control-Allow-Credentials" not in headers
    again = named.request("GET", "/v1/echo/a", headers={**token, "If-None-Match": headers["ETag"]})
    assert again[0] == 304 and again[1]["Access-Control-Allow-Origin"] == PAGE
    for method, path, sent, expected in [
            ("GET", "/v1/echo/gone", token, 404), ("GET", "/nothing", token, 404), ("PUT", "/v1/echo/a", token, 405),
            ("GET", "/v1/echo/a", {"Origin": PAGE}, 401), ("DELETE", "/v1/echo/a", token, 403),
            ("GET", "/v1/echo/a", {**token, "Host": "evil"}, 421), ("GET", "/v1/echo/%zz", token, 400)]:
        status, headers, _ = named.request(method, path, headers=sent)
        assert (status, headers["Access-Control-Allow-Origin"]) == (expected, PAGE), (method, path)


def test_an_upload_that_is_cut_off_may_be_read(named):
    chunk = b"100001\r\n" + b"a" * 0x100001 + b"\r\n0\r\n\r\n"
    answer, _ = named.raw(b"POST /v1/act HTTP/1.1\r\nHost: @HOST@\r\nContent-Type: application/json\r\nOrigin: "
                          + PAGE.encode() + b"\r\nAuthorization: Bearer writer\r\nTransfer-Encoding: chunked\r\n\r\n"
                          + chunk)
    assert heads(answer) == [413] and b"\r\nAccess-Control-Allow-Origin: " + PAGE.encode() + b"\r\n" in answer


def test_a_named_origin_writes_with_a_token_and_no_other_does(named):
    cross = {"Sec-Fetch-Site": "cross-site"}
    writer = {"Authorization": "Bearer writer", **cross}
    status, headers, _ = named.request("POST", "/v1/echo", {}, {**writer, "Origin": PAGE})
    assert status == 201 and headers["Access-Control-Allow-Origin"] == PAGE and headers["Location"]
    problem(named.request("POST", "/v1/echo", {}, {**cross, "Origin": PAGE}), 401, "unauthorized")
    for origin in (EVIL, "null"):
        answer = named.request("POST", "/v1/echo", {}, {**writer, "Origin": origin})
        problem(answer, 403, "cross_site")
        assert cors_headers(answer[1]) == {}


def test_reads_of_other_origins_go_on_without_headers(named):
    status, headers, _ = named.request("GET", "/v1/echo/a", headers={"Authorization": "Bearer reader", "Origin": EVIL})
    assert status == 200 and cors_headers(headers) == {} and varies(headers)


def test_a_star_lets_every_page_read_and_none_write(anybody):
    for origin in (PAGE, EVIL, "null"):
        headers = {"Authorization": "Bearer writer", "Origin": origin}
        status, got, _ = anybody.request("GET", "/v1/echo/a", headers=headers)
        assert status == 200 and got["Access-Control-Allow-Origin"] == "*" and varies(got)
        assert cors_headers(preflight(anybody, "/v1/echo", origin)[1])["access-control-allow-methods"] == "GET, HEAD"
        problem(anybody.request("POST", "/v1/echo", {}, headers), 403, "cross_site")


def test_event_streams_may_be_read(named):
    with named.connect(20) as client:
        client.sendall(f"GET /v1/events/a HTTP/1.1\r\nHost: {named.host}\r\nOrigin: {PAGE}\r\n"
                       "Authorization: Bearer reader\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
    assert heads(head) == [200] and f"Access-Control-Allow-Origin: {PAGE}\r\n".encode() in head


@pytest.mark.parametrize("options", [[], ["--trust-loopback"]])
@pytest.mark.parametrize("origin", [PAGE, "*"])
def test_a_page_of_another_origin_never_has_the_local_users_trust(tmp_path, origin, options):
    service = Service(tmp_path, "--workers", "0", "--allow-origin", origin, *options)
    try:
        cross = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}
        own = {"Origin": service.url, "Sec-Fetch-Site": "same-origin"}
        assert service.get("/v1/runs").status == 200
        assert service.get("/v1/runs", headers=own).status == 200
        answer = service.get("/v1/runs", headers=cross)
        assert answer.status == 401 and "another origin" in answer.json["detail"]
        assert answer.headers["Access-Control-Allow-Origin"] in (PAGE, "*")
        body = {"name": "three", "sequences": [[1, 2, 3]]}
        assert service.request("POST", "/v1/datasets", body, cross).status == (401 if origin == PAGE else 403)
        assert service.request("POST", "/v1/datasets", body, own).status == 201
        made = subprocess.run([BINARY, "token", "create", "--scope", "write", "--data-dir", service.data],
                              capture_output=True, text=True, check=True).stdout.strip()
        cross["Authorization"] = f"Bearer {made}"
        assert service.get("/v1/runs", headers=cross).status == 200
        body["name"] = "four"
        assert service.request("POST", "/v1/datasets", body, cross).status == (201 if origin == PAGE else 403)
    finally:
        service.stop()


@pytest.mark.parametrize("options", [[], ["--trust-loopback"], ["--allow-origin", PAGE]])
def test_a_page_that_nobody_named_has_no_trust_either(tmp_path, options):
    """Its answers are hidden from it, but a read may cost something: /discover asks the hub."""
    service = Service(tmp_path, "--workers", "0", *options)
    try:
        for headers in [{"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}, {"Origin": EVIL}, {"Origin": "null"},
                        {"Sec-Fetch-Site": "cross-site"},  # an image, or a link
                        {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://localhost:1"}]:
            for path in ("/v1/runs", "/v1/trajectories/t/discover?repo=a/b", "/v1/events"):
                answer = service.get(path, headers=headers)
                assert answer.status == 401 and "another origin" in answer.json["detail"], (path, headers)
            assert service.get("/healthz", headers=headers).status == 200
            assert service.get("/", headers=headers).status == 200, "a link to the dashboard works"
        for headers in [{}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": service.url}]:
            assert service.get("/v1/runs", headers=headers).status == 200, headers
    finally:
        service.stop()


def test_several_in_the_environment_are_separated_by_blanks(tmp_path):
    service = Service(tmp_path, "--workers", "0", environment={"DELTAQ_ALLOW_ORIGIN": f"{PAGE} https://grafana.lab"})
    try:
        for origin in (PAGE, "https://grafana.lab"):
            assert service.get("/healthz", headers={"Origin": origin}).headers["Access-Control-Allow-Origin"] == origin
        assert cors_headers(service.get("/healthz", headers={"Origin": EVIL}).headers) == {}
    finally:
        service.stop()


@pytest.mark.parametrize("origins,word", [(["localhost:8888"], "SCHEME"), (["http://a/"], "slash"),
                                          (["*", PAGE], "alone"), (["http://a:80"], "own port"), (["null"], "SCHEME")])
def test_an_origin_that_no_browser_sends_is_refused(tmp_path, origins, word):
    options = [word for origin in origins for word in ("--allow-origin", origin)]
    done = subprocess.run([BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / "data", *options],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "--allow-origin" in done.stderr and word in done.stderr
    assert not (tmp_path / "data").exists()
