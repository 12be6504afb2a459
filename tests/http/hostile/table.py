"""Rows of the table, and what their writers share."""

import dataclasses
import json
import pathlib
from typing import Callable

import models

TENSORS = models.tensors_of(models.LLAMA, 0)
FIRST = "model.embed_tokens.weight"
RAN = "ran"  # the file that code in a checkpoint would leave behind


@dataclasses.dataclass
class Case:
    name: str
    write: Callable[[pathlib.Path], None]
    code: str
    words: str


def adder(cases):
    """What adds a row to a list."""
    def case(name, write, words, code="corrupt"):
        cases.append(Case(name, write, code, words))
    return case


def beside(directory, config=models.LLAMA):
    (directory / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return directory
