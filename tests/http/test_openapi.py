"""openapi.yaml says what the binary does. (That real answers fit their schemas
is checked in every test: service.py.)"""

import collections
import itertools
import json
import re
import subprocess

import jsonschema
import pytest
import schemas
import yaml
from contract import LOADER, OPENAPI
from service import BINARY


def resolved(node):
    if "$ref" not in node:
        return node
    target = OPENAPI
    for key in node["$ref"][2:].split("/"):
        target = target[key]
    return target


def test_every_route_is_described_and_nothing_else():
    """And every query field of it: what is not in the table is refused. One that is a list may come several
    times, which the table marks with a "+"."""
    routes = subprocess.run([BINARY, "routes"], check=True, capture_output=True, text=True).stdout.splitlines()
    described = {}
    for path, item in OPENAPI["paths"].items():
        for method in item.keys() - {"parameters"}:
            parameters = map(resolved, item.get("parameters", []) + item[method].get("parameters", []))
            described[f"{method.upper()} {path}"] = sorted(
                p["name"] + "+" * (p["schema"].get("type") == "array") for p in parameters if p["in"] == "query")
    made = {" ".join(line.split()[:2]): sorted(line.split()[2:]) for line in routes}
    assert described == made, "the paths of openapi.yaml are written by hand, beside the rows of resources/handlers.h"


def test_every_operation_says_what_it_is_for():
    """By a name, a line of help, what it is listed under, and the fields of what it answers."""
    tags = {tag["name"] for tag in OPENAPI["tags"]}
    operations = [
        (f"{method.upper()} {path}", item, item[method])
        for path, item in OPENAPI["paths"].items()
        for method in item.keys() - {"parameters"}
    ]
    for name, item, operation in operations:
        assert operation.keys() >= {"operationId", "summary", "tags"}, f"{name}: give it all of these"
        assert operation["summary"] and not operation["summary"].endswith("."), f"{name}: a line without a full stop"
        assert operation["tags"] and tags.issuperset(operation["tags"]), f"{name}: none of the tags at the top"
        parameters = map(resolved, item.get("parameters", []) + operation.get("parameters", []))
        named = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", name)), f"{name}: describe the parameters of the path"
        for status, answer in operation["responses"].items():
            schema = resolved(answer).get("content", {}).get("application/json", {}).get("schema", {"allOf": []})
            told = resolved(schema).keys() & {"properties", "allOf", "anyOf", "oneOf"}
            assert told, f"{name}: the fields of answer {status} are not described"
    names = collections.Counter(operation.get("operationId") for _, _, operation in operations)
    assert [name for name, count in names.items() if count > 1] == []


def test_conditions_of_requests_are_described():
    """Whatever is read has an entity tag, streams apart. Probes ask what is now, so that theirs are of no use."""
    missing = []
    for path, item in OPENAPI["paths"].items():
        for method in item.keys() & {"get", "patch", "delete"}:
            operation, responses = item[method], item[method]["responses"]
            headers = {p["name"] for p in map(resolved, operation.get("parameters", [])) if p["in"] == "header"}
            success = resolved(responses.get("200", {}))
            if method == "get" and path.startswith("/v1/") and "text/event-stream" not in success["content"]:
                good = "If-None-Match" in headers and "304" in responses and "ETag" in success.get("headers", {})
            else:
                good = method == "get" or "get" not in item or ("If-Match" in headers and "412" in responses)
            missing += [] if good else [f"{method.upper()} {path}"]
    assert missing == []


PLAIN = [path for path, item in OPENAPI["paths"].items()
         if "get" in item and "{" not in path and "304" in item["get"]["responses"] and path != "/v1/workers"
         and not any(resolved(p).get("required") for p in item["get"]["parameters"])]


@pytest.mark.parametrize("path", PLAIN)
def test_what_the_client_has_is_not_sent_again(service, path):
    """Of lists and tables; workers tell when they were seen last. service.py holds other answers to the document."""
    tag = service.get(path).headers["ETag"]
    again = service.get(path, {"If-None-Match": tag})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert service.get(path, {"If-None-Match": '"other"'}).status == 200


