"""What schemathesis is told of deltaq (test_generated.py): which refusals of requests that fit the schemas are right all the same, each
with its reason. Whatever is not in the table fails the test."""

import json
import re

import schemathesis

# Operation; pointer; detail; why no schema can say it. All of a refusal's faults must stand here.
REFUSALS = [
    ("POST /v1/(runs|sweeps|tokenize|checkpoints)", "", r"no (checkpoint|dataset|trajectory) |more than one checkpoint", "what is registered is not in a schema"),
    ("POST", "", r"no such file or directory below the server's roots", "nor is what lies on the server's disk"),
    ("(GET|POST) /v1/trajectories/{trajectory}/discover|POST /v1/(runs|checkpoints)", "", r"no such repository|no branch, tag or commit|no such revision", "nor what the hub has"),
    ("POST", "", r"this Idempotency-Key came before with another request", "nor which keys were used"),
    ("POST", "", r"must have at most \d+ bytes", "JSON Schema counts characters; columns and paths have bytes"),
    ("", "/trajectory$|^$", r"must have 1 to 200 bytes", "likewise"),
    ("POST", "/repo$", r"must be the name of a repository", "a part has at most 96 characters: a look ahead, which not all tools have"),
    ("POST", "/revision$", r"must be a branch, a tag or a commit", "git's rules for references make no short pattern"),
    ("POST", "/files/\\d+$", r"must be the path of a file in the repository", "nor do those for paths in a repository"),
]


def faults_of(response):
    """(pointer, detail) of every fault of a refusal."""
    problem = json.loads(response.content)
    return [(e["pointer"], e["detail"]) for e in problem.get("errors", [])] or [("", problem["detail"])]


def is_right(operation, pointer, detail):
    return any(re.match(o, operation) and re.search(p, pointer) and re.match(d, detail) for o, p, d, _ in REFUSALS)


@schemathesis.hook
def before_call(context, case, kwargs):
    """`wait` does what it says; a second of it is as good as a minute."""
    wait = (case.query or {}).get("wait")
    if isinstance(wait, int) and 1 < wait <= 60:
        case.query["wait"] = 1


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ != "RejectedPositiveData" or response.status_code not in (400, 422):
        return True
    return not all(is_right(case.operation.label, *fault) for fault in faults_of(response))
