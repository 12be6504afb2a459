"""The main paths of object storage against Ceph's gateway, which checks every signature itself: checkpoints, scans,
datasets, artifacts in parts; and roles from its STS."""

import json
import os
import subprocess

import models
import pytest
from gateway import KEYS
from issuer import Issuer
from service import BINARY, Service
from test_objects import MIDDLE, fetched, register, scan

NOBODY = {"AWS_EC2_METADATA_DISABLED": "true", "HF_ENDPOINT": "http://127.0.0.1:9", "AWS_CONFIG_FILE": "/dev/null",
          "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
          "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": ""}
SIGNED = {**NOBODY, "AWS_ACCESS_KEY_ID": KEYS["access"], "AWS_SECRET_ACCESS_KEY": KEYS["secret"]}


@pytest.fixture(scope="module")
def lab(gateway, tmp_path_factory):
    """The bucket `lab` with a trajectory of two checkpoints, and a larger checkpoint of several ranges."""
    directory = tmp_path_factory.mktemp("models")
    gateway.ask(("s3", "create_bucket", {"Bucket": "lab"}))
    for step in (100, 200):
        gateway.put_files("lab", f"run7/step{step}", models.write_llama(directory / str(step), seed=step))
    gateway.put_files("lab", "large", models.write_llama(directory / "large", **MIDDLE))
    return gateway


def serve(gateway, directory, environment, *options):
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")
    return Service(directory, "--threads", "1", "--s3-endpoint", gateway.url, "--s3-region", gateway.region, *options,
                   environment=environment)


@pytest.fixture(scope="module")
def served(lab, tmp_path_factory):
    service = serve(lab, tmp_path_factory.mktemp("radosgw"), SIGNED, "--artifacts", "s3://lab/deep/artifacts")
    yield service
    assert service.stop() == 0
    assert KEYS["secret"] not in service.log.read_text()


def test_checkpoints_of_one_and_of_several_ranges_are_fetched(served, lab):
    for path, name in (("run7/step100", "a"), ("large", "b")):
        result = fetched(served, f"s3://lab/{path}", name, trajectory="fetched")
        assert result["bytes"] == result["downloaded"] > 0


def test_a_trajectory_is_scanned_and_measured(served, lab):
    found = scan(served, "run7", "s3://lab/run7/")
    assert sorted(c["name"] for c in found["registered"]) == ["step100", "step200"]
    served.sequences("rows", models.rows(2, 16))
    run = served.run("evaluate", checkpoint="run7/step200", dataset="rows", sequence_length=None)
    assert run["state"] == "succeeded", run["error"]


def test_an_object_is_a_dataset(served, lab, tmp_path):
    lines = tmp_path / "val.jsonl"
    lines.write_text(json.dumps({"text": "".join(chr(97 + i % 26) for i in range(4000))}) + "\n")
    lab.ask(("s3", "upload_file", {"Filename": str(lines), "Bucket": "lab", "Key": "data/a b+c/val.jsonl"}))
    made = served.post("/v1/datasets", {"name": "object", "format": "jsonl", "path": "s3://lab/data/a b+c/val.jsonl"})
    assert made.status == 201 and len(made.json["commit"]) == 40, made.body
    fetched(served, "s3://lab/run7/step100", "read", trajectory="object")
    run = served.run("evaluate", checkpoint="object/read", dataset="object", sequence_length=32)
    assert run["state"] == "succeeded", run["error"]


def test_an_artifact_goes_there_in_parts_and_comes_back(served, lab):
    fetched(served, "s3://lab/large", "large", trajectory="parts")
    served.sequences("few", models.rows(2, 16))
    run = served.run("quantize", checkpoint="parts/large", export="dequantized",
                     method={"name": "rtn", "bits": 8, "group_size": 32}, evaluation={"dataset": "few"},
                     calibration={"dataset": "few"})
    assert run["state"] == "succeeded", run["error"]
    items = served.get(f"/v1/runs/{run['id']}/artifacts").json["items"]
    item = max(items, key=lambda item: item["bytes"])
    (head,) = lab.ask(("s3", "head_object", {"Bucket": "lab", "Key": f"deep/artifacts/{item['sha256']}"}))
    assert head["ContentLength"] == item["bytes"] > 16 << 20 and "-" in head["ETag"], "several parts"
    path = served.data / "artifacts" / item["sha256"]
    kept = path.read_bytes()
    path.unlink()
    answer = served.get(f"/v1/runs/{run['id']}/artifacts/{item['name']}")
    assert answer.status == 200 and answer.body == kept


