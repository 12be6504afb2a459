"""What the server itself takes of memory: bodies lie in files, and what is parsed comes out of one budget."""

import concurrent.futures
import json
import os
import pathlib
import random
import tempfile
import time
import uuid

import models
import pytest
from outage import Network
from service import ROOT, Service

LARGE = 20 if os.environ.get("DELTAQ_LONG") else 6  # data sets of 10 MiB, each a second of processor
LIMIT = 256 << 20  # for the server, its database and an idle worker
PEAK = 96 << 20  # of the server alone


class Group:
    """A control group whose processes may take LIMIT bytes together; none where this machine lets us make none."""

    def __init__(self):
        self.path = None
        for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
            path = pathlib.Path(root) / f"deltaq-test-{uuid.uuid4().hex[:8]}"
            if not (pathlib.Path(root) / "cgroup.procs").exists():
                continue
            try:
                path.mkdir()
                (path / limit).write_text(str(LIMIT))
            except OSError:
                if path.exists():
                    path.rmdir()
                continue
            self.path = path
            if (path / "memory.swap.max").exists():
                (path / "memory.swap.max").write_text("0")
            return

    @property
    def prefix(self):
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && exec \"$@\"", "sh"] if self.path else []

    def killed(self):
        """How many processes of it were killed for its limit."""
        for name in ("memory.events", "memory.oom_control"):
            if self.path and (self.path / name).exists():
                return dict(line.split() for line in (self.path / name).read_text().splitlines())["oom_kill"]
        return "0"

    def close(self):
        if self.path:
            self.path.rmdir()


@pytest.fixture(scope="module")
def confined():
    """On the disk, for the files of a tmpfs, where temporary ones may lie, are memory of the group."""
    group = Group()
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="confined-") as directory:
        service = Service(pathlib.Path(directory), prefix=group.prefix)
        yield service, group
        service.stop()
    group.close()


def memory(service, what):
    """VmHWM: the most bytes that it ever had; VmRSS: what it has."""
    lines = pathlib.Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) << 10


def at_once(service, count, body, path="/v1/datasets", threads=2):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda i: service.post(path, body(i)), range(count)))


def digits(i, size):
    """Of `size` bytes: sequences of tokens of a digit each."""
    row = ",".join(str(random.Random(i).randrange(10)) for _ in range(2000))
    return f'{{"name": "digits-{i}", "sequences": [{",".join([f"[{row}]"] * (size // (len(row) + 3)))}]}}'.encode()


def test_large_datasets_two_at_once_in_256_mib(confined):
    service, group = confined
    answers = at_once(service, LARGE, lambda i: digits(i, 10 << 20))
    assert [answer.status for answer in answers] == [201] * LARGE, [answer.body for answer in answers]
    assert all(answer.json["tokens"] > 5_000_000 for answer in answers)
    assert group.killed() == "0" and service.process.poll() is None
    assert memory(service, "VmHWM") < PEAK, memory(service, "VmHWM") >> 20
    assert memory(service, "VmRSS") < 48 << 20, memory(service, "VmRSS") >> 20


def test_a_worker_in_a_group_takes_no_more_than_its_group_may(confined):
    """As one in a job of Slurm or a service of systemd, whose group is not the root of what is mounted."""
    service, group = confined
    if not group.path:
        pytest.skip("needs the right to make a control group with a limit of memory")
    end = time.monotonic() + 60
    while not (workers := service.get("/v1/workers").json["items"]) and time.monotonic() < end:
        time.sleep(0.05)  # the service listens before its workers do
    assert [worker["memory_bytes"] for worker in workers] == [LIMIT]


def test_what_was_sent_is_what_a_run_reads(confined):
    """Over more than one chunk, and with every way of writing a number."""
    service, _ = confined
    rows = [[i * 7919 % 256 for i in range(first, first + 500)] for first in range(0, 600_000, 500)]
    text = json.dumps({"name": "chunks", "sequences": rows}).replace("[0, ", "[0.0, ")
    same = json.dumps({"sequences": rows, "name": "chunks"}, separators=(" ,\n", " : "))
    made, again = (service.post("/v1/datasets", body.encode()) for body in (text, same))
    assert (made.status, again.status) == (201, 200) and made.json["sha256"] == again.json["sha256"]
    rows[1000][3] += 1
    assert service.post("/v1/datasets", {"name": "chunks", "sequences": rows}).status == 409


