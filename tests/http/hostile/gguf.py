"""GGUF: counts, lengths, alignments and shapes that overflow or reach beyond the file, and names said twice."""

import struct

import containers
import models

from .table import TENSORS, adder

GGUF = []
case = adder(GGUF)
NAME = containers.gguf_string
LLAMA = NAME("general.architecture") + containers.gguf_value("llama")


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def value(kind, bytes_):
    return NAME("x") + u32(kind) + bytes_


def array(kind, count, items=b""):
    return value(9, u32(kind) + u64(count) + items)


def tensor(name="token_embd.weight", shape=(32, 4), kind=0, offset=0, rank=None):
    return NAME(name) + u32(len(shape) if rank is None else rank) + b"".join(map(u64, shape)) + u32(kind) + u64(offset)


def file_of(*metadata, tensors=(), data=bytes(1024), magic=b"GGUF", version=3, tensor_count=None, value_count=None):
    head = magic + u32(version) + u64(len(tensors) if tensor_count is None else tensor_count)
    head += u64(len(metadata) if value_count is None else value_count) + b"".join(metadata) + b"".join(tensors)
    return lambda directory: (directory / "model.gguf").write_bytes(head + bytes(-len(head) % 32) + data)


def said(**more):
    """A sound model with more metadata."""
    return lambda directory: containers.write_gguf(directory / "model.gguf", TENSORS, models.LLAMA,
                                                   more={k.replace("__", "."): v for k, v in more.items()})


def lied(**numbers):
    """A sound model but for numbers of its metadata."""
    return lambda directory: containers.write_gguf(directory / "model.gguf",
                                                   {n: a for n, a in TENSORS.items() if "_proj" not in n},
                                                   {**models.LLAMA, **numbers})


case("gguf-of-nothing", lambda d: (d / "model.gguf").write_bytes(b"GGUF"), "is too short for a GGUF file")
case("gguf-of-another-magic", file_of(magic=b"GGJT"), "does not begin as a GGUF file")
case("gguf-of-version-1", file_of(version=1), "is GGUF version 1; read are 2 and 3", "unsupported")
case("gguf-big-endian", file_of(version=3 << 24), "(or big endian)", "unsupported")
case("gguf-of-2-to-64-tensors", file_of(tensor_count=2**64 - 1), "18446744073709551615 tensors and 0 values")
case("gguf-of-2-to-63-values", file_of(value_count=2**63), "0 tensors and 9223372036854775808 values")
case("gguf-of-65536-tensors-that-are-not-there", file_of(tensor_count=65536), "a name that is empty or too long")
case("gguf-key-of-2-to-64", file_of(u64(2**64 - 1) + b"x"), "a name that is empty or too long")
case("gguf-key-of-nothing", file_of(u64(0) + u32(4) + u32(1)), "a name that is empty or too long")
case("gguf-key-with-nul", file_of(u64(3) + b"a\0b" + u32(4) + u32(1)), "a name that is not printable ASCII")
case("gguf-key-with-an-escape", file_of(u64(3) + b"a\x1bb" + u32(4) + u32(1)), "a name that is not printable ASCII")
case("gguf-key-twice", file_of(LLAMA, LLAMA), "is given twice")
case("gguf-text-of-2-to-64", file_of(value(8, u64(2**64 - 1))), "a text of more than 64 MiB")
case("gguf-text-beyond-the-file", file_of(value(8, u64(1 << 20))), "the file ends early")
case("gguf-value-of-an-unknown-type", file_of(value(13, u64(0))), "a value of an unknown type")
case("gguf-truth-of-2", file_of(value(7, b"\2")), "a truth value that is neither 0 nor 1")
case("gguf-array-of-arrays", file_of(array(9, 1, u32(9) + u64(1))), "an array of arrays")
case("gguf-array-of-an-unknown-type", file_of(array(99, 1)), "an array of an unknown type")
case("gguf-array-of-2-to-61-eights", file_of(array(10, 2**61)), "an array longer than the file")
case("gguf-array-of-2-to-64-texts", file_of(array(8, 2**64 - 1)), "an array longer than the file")
case("gguf-array-beyond-the-file", file_of(array(4, 1 << 20)), "an array longer than the file")
for alignment in (0, 3, 2**31):
    case(f"gguf-alignment-{alignment}", file_of(LLAMA, NAME("general.alignment") + u32(4) + u32(alignment)),
         "general.alignment is no power of two")
