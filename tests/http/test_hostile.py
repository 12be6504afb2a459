"""Every file of the table `hostile` is refused by POST /v1/checkpoints with its reason;
nothing of it is run, followed or kept."""

import json

import hostile
import models
import pytest
from hostile.table import RAN

AT_LEAST = 60


@pytest.fixture(scope="module")
def sound(service):
    """A checkpoint that was there before all of them, and that must be there after them."""
    return service.checkpoint(models.write_llama(service.files / "hostile" / "sound", tokenizer=False),
                              "hostile-sound", "a")


def test_there_are_enough_of_them():
    names = [case.name for case in hostile.CASES]
    assert len(set(names)) == len(names) >= AT_LEAST and all(case.words for case in hostile.CASES)


@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_a_hostile_file_is_refused_with_its_reason(service, sound, case):
    directory = service.files / "hostile" / case.name
    directory.mkdir()
    case.write(directory)
    answer = service.post("/v1/checkpoints",
                          {"trajectory": case.name, "name": "x", "source": {"path": f"hostile/{case.name}"}})
    problem = answer.json
    assert 400 <= answer.status < 500 and answer.pointers == ["/source/path"], answer.body
    assert problem["code"] == case.code and case.words in problem["detail"], answer.body
    assert all(" " <= c <= "~" for c in problem["detail"]), "no log and no terminal chokes on it"
    assert service.get(f"/v1/trajectories/{case.name}").status == 404, "nothing is left behind"


def replaced(pattern, content, times):
    return {"type": "Sequence", "normalizers" if pattern == {"String": "a"} else "decoders":
            [{"type": "Replace", "pattern": pattern, "content": content}] * times}


@pytest.mark.parametrize("fields", [
    {"normalizer": replaced({"String": "a"}, "aa", 40)}, {"normalizer": replaced({"String": "a"}, "a" * 300, 1)},
    {"normalizer": {"type": "Prepend", "prepend": "a" * 65}}, {"decoder": replaced({"Regex": "a*"}, "a", 20)},
    {"decoder": replaced({"Regex": "a"}, "aaaa", 4)}], ids=["doubled", "long", "before", "nothing", "decoded"])
def test_a_tokenizer_that_fills_the_memory_is_refused(service, name, fields):
    (service.files / f"{name}.json").write_text(json.dumps({**models.byte_tokenizer(), **fields}))
    answer = service.post("/v1/tokenize", {"tokenizer": {"path": f"{name}.json"}, "texts": ["a" * 100]})
    assert answer.status == 422 and answer.json["code"] == "unsupported", answer.body
    assert "times longer" in answer.json["detail"] or "bytes before text" in answer.json["detail"]


def test_nothing_was_run_or_lost(service, sound):
    assert service.get(f"/v1/checkpoints/{sound['id']}").json == sound
    assert not list((service.files / "hostile").rglob(RAN))
    assert service.process.poll() is None
