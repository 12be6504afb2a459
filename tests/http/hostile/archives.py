"""Zip archives that inflate, hide, overlap or contradict themselves, and files that are none."""

import dataclasses
import os
import struct
import zlib

from .pickles import SYSTEM
from .table import adder, beside

ARCHIVES = []
case = adder(ARCHIVES)


@dataclasses.dataclass
class Entry:
    """As the directory has it; `local` are the fields that the header before the bytes has otherwise."""
    name: bytes
    data: bytes = b""
    flags: int = 0
    method: int = 0
    crc: int | None = None
    packed: int | None = None
    size: int | None = None
    at: int | None = None
    disk: int = 0
    extra: bytes = b""
    local: dict = dataclasses.field(default_factory=dict)
    listed: bool = True


EMPTY = Entry(b"archive/data.pkl", b"\x80\2}.")
ORDER = Entry(b"archive/byteorder", b"little")


def zip_bytes(entries, before=b"", after=b"", **end):
    """An archive of these entries. `end`: what the end record has otherwise;
    `records` stand between directory and end record."""
    body, directory = before, b""
    for e in entries:
        crc = zlib.crc32(e.data) if e.crc is None else e.crc
        packed, size = (len(e.data) if n is None else n for n in (e.packed, e.size))
        said = {"name": e.name, "flags": e.flags, "method": e.method, "crc": crc, "packed": packed,
                "size": size, **e.local}
        at = len(body) if e.at is None else e.at
        body += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, said["flags"], said["method"], 0, 0, said["crc"],
                            said["packed"], said["size"], len(said["name"]), 0) + said["name"] + e.data
        if e.listed:
            directory += struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 45, 45, e.flags, e.method, 0, 0, crc, packed,
                                     size, len(e.name), len(e.extra), 0, e.disk, 0, 0, at) + e.name + e.extra
    listed = sum(e.listed for e in entries)
    said = {"disk": 0, "here": listed, "count": listed, "bytes": len(directory), "at": len(body), "comment": 0,
            "records": b"", **end}
    records = said["records"](len(body), len(directory), listed) if callable(said["records"]) else said["records"]
    return body + directory + records + struct.pack("<4sHHHHIIH", b"PK\5\6", said["disk"], 0, said["here"],
                                                    said["count"], said["bytes"], said["at"], said["comment"]) + after


def zipped(*entries, **more):
    def write(directory):
        beside(directory)
        (directory / "pytorch_model.bin").write_bytes(zip_bytes(entries, **more))
    return write


def zip64(at=0, count=0, where=0):
    """A zip64 record and its locator, each moved by so much."""
    return lambda begin, size, entries: (
        struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, entries + count, entries + count, size, begin + at) +
        struct.pack("<4sIQI", b"PK\6\7", 0, begin + size + where, 1))


INNER = zip_bytes([Entry(b"archive/data/0", b"1234")])[: 30 + 14 + 4]
case("archive-is-a-bomb", zipped(Entry(EMPTY.name, zlib.compress(bytes(64 << 20))[2:-4], method=8, size=64 << 20),
                                 ORDER), "is compressed", "unsupported")
case("archive-of-another-method", zipped(Entry(EMPTY.name, EMPTY.data, method=93)), "is compressed (method 93)",
     "unsupported")
case("archive-stored-here-compressed-there", zipped(Entry(EMPTY.name, EMPTY.data, local={"method": 8})),
     "is called or stored otherwise")
case("archive-with-entries-in-one-another",
     zipped(Entry(EMPTY.name, INNER), Entry(b"archive/data/0", b"1234", at=30 + len(EMPTY.name))),
     "overlaps another entry")
case("archive-with-two-names-for-one-entry", zipped(EMPTY, Entry(b"archive/version", EMPTY.data, at=0)),
     "is called or stored otherwise")
case("archive-with-an-entry-twice", zipped(EMPTY, EMPTY), "is there twice")
case("archive-with-another-name-inside", zipped(Entry(EMPTY.name, EMPTY.data, local={"name": b"archive/data.txt"})),
     "is called or stored otherwise")
case("archive-with-an-entry-hidden", zipped(Entry(b"archive/evil", b"x", listed=False), EMPTY),
     "bytes before it that belong to no entry")
case("archive-behind-another-file", zipped(EMPTY, before=b"MZ and a program"), "does not begin as a zip archive")
case("archive-before-another-file", zipped(EMPTY, after=b"and a program"), "does not end with its end record")
case("archive-with-a-comment", zipped(EMPTY, comment=3, after=b"abc"), "does not end with its end record")
case("archive-with-an-absolute-name", zipped(EMPTY, Entry(b"/etc/passwd", b"x")), "name is empty, absolute")
case("archive-with-a-name-that-climbs", zipped(EMPTY, Entry(b"archive/../../x", b"x")), "absolute, has")
case("archive-with-a-name-of-another-system", zipped(EMPTY, Entry(b"archive\\..\\x", b"x")),
     "characters that no name needs")
