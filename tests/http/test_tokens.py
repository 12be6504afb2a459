"""The life of a token: made, used, listed, ended, taken back."""

import subprocess

from service import BINARY, Service


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
        lasting, short = (tool(service, "create", "--scope", "read", "--name", name, "--days", days) for name, days in (("lasting", "0"), ("short", "30")))
        rows = listed(service)
        assert rows["lasting"]["expires_at"] == "-" != rows["short"]["expires_at"] and rows["lasting"]["last_used_at"] == "-"
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
        unknown = subprocess.run([BINARY, "token", "revoke", "--name", "nobody", "--data-dir", service.data], capture_output=True, text=True)
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
        subprocess.run(["psql", "-XAtqc", "update tokens set expires_at = clock_timestamp()", "-h", socket, "-U", "deltaq", "deltaq"], check=True)
        answer = service.get("/v1/runs")
        assert answer.status == 401 and "expired" in answer.json["detail"]
    finally:
        service.token = None
        service.stop()
