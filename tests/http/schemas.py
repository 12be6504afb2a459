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
MARK = "    # From here on made from the parameter tables by tests/http/schemas.py --write; do not edit.\n"


def of_binary(binary) -> dict:
    return json.loads(subprocess.run([binary, "schema"], check=True, capture_output=True, text=True).stdout)


def write(binary):
    kept, mark, _ = OPENAPI.read_text().partition(MARK)
    assert mark, "openapi.yaml has lost its mark"
    text = yaml.safe_dump(of_binary(binary), sort_keys=False, width=120, allow_unicode=True)
    OPENAPI.write_text(kept + mark + "".join("    " + line + "\n" for line in text.splitlines()))


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build" / "deltaq")
