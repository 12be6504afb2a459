"""The life of a token: made, used, listed, ended, taken back."""

import concurrent.futures
import subprocess
import time

import models
from service import BINARY, Service
from streaming import Stream


def tool(service, *arguments):
    done = subprocess.run([BINARY, "token", *arguments, "--data-dir", service.data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listed(service):
    head, *rows = (line.split("\t") for line in tool(service, "list").splitlines())
    return {row["name"]: row for row in (dict(zip(head, row)) for row in rows)}


def test_tokens_are_listed_end_and_are_taken_back(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        lasting, short = (tool(service, "create", "--scope", "read", "--name", name, "--days", days)
                          for name, days in (("lasting", "0"), ("short", "30")))
        rows = listed(service)
        assert (rows["lasting"]["expires_at"] == "-" != rows["short"]["expires_at"]
                and rows["lasting"]["last_used_at"] == "-")
        assert lasting not in tool(service, "list")
        service.token = lasting
        assert service.get("/v1/runs").status == 200
        assert listed(service)["lasting"]["last_used_at"] != "-"
        service.token = short
        assert service.get("/v1/runs").status == 200
        tool(service, "revoke", "--name", "short")
        answer = service.get("/v1/runs")
        assert answer.status == 401 and "revoked" in answer.json["detail"]
        tool(service, "revoke", "--name", rows["lasting"]["id"])
        service.token = lasting
        assert service.get("/v1/runs").status == 401
        service.token = None
        assert service.get("/v1/runs").status == 401, "without a valid token left the server is not open to everybody"
        unknown = subprocess.run([BINARY, "token", "revoke", "--name", "nobody", "--data-dir", service.data],
                                 capture_output=True, text=True)
        assert unknown.returncode == 1 and 'no token "nobody"' in unknown.stderr
    finally:
        service.token = None
        service.stop()


def test_a_token_that_has_expired_is_refused(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        service.token = tool(service, "create", "--scope", "read", "--name", "old", "--days", "1")
        assert service.get("/v1/runs").status == 200
        socket = service.data / "pg" / "socket"
        subprocess.run(["psql", "-XAtqc", "update tokens set expires_at = clock_timestamp()", "-h", socket,
                        "-U", "deltaq", "deltaq"], check=True)
        answer = service.get("/v1/runs")
        assert answer.status == 401 and "expired" in answer.json["detail"]
    finally:
        service.token = None
        service.stop()


def opened(service, token=None):
    """A stream of changes that has said where it begins."""
    stream = Stream(service.port, "/v1/events?kind=checkpoint", token=token, limit=15)
    while "id: " not in stream.text:
        assert stream.more()
    return stream


def queued(service):
    """A checkpoint, and a run that waits for a worker."""
    made = service.checkpoint(models.write_llama(service.files / "model", seed=1), "t", "step1")
    service.sequences("data", [[1, 2, 3, 4]])
    run = service.post("/v1/runs", {"kind": "evaluate", "params": {"checkpoint": made["id"], "dataset": "data"}})
    assert run.status == 202, run.body
    return made["id"], run.json["id"]


def waiting(service, pool, run, tokens):
    """Answers to requests that wait for the run, one for each token (None: without)."""
    asked = [pool.submit(service.get, f"/v1/runs/{run}?wait=60", {"Authorization": f"Bearer {token}"} if token else {})
             for token in tokens]
    while f"deltaq_http_waiting {len(tokens)}\n" not in service.get("/metrics").body.decode():
        time.sleep(0.05)
    return asked


def test_streams_and_waits_end_with_their_token(tmp_path):
    """They used to go on for ten minutes, and told whoever had lost a token all that changed."""
    service = Service(tmp_path, "--workers", "0")
    try:
        service.token, kept, revoked, expired = (
            tool(service, "create", "--scope", scope, "--name", name, "--days", "1")
            for scope, name in (("admin", "admin"), ("read", "kept"), ("read", "revoked"), ("read", "expired")))
        checkpoint, run = queued(service)
        streams = [opened(service, token) for token in (kept, revoked, expired)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = waiting(service, pool, run, (kept, revoked, expired))
            assert service.request("DELETE", "/v1/tokens/revoked").status == 204
            service.sql("update tokens set expires_at = clock_timestamp() where name = 'expired'")
            assert [list(stream.events()) for stream in streams[1:]] == [[], []], "they end, and tell nothing"
            assert service.request("PATCH", f"/v1/checkpoints/{checkpoint}", {"tags": {"a": "b"}}).status == 200
            assert streams[0].take(1)[0][1] == "checkpoint", "others go on"
            assert service.post(f"/v1/runs/{run}/cancel").status == 202
            answers = [answer.result() for answer in asked]
        assert [answer.status for answer in answers] == [200, 401, 401]
        assert [answer.json["detail"] for answer in answers[1:]] == ["the token was revoked", "the token has expired"]
        assert all("invalid_token" in answer.headers["WWW-Authenticate"] for answer in answers[1:])
    finally:
        service.token = None
        service.stop()


def test_streams_and_waits_without_a_token_end_with_the_first_one(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        _, run = queued(service)
        stream = opened(service)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = waiting(service, pool, run, [None])
            first = tool(service, "create", "--scope", "admin", "--name", "first")
            assert list(stream.events()) == []
            cancel = service.request("POST", f"/v1/runs/{run}/cancel", headers={"Authorization": f"Bearer {first}"})
            assert cancel.status == 202 and asked[0].result().status == 401
        service.token = first
        assert opened(service, first).socket
    finally:
        service.stop()


def test_the_life_of_a_token_over_the_api(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        made = service.post("/v1/tokens", {"scope": "admin", "name": "first"})
        assert made.status == 201 and made.json["name"] == "first" and made.json["expires_at"] is None
        assert service.get("/v1/tokens").status == 401, "once there is a token everybody needs one"
        service.token = admin = made.json["token"]
        assert service.post("/v1/tokens", {"scope": "read", "name": "first"}).status == 409
        assert service.post("/v1/tokens", {"scope": "all"}).pointers == ["/scope"]
        assert service.post("/v1/tokens", {"scope": "read", "days": -1}).pointers == ["/days"]
        assert service.post("/v1/tokens", {"scope": "read", "name": "a/b"}).pointers == ["/name"]
        kept = service.post("/v1/tokens", {"scope": "read"}, {"Idempotency-Key": "k"})
        assert kept.status == 422 and "secret" in kept.json["detail"]
        reader, writer = (service.post("/v1/tokens", {"scope": scope, "name": scope, "days": days}).json
                          for scope, days in (("read", 30), ("write", 0)))
        assert reader["expires_at"] > reader["created_at"] and reader["token"] != writer["token"]
        rows = service.get("/v1/tokens")
        assert [row["name"] for row in rows.json["items"]] == ["write", "read", "first"]
        assert not any(token in rows.body.decode() for token in (admin, reader["token"], writer["token"]))
        assert [row["name"] for row in service.get("/v1/tokens?name=rea*").json["items"]] == ["read"]
        assert all(list(row) == ["name", "id"] for row in service.get("/v1/tokens?fields=name,id").json["items"])
        assert "revoked_at" in service.get("/v1/tokens?view=summary").json["items"][0]
        page = service.get("/v1/tokens?limit=2").json
        assert ([row["name"] for row in page["items"]] == ["write", "read"]
                and [r["name"] for r in service.get(page["next"]).json["items"]] == ["first"])
        for row in (reader, writer):
            service.token = row["token"]
            assert service.get("/v1/runs").status == 200
            for method, path, body in (("GET", "/v1/tokens", None), ("POST", "/v1/tokens", {"scope": "read"}),
                                       ("DELETE", "/v1/tokens/first", None)):
                assert service.request(method, path, body).status == 403
        service.token = admin
        used = {row["name"]: row["last_used_at"] for row in service.get("/v1/tokens").json["items"]}
        assert all(used.values())
        assert service.request("DELETE", "/v1/tokens/first").status == 409, "it would lock out who asks"
        assert service.request("DELETE", "/v1/tokens/nobody").status == 404
        assert service.request("DELETE", "/v1/tokens/read").status == 204
        assert service.request("DELETE", f"/v1/tokens/{writer['id']}").status == 204
        for row in (reader, writer):
            service.token = row["token"]
            assert service.get("/v1/runs").status == 401
    finally:
        service.token = None
        service.stop()


def test_wrong_tokens_wait_and_right_ones_pass(tmp_path):
    service = Service(tmp_path, "--workers", "0")
    try:
        right, *unused = (tool(service, "create", "--scope", "read", "--name", f"token{i}") for i in range(13))
        service.token = right
        assert service.get("/v1/runs").status == 200

        def guess(count):
            service.token = "dq_wrong"
            return [service.get("/v1/runs") for _ in range(count)]

        answers = guess(60)
        assert [answer.status for answer in answers[:21]] == [401] * 21
        refused = [answer for answer in answers[21:] if answer.status == 429]
        assert refused and {answer.headers["Retry-After"] for answer in refused} == {"1"}
        service.token = right
        assert service.get("/v1/runs").status == 200, "who was right lately does not wait for others"
        # A right token that nobody has used used to wait here, like a guess. But nobody guesses 256 bits, and whoever
        # sends wrong tokens all the time locked out all others at the address. It is let in once the server has read
        # which tokens are valid, which the wrong ones have it do: within a second. Twelve of them, for some may be
        # lucky and get the one look-up of a second.
        end = time.monotonic() + 60
        for token in unused:
            answer = None
            while answer is None or answer.status != 200:
                guess(30)
                service.token = token
                answer = service.get("/v1/runs")
                assert answer.status == 200 or (answer.status, answer.headers["Retry-After"]) == (429, "1")
                assert time.monotonic() < end
        tool(service, "revoke", "--name", "token1")
        service.token = unused[0]
        assert service.get("/v1/runs").status == 401, "it is still asked of the database"
        service.token = None
        assert service.get("/v1/runs").status == 401 and service.get("/healthz").status == 200
    finally:
        service.token = None
        service.stop()


def test_a_token_is_taken_back_whatever_its_state(tmp_path):
    """It has no GET, and so no entity tag; but it is there."""
    service = Service(tmp_path, "--workers", "0")
    try:
        service.token = tool(service, "create", "--scope", "admin", "--name", "first")
        made = service.post("/v1/tokens", {"name": "second", "scope": "read"}).json
        address = f"/v1/tokens/{made['id']}"
        refused = service.request("DELETE", address, headers={"If-Match": '"a"'})
        assert refused.status == 412 and "no entity tag" in refused.json["detail"]
        assert service.request("DELETE", address, headers={"If-Match": "*"}).status == 204
    finally:
        service.stop()