def test_body_and_parameter_schemas_equal_the_tables():
    made = schemas.of_binary(BINARY)
    described = {name: OPENAPI["components"]["schemas"].get(name) for name in made}
    assert described == made, "run tests/http/schemas.py --write"


def test_fields_that_results_got_later_are_not_required():
    """A result that was stored by an earlier version lacks them, and is answered as it is."""
    known, required = json.loads(schemas.KEPT.read_text()), schemas.required_of(schemas.of_binary(BINARY))
    assert known.keys() == required.keys(), "run tests/http/schemas.py --write"
    new = [f"{place}.{name}" for place, names in required.items() for name in set(names) - set(known[place])]
    assert new == [], "say .later in the rows of these fields"


def holds_numbers(schema):
    """A number, or a list or a map of them."""
    if not isinstance(schema, dict):
        return False
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    return bool({"integer", "number"} & set(types)) or any(
        holds_numbers(schema.get(key)) for key in ("items", "additionalProperties")
    )


def properties_of(schema, path):
    """All that stand in a schema, of the objects in it too, with where they stand."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}.{name}", inner
        yield from properties_of(inner, f"{path}.{name}")
    for inner in [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", [])]:
        if isinstance(inner, dict):
            yield from properties_of(inner, path)


IN_NATS = re.compile(r"(^|_)loss(es)?(_|$)|^kl(_|$)|entropy")


def test_every_number_of_a_result_is_described():
    """From the tables of all kinds; what is a loss or a divergence says its unit."""
    made = schemas.of_binary(BINARY)
    kinds = OPENAPI["components"]["schemas"]["Kind"]["enum"]
    tables = [f"{kind.title()}Result" for kind in kinds]
    assert set(tables) <= set(made), "a kind makes its result without a table"
    named = [
        reference["$ref"].rpartition("/")[2]
        for reference in OPENAPI["components"]["schemas"]["Run"]["properties"]["result"]["anyOf"]
        if "$ref" in reference
    ]
    assert sorted(named) == sorted(tables)
    numbers = {
        path: inner
        for name in [*tables, "Quantization", "Prediction"]
        for path, inner in properties_of(made[name], name)
        if holds_numbers(inner)
    }
    assert len(numbers) > 150
    assert [path for path, inner in numbers.items() if "description" not in inner] == []
    assert [
        path
        for path, inner in numbers.items()
        if IN_NATS.search(path.rpartition(".")[2]) and "nats" not in inner["description"]
    ] == []


def schemas_in(node):
    if isinstance(node, dict):
        if "schema" in node:
            yield node["schema"]
        for value in node.values():
            yield from schemas_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value)


def test_schemas_are_schemas():
    kind = jsonschema.Draft202012Validator
    judge = kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER)  # as check_schema() makes it anew for each
    for schema in [*schemas_in(OPENAPI), *OPENAPI["components"]["schemas"].values()]:
        judge.validate(schema)


def test_every_reference_leads_somewhere():
    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                target = OPENAPI
                for key in node["$ref"][2:].split("/"):
                    target = target[key]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(OPENAPI)


REPEATED = 15  # lines from which on a part of the document must have a name


def nodes_in(node):
    yield node
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes_in(value)


def test_nothing_stands_twice():
    """What is long has a name and is referred to. Examples may repeat."""
    places = collections.Counter(
        json.dumps(node, sort_keys=True) for node in nodes_in(OPENAPI) if isinstance(node, (dict, list))
    )
    found = [text for text, count in places.items() if count > 1]
    long = [text for text in found if yaml.safe_dump(json.loads(text)).count("\n") >= REPEATED]
    assert (
        not long
    ), "give the row in the table of parameters a `schema`, or name the part under components (of a page: its answer)"


def test_every_schema_is_used():
    """From the paths, also those of parameters: what cannot be reached is no part of the interface."""
    reached, ahead = set(), [OPENAPI["paths"]]
    while ahead:
        for node in nodes_in(ahead.pop()):
            reference = node.get("$ref") if isinstance(node, dict) else None
            if isinstance(reference, str) and reference not in reached:
                reached.add(reference)
                ahead.append(resolved(node))
    every = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "parameters", "responses", "headers")
        for name in OPENAPI["components"][kind]
    }
    assert {"/".join(reference.split("/")[:4]) for reference in reached} == every


def test_no_name_is_given_twice():
    """YAML's readers take the last of two equal keys: a table's schema would push out one that is written by hand."""

    def keys_of(node):
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), [key for key, count in collections.Counter(keys).items() if count > 1]
            for _, value in node.value:
                keys_of(value)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                keys_of(value)

    keys_of(yaml.compose(schemas.OPENAPI.read_text(), Loader=LOADER))


def test_a_discriminator_knows_every_branch():
    """And each branch has that value as the only one of its field."""
    seen = 0
    for node in nodes_in(OPENAPI["components"]["schemas"]):
        if not isinstance(node, dict) or not isinstance(node.get("discriminator"), dict):
            continue
        field, mapping = node["discriminator"]["propertyName"], node["discriminator"]["mapping"]
        assert sorted(mapping.values()) == sorted(branch["$ref"] for branch in node["oneOf"])
        for value, reference in mapping.items():
            branch = resolved({"$ref": reference})
            assert branch["properties"][field]["const"] == value and field in branch["required"]
        seen += 1
    assert seen >= 5  # requests by kind; methods, optimizers, schedules, tokenizers by name


def objects_among(branches):
    """The objects of a union, those of unions in it too."""
    for branch in map(resolved, branches):
        inner = branch.get("oneOf", branch.get("anyOf"))
        if inner:
            yield from objects_among(inner)
        elif "properties" in branch:
            yield branch


def test_the_required_fields_of_an_object_tell_it_from_the_others_of_its_union():
    """Generated clients take the first branch whose required fields are there."""
    seen = 0
    for node in nodes_in(OPENAPI):
        union = (node.get("oneOf") or node.get("anyOf") or []) if isinstance(node, dict) else []
        for first, later in itertools.combinations(objects_among(union), 2):
            required = {name: first["properties"][name] for name in first.get("required", [])}
            assert not required.keys() <= later["properties"].keys() or any(
                "const" in inner and inner != later["properties"][name] for name, inner in required.items()
            ), (list(required), later)
            seen += 1
    assert seen > 100


def test_nothing_that_generators_of_clients_misread():
    """openapi-python-client drops what stands beside an allOf, and makes three types of an enum with null in it."""
    for node in nodes_in(OPENAPI):
        if isinstance(node, dict):
            assert "allOf" not in node or not {"properties", "required"} & node.keys(), node
            assert not isinstance(node.get("enum"), list) or None not in node["enum"], node


def test_a_run_of_every_kind_can_be_asked_for():
    kinds = OPENAPI["components"]["schemas"]["Kind"]["enum"]
    assert sorted(OPENAPI["components"]["schemas"]["RunRequest"]["discriminator"]["mapping"]) == sorted(kinds)
    validator = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/RunRequest", "components": OPENAPI["components"]}
    )
    tasks = {"checkpoint": "c", "tasks": [{"name": "piqa", "path": "/p"}], "method": {"name": "rtn", "bits": 3}}
    assert validator.is_valid({"kind": "tasks", "params": tasks})
    assert not validator.is_valid({"kind": "tasks", "params": {**tasks, "method": {"name": "rtn", "bits": 5}}})
    assert not validator.is_valid({"kind": "health", "params": tasks})


@pytest.mark.parametrize(
    "path,method", [(p, m) for p, item in OPENAPI["paths"].items() for m in item if m != "parameters"]
)
def test_examples_of_bodies_fit_their_schemas(path, method):
    body = OPENAPI["paths"][path][method].get("requestBody")
    if body is None:
        return
    content = body["content"]["application/json"]
    examples = [content["example"]] if "example" in content else [e["value"] for e in content["examples"].values()]
    for example in examples:
        jsonschema.validate(
            example, {**content["schema"], "components": OPENAPI["components"]}, jsonschema.Draft202012Validator
        )
    assert examples


def test_it_is_served(service):
    answer = service.get("/openapi.yaml")
    assert answer.status == 200 and "yaml" in answer.headers.get_content_type()