def test_bodies_that_are_dear_to_parse_take_their_turn(confined):
    """A mebibyte of numbers is a tree of 20 MiB: two of them at once."""
    service, group = confined
    dear = b'{"kind": "quantize", "params": {"x": [' + b"0," * 400_000 + b"0]}}"
    answers = at_once(service, 24, lambda i: dear, "/v1/runs", threads=12)
    assert {answer.status for answer in answers} <= {422, 503}, answers
    for answer in answers:
        assert answer.status == 422 or answer.headers["Retry-After"] == "5"
    assert any(answer.status == 422 for answer in answers)
    worse = b'{"kind": "quantize", "params": {"x": [' + b"[]," * 340_000 + b"[]]}}"
    refused = service.post("/v1/runs", worse)
    assert refused.status == 413 and "MiB of memory" in refused.json["detail"], refused.body
    assert group.killed() == "0" and memory(service, "VmHWM") < PEAK, memory(service, "VmHWM") >> 20


def test_a_body_beside_its_large_member_is_bounded(confined):
    service, _ = confined
    answer = service.post("/v1/datasets", b'{"name": "%s", "sequences": [[1, 2]]}' % (b"x" * (1 << 20)))
    assert answer.status == 413 and 'beside "sequences"' in answer.json["detail"]


def test_long_texts_are_tokenized_without_a_tree(confined):
    """Text by text from the body's file to the answer's."""
    service, _ = confined
    (service.files / "bytes.json").write_text(json.dumps(models.byte_tokenizer()))
    texts = ["ab cd " * 300_000, "", "x\0y", *["a b"] * 100_000]
    answer = service.post("/v1/tokenize", {"tokenizer": {"path": "bytes.json"}, "texts": texts})
    ids = answer.json["ids"]
    assert answer.status == 200 and [len(one) for one in ids[:3]] == [1_800_000, 0, 3]
    assert ids[0][:6] == list(b"ab cd ") and ids[2] == [120, 0, 121] and ids[3:] == [[97, 32, 98]] * 100_000
    assert memory(service, "VmHWM") < PEAK, memory(service, "VmHWM") >> 20


def test_the_trainers_state_beside_weights_is_read_without_a_tree(confined):
    """16 MiB that would be a tree of 1.3 GB."""
    service, group = confined
    directory = models.write_llama(service.files / "state")
    (directory / "trainer_state.json").write_text('{"global_step": 7, "x": [' + "{}," * ((16 << 20) // 3) + "{}]}")
    before = memory(service, "VmHWM")
    answer = service.post("/v1/checkpoints", {"trajectory": "state", "name": "a", "source": {"path": str(directory)}})
    assert answer.status == 201 and answer.json["step"] == 7, answer.body
    assert group.killed() == "0" and memory(service, "VmHWM") < before + (64 << 20), memory(service, "VmHWM") >> 20


def test_a_configuration_above_weights_is_no_tree_when_it_is_dear(confined):
    """4 MB that would be a tree of 300."""
    service, group = confined
    above = service.files / "above"
    directory = models.write_llama(above / "step1")
    (directory / "config.json").rename(above / "config.json")
    scan = service.post("/v1/trajectories/above/scan", {"path": str(above)}).json
    assert [made["name"] for made in scan["registered"]] == ["step1"], scan
    (above / "config.json").write_text('{"x": [' + "{}," * 1_300_000 + "{}]}")
    before = memory(service, "VmHWM")
    (failed,) = service.post("/v1/trajectories/above/scan", {"path": str(above)}).json["failed"]
    assert failed["path"] == "step1" and "more than 2047 bytes" in failed["detail"], failed
    assert group.killed() == "0" and memory(service, "VmHWM") < before + (64 << 20), memory(service, "VmHWM") >> 20


def test_files_of_bodies_are_gone_with_them(confined):
    service, _ = confined
    links = [os.readlink(link) for link in pathlib.Path(f"/proc/{service.process.pid}/fd").iterdir()]
    assert not [link for link in links if "(deleted)" in link and str(service.data) in link], links
    assert not list(service.data.glob("spill-*"))


@pytest.fixture
def near():
    """A directory whose path is short: a socket's name has 107 bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield pathlib.Path(directory)


def test_a_dataset_of_any_size_goes_over_a_slow_network(near, tmp_path):
    """28 MB over 4 MB/s: longer than a statement may take, but no chunk is."""
    first = Service(near / "first", "--workers", "0")
    network = Network(f"host={first.data}/pg/socket port=5432 user=deltaq dbname=deltaq", rate=4_000_000)
    try:
        second = Service(tmp_path / "second", "--workers", "0", "--database-url", network.conninfo)
        answer = second.post("/v1/datasets", digits(1, 14 << 20))
        assert answer.status == 201 and answer.json["tokens"] > 7_000_000, answer.body
        second.stop()
    finally:
        network.close()
        first.stop()
