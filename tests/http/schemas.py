#!/usr/bin/env python3
"""The schemas of bodies and parameters: from the binary's tables, and as openapi.yaml has them.

    schemas.py --write [BINARY]      brings openapi.yaml's generated part up to the tables
"""

import json
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENAPI = ROOT / "openapi.yaml"
MARK = ("    # From here on made from the tables of parameters and results by tests/http/schemas.py --write; "
        "do not edit.\n")
WIDTH = 132


def of_binary(binary) -> dict:
    return json.loads(subprocess.run([binary, "schema"], check=True, capture_output=True, text=True).stdout)


def flow(node) -> str:
    return yaml.safe_dump(node, default_flow_style=True, sort_keys=False, width=10**6,
                          allow_unicode=True).removesuffix("\n...\n").strip()


def lines_of(node, indent=""):
    """YAML: on one line what fits there and holds no objects that hold objects, on two what only its description makes
    too long, everything else as a block."""
    rows = node.items() if isinstance(node, dict) else ((None, item) for item in node)
    for key, value in rows:
        head = f"{indent}- " if key is None else f"{indent}{flow(key)}: "
        short = flow(value)
        if not isinstance(value, (dict, list)) or not value or (len(head + short) <= WIDTH and depth_of(value) <= 2):
            yield head + short
        elif (two := described(value)) and len(head + two[0]) <= WIDTH and depth_of(value) <= 2:
            yield head + two[0]
            yield indent + "  " + two[1]
        else:
            inner = list(lines_of(value, indent + "  "))
            if key is None:  # the first line of an object stands behind the dash
                inner[0] = head + inner[0].strip()
            else:
                yield head.rstrip()
            yield from inner


def described(node):
    """The two lines of an object: what stands before its description, which comes last, and the description."""
    if not isinstance(node, dict) or len(node) < 2 or list(node)[-1] != "description":
        return None
    rest = {key: value for key, value in node.items() if key != "description"}
    return flow(rest)[:-1] + ",", flow({"description": node["description"]})[1:]


def depth_of(node) -> int:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def write(binary):
    kept, mark, _ = OPENAPI.read_text().partition(MARK)
    assert mark, "openapi.yaml has lost its mark"
    OPENAPI.write_text(kept + mark + "".join(line + "\n" for line in lines_of(of_binary(binary), "    ")))


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build" / "deltaq")
