#!/usr/bin/env python3
"""Checks that the tree keeps its own rules. Each rule is a function that yields complaints; exit status 1 if any did.

Rules: includes point down only; every header compiles alone; exported names start with their file's name; every row
stands in a list; SQL stays in its rooms; pointers are compared with NULL; 120 columns; no retired words, and words in
one meaning only; banned functions; no left-over markers; comments laid out by hand, with their subjects first;
clang-format. Standard library only. `lint.py FOLDER` checks another tree."""

import collections
import functools
import pathlib
import re
import subprocess
import sys

ROOT = (
    pathlib.Path(sys.argv[1]).resolve()
    if __name__ == "__main__" and sys.argv[1:]
    else pathlib.Path(__file__).resolve().parents[2]
)

# Each room and the rooms whose headers it may include besides its own.
BASE = {"base"}
READING = BASE | {"tensor", "files", "formats", "weights", "tokenizer", "dataset"}
MODELS = READING | {"backend", "model"}
ENGINE = {
    "base": set(),
    "tensor": BASE,
    "files": BASE | {"tensor"},
    "formats": BASE | {"tensor", "files"},
    "weights": BASE | {"tensor", "files", "formats"},
    "tokenizer": BASE | {"tensor", "files", "formats", "weights"},
    "dataset": BASE | {"tensor", "files", "tokenizer"},
    "backend": BASE | {"tensor"},
    "model": READING | {"backend"},
    "eval": MODELS,
    "quant": MODELS | {"eval"},
    "train": MODELS | {"eval"},
    "curvature": MODELS | {"eval"},
    "geometry": MODELS,
    "health": READING,
    "tasks": READING,
    "selftest": MODELS | {"eval", "quant", "curvature"},
    "jobs": MODELS | {"eval", "quant", "train", "curvature", "geometry", "health", "tasks"},
}
DATABASE = {"store", "postgres"}
SERVER = {
    "json": BASE,
    "log": BASE,
    "http": BASE | {"files", "log"},
    "postgres": BASE | {"log"},
    "store": BASE | {"postgres"},
    "schema": BASE,
    "net": BASE,
    "transfer": BASE | {"net"},
    "objects": BASE | {"transfer"},
    "hub": BASE | {"weights", "transfer", "objects"},
    "inputs": READING | DATABASE | {"model", "quant", "train", "tasks", "geometry", "schema", "hub", "objects"},
    "kinds": BASE | DATABASE | {"jobs", "dataset", "eval", "quant", "health", "files", "inputs", "schema", "hub",
                                "objects"},
    "runs": BASE | DATABASE | {"inputs", "kinds", "schema"},
    "pool": BASE | DATABASE | {"inputs", "kinds", "log", "schema"},
    "launch": BASE | DATABASE | {"kinds", "log", "runs", "schema"},
    "resources": BASE | DATABASE | {"files", "tokenizer", "eval", "http", "schema", "inputs", "kinds", "runs", "hub",
                                    "watch", "follow", "objects", "log"},
    "watch": BASE | DATABASE | {"files", "formats", "weights", "tokenizer", "schema", "inputs", "runs", "hub",
                                "objects", "log"},
    "follow": BASE | DATABASE | {"quant", "log", "net", "schema", "inputs", "kinds"},
    "backup": BASE | DATABASE | {"files", "inputs", "kinds", "log"},
    "client": BASE,
    "track": BASE | {"files", "client"},
    "cli": BASE | DATABASE | {"backend", "backup", "client", "files", "http", "hub", "inputs", "kinds", "launch", "log",
                              "objects", "pool", "resources", "schema", "selftest", "track", "watch", "follow"},
    "main.c": {"cli"},
}
SERVER = {room: allowed | {"json"} for room, allowed in SERVER.items()}
ENGINE_FORBIDS = ("jansson.h", "microhttpd.h", "libpq-fe.h", "openssl/")
BANNED = (
    "strcpy",
    "strcat",
    "sprintf",
    "vsprintf",
    "gets",
    "atoi",
    "atol",
    "atof",
    "strtok",
    "alloca",
    "system",
    "popen",
)
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


