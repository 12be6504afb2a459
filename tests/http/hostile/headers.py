"""safetensors: headers that lie about themselves, about shapes, spans and names."""

import json
import struct

import models

from .table import FIRST, TENSORS, adder

HEADERS = []
case = adder(HEADERS)


def split(raw):
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def joined(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def whole(change):
    """A sound file whose bytes were changed."""
    def write(directory):
        path = models.write_llama(directory, tokenizer=False) / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))
    return write


def header(change):
    """A sound file but for its header, which `change` returns, as an object or as bytes."""
    return whole(lambda raw: joined(change(split(raw)[0]), split(raw)[1]))


def entry(**fields):
    """A sound file but for fields of one tensor's entry."""
    return header(lambda h: {**h, FIRST: {**h[FIRST], **fields}})


def spelled(old, new):
    """A sound file but for the spelling of its header."""
    return header(lambda h: json.dumps(h).encode().replace(old, new, 1))


def added(name, **fields):
    """A sound file with one more entry."""
    return header(lambda h: {**h, name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0], **fields}})


SHAPE = TENSORS[FIRST].shape
case("empty-file", whole(lambda raw: b""), "0 bytes are too few")
case("seven-bytes", whole(lambda raw: raw[:7]), "7 bytes are too few")
case("header-of-2-to-64", whole(lambda raw: struct.pack("<Q", 2**64 - 1) + raw[8:]),
     "a header of 18446744073709551615 bytes")
case("header-of-2-to-63", whole(lambda raw: struct.pack("<Q", 2**63) + raw[8:]),
     "a header of 9223372036854775808 bytes")
case("header-beyond-the-file", whole(lambda raw: struct.pack("<Q", len(raw)) + raw[8:]), "a header of")
case("header-of-nothing", whole(lambda raw: struct.pack("<Q", 0) + raw[8:]), "a header of 0 bytes")
case("header-is-no-json", header(lambda h: b"<html></html>   "), "a header is one JSON object")
case("header-is-a-list", header(lambda h: b"[]      "), "a header is one JSON object")
case("header-ends-in-nul", header(lambda h: json.dumps(h).encode() + b"\0" * 8), "followed by spaces only")
case("header-begins-with-spaces", header(lambda h: b"  " + json.dumps(h).encode()), "one JSON object")
case("header-nested-deep", header(lambda h: b'{"__metadata__": {"a": ' + b"[" * 100000 + b"}"), "a string")
case("header-with-two-objects", header(lambda h: json.dumps(h).encode() + b"{}"), "expected the end of the text")
case("header-not-utf-8", spelled(b"embed_tokens", b"embed_\xff\xfeokens"), "UTF-8")
case("header-with-a-lone-surrogate", spelled(b"embed_tokens", b"embed_\\ud800okens"), "surrogate")
case("file-cut-short", whole(lambda raw: raw[:-100]), "bytes of it")
case("bytes-after-the-tensors", whole(lambda raw: raw + b"MZ and a program"), "the tensors end at")
case("tensors-overlap",
     header(lambda h: {**h, "lm_head.weight": {**h["lm_head.weight"], "data_offsets": h[FIRST]["data_offsets"]}}),
     "inside another")
case("tensors-leave-a-hole",
     whole(lambda raw: joined({n: {**e, "data_offsets": [o + 8 for o in e["data_offsets"]]}
                               for n, e in split(raw)[0].items()}, bytes(8) + split(raw)[1])),
     "leaving a hole")
case("offsets-backwards", entry(data_offsets=[SHAPE[0] * SHAPE[1] * 4, 0]), "run backwards")
case("offsets-beyond-the-file", entry(data_offsets=[0, 2**62]), "data ends at 4611686018427387904")
case("offsets-of-2-to-64", entry(data_offsets=[2**64 - 1, 2**64 - 1]), "18446744073709551615 is not in")
case("offsets-too-large-to-be-numbers", entry(data_offsets=[0, 2**64]), "integer out of range")
case("offsets-negative", entry(data_offsets=[-8, 0]), "-8 is not in")
case("offsets-are-three", entry(data_offsets=[0, 4, 8]), "more than two")
case("offsets-is-one", entry(data_offsets=[0]), "fewer than two")
case("shape-overflows", entry(shape=[2**40, 2**40]), "too many elements")
case("shape-overflows-beside-zero", entry(shape=[2**47, 2**47, 0]), "too many elements")
case("shape-of-2-to-64", entry(shape=[2**64 - 1]), "18446744073709551615 is not in")
case("shape-negative", entry(shape=[-1, 8]), "-1 is not in")
case("shape-of-fractions", entry(shape=[8.0, 32.0]), "expected an integer, found 8.0")
case("shape-of-200-dimensions", entry(shape=[1] * 200), "more than 16 dimensions")
case("shape-and-bytes-disagree", entry(shape=[SHAPE[0], SHAPE[1] + 1]), "has 8448 elements of F32 in 32768 bytes")
case("dtype-unknown", entry(dtype="F128"), "dtype \"F128\" is not one", "unsupported")
case("dtype-and-bytes-disagree", entry(dtype="F64"), "has 8192 elements of F64 in 32768 bytes")
case("dtype-of-no-weights", entry(dtype="I32"), "is I32; weights must be", "unsupported")
TWICE = b', "x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}'
case("name-twice", header(lambda h: json.dumps(h).encode()[:-1] + TWICE * 2 + b"}"), "is given twice")
case("name-twice-in-two-spellings",
     header(lambda h: json.dumps(h).encode()[:-1] + TWICE + TWICE.replace(b"x", b"\\u0078") + b"}"), "is given twice")
case("name-with-nul", spelled(b"embed_tokens", b"embed\\u0000okens"), "control character")
case("name-with-a-newline", spelled(b"embed_tokens", b"embed\\ntokens"), "control character")
case("name-is-a-path", added("../../../../etc/passwd"), "is not part of the llama architecture", "unsupported")
case("field-unknown", entry(run="touch ran"), "unknown field")
case("field-twice", spelled(b'"dtype": "F32",', b'"dtype": "F32", "dtype": "F64",'), "the key is given twice")
case("field-missing", header(lambda h: {**h, FIRST: {"dtype": "F32", "data_offsets": h[FIRST]["data_offsets"]}}),
     "lacks dtype, shape or data_offsets")
case("metadata-of-numbers", header(lambda h: {"__metadata__": {"a": 1}, **h}), "a string")
case("metadata-twice", header(lambda h: b'{"__metadata__": {"a": "b", "a": "c"}, ' + json.dumps(h).encode()[1:]),
     "given twice")
