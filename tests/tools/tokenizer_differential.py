#!/usr/bin/env python3
"""Compares the engine's tokenizers with the tokenizers library, id by id, on random text and on whole files.

  tokenizer_differential.py [--strings N] [--seed S] [--text FILE]... TOKENIZER_JSON[.gz]...

Characters are those that Python's own tables know (3.11: Unicode 14, as Debian 12's PCRE2): what a letter is among
characters assigned later depends on whose tables are newer. Needs a built engine (make engine) and the PyPI package
tokenizers. Exit status 1 when any text differs."""

import argparse
import gzip
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECES = ["'s", "'LL", "'\u017f", "don't", "<s>", "</s>", "<|endoftext|>", "  ", "    ", "\n\n", "\r\n", "\t", " \n",
          "\u2581", "\u00a0", "\u3000", "\u180e", "\u200b", "\u0085", "\u2028", "e\u0301", "\u0958", "\u1e9b\u0323",
          "\ud55c\uae00", "\u1112\u1161\u11ab", "\U0001f468\u200d\U0001f469", "123456", "\u00bd", "\u2167", "<0x0A>",
          "<0x-1>", "hello", "World", "IDs", "iPhone", "_x_", "...", "//", "/*", "\x00", "\x7f", "\ufeff", "\ufffd"]


def known(c):
    return unicodedata.category(c) != "Cn"


def character(rng):
    while True:
        c = any_character(rng)
        if len(c) > 1 or known(c):
            return c


def any_character(rng):
    kind = rng.random()
    if kind < 0.45:
        return chr(rng.randrange(32, 127))
    if kind < 0.6:
        return " "
    if kind < 0.7:
        return rng.choice(PIECES)
    if kind < 0.8:
        return chr(rng.randrange(0, 0x250))
    if kind < 0.95:
        return chr(rng.choice([rng.randrange(0x250, 0x3100), rng.randrange(0x4E00, 0x9FFF),
                               rng.randrange(0xA000, 0xD7FF), rng.randrange(0xE000, 0x10000)]))
    return chr(rng.choice([rng.randrange(0x10000, 0x20000), rng.randrange(0x20000, 0x32000),
                           rng.randrange(0xE0000, 0x110000)]))


def random_text(rng):
    length = rng.choice([0, 1, 2, 3, 5, 10, 20, 40, 80])
    return "".join(character(rng) for _ in range(length))


def build(folder):
    binary = folder / "encode"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-Iengine", "-O1", "-o", str(binary), "tests/tools/encode.c",
                    "build/release/libdeltaq-engine.a", "-lpcre2-8", "-lutf8proc", "-lm", "-ldl", "-pthread"],
                   cwd=ROOT, check=True)
    return binary


def ours(binary, path, texts, special):
    stream = b"".join(struct.pack("<I", len(t) | special << 31) + t for t in texts)
    answer = subprocess.run([str(binary), str(path)], input=stream, stdout=subprocess.PIPE, check=True).stdout
    at, rows = 0, []
    for _ in texts:
        (count,) = struct.unpack_from("<I", answer, at)
        at += 4
        if count == 0xFFFFFFFF:
            rows.append(None)
            continue
        rows.append(list(struct.unpack_from(f"<{count}I", answer, at)))
        at += 4 * count
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strings", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--characters", action="store_true", help="every character, alone and among letters")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    texts = [random_text(rng) for _ in range(options.strings)] + [pathlib.Path(t).read_text() for t in options.text]
    if options.characters:
        texts += [form.format(chr(c)) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and known(chr(c))
                  for form in (" a{} b", "A{}1")]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        binary = build(folder)
        for name in options.files:
            data = pathlib.Path(name).read_bytes()
            path = folder / "tokenizer.json"
            path.write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)
            theirs = tokenizers.Tokenizer.from_file(str(path))
            for special in (False, True):
                started = time.time()
                got = ours(binary, path, [t.encode() for t in texts], special)
                seconds = time.time() - started
                want = [theirs.encode(t, add_special_tokens=special).ids for t in texts]
                wrong = [i for i in range(len(texts)) if got[i] != want[i]]
                failed += len(wrong)
                print(f"{pathlib.Path(name).name} special={special}: {len(texts) - len(wrong)} of {len(texts)} equal, "
                      f"{seconds:.1f} s", flush=True)
                for i in wrong[:5]:
                    print(f"  {texts[i][:80]!r}\n    ours   {(got[i] or [])[:24]}\n    theirs {want[i][:24]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