@functools.cache
def sources(*endings):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines() if line.endswith(endings) and (ROOT / line).is_file()]


@functools.cache
def text_of(path):
    return path.read_text(errors="replace")


def lines_with(pattern, path):
    """Number and text of each line in which a match of `pattern` begins. The whole file is searched, not each line:
    most files have none."""
    text, last = text_of(path), 0
    for found in pattern.finditer(text):
        begin = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", begin)
        number = text.count("\n", 0, begin) + 1
        if number > last:
            last = number
            yield number, text[begin : end if end >= 0 else len(text)]


def room_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[0], parts[1] if len(parts) > 1 else ""


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">\n]+)[">]', re.M)


def includes(path):
    for number, line in lines_with(INCLUDE, path):
        found = INCLUDE.match(line)
        yield number, found.group(1), found.group(2)


def rule_layers():
    for path in sources(".c", ".h", ".cu"):
        side, room = room_of(path)
        if side not in ("engine", "server"):
            continue
        allowed = (ENGINE if side == "engine" else SERVER).get(room)
        if allowed is None:
            yield f"{path.relative_to(ROOT)}: room {side}/{room} has no row in tests/lint/lint.py"
            continue
        for number, kind, name in includes(path):
            where = f"{path.relative_to(ROOT)}:{number}"
            if side == "engine" and name.startswith(ENGINE_FORBIDS):
                yield f"{where}: the engine may not include {name}"
            target = name.split("/")[0]
            if kind == '"' and "/" in name and target != room and target not in allowed:
                yield f"{where}: {side}/{room} may not include {name}"


def rule_headers_alone():
    """What a .c file includes before all else compiles alone wherever that file compiles; the others are tried here."""
    firsts = set()
    for path in sources(".c"):
        first = re.search(r"^[ \t]*#.*", text_of(path), re.M)  # a definition may stand before the first include
        firsts.update(re.findall(r'#\s*include "(.+)"', first.group()) if first else ())
    for path in sources(".h"):
        side, _ = room_of(path)
        if side not in ("engine", "server") or "reference" in path.parts or "kernels" in path.parts:
            continue
        if str(path.relative_to(ROOT / side)) in firsts:
            continue
        command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Iengine", "-Iserver", "-fsyntax-only", "-x", "c", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{path.relative_to(ROOT)} does not compile alone: {done.stderr.splitlines()[0]}"


# Files whose exported names start otherwise, and why. Names of kernels (cuda/kernels, cpu/kernels,
# reference) are those of primitives.
OTHER_PREFIXES = {
    "engine/backend/cuda/open.h": ("cuda_",),  # the one entry of the room that callers outside see
    "engine/base/error.h": ("status_",),  # enum status is half of the file
    "engine/base/memory.h": ("size_",),  # products and sums of sizes before they are allocated
    "engine/health/moments.h": ("magnitude_", "distance_"),  # two kinds of moments
    "engine/model/op.h": ("experts_", "linear_"),  # what ops share
    "server/http/exchange.h": ("response_", "answer_"),  # the life of an exchange, written in files of those names
    "server/http/server.h": ("http_server_", "idempotent_"),  # "server" alone is a name of everyone's
    "server/resources/handlers.h": ("runs_", "compare_"),  # what no list there declares
    "server/store/queue.h": ("leased_run_",),  # struct leased_run
    "server/store/store.h": ("page_",),  # struct page
}
EXPORTED = re.compile(
    r"^(?!typedef|static|return|else|#|struct \w+;|enum \w+;)(?:extern )?[A-Za-z_][\w \*]*?[ \*](\w+)(?:\(|;|\[)", re.M
)


