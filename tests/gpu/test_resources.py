"""What the compiler gives each kernel, held to the table resources.csv: registers, stack, spilled bytes and shared
memory, the most of all architectures that the plugin is built for. Registers stand at a step of how many blocks of 256
threads one multiprocessor holds (32: eight, 40: six, 48: five, 64: four, 80: three, 128: two, 256: one). A limit that
is passed is a kernel that has become slower or a table that needs a look; it is raised in the commit that says why."""

import csv
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("resources.csv")
USAGE = ROOT / "build/cuda/engine/backend/cuda/plugin"  # the Makefile keeps what ptxas says, NAME.o.usage
STEPS = (32, 40, 48, 64, 80, 128, 256)
COLUMNS = ("registers", "stack", "spills", "shared")


def table():
    with TABLE.open(newline="") as file:
        return {row["kernel"]: {name: int(row[name]) for name in COLUMNS} for row in csv.DictReader(file)}


def kernels():
    text = (ROOT / "engine/backend/cuda/kernels/args.h").read_text()
    text = text[text.index("#define KERNEL_LIST"):text.index("enum kernel {")]
    return re.findall(r"X\((\w+), \w+\)", text)


def compiled(text):
    """{(kernel, architecture): what ptxas says of it}"""
    found = {}
    for line in text.splitlines():
        if entry := re.search(r"entry function '_Z(\d+)(\w+)' for '(sm_\d+)'", line):
            mangled = entry[2][:int(entry[1])]
            row = found[mangled.removeprefix("device_"), entry[3]] = {}
        elif frame := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            row["stack"], row["spills"] = int(frame[1]), int(frame[2]) + int(frame[3])
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            row["registers"], row["shared"] = int(used[1]), int(shared[1]) if shared else 0
    return found


def beyond(found, limits):
    return [f"{name} for {architecture}: {column} {row[column]}, at most {limits[name][column]}"
            for (name, architecture), row in found.items() for column in COLUMNS if row[column] > limits[name][column]]


def test_the_table_has_every_kernel_and_limits_that_start():
    rows = table()
    assert list(rows) == kernels()
    for name, row in rows.items():
        assert row["registers"] in STEPS and row["shared"] <= 48 << 10, name
    # what docs/cuda.md says of the reserve: local memory of the scans, all threads of an H100's 132 multiprocessors
    assert max(row["stack"] for row in rows.values()) * 132 * 2048 <= 3.2e9


def test_a_kernel_that_takes_more_is_noticed():
    text = ("ptxas info    : Compiling entry function '_Z11device_fill9fill_args' for 'sm_90'\n"
            "ptxas info    : Function properties for _Z11device_fill9fill_args\n"
            "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
            "ptxas info    : Used 33 registers, used 1 barriers, 16 bytes smem, 400 bytes cmem[0]\n")
    found = compiled(text)
    assert found == {("fill", "sm_90"): {"stack": 8, "spills": 8, "registers": 33, "shared": 16}}
    assert len(beyond(found, table())) == 4


def test_no_kernel_takes_more_than_the_table_says():
    reports = [USAGE / f"{name}.o.usage" for name in ("kernels", "exact")]
    if not all(path.exists() for path in reports):
        pytest.skip("no report of ptxas beside the plugin's objects: `make cuda` makes it, where nvcc is")
    found = compiled("".join(path.read_text() for path in reports))
    assert {name for name, _ in found} == set(kernels())
    assert beyond(found, table()) == []


def test_exact_kernels_are_compiled_operation_by_operation():
    """And the others are not: the flag is of one object."""
    command = ["make", "--no-print-directory", "-n", "-B", "NVCC=nvcc",
               *(f"build/cuda/engine/backend/cuda/plugin/{name}.o" for name in ("exact", "kernels"))]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    compiles = [line for line in said.splitlines() if line.startswith("nvcc")]
    assert len(compiles) == 2
    assert ["-fmad=false" in line for line in compiles] == ["exact.cu" in line for line in compiles] == [True, False]