def test_what_is_refused_is_said(served, lab):
    run = register(served, "s3://nobody-has-this/x", "none", trajectory="refused")
    assert run["state"] == "failed" and "no such bucket" in run["error"]["detail"], run["error"]


def doctor(gateway, tmp_path, **environment):
    done = subprocess.run([BINARY, "doctor", "--data-dir", tmp_path / "data", "--s3-endpoint", gateway.url,
                           "--s3-region", gateway.region], capture_output=True, text=True,
                          env={**os.environ, **NOBODY, **environment})
    return next(line for line in done.stdout.splitlines() if "object storage" in line)


def test_keys_that_the_gateway_does_not_know_read_nothing(lab, tmp_path):
    """A gateway with STS says no more than AccessDenied, whether it is the key or its secret."""
    service = serve(lab, tmp_path / "server", {**SIGNED, "AWS_SECRET_ACCESS_KEY": "x" * 40})
    try:
        run = register(service, "s3://lab/run7/step100", "none", trajectory="wrong")
        assert run["state"] == "failed" and run["error"]["code"] == "forbidden", run
    finally:
        assert service.stop() == 0
    line = doctor(lab, tmp_path, **{**SIGNED, "AWS_ACCESS_KEY_ID": "AKIDOFNOBODY"})
    assert "lists no buckets (AccessDenied)" in line
    assert "lists no buckets" not in doctor(lab, tmp_path, **SIGNED)


ROLE = "arn:aws:iam:::role/reader"
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*",
                                                             "Resource": "arn:aws:s3:::*"}]})


def make_role(gateway, name, principal, action):
    """A role that whom `principal` names may take, and that may do everything with buckets."""
    trust = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": principal,
                                                                "Action": [action]}]})
    gateway.ceph("radosgw-admin", "role", "create", f"--role-name={name}", "--path=/",
                 f"--assume-role-policy-doc={trust}")
    gateway.ceph("radosgw-admin", "role-policy", "put", f"--role-name={name}", "--policy-name=all",
                 f"--policy-doc={POLICY}")


def test_a_role_of_the_gateway_is_taken_with_a_profiles_keys(lab, tmp_path):
    make_role(lab, "reader", {"AWS": ["arn:aws:iam:::user/lab"]}, "sts:AssumeRole")
    config, keys = tmp_path / "config", tmp_path / "credentials"
    config.write_text(f"[profile lab]\nrole_arn = {ROLE}\nsource_profile = base\n")
    keys.write_text(f"[base]\naws_access_key_id = {KEYS['access']}\naws_secret_access_key = {KEYS['secret']}\n")
    service = serve(lab, tmp_path / "server", {**NOBODY, "AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "lab",
                                               "AWS_SHARED_CREDENTIALS_FILE": str(keys),
                                               "AWS_ENDPOINT_URL_STS": lab.url})
    try:
        assert fetched(service, "s3://lab/run7/step100", "by-role", trajectory="role")["downloaded"] > 0
    finally:
        assert service.stop() == 0


@pytest.fixture
def issuer(tmp_path):
    issuer = Issuer(tmp_path)
    yield issuer
    issuer.stop()


def test_a_web_identity_is_exchanged_for_a_role_of_the_gateway(lab, issuer, tmp_path):
    provider = f"arn:aws:iam:::oidc-provider/{issuer.name}"
    lab.ask(("iam", "create_open_id_connect_provider", {"Url": issuer.url, "ClientIDList": ["deltaq"],
                                                        "ThumbprintList": [issuer.thumbprint]}))
    make_role(lab, "worker", {"Federated": [provider]}, "sts:AssumeRoleWithWebIdentity")
    token = tmp_path / "token"
    token.write_text(issuer.token("pod-7", "deltaq") + "\n")
    service = serve(lab, tmp_path / "server", {**NOBODY, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
                                               "AWS_ROLE_ARN": "arn:aws:iam:::role/worker",
                                               "AWS_ENDPOINT_URL_STS": lab.url}, "--workers", "1")
    try:
        assert fetched(service, "s3://lab/run7/step100", "by-token", trajectory="token")["downloaded"] > 0
    finally:
        assert service.stop() == 0
    token.write_text(issuer.token("pod-7", "somebody-else"))
    line = doctor(lab, tmp_path, AWS_WEB_IDENTITY_TOKEN_FILE=str(token), AWS_ROLE_ARN="arn:aws:iam:::role/worker",
                  AWS_ENDPOINT_URL_STS=lab.url)
    assert line.startswith("WRONG") and "arn:aws:iam:::role/worker" in line and "AccessDenied" in line, line
