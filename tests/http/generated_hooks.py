"""What schemathesis is told of deltaq (test_generated.py): which refusals of requests that fit the schemas are right
all the same, each with its reason. A refusal that is not in the table fails the test."""

import json
import re

import schemathesis

# Operation; pointer; detail; why no schema can say it. All of a refusal's faults must stand here.
REFUSALS = [
    ("POST /v1/(runs|sweeps|tokenize|checkpoints|gates)", "",
     "no (checkpoint|dataset|trajectory) |more than one checkpoint", "what is registered is not in a schema"),
    ("GET", "/dataset$", "no dataset is named", "likewise"),
    ("GET /v1/flips", "/(task|label)$", "no task is named|nothing was measured under the label",
     "nor what runs asked and measured"),
    ("POST", "", "no such file or directory below the server's roots", "nor is what lies on the server's disk"),
    ("POST /v1/(tokenize|checkpoints)", "/(tokenizer|source)/path$", r".*: byte \d+: |not a file of weights",
     "nor what the files there hold"),
    ("POST /v1/datasets", "/path$", r".*: byte \d+ is not UTF-8", "likewise"),
    ("POST .*/scan", "/path$", "no checkpoint below it", "likewise"),
    ("(GET|POST) .*/discover", "/repo$", r"\S+: (the hub wants a token|no such repository)|none of its revisions",
     "nor what the hub has"),
    ("GET /v1/checkpoints/{checkpoint}/tensors", "", "the files of checkpoint .* are not here: fetch them first",
     "nor what was fetched"),
    ("GET /v1/runs/{run}/worst-tokens", "/(run|against)$", "left no losses of its tokens|is a run of the kind",
     "nor what runs left"),
    ("POST /v1/tokens", "", "no Idempotency-Key here", "no schema forbids a header that every POST may have"),
    ("POST", "", "this Idempotency-Key came before with another request", "nor which keys were used"),
    ("POST /v1/checkpoints", "/source/(path|revision|files)$", "is missing|either a path or a repo|goes with repo",
     "rules over several fields are not in the tables"),
    ("POST /v1/datasets", "/(path|format|field|dtype|add_special_tokens)$",
     "give either path|is missing|goes with path|means nothing for", "likewise"),
    ("POST /v1/tokenize", "/checkpoint$", "give either checkpoint or tokenizer", "likewise"),
    ("POST /v1/runs",
     "/params/([ab]|checkpoints|trajector(y|ies)|weights|windows?|previous|range|files|calibration_draws)$",
     r"is missing: give|exclude|must (have one weight|not sum|ascend|be null in)|"
     r"trajectories are matched|ha(s|ve) \d+ checkpoint|no place has|\d+ is more than|"
     r"is the checkpoint itself|their names have more", "likewise"),
    ("POST /v1/runs", "/params/(repo|path|revision)$",
     "is missing: a repository|either a path or a repo,|goes with repo only", "likewise"),
    ("POST /v1/runs", "/params/per_token$", "every calibration draw has tokens of its own", "likewise"),
    ("POST /v1/runs", "/params/(.*/)?(calibration|evaluation|method|seed)$",
     "is (for a|of no use without)|is missing: ", "likewise"),
    ("POST /v1/runs", "/method/", "unknown field; known here: name|stands beside a name",
     "the fields beside a recipe are those of the method that it names"),
    ("POST /v1/runs", "sequence_length$", r"\d+ is above the model's|text packed as blocks needs a length",
     "what was registered"),
    ("POST /v1/sweeps", "/(base|grid|standing)(/|$)", "",
     "the parameters of a sweep's runs are checked once they are multiplied out"),
    ("POST /v1/sweeps/{sweep}/extend", "/(base|grid)(/|$)", "", "likewise, and the fields are those of that grid"),
    ("POST /v1/gates", r"/rules/\d+",
     "give |either a metric|is missing: |means nothing (for|without)|no measured number|"
     "unknown; known here|must be a single value|must be (a number|a text|true or false|one of the field's words)$|"
     r"\".*\" is a property of the checkpoint",
     "rules over several fields are not in the tables, nor are metrics and fields of methods in those of gates"),
    ("GET /v1/gates/{gate}/verdict", "/checkpoint$", "is one of trajectory", "what is registered is not in a schema"),
    ("POST /v1/webhooks", "/url$",
     "must be an address|must begin with|names no host|may hold no|is an address of this machine",
     "no short pattern says what an address is"),
    ("POST|PATCH", "", r"line \d+, column \d+: too big (negative )?integer",
     "integers of free objects have 64 bits, as openapi.yaml says at its top"),
    ("GET /v1/measurements", "/metric$", r'".*" is a property of the checkpoint', "every row has it as a column"),
    ("GET /v1/measurements", "/fields$", "no column ", "the metrics that there are make the columns"),
    ("POST|PATCH", "",
     r'(the name (of a new trajectory .*|in the address) )?must (not contain|have 1 to 200 bytes without) "/"'
     r'.*(nor|not) be "\."',
     "a pattern without a look ahead is far longer"),
    ("POST|PATCH", "", r"must be an integer, found \d+: from 2\^53 on write all digits",
     "JSON Schema knows no difference between 2^53 and 2^53 written with a point"),
    ("POST|PATCH", "/tags$", "the key .* of a tag is empty or has a colon", "tags are free objects"),
    ("POST", "", r"must have at most \d+ bytes", "JSON Schema counts characters; columns and paths have bytes"),
    ("", "/trajectory$|^$", "(the name in the address )?must have 1 to 200 bytes", "likewise"),
    ("(GET|POST)", "/repo$", "must be the name of a repository",
     "a part has at most 96 characters: a look ahead, which not all tools have"),
    ("GET", "/(created|measured)_(from|to)$", "expected a day",
     "months have 28 to 31 days, and no time is before 1970"),
    ("GET /v1/correlations", "/protocol_x$", "means nothing for x=", "a schema of one field knows no other"),
    ("GET", "/(method|bits|dataset|protocol|calibration)$", "means nothing for (metric|y)=", "likewise"),
    ("GET", "/sort$", "goes with trajectory|goes without updated_since", "a schema of one field knows no other"),
    ("GET", "^$", "the address holds an encoded control character",
     "free texts in a query hold any other character"),
    ("GET", "/view$", "goes without fields", "likewise"),
    ("GET", "/cursor$", "(what|the checkpoint that) the page before ended with is gone",
     "only numbers that a page gave"),
    ("GET", "/fields$", "no field|\"[a-z0-9_]+\" comes twice", "the names of an item's fields are those of its schema"),
    ("POST", "/revision$", "must be a branch, a tag or a commit", "git's rules for references make no short pattern"),
    ("POST", r"/files/\d+$", "must be the path of a file in the repository", "nor do those for paths in a repository"),
]