case("gguf-alignment-is-a-text", file_of(LLAMA, NAME("general.alignment") + containers.gguf_value("32")),
     "general.alignment")
case("gguf-tensor-of-rank-0", file_of(LLAMA, tensors=[tensor(shape=())]), "has not 1 to 4 dimensions")
case("gguf-tensor-of-rank-5", file_of(LLAMA, tensors=[tensor(shape=(1, 1, 1, 1, 1))]), "has not 1 to 4 dimensions")
case("gguf-tensor-of-rank-2-to-32", file_of(LLAMA, tensors=[tensor(rank=2**32 - 1)]), "has not 1 to 4 dimensions")
case("gguf-tensor-of-dimension-0", file_of(LLAMA, tensors=[tensor(shape=(32, 0))]), "has an impossible shape")
case("gguf-tensor-of-dimension-2-to-63", file_of(LLAMA, tensors=[tensor(shape=(2**63, 1))]), "has an impossible shape")
case("gguf-tensor-that-overflows", file_of(LLAMA, tensors=[tensor(shape=(2**40, 2**40))]), "has an impossible shape")
case("gguf-tensor-whose-bytes-overflow", file_of(LLAMA, tensors=[tensor(shape=(2**31, 2**31 - 1))]),
     "is larger than any file")
case("gguf-tensor-of-an-unknown-type", file_of(LLAMA, tensors=[tensor(kind=999)]), "is of a type that does not exist")
case("gguf-tensor-of-a-removed-type", file_of(LLAMA, tensors=[tensor(kind=4)]), "is of a type that does not exist")
case("gguf-tensor-of-part-of-a-block", file_of(LLAMA, tensors=[tensor(shape=(33, 1), kind=2)]),
     "no whole number of blocks")
case("gguf-tensor-beyond-the-file", file_of(LLAMA, tensors=[tensor(offset=1 << 20)]),
     "reaches beyond the end of the file")
case("gguf-tensor-at-2-to-64", file_of(LLAMA, tensors=[tensor(offset=2**64 - 32)]), "is larger than any file")
case("gguf-tensor-at-2-to-60", file_of(LLAMA, tensors=[tensor(offset=2**60)]), "reaches beyond the end of the file")
case("gguf-tensor-between-alignments", file_of(LLAMA, tensors=[tensor(offset=7)]), "is not aligned")
case("gguf-tensors-overlap", file_of(LLAMA, tensors=[tensor(), tensor("output.weight", offset=32)]),
     "overlaps another tensor")
case("gguf-tensor-twice", file_of(LLAMA, tensors=[tensor(), tensor(offset=512)]), "is there twice")
case("gguf-tensor-is-a-path", file_of(LLAMA, tensors=[tensor("../../etc/passwd")]),
     "has no counterpart in the llama architecture", "unsupported")
case("gguf-tensor-with-a-long-name", file_of(LLAMA, tensors=[tensor("x" * 5000)]), "a name that is empty or too long")
case("gguf-cut-short", lambda d: (said()(d), (d / "model.gguf").write_bytes((d / "model.gguf").read_bytes()[:-100])),
     "reaches beyond the end of the file")
case("gguf-of-an-unknown-architecture", file_of(NAME("general.architecture") + containers.gguf_value("dancer")),
     "dancer", "unsupported")
case("gguf-without-an-architecture", file_of(), "is not read from GGUF", "unsupported")
case("gguf-of-2-to-32-blocks", lied(num_hidden_layers=2**32 - 1), "4294967295 is not in", "invalid")
case("gguf-of-no-heads", lied(num_attention_heads=0), "num_attention_heads", "invalid")
case("gguf-of-heads-that-do-not-divide", lied(num_attention_heads=7), "7 attention heads", "invalid")
case("gguf-says-it-is-a-part", said(split__count=3), "is one of 3 parts and not named as one", "invalid")
case("gguf-says-it-is-of-65535-parts", said(split__count=65535), "is one of 65535 parts", "invalid")
