"""Keys of roles for buckets, from an STS that others wrote: by the token of a web identity, and by a profile's keys."""

import json
import re

import models
import object_store
import pytest
from service import BINARY, Service
from test_objects import doctor, fetched, files_of, pytestmark, register, store  # noqa: F401

ROLE = "arn:aws:iam::123456789012:role/lab"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJsYWIiLCJzdWIiOiJ3b3JrZXIifQ.c2lnbmF0dXJl"
BASE = {"access": "AKIDOFTHEBASE", "secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYBASE", "session": ""}
# Nothing of the machine that runs the tests.
NOBODY = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "eu-central-1", "HF_ENDPOINT": "http://127.0.0.1:9",
          "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "",
          "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": ""}


def sts_refusal(status, code, message):
    body = (f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
            f"<Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>")
    return {"status": status, "body": body.encode(), "headers": {"Content-Type": "text/xml"}}


def handed_out(store):
    """The keys of each answer of STS."""
    def part(text, name):
        return re.search(f"<{name}>(.*?)</{name}>", text, re.S)[1].strip()

    return [{"access": part(r["answer"], "AccessKeyId"), "secret": part(r["answer"], "SecretAccessKey"),
             "session": part(r["answer"], "SessionToken")} for r in store.roles if "answer" in r]


def signed_with(store, keys):
    """Whether each request to the bucket is signed with one of these keys as botocore would."""
    of = [[r for r in store.requests if f"Credential={k['access']}/" in dict(r["headers"]).get("Authorization", "")]
          for k in keys]
    return sum(map(len, of)) == len(store.requests) > 0 and all(
        object_store.wrong_signatures(k, requests) == [] for k, requests in zip(keys, of, strict=True))


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def identity(store, token):
    store.clear()
    return {**NOBODY, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": ROLE,
            "AWS_ENDPOINT_URL_STS": store.url}


@pytest.fixture
def serve(store, tmp_path):
    """serve(environment): a server with those credentials; what it says has none of them."""
    services = []

    def start(environment):
        if not BINARY.exists():
            pytest.skip("build/deltaq is not built")
        services.append(Service(tmp_path / "server", "--threads", "1", "--workers", "1", "--s3-endpoint", store.url,
                                environment=environment))
        return services[-1]

    yield start
    for service in services:
        assert service.stop() == 0
        log = service.log.read_text()
        for secret in (TOKEN, BASE["secret"], *(keys[part] for keys in handed_out(store) for part in keys)):
            assert secret not in log


def test_a_checkpoint_is_fetched_with_the_keys_of_a_web_identity(serve, store, identity, tmp_path):
    service = serve({**identity, "AWS_ROLE_SESSION_NAME": "lab-worker"})
    store.put_files("lab", "roles/step1", files_of(tmp_path / "small"))
    store.rule("POST", "^/$", 1, answer=sts_refusal(503, "ServiceUnavailable", "later"))
    store.rule("POST", "^/$", 1, slow=0.2)
    assert fetched(service, "s3://lab/roles/step1", "step1", trajectory="roles")["downloaded"] > 0
    assert all("Action=AssumeRoleWithWebIdentity" in r["body"] and f"WebIdentityToken={TOKEN}" in r["body"]
               and "RoleSessionName=lab-worker" in r["body"] and "Authorization" not in dict(r["headers"])
               for r in store.roles)
    keys = handed_out(store)
    assert len(store.roles) == len(keys) + 1, "once for each process, and once more after the refusal"
    assert signed_with(store, keys)


def test_an_expired_session_takes_the_files_newest_token(serve, store, identity, token, tmp_path):
    service = serve(identity)
    store.put_files("lab", "renewed/step1", files_of(tmp_path / "small"))
    store.put_files("lab", "renewed/step2", files_of(tmp_path / "other", seed=2))
    fetched(service, "s3://lab/renewed/step1", "step1", trajectory="renewed")
    token.write_text(TOKEN[:-4] + "next")
    store.rule("GET", "renewed/step2", 1, answer=object_store.refusal(400, "ExpiredToken"))
    fetched(service, "s3://lab/renewed/step2", "step2", trajectory="renewed")
    assert store.roles[-1]["body"].endswith(TOKEN[:-4] + "next")


def test_an_expired_session_that_a_head_meets_is_renewed(serve, store, identity, token, tmp_path):
    service = serve(identity)
    store.put_files("lab", "met/step1", files_of(tmp_path / "small"))
    refused = store.rule("HEAD", "met/step1", 1, answer={"status": 400, "headers": {}, "body": b""},
                         then=lambda: token.write_text(TOKEN[:-4] + "next"))
    assert fetched(service, "s3://lab/met/step1", "step1", trajectory="met")["downloaded"] > 0
    assert refused.times == 0 and store.roles[-1]["body"].endswith(TOKEN[:-4] + "next")


def test_a_refused_role_is_said_in_the_services_words(serve, store, identity):
    service = serve(identity)
    store.rule("POST", "^/$", 99, answer=sts_refusal(403, "AccessDenied",
                                                     "Not authorized to perform sts:AssumeRoleWithWebIdentity"))
    run = register(service, "s3://lab/refused", "refused")
    assert run["state"] == "failed" and TOKEN not in json.dumps(run)
    error = run["error"]
    assert error["code"] == "forbidden" and "trust policy" in error["detail"] and ROLE in error["detail"]
    assert "Not authorized to perform sts:AssumeRoleWithWebIdentity" in error["detail"]
    assert store.requests == [], "nothing is asked of the bucket without keys"


def test_a_profiles_keys_ask_for_its_role(serve, store, tmp_path):
    store.clear()
    config, credentials = tmp_path / "config", tmp_path / "credentials"
    config.write_text(f"[profile lab]\nrole_arn = {ROLE}\nsource_profile = base\nexternal_id = a+b/c\n")
    credentials.write_text(f"[base]\naws_access_key_id = {BASE['access']}\naws_secret_access_key = {BASE['secret']}\n")
    environment = {**NOBODY, "AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
                   "AWS_PROFILE": "lab", "AWS_ENDPOINT_URL_STS": store.url, "AWS_WEB_IDENTITY_TOKEN_FILE": ""}
    service = serve(environment)
    store.put_files("lab", "profile/step1", files_of(tmp_path / "small"))
    fetched(service, "s3://lab/profile/step1", "step1", trajectory="profile")
    assert store.roles and object_store.wrong_signatures(BASE, store.roles) == []
    assert all("Action=AssumeRole&" in r["body"] and "ExternalId=a%2Bb%2Fc" in r["body"] for r in store.roles)
    assert signed_with(store, handed_out(store))
    line = doctor(store, tmp_path, "--s3-endpoint", store.url, **environment)
    assert line.startswith("ok ") and line.endswith(f"credentials: shared file, {ROLE}")


def test_the_doctor_names_the_role(store, identity, token, tmp_path):
    line = doctor(store, tmp_path, "--s3-endpoint", store.url, **identity)
    assert line.startswith("ok ") and line.endswith(f"credentials: web identity, {ROLE}")
    token.write_text("")
    line = doctor(store, tmp_path, **identity)
    assert line.startswith("WRONG") and "https://s3.eu-central-1.amazonaws.com: " in line
    assert line.endswith("AWS_WEB_IDENTITY_TOKEN_FILE: the file is empty: what renews the token has to write it first")