def faults_of(response):
    """(pointer, detail) of every fault of a refusal."""
    problem = json.loads(response.content)
    return [(e["pointer"], e["detail"]) for e in problem.get("errors", [])] or [("", problem["detail"])]


def is_right(operation, pointer, detail):
    return any(re.match(o, operation) and re.search(p, pointer) and re.match(d, detail) for o, p, d, _ in REFUSALS)


@schemathesis.hook
def before_call(context, case, kwargs):
    """`wait` does what it says; a second of it is as good as a minute.
    The stream of all changes has no end of its own."""
    if case.operation.path == "/v1/events" and (case.query or {}).get("follow", True) in (True, "true"):
        case.query = {**(case.query or {}), "follow": "false"}
    wait = (case.query or {}).get("wait")
    if isinstance(wait, int) and 1 < wait <= 60:
        case.query["wait"] = 1


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ == "RejectedPositiveData" and response.status_code == 410:
        return False  # a cursor beyond the end of the log: how far it goes is in no schema
    if type(failure).__name__ == "EnsureResourceAvailability" and case.operation.label == "DELETE /v1/tokens/{token}":
        # a link that the tool infers takes the text of a new token for its id, for the path's parameter is named so
        return not str((case.path_parameters or {}).get("token")).startswith("dq_")
    if response.status_code == 412 and type(failure).__name__ in ("RejectedPositiveData", "AcceptedNegativeData"):
        return "If-Match" not in case.headers  # what a resource is now is in no schema; it is asked before the body
    if type(failure).__name__ != "RejectedPositiveData" or response.status_code not in (400, 422):
        return True
    return not all(is_right(case.operation.label, *fault) for fault in faults_of(response))
