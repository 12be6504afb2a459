"""openapi.yaml says what the binary does. (That real answers fit their schemas is checked in every test: service.py.)"""

import subprocess

import jsonschema
import pytest
import schemas
from service import BINARY, OPENAPI


def resolved(node):
    if "$ref" not in node:
        return node
    target = OPENAPI
    for key in node["$ref"][2:].split("/"):
        target = target[key]
    return target


def test_every_route_is_described_and_nothing_else():
    """And every query field of it: what is not in the table is refused."""
    routes = subprocess.run([BINARY, "routes"], check=True, capture_output=True, text=True).stdout.splitlines()
    described = {}
    for path, item in OPENAPI["paths"].items():
        for method in item.keys() - {"parameters"}:
            parameters = map(resolved, item.get("parameters", []) + item[method].get("parameters", []))
            described[f"{method.upper()} {path}"] = sorted(p["name"] for p in parameters if p["in"] == "query")
    assert described == {" ".join(line.split()[:2]): sorted(line.split()[2:]) for line in routes}


def test_body_and_parameter_schemas_equal_the_tables():
    made = schemas.of_binary(BINARY)
    described = {name: OPENAPI["components"]["schemas"].get(name) for name in made}
    assert described == made, "run tests/http/schemas.py --write"


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
    for schema in [*schemas_in(OPENAPI), *OPENAPI["components"]["schemas"].values()]:
        jsonschema.Draft202012Validator.check_schema(schema)


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


@pytest.mark.parametrize("path,method", [(p, m) for p, item in OPENAPI["paths"].items() for m in item if m != "parameters"])
def test_examples_of_bodies_fit_their_schemas(path, method):
    body = OPENAPI["paths"][path][method].get("requestBody")
    if body is None:
        return
    content = body["content"]["application/json"]
    examples = [content["example"]] if "example" in content else [e["value"] for e in content["examples"].values()]
    for example in examples:
        jsonschema.validate(example, {**content["schema"], "components": OPENAPI["components"]}, jsonschema.Draft202012Validator)
    assert examples


def test_it_is_served(service):
    answer = service.get("/openapi.yaml")
    assert answer.status == 200 and "yaml" in answer.headers.get_content_type()
