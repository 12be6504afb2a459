"""The study's text, out of Debian packages that this system's own package lists offer;
nothing is installed. Standard library only.

    prose-train.txt, prose-validation.txt    documentation: the kernel's, manual pages, Perl's; for the small models
    mixed-train.txt, mixed-validation.txt    the same with C sources of the kernel; for the larger models, which need
                                             200 MB
    prose-words.txt, mixed-words.txt         the first megabytes of the training texts, to learn vocabularies from
    other.txt                                GNU's dictionary of English, which nothing is trained on

Every fiftieth document, by a hash of its name, is validation text. Documents stand in the order of that hash, so that
the text is alike from beginning to end; a document that equals an earlier one is left out. corpus.json says what was
taken from which package.
"""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "demo"))

from launch import Trouble  # noqa: E402

TOOL = pathlib.Path(__file__).resolve().parents[1] / "tools" / "unpack.sh"
PACKAGES = ("linux-source+", "manpages", "manpages-dev", "perl-doc", "dict-gcide")  # in Debian 12 and 13
C_BYTES = 300_000_000
OTHER_BYTES = 4_000_000
WORDS_BYTES = 20_000_000
SMALLEST, LARGEST = 500, 400_000  # bytes of a document: stubs, and tables that a program wrote
FILES = (
    *(f"{part}-{use}.txt" for part in ("prose", "mixed") for use in ("train", "validation", "words")),
    "other.txt",
    "corpus.json",
)


def order(name):
    return hashlib.sha256(name.encode()).digest()


def held_out(name):
    return order(name)[0] * 256 + order(name)[1] < 65536 // 50


def plain_manual(text):
    """A manual page without its markup."""
    lines = []
    for line in text.splitlines():
        if line.startswith(('.\\"', "'\\\"")):
            continue
        if line.startswith("."):
            line = line.partition(" ")[2]
        line = re.sub(r"\\f(?:\[[A-Z]*\]|[A-Z])|\\[&c:|^]", "", line).replace('"', "")
        line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
        if line.strip():
            lines.append(line.strip())
    return "\n".join(lines)


def plain_pod(text):
    lines = [line for line in text.splitlines() if not line.startswith(("=", " ", "\t"))]
    text = re.sub(r"[BCEFILSXZ]<+ ?([^<>]*[^<> ]) ?>+", r"\1", "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", text)


def kernel(unpacked):
    """(name, kind, text) of the kernel's documents and C files."""
    archives = sorted((unpacked / "usr" / "src").glob("linux-source-*.tar.*"))
    if not archives:
        raise Trouble(
            "the package linux-source has no archive of sources on this system; the text is made for Debian 12 and 13"
        )
    with tarfile.open(archives[-1], "r|*") as files:
        for entry in files:
            name = entry.name.partition("/")[2]
            prose = (
                name.startswith("Documentation/") and name.endswith((".rst", ".txt")) and "/translations/" not in name
            )
            if entry.isfile() and SMALLEST <= entry.size <= LARGEST and (prose or name.endswith(".c")):
                yield name, "prose" if prose else "c", files.extractfile(entry).read()


def manuals(unpacked):
    for file in sorted((unpacked / "usr" / "share" / "man").glob("man*/*.gz")):
        if file.is_file() and not file.is_symlink() and "3perl" not in file.name and ".1" not in file.suffixes[:-1]:
            yield file.name, "prose", gzip.open(file).read(), plain_manual
    for file in sorted(unpacked.rglob("*.pod")):
        yield str(file.relative_to(unpacked)), "prose", file.read_bytes(), plain_pod


def documents(unpacked):
    seen = set()
    for name, kind, data, *plain in [*manuals(unpacked), *kernel(unpacked)]:
        digest = hashlib.sha256(data).digest()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        text = plain[0](text) if plain else text
        if digest in seen or len(text) < SMALLEST or "\0" in text:
            continue
        seen.add(digest)
        yield name, kind, text.strip() + "\n\n"


def dictionary(unpacked):
    """GNU's dictionary, without the licence at its beginning."""
    with gzip.open(unpacked / "usr" / "share" / "dictd" / "gcide.dict.dz") as file:
        file.seek(1_000_000)
        text = file.read(OTHER_BYTES).decode(errors="ignore")
    return re.sub(r"\n *\[1913 Webster\]", "", text[text.index("\n\n") + 2 :])


def write(directory, unpacked):
    chosen, left = [], C_BYTES
    for name, kind, text in sorted(documents(unpacked), key=lambda entry: order(entry[0])):
        if kind == "c":
            left -= len(text)
            if left < 0:
                continue
        chosen.append((name, kind, text))
    parts = {"prose": [entry for entry in chosen if entry[1] == "prose"], "mixed": chosen}
    facts = {"packages": sorted(file.name for file in (unpacked / "usr" / "share" / "doc").iterdir()), "files": {}}
    texts = {
        f"{part}-{use}.txt": "".join(text for name, _, text in entries if held_out(name) == (use == "validation"))
        for part, entries in parts.items()
        for use in ("train", "validation")
    }
    texts.update({f"{part}-words.txt": texts[f"{part}-train.txt"][:WORDS_BYTES] for part in parts})
    texts["other.txt"] = dictionary(unpacked)
    for name, text in texts.items():
        data = text.encode()
        facts["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        (directory / (name + ".part")).write_bytes(data)
        (directory / (name + ".part")).rename(directory / name)
    (directory / "corpus.json").write_text(json.dumps(facts, indent=1) + "\n")


def share(source, directory):
    """The text of another study on this machine, by links where they are possible."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:  # corpus.json, which says that all are there, is the last
        if (source / name).exists() and not (directory / name).exists():
            try:
                os.link(source / name, directory / name)
            except OSError:  # on another file system
                shutil.copyfile(source / name, directory / f"{name}.part")
                (directory / f"{name}.part").rename(directory / name)


def make(directory, say=print):
    """Whatever is there already stays; corpus.json is written last."""
    directory.mkdir(parents=True, exist_ok=True)
    if all((directory / name).exists() for name in FILES):
        return
    names = ", ".join(name.rstrip("+") for name in PACKAGES)
    say(f"fetching the text: Debian packages {names} (160 MB); they are unpacked below {directory} and not installed")
    done = subprocess.run([str(TOOL), str(directory / "deb"), *PACKAGES], stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Trouble(
            f"the text comes from Debian packages ({names}), which could not be fetched (why: above); it is needed once"
        )
    say("cutting the text: about a minute")
    write(directory, directory / "deb" / "unpacked")
    shutil.rmtree(directory / "deb")


if __name__ == "__main__":
    try:
        make(pathlib.Path(sys.argv[1]))
    except Trouble as trouble:
        sys.exit(f"study: {trouble}")