def prefixes_of(path):
    """`quantize_plan.h` may export quantize_…, too: a file of several words belongs to the family of its first ones."""
    words = path.stem.split("_")
    for count in range(1, len(words) + 1):
        start = "_".join(words[:count])
        yield from {start, start.rstrip("s"), start + "s", re.sub("ies$", "y", start), re.sub("y$", "ies", start)}
    yield from OTHER_PREFIXES.get(str(path.relative_to(ROOT)), ())


def without_comments(text):
    """The same lines, with comments and the insides of literals blanked out."""
    return re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'',
        lambda found: re.sub(r"[^\n]", " ", found[0]) if found[0][0] == "/" else found[0][0] * 2,
        text,
        flags=re.S,
    )


def rule_names():
    for path in sources(".h"):
        side, _ = room_of(path)
        if side not in ("engine", "server") or "reference" in path.parts or "kernels" in path.parts:
            continue
        text = without_comments(text_of(path))
        allowed = tuple(prefixes_of(path))
        for found in EXPORTED.finditer(text):
            name = found[1]
            if not any(
                name == start or name.startswith(start if start.endswith("_") or not start else start + "_")
                for start in allowed
            ):
                line = text[: found.start()].count("\n") + 1
                yield f"{path.relative_to(ROOT)}:{line}: {name} does not start with {path.stem}_, the name of its file"


ROW = re.compile(r"^const struct \w+ (?:\*const )?(\w+)(?:\[\w*\])? = ", re.M)
ROW_DECLARED = re.compile(r"\bextern const struct [^;]+;")
PASTED = re.compile(
    r"\bextern const struct \w+ (\w+(?:##\w+)+)"
)  # quantizer_##name, declared for each X(ID, name) of a list


def rule_rows():
    """A row (a quantizer, a kind, an export format) that no list names would be compiled and never be reached. The
    compiler tells of static ones, of handlers without a route, and of what a list names and nobody wrote."""
    rooms = {
        path: without_comments(text_of(path))
        for path in sources(".c", ".h")
        if room_of(path)[0] in ("engine", "server")
    }
    listed = {name for text in rooms.values() for name in re.findall(r"\bX\(\w+,\s*(\w+)", text)}
    used = collections.Counter(
        word for text in rooms.values() for word in re.findall(r"\w+", ROW_DECLARED.sub("", text))
    )
    for text in rooms.values():
        for parts in map(lambda found: found.split("##"), PASTED.findall(text)):
            used.update("".join(part if "_" in part else name for part in parts) for name in listed)
    for path, text in rooms.items():
        made = [(found.start(), found[1]) for found in ROW.finditer(text)] if path.suffix == ".c" else []
        for start, name in made:
            if used[name] < 2:  # once where it is written
                yield f"{path.relative_to(ROOT)}:{text[:start].count(chr(10)) + 1}: {name} stands in no list"


SQL = re.compile(
    r'"\s*(?:select\s|insert into\s|update\s+\w+\s+(?:\w+\s+)?set\s|delete from\s|with\s+\w+\s+as\s|'
    r"(?:create|drop|alter)\s+(?:table|index|role|database)\s)",
    re.I,
)


def rule_sql():
    """Queries stand in server/store; server/postgres has what a session and its own cluster need,
    server/track a ledger of its own."""
    for path in sources(".c", ".h"):
        side, room = room_of(path)
        if side not in ("engine", "server") or room in ("store", "postgres", "track"):
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if SQL.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: SQL belongs into server/store"