case("archive-with-nul-in-a-name", zipped(EMPTY, Entry(b"archive/x\0.txt", b"x")), "characters that no name needs")
case("archive-with-a-nameless-entry", zipped(EMPTY, Entry(b"", b"x")), "name is empty")
case("archive-encrypted", zipped(Entry(EMPTY.name, EMPTY.data, flags=1)), "is encrypted or has unknown flags",
     "unsupported")
case("archive-with-flags-that-scanners-trip-over", zipped(Entry(EMPTY.name, EMPTY.data, flags=0x2000)),
     "unknown flags (0x2000)", "unsupported")
case("archive-with-other-flags-inside", zipped(Entry(EMPTY.name, EMPTY.data, local={"flags": 1})),
     "is called or stored otherwise")
case("archive-with-a-wrong-checksum", zipped(Entry(EMPTY.name, EMPTY.data, crc=1)), "fails its checksum")
case("archive-with-two-checksums", zipped(Entry(EMPTY.name, EMPTY.data, local={"crc": 1})), "another size or checksum")
case("archive-with-two-sizes", zipped(Entry(EMPTY.name, EMPTY.data, size=5)), "has two different sizes")
case("archive-with-an-entry-beyond-the-file", zipped(Entry(EMPTY.name, EMPTY.data, packed=2**31, size=2**31)),
     "lies outside the file")
case("archive-with-an-entry-at-4-gigabytes", zipped(Entry(EMPTY.name, EMPTY.data, at=2**32 - 2)),
     "lies outside the file")
case("archive-with-zip64-values-missing", zipped(Entry(EMPTY.name, EMPTY.data, packed=2**32 - 1, size=2**32 - 1)),
     "the zip64 values of an entry are damaged")
case("archive-with-zip64-values-of-2-to-64", zipped(Entry(EMPTY.name, EMPTY.data, packed=2**32 - 1, size=2**32 - 1,
     extra=struct.pack("<HHQQ", 1, 16, 2**64 - 1, 2**64 - 1))), "lies outside the file")
case("archive-with-an-extra-field-beyond-it", zipped(Entry(EMPTY.name, EMPTY.data, extra=struct.pack("<HH", 1, 65535))),
     "zip64 values of an entry are damaged")
case("archive-with-a-zip64-locator-that-lies", zipped(EMPTY, records=zip64(where=-9)),
     "its zip64 locator points elsewhere")
case("archive-with-two-directories", zipped(EMPTY, records=zip64(at=-4)), "contradict each other")
case("archive-with-two-counts", zipped(EMPTY, records=zip64(count=1)), "contradict each other")
case("archive-on-several-disks", zipped(EMPTY, disk=1), "an archive on several disks", "unsupported")
case("archive-with-an-entry-on-another-disk", zipped(Entry(EMPTY.name, EMPTY.data, disk=1)), "is on another disk")
case("archive-with-its-directory-elsewhere", zipped(EMPTY, at=0), "not right before its end record")
case("archive-with-a-directory-of-4-gigabytes", zipped(EMPTY, bytes=2**32 - 2), "not right before its end record")
case("archive-with-65534-entries-said", zipped(EMPTY, here=65534, count=65534), "its directory has an impossible size")
case("archive-with-an-entry-unsaid", zipped(EMPTY, ORDER, here=1, count=1), "its directory is longer than its entries")
case("archive-of-two-folders", zipped(EMPTY, Entry(b"other/version", b"3")), "do not lie in one folder")
case("archive-of-a-program", zipped(EMPTY, Entry(b"archive/code/__torch__.py", b"import os")),
     "is a TorchScript program", "unsupported")
case("archive-without-a-pickle", zipped(ORDER), "it has no data.pkl")
case("archive-big-endian", zipped(EMPTY, Entry(b"archive/byteorder", b"big")), "big-endian", "unsupported")
case("archive-cut-short", lambda d: (zipped(EMPTY)(d), os.truncate(d / "pytorch_model.bin", 60)),
     "does not end with its end record")


def bin_of(content):
    return lambda d: (beside(d) / "pytorch_model.bin").write_bytes(content)


case("bare-pickle", bin_of(b"\x80\2" + SYSTEM + b"."), "a bare pickle", "unsupported")
case("bare-tar", bin_of(bytes(257) + b"ustar" + bytes(250)), "a tar archive", "unsupported")
case("bare-gzip", bin_of(b"\x1f\x8b\x08" + bytes(64)), "compressed with gzip", "unsupported")
case("bare-web-page", bin_of(b"<html>login</html>"), "a web page", "unsupported")
case("bare-pointer", bin_of(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
     "a pointer of git-lfs", "unsupported")
case("bare-noise", bin_of(bytes(range(32, 96))), "does not begin as a zip archive")
