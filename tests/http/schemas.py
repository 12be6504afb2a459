#!/usr/bin/env python3
"""The schemas of bodies and parameters: from the binary's tables, and as openapi.yaml has them.

    schemas.py --write [BINARY]      brings openapi.yaml's generated part up to the tables

kept_results.json has what each object of a result has had since there are results with it: later fields are not
required, for results are read as they were stored. --write adds objects to it, never fields to an object.
"""

import json
import pathlib
import subprocess
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENAPI = ROOT / "openapi.yaml"
KEPT = ROOT / "tests/http/kept_results.json"
MADE = "    # From here on made from the tables of parameters and results by tests/http/schemas.py --write; "
MARK = MADE + "do not edit.\n"
WIDTH = 120
DEPTH = 3  # of objects and lists that are not written as blocks


def of_binary(binary) -> dict:
    return json.loads(subprocess.run([binary, "schema"], check=True, capture_output=True, text=True).stdout)


def required_of(made) -> dict:
    """{where: required fields} of every object in the results of all kinds."""
    found, ahead = {}, [(name, made[name]) for name in made if name.endswith("Result")]
    while ahead:
        place, schema = ahead.pop()
        if "$ref" in schema:
            place = schema["$ref"].rpartition("/")[2]
            schema = made.get(place, {})
        if place in found:
            continue
        if "properties" in schema:
            found[place] = schema.get("required", [])
        ahead += [(f"{place}.{name}", inner) for name, inner in schema.get("properties", {}).items()]
        ahead += [(place + mark, schema[key]) for key, mark in (("items", "[]"), ("additionalProperties", "{}"))
                  if isinstance(schema.get(key), dict)]
        ahead += [(f"{place}|{i}", inner) for key in ("anyOf", "oneOf") for i, inner in enumerate(schema.get(key, []))]
    return found


def flow(node) -> str:
    text = yaml.safe_dump(node, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n...\n").strip()


def lines_of(node, indent=""):
    """YAML: on one line what fits there and holds no objects that hold objects, on a few what fits when it is broken
    between its members or in its description, everything else as a block."""
    rows = node.items() if isinstance(node, dict) else ((None, item) for item in node)
    for key, value in rows:
        head = f"{indent}- " if key is None else f"{indent}{flow(key)}: "
        short = flow(value)
        fits = len(head + short) <= WIDTH and depth_of(value) <= DEPTH
        if fits or not isinstance(value, (dict, list, str)) or not value:
            yield head + short
        elif isinstance(value, str):
            yield from folded(head, value, indent + "  ")
        elif depth_of(value) <= DEPTH and (broken := described(head, value, indent) or filled(head, value, indent)):
            yield from broken
        else:
            inner = list(lines_of(value, indent + "  "))
            if key is None:  # the first line of an object stands behind the dash
                inner[0] = head + inner[0].strip()
            else:
                yield head.rstrip()
            yield from inner


def wrapped(text, first, rest):
    """`text` on lines that YAML joins with single spaces; None where it would join them to something else."""
    rows = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)
    return rows if " ".join(row.strip() for row in rows) == text else None


def folded(head, text, indent):
    """A string that is too long for its line. One that cannot be broken stays whole."""
    rows = wrapped(text, indent, indent)
    return [head + ">-", *rows] if rows else [head + flow(text)]


def described(head, node, indent):
    """The lines of an object: what stands before its description, which comes last, and the description."""
    if not isinstance(node, dict) or len(node) < 2 or list(node)[-1] != "description":
        return None
    rest = {key: value for key, value in node.items() if key != "description"}
    rows = wrapped(flow({"description": node["description"]})[1:], indent + "  ", indent + "    ")
    return rows and within_width(head + flow(rest)[:-1] + ",", *rows)


def filled(head, node, indent):
    """The lines of an object, or of a list of words, that is broken between its members. What would take more than
    three of them reads better as a block."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    members = [flow({key: value} if isinstance(node, dict) else [value])[1:-1] for key, value in pairs]
    opening, closing = "{}" if isinstance(node, dict) else "[]"
    rows = [head + opening + members[0]]
    for member in members[1:]:
        rows[-1] += ","
        if len(rows[-1]) + 2 + len(member) <= WIDTH:
            rows[-1] += " " + member
        else:
            rows.append(indent + "  " + member)
    rows[-1] += closing
    return within_width(*rows) if len(rows) <= 3 and (isinstance(node, dict) or depth_of(node) == 1) else None


def within_width(*rows):
    return rows if max(map(len, rows)) <= WIDTH else None


def depth_of(node) -> int:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def write(binary):
    made = of_binary(binary)
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    known = {place: known.get(place, required) for place, required in sorted(required_of(made).items())}
    KEPT.write_text(json.dumps(known, indent=1) + "\n")
    kept, mark, _ = OPENAPI.read_text().partition(MARK)
    assert mark, "openapi.yaml has lost its mark"
    OPENAPI.write_text(kept + mark + "".join(line + "\n" for line in lines_of(made, "    ")))


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build" / "deltaq")
