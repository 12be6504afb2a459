"""openapi.yaml as the tests hold answers to it: those of the product, and those of the dashboard's stand-in."""

import pathlib

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # openapi.yaml takes the one 0.1 s, the other 0.7
OPENAPI = yaml.load((ROOT / "openapi.yaml").read_text(), LOADER)


def template_of(path):
    """The path of openapi.yaml that a request path belongs to; literal segments win over parameters."""
    segments = path.split("?")[0].split("/")
    found = None
    for template in OPENAPI["paths"]:
        parts = template.split("/")
        if len(parts) == len(segments) and all(p == s or p.startswith("{") for p, s in zip(parts, segments)):
            if found is None or template.count("{") < found.count("{"):
                found = template
    return found


def resolve(node):
    while "$ref" in node:
        target = OPENAPI
        for key in node["$ref"][2:].split("/"):
            target = target[key]
        node = target
    return node


def branches(schema):
    schema = resolve(schema)
    yield schema
    for inner in (inner for key in ("allOf", "anyOf", "oneOf") for inner in schema.get(key, ())):
        yield from branches(inner)


def undeclared(schemas, value, at=""):
    """Where in an answer a field stands that none of the schemas names. Readers may ignore such fields, so that
    validators say nothing of them. Objects of which nothing is said may hold anything."""
    every = [branch for schema in schemas for branch in branches(schema)]
    if isinstance(value, dict):
        known = {name for branch in every for name in branch.get("properties", ())}
        others = [b["additionalProperties"] for b in every if isinstance(b.get("additionalProperties"), dict)]
        for name, inner in value.items():
            if name not in known and known and not others:
                yield f"{at}/{name}"
            elif isinstance(inner, (dict, list)):
                named = [b["properties"][name] for b in every if name in b.get("properties", ())]
                yield from undeclared(named or others, inner, f"{at}/{name}")
    elif isinstance(value, list):
        items = [branch["items"] for branch in every if "items" in branch]
        for i, inner in enumerate(value):
            if isinstance(inner, (dict, list)):
                yield from undeclared(items, inner, f"{at}/{i}")


def operation_of(method, path):
    """What openapi.yaml says of a request; None when it is not there."""
    return OPENAPI["paths"].get(template_of(path), {}).get(method.lower())


def schema_of(operation, status, kind):
    """Of the documents that such an answer has; None where there is none, or nothing is said."""
    responses = operation["responses"]
    declared = resolve(responses.get(str(status)) or responses["default"])
    # of NDJSON each line is a document
    return declared["content"].get(kind, {}).get("schema") if kind.endswith("json") and "ndjson" not in kind else None


def misfits(schema, document):
    """Where a document is not as its schema says."""
    validator = jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]})
    return [f"{list(e.absolute_path)}: {e.message}" for e in validator.iter_errors(document)]