TYPE = r"(?:(?:const|static|extern|register|volatile|unsigned|signed|struct|enum|union) )*[A-Za-z_]\w*(?: const)?"
NO_TYPE = {
    "return",
    "else",
    "case",
    "goto",
    "sizeof",
    "if",
    "while",
    "for",
    "do",
    "switch",
    "break",
    "continue",
    "default",
}
DECLARED = re.compile(r"(?:^|[(,;{])\s*(" + TYPE + r") (\*[* ]*(?:const |restrict )?)?(\w+)\s*(?=[;,=)\[:])", re.M)
NEXT_ONE = re.compile(r"\s*(?:=[^,;(){}]*|\[[^\]]*\])?,\s*(\**)(\w+)\s*(?=[;,=\[])")
TRUTH = re.compile(
    r"!((?:\w+(?:->|\.))*\w+)(?![\w(\[.]|->)|\b(?:if|while) \(((?:\w+(?:->|\.))*\w+)(?:\)| &&| \|\|)"
    r"|(?:&&|\|\|) ((?:\w+(?:->|\.))*\w+)(?:\)| &&| \|\|| \?)|(?:(?<![=!<>])=|return) ((?:\w+(?:->|\.))*\w+) "
    r"(?:\?|&&|\|\|)"
)


def declared(text):
    """The names that `text` declares as pointers, and those that it declares otherwise."""
    pointers, others = set(), set()
    for found in DECLARED.finditer(text):
        if found[1].split()[-1] in NO_TYPE or found[1].split()[0] in NO_TYPE:
            continue
        array = text[found.end() : found.end() + 1] == "["
        (pointers if found[2] and not array else others).add(found[3])
        at = found.end()
        while more := NEXT_ONE.match(text, at):
            array = text[more.end() : more.end() + 1] == "["
            (pointers if more[1] and not array else others).add(more[2])
            at = more.end()
    return pointers, others


def rule_null():
    """`p == NULL`, not `!p`. Known as pointers are names that nothing in the file,
    or for members nothing in the tree, declares otherwise."""
    texts = {path: without_comments(text_of(path)) for path in sources(".c", ".h") if "absent" not in path.parts}
    members, plain = set(), set()
    for text in texts.values():
        for body in re.findall(r"\bstruct \w+ \{(.*?)^\}", text, flags=re.S | re.M):
            found = declared(body)
            members |= found[0]
            plain |= found[1]
    members -= plain
    for path, text in texts.items():
        pointers, others = declared(text)
        pointers -= others
        for found in TRUTH.finditer(text):
            name = next(group for group in found.groups() if group)
            last = re.split(r"->|\.", name)[-1]
            if last in (pointers if last == name else members):
                line = text[: found.start()].count("\n") + 1
                yield f"{path.relative_to(ROOT)}:{line}: {name} is a pointer: compare it with NULL"


# Files that open by name without the guard of engine/files/file.h, and why: no request says what is there.
OPENS = re.compile(r"(?<![\w>.])(?:fopen|open|openat|opendir|scandir|json_load_file)\(")
OPENS_ITSELF = {
    "engine/backend/cuda/plugin/plugin.c": "what the driver says of itself",
    "engine/backend/cuda/promises.c": "the devices of the data directory",
    "engine/base/control_group.c": "what the kernel says of the process",
    "engine/base/directory.c": "removes and makes",
    "engine/base/machine.c": "what the kernel says of itself",
    "engine/files/file.c": "the guard's own caller",
    "engine/files/file_writer.c": "writes",
    "engine/files/spill.c": "a file without a name",
    "engine/jobs/average.c": "what it writes",
    "engine/jobs/export/export.c": "what it writes",
    "engine/jobs/train/train.c": "its work directory",
    "engine/train/checkpoint.c": "what it writes",
    "engine/weights/weights.c": "its own directory, by a descriptor that was judged",
    "server/inputs/beneath.c": "what the guard asks",
    "server/inputs/roots.c": "what the guard asks",
    "server/kinds/artifact_file.c": "artifacts",
    "server/kinds/artifact_store.c": "artifacts",
    "server/kinds/artifacts.c": "artifacts",
    "server/kinds/baselines.c": "its work directory",
    "server/kinds/quantize_export.c": "what it writes",
    "server/kinds/resume_store.c": "its work directory",
    "server/resources/disk_usage.c": "sizes of the data directory",
    "server/resources/run_artifacts.c": "/dev/null",
    "server/resources/service_metrics.c": "what the kernel says of the server",
    "server/watch/scan.c": "names that become a checksum",
}
GUARDED = {"inputs", "kinds", "resources", "runs", "watch"}  # rooms that paths of requests come to


def rule_opens():
    """What requests name is opened by file_open and file_directory, which ask the guard where it lies."""
    for path in sources(".c"):
        side, room = room_of(path)
        if side != "engine" and (side != "server" or room not in GUARDED):
            continue
        if str(path.relative_to(ROOT)) in OPENS_ITSELF:
            continue
        for number, line in enumerate(without_comments(text_of(path)).splitlines(), 1):
            if OPENS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: opened by name: use file_open or file_directory (file.h)"


def rule_planning():
    """A kind's plan and execute are two functions over the same openers: only server/inputs asks which of them it
    opens for."""
    for path in sources(".c", ".h"):
        if room_of(path) != ("server", "kinds"):
            continue
        for number, line in enumerate(without_comments(text_of(path)).splitlines(), 1):
            if re.search(r"(?:->|\.)planning\b", line):
                yield f"{path.relative_to(ROOT)}:{number}: a kind asks whether it plans: make its plan another function"


# Where a retired word is the field's own, or history: migrations are not edited once they are released.
RETIRED_STANDS_IN = {"piece": ("engine/tokenizer/",), "companion": ("sql/",)}


def rule_retired_words():
    """The second table of docs/glossary.md: words that had another meaning here, or none, and what is said in their
    place. Plurals count as their words."""
    glossary = ROOT / "docs" / "glossary.md"
    if not glossary.exists():
        return
    retired = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+?) \|$", glossary.read_text(), flags=re.M))
    if not retired:
        return
    pattern = re.compile(r"(?<![A-Za-z])(" + "|".join(retired) + r")s?(?![A-Za-z])", re.I)
    for path in sources(".c", ".h", ".cu", ".js", ".sql"):
        if room_of(path)[0] not in ("engine", "server", "static", "sql"):
            continue
        name = str(path.relative_to(ROOT))
        for number, line in lines_with(pattern, path):
            for word in pattern.findall(line):
                if name.startswith(RETIRED_STANDS_IN.get(word.lower(), ("no such room",))):
                    continue
                yield f'{name}:{number}: "{word}" is retired: {retired[word.lower()]}'


def rule_words_of_one_meaning():
    """The third table of docs/glossary.md: words that stand in some folders or phrases only. A row has the word, where
    it stands (`folder/` or file, or `a phrase` with the word in it), and what is said in other places."""
    glossary = ROOT / "docs" / "glossary.md"
    if not glossary.exists():
        return
    for word, where, instead in re.findall(
        r"^\| `([a-z_]+)` \| ([^|]+?) \| ([^|]+?) \|$", glossary.read_text(), flags=re.M
    ):
        stands = re.findall(r"`([^`]+)`", where)
        rooms = tuple(name for name in stands if "/" in name)
        phrases = re.compile("|".join(map(re.escape, (name for name in stands if "/" not in name))) or r"(?!)", re.I)
        pattern = re.compile(r"(?<![A-Za-z])" + word + r"s?(?![A-Za-z])", re.I)
        for path in sources(".c", ".h", ".cu", ".js"):
            name = str(path.relative_to(ROOT))
            if room_of(path)[0] not in ("engine", "server", "static") or name.startswith(rooms):
                continue
            for number, line in lines_with(pattern, path):
                if pattern.search(phrases.sub("", line)):
                    yield f'{name}:{number}: "{word}" has another meaning here: {instead}'


def rule_banned():
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for path in sources(".c", ".h", ".cu"):
        for number, line in lines_with(pattern, path):
            code = line.split("//")[0]
            if not code.lstrip().startswith(("*", "/*")) and pattern.search(code):
                yield f"{path.relative_to(ROOT)}:{number}: banned function {pattern.search(code).group(1)}"


def rule_markers():
    for path in sources(".c", ".h", ".cu", ".py", ".js", ".sql", ".html", ".css", ".md", ".yaml"):
        for number, _ in lines_with(MARKERS, path):
            yield f"{path.relative_to(ROOT)}:{number}: left-over marker"


BANNER = re.compile(r"^[ \t]*(?:/?\*+ ?-{3,}(?!.*\*/$)|\* ?-{5,})", re.M)
LONE_END = re.compile(r"^[ \t]*\*/[ \t]*$", re.M)


def rule_comments():
    """clang-format leaves comments as they are (ReflowComments: false); what it once did to them may not come back."""
    for path in sources(".c", ".h", ".cu"):
        place = path.relative_to(ROOT)
        for number, _ in lines_with(BANNER, path):
            yield f"{place}:{number}: a section's banner is one line, /* --- Title ---- */"
        for number, _ in lines_with(LONE_END, path):
            yield f"{place}:{number}: */ ends the last line of its comment, not one of its own"


# Sides of the tree whose comments are plain sentences.
PLAIN = ("engine", "server")
LATE_SUBJECT = re.compile(r"(?:/\*|//)[ \t-]*Of\b")


def rule_plain_comments():
    """A comment names its subject first: "Of ..." makes its reader wait for it."""
    for path in sources(".c", ".h", ".cu"):
        if room_of(path)[0] not in PLAIN:
            continue
        for number, _ in lines_with(LATE_SUBJECT, path):
            yield f'{path.relative_to(ROOT)}:{number}: a comment that begins with "Of" names its subject too late'


COLUMNS = 120
TOO_WIDE = re.compile(f"^.{{{COLUMNS + 1},}}", re.M)
LAID_OUT = (".c", ".h", ".cu", ".py", ".js", ".css", ".html", ".md", ".sql", ".sh", ".toml", ".yaml")
LAID_OUT += ("Makefile", "Dockerfile", ".ci/run")
# What may be wider, and why. Fetched and recorded data (corpora, golden numbers, the outputs of a notebook) has other
# endings; a line with an address may be longer too.
WIDE = (
    (r"sql/000[1-9]_\w+\.sql", ""),  # released: a migration is never edited
    (r".*\.md", r"\s*\|"),  # a row of a table is one line
    (r"tests/study/(endpoints|open)\.toml", r"\s*\{"),  # so is a row of TOML's
)


def rule_columns():
    """Two files side by side on a screen. Characters, not bytes."""
    for path in sources(*LAID_OUT):
        name = str(path.relative_to(ROOT))
        excepted = [line for file, line in WIDE if re.fullmatch(file, name)]
        for number, line in lines_with(TOO_WIDE, path):
            if "://" not in line and not any(re.match(start, line) for start in excepted):
                yield f"{name}:{number}: {len(line)} columns; at most {COLUMNS}"


def rule_length():
    for path in sources(".c", ".h", ".cu", ".py", ".js"):
        lines = len(text_of(path).splitlines())
        if lines > 600:
            yield f"{path.relative_to(ROOT)}: {lines} lines; a newcomer would rather find two rooms here"


FORMATTER = 14  # Debian 12's; others lay some lines out in another way


def rule_format():
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if f"version {FORMATTER}." not in version:
        print(f"lint: layout not checked: it is clang-format {FORMATTER}'s, this is {version.strip()}")
        return
    files = [str(path) for path in sources(".c", ".h")]
    for start in range(0, len(files), 50):
        done = subprocess.run(
            ["clang-format", "--dry-run", "-Werror", *files[start : start + 50]],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        for line in done.stderr.splitlines():
            if "error:" in line:
                place = line.split(": error")[0].replace(str(ROOT) + "/", "")
                yield f"{place}: not as clang-format has it (make format)"


def main():
    rules = [value for name, value in sorted(globals().items()) if name.startswith("rule_")]
    complaints = 0
    for rule in rules:
        for complaint in rule():
            complaints += 1
            if complaints <= 60:
                print(complaint)
    print(f"lint: {len(rules)} rules, {complaints} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
