import io
import json

import models
import numpy
import pytest


def test_inline_sequences(service, name):
    made = service.sequences(name, [[1, 2, 3], [4, 5]])
    assert (made["format"], made["sequences"], made["tokens"]) == ("sequences", 2, 5)
    assert service.get(f"/v1/datasets/{name}").json == made == service.get(f"/v1/datasets/{made['id']}").json


def test_the_same_again_is_200_another_is_409(service, name):
    body = {"name": name, "sequences": [[1, 2, 3]]}
    assert [service.post("/v1/datasets", b).status
            for b in (body, body, {"name": name, "sequences": [[1, 2], [3, 4]]})] == [201, 200, 409]


@pytest.mark.parametrize("sequences,pointer", [
    ([], "/sequences"), ([[1]], "/sequences/0"), ([[1, 2], []], "/sequences/1"), ([[1, -2]], "/sequences/0/1"),
    ([[1, 2.5]], "/sequences/0/1"), ([[1, 2**40]], "/sequences/0/1"), ([[1, "2"]], "/sequences/0/1"),
    ([[1, True]], "/sequences/0/1"),
    ([3], "/sequences/0"), ({}, "/sequences"), ("x", "/sequences"),
])
def test_bad_sequences_are_pointed_at(service, name, sequences, pointer):
    answer = service.post("/v1/datasets", {"name": name, "sequences": sequences})
    assert answer.status == 422 and answer.pointers == [pointer]
    assert service.get(f"/v1/datasets/{name}").status == 404


def test_files_of_every_format(service, name):
    folder = service.files / name
    folder.mkdir()
    (folder / "a.txt").write_text("some text\n")
    (folder / "a.jsonl").write_text('{"body": "x"}\n')
    numpy.save(folder / "a.npy", numpy.arange(10, dtype=numpy.uint16))
    (folder / "a.bin").write_bytes(numpy.arange(10, dtype=numpy.int32).tobytes())
    for file, more in (("a.txt", {"format": "text"}), ("a.jsonl", {"format": "jsonl", "field": "body"}),
                       ("a.npy", {"format": "tokens"}), ("a.bin", {"format": "tokens", "dtype": "int32"})):
        made = service.post("/v1/datasets", {"name": f"{name}-{file}", "path": str(folder / file), **more})
        assert made.status == 201 and len(made.json["sha256"]) == 64 and made.json["sequences"] is None, made.body


@pytest.mark.parametrize("body,pointer", [
    ({}, "/path"), ({"path": "x"}, "/format"), ({"path": "/etc/passwd", "format": "text"}, "/path"),
    ({"path": "nothing", "format": "text"}, "/path"), ({"path": "x", "sequences": [[1, 2]]}, "/path"),
    ({"sequences": [[1, 2]], "format": "text"}, "/format"), ({"path": "x", "format": "csv"}, "/format"),
])
def test_bad_definitions_are_pointed_at(service, name, body, pointer):
    answer = service.post("/v1/datasets", {"name": name, **body})
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def npy(array):
    held = io.BytesIO()
    numpy.save(held, array)
    return held.getvalue()


TEXT = "ä".encode() * 40_000  # longer than what is looked at, which ends within a character
WRONG = {
    "objects.npy": npy(numpy.array([{}], dtype=object)), "floats.npy": npy(numpy.zeros(4)),
    "short.npy": npy(numpy.arange(9))[:-1], "cube.npy": npy(numpy.zeros((2, 2, 2), numpy.int64)), "none.npy": b"tokens",
    "odd.bin": b"abc", "latin.txt": b"caf\xe9 " * 9, "late.txt": b"a" * 60_000 + b"\xff" + b"a" * 60_000,
    "deep.jsonl": b'{"text": "a", "b": ' + b"[" * 5000 + b"]" * 5000 + b"}\n", "other.jsonl": b'{"words": "a"}\n',
    "number.jsonl": b'{"text": "a"}\n{"text": 1}\n', "cut.jsonl": b'{"text": "a"}\n{"text": "b',
}
RIGHT = {"cut.txt": b"a" + TEXT, "long.jsonl": b'{"text": "a"}\n{"text": "' + TEXT + b'"}\n',
         "flat.npy": npy(numpy.arange(9))}
FORMATS = {"npy": "tokens", "bin": "tokens", "txt": "text", "jsonl": "jsonl"}


def post_file(service, name, file, content):
    folder = service.files / name.replace("[", "-").replace("]", "")
    folder.mkdir(exist_ok=True)
    (folder / file).write_bytes(content)
    body = {"name": f"{name}-{file}", "path": str(folder / file), "format": FORMATS[file.rsplit(".", 1)[1]]}
    return service.post("/v1/datasets", body)


@pytest.mark.parametrize("file", WRONG)
def test_what_cannot_be_right_is_refused_when_it_is_registered(service, name, file):
    answer = post_file(service, name, file, WRONG[file])
    assert answer.status == 422 and answer.pointers == ["/path"] and file in answer.json["detail"], answer.body


@pytest.mark.parametrize("file", RIGHT)
def test_what_the_beginning_does_not_tell_is_taken(service, name, file):
    assert post_file(service, name, file, RIGHT[file]).status == 201


def test_fields_that_mean_nothing_are_refused(service, name):
    (service.files / name).write_text("text")
    answer = service.post("/v1/datasets", {"name": name, "path": name, "format": "text", "dtype": "uint16"})
    assert answer.status == 422 and answer.pointers == ["/dtype"]


def test_delete_and_conflict_while_used(service, name):
    made = service.sequences(name, [[1, 2, 3]])
    assert service.request("DELETE", f"/v1/datasets/{made['id']}").status == 204
    assert service.request("DELETE", f"/v1/datasets/{made['id']}").status == 404


@pytest.fixture
def measured(service, name):
    """A text on which a checkpoint was measured, and which is deleted: its body, document and run."""
    service.checkpoint(models.write_llama(service.files / name), name, "a", step=1)
    (service.files / f"{name}.txt").write_text(f"first text of {name} " * 9)  # no other test has it
    body = {"name": name, "path": f"{name}.txt", "format": "text"}
    made = service.post("/v1/datasets", body).json
    run = service.run("evaluate", checkpoint=f"{name}/a", dataset=name, sequence_length=32)
    assert run["state"] == "succeeded"
    assert service.request("DELETE", f"/v1/datasets/{name}").status == 204
    return body, made, run


def test_the_name_of_what_was_measured_is_of_the_same_data_alone(service, name, measured):
    """Measurements know a dataset by its name: two texts of one name would be one series."""
    body, made, run = measured
    (service.files / f"{name}-other.txt").write_text("second text " * 40)
    other = {**body, "path": f"{name}-other.txt"}
    for wrong in (other, {"name": name, "sequences": [[1, 2, 3]]}, {**body, "add_special_tokens": True}):
        refused = service.post("/v1/datasets", wrong)
        assert refused.status == 409 and refused.pointers == ["/name"], refused.body
        assert "choose another name" in refused.json["detail"] and service.get(f"/v1/datasets/{name}").status == 404
    # The same data is taken, wherever it lies.
    (service.files / f"{name}.txt").rename(service.files / f"{name}-moved.txt")
    again = service.post("/v1/datasets", {**body, "path": f"{name}-moved.txt"})
    assert again.status == 201 and again.json["id"] != made["id"] and again.json["sha256"] == made["sha256"]
    assert service.request("DELETE", f"/v1/datasets/{name}").status == 204
    assert service.post("/v1/datasets", other).status == 409  # no run has read that one: the first one's still count
    # Once nothing is measured on it, its name is free.
    assert service.request("DELETE", f"/v1/runs/{run['id']}").status == 204
    assert service.post("/v1/datasets", other).status == 201


def test_the_id_of_a_deleted_dataset_is_known(service, name, measured):
    _, made, run = measured
    for path in ("measurements?", "curves?metric=loss&"):
        by_id, by_name = (service.get(f"/v1/{path}trajectory={name}&dataset={word}") for word in (made["id"], name))
        assert by_id.status == by_name.status == 200 and by_id.body == by_name.body and run["id"] in str(by_id.body)


def test_the_first_run_holds_data_against_what_was_measured(service, name, measured):
    """As of large files, whose samples alone are read when they are registered."""
    body, _, _ = measured
    service.sql(f"update datasets_gone set sha256 = null, fingerprint = null where name = '{name}'")
    assert service.post("/v1/datasets", body).status == 201
    service.sql(f"update datasets_gone set sha256 = repeat('0', 64) where name = '{name}';"
                f"update datasets set sha256 = null where name = '{name}'")
    run = service.run("evaluate", checkpoint=f"{name}/a", dataset=name, sequence_length=16)
    assert run["state"] == "failed" and "what was measured under this name" in run["error"]["detail"], run["error"]


def test_large_bodies_of_sequences_are_taken_and_larger_ones_refused(service, name):
    assert service.post("/v1/datasets", {"name": name, "sequences": models.rows(200, 4096, 50000)}).status == 201
    answer = service.post("/v1/datasets", b'{"name": "' + b"x" * (17 << 20) + b'"}')
    assert answer.status == 413


def test_text_goes_through_the_tokenizer_of_the_checkpoint(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    (service.files / f"{name}.txt").write_text("hello world, " * 40)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    run = service.run("evaluate", checkpoint=made["id"], dataset=name, sequence_length=32)
    same = service.run("evaluate", checkpoint=made["id"], sequence_length=None, dataset=service.sequences(
        name + "-ids", [list(("hello world, " * 40).encode())[i : i + 32] for i in range(0, 512, 32)])["id"])
    assert run["result"]["sequences"] == 16
    assert run["result"]["sequence_losses"] == same["result"]["sequence_losses"]


def test_jsonl_documents_and_packing(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    lines = [json.dumps({"text": "x" * n}) for n in (5, 11, 40, 100)]
    (service.files / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    service.post("/v1/datasets", {"name": name, "path": f"{name}.jsonl", "format": "jsonl"})
    documents = service.run("evaluate", checkpoint=made["id"], dataset=name, sequence_length=32,
                            packing="documents")["result"]
    blocks = service.run("evaluate", checkpoint=made["id"], dataset=name, sequence_length=32)["result"]
    assert (documents["sequences"], documents["tokens"]) == (3, 11 + 32 + 32)
    assert (blocks["sequences"], blocks["tokens"]) == (156 // 32, 156 // 32 * 32)


def test_text_without_a_tokenizer_is_refused_at_once(service, name):
    made = service.checkpoint(models.write_llama(service.files / name, tokenizer=False), name, "a")
    (service.files / f"{name}.txt").write_text("text " * 100)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    answer = service.post("/v1/runs", {"kind": "evaluate", "params": {"checkpoint": made["id"], "dataset": name}})
    assert answer.status == 422 and answer.pointers == ["/params/dataset"] and "tokenizer.json" in answer.json["detail"]


def test_too_little_text_says_how_much_there_is(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    (service.files / f"{name}.txt").write_text("short")
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    run = service.run("evaluate", checkpoint=made["id"], dataset=name, sequence_length=32)
    assert run["state"] == "failed" and "5" in run["error"]["detail"] and "32" in run["error"]["detail"]


def test_ids_outside_the_vocabulary_fail_the_run(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    run = service.run("evaluate", checkpoint=made["id"], dataset=service.sequences(name, [[1, 2, 256]])["id"],
                      sequence_length=None)
    assert run["state"] == "failed" and "256" in run["error"]["detail"]


def test_sequences_longer_than_the_model_fail_the_run(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    long = service.sequences(name, models.rows(1, 65))["id"]
    run = service.run("evaluate", checkpoint=made["id"], dataset=long, sequence_length=None)
    assert run["state"] == "failed" and "64" in run["error"]["detail"], run["error"]


def test_lengths_that_cannot_be_are_refused_at_once(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    (service.files / f"{name}.txt").write_text("x" * 1000)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    method = {"name": "rtn", "bits": 4, "group_size": 16}
    for length, words in ((65, "64 positions"), (None, "needs a length")):
        evaluation = {"dataset": name, "sequence_length": length}
        for kind, params, pointer in (("evaluate", evaluation, "/params/sequence_length"),
                                      ("quantize", {"method": method, "evaluation": evaluation},
                                       "/params/evaluation/sequence_length")):
            refused = service.post("/v1/runs", {"kind": kind, "params": {"checkpoint": made["id"], **params}})
            assert refused.status == 422 and refused.pointers == [pointer] and words in refused.json["detail"], (
                refused.body)
    params = {"checkpoint": made["id"], "dataset": name, "sequence_length": 64}
    assert service.post("/v1/runs", {"kind": "evaluate", "params": params}).status == 202


def test_data_that_changes_after_registration_fails_the_run(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    file = service.files / f"{name}.txt"
    file.write_text("x" * 1000)
    service.post("/v1/datasets", {"name": name, "path": f"{name}.txt", "format": "text"})
    file.write_text("y" * 1000)
    run = service.run("evaluate", checkpoint=made["id"], dataset=name, sequence_length=32)
    assert run["state"] == "failed" and run["error"]["type"].endswith("input_changed")


def test_large_files_are_hashed_by_the_first_run_and_an_equal_request_finds_it(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    file = service.files / f"{name}.bin"
    with open(file, "wb") as out:
        out.write(b"".join(bytes([i, 0]) for i in range(64)))
        out.truncate((256 << 20) + 4096)  # holes cost no space
    body = {"name": name, "path": file.name, "format": "tokens", "dtype": "uint16"}
    posted = [service.post("/v1/datasets", body) for _ in range(2)]
    assert [a.status for a in posted] == [201, 200] and posted[0].json["sha256"] is None
    request = {"kind": "evaluate",
               "params": {"checkpoint": made["id"], "dataset": name, "sequence_length": 32, "max_sequences": 2}}
    first = service.wait(service.post("/v1/runs", request).json["id"])
    assert first["state"] == "succeeded", first["error"]
    again = service.post("/v1/runs", request)  # its content is known by now
    assert (again.status, again.json["id"]) == (200, first["id"])
    assert len(service.get(f"/v1/datasets/{name}").json["sha256"]) == 64
    with open(file, "r+b") as out:
        out.write(b"\x07\x00" * 64)
    changed = service.post("/v1/runs", {**request, "force": True}).json
    assert service.wait(changed["id"])["error"]["type"].endswith("input_changed")


def test_tokenize(service, name):
    path = models.write_llama(service.files / name)
    made = service.checkpoint(path, name, "a")
    texts = ["héllo", "", "a\x00b"]
    wanted = [list(t.encode()) for t in texts]
    for place in ({"checkpoint": made["id"]}, {"tokenizer": {"path": str(path / "tokenizer.json")}}):
        assert service.post("/v1/tokenize", {**place, "texts": texts}).json == {"ids": wanted}


@pytest.mark.parametrize("body,pointer", [
    ({"texts": ["x"]}, "/checkpoint"), ({"checkpoint": "nothing", "texts": []}, "/checkpoint"),
    ({"tokenizer": {"path": "/etc/passwd"}, "texts": ["x"]}, "/tokenizer/path"),
    ({"tokenizer": {}, "texts": []}, "/tokenizer/path"),
    ({"checkpoint": "x", "texts": "x"}, "/texts"),
])
def test_tokenize_points_at_faults(service, body, pointer):
    answer = service.post("/v1/tokenize", body)
    assert answer.status == 422 and answer.pointers == [pointer], answer.body


def test_inline_sequences_are_used_as_they_are_unless_a_length_is_asked_for(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    data = service.sequences(name, [[1, 2, 3], list(range(40))])["id"]
    plain = service.run("evaluate", checkpoint=made["id"], dataset=data)
    assert (plain["params"]["sequence_length"] is None and plain["result"]["sequences"] == 2
            and plain["result"]["tokens"] == 43)
    cut = service.run("evaluate", checkpoint=made["id"], dataset=data, sequence_length=10)
    assert cut["params"]["sequence_length"] == 10 and cut["result"]["sequences"] == 4


@pytest.mark.parametrize("format", ["text", "jsonl", "tokens"])
def test_a_directory_without_files_is_a_fault_of_the_body(service, name, format):
    (service.files / name).mkdir()
    answer = service.post("/v1/datasets", {"name": name, "path": name, "format": format})
    assert (answer.status, answer.pointers) == (422, ["/path"]), answer.body


def test_token_ids_may_be_written_as_fractions(service, name):
    made = service.sequences(name, [[1.0, 2, 3e0]])
    again = service.post("/v1/datasets", {"name": name, "sequences": [[1, 2, 3]]})
    assert again.status == 200 and again.json["id"] == made["id"]


@pytest.mark.parametrize("bad", ["", "a/b", "a\n", "a\x7f", "a\x85", "a\u2028"])
def test_names_that_the_database_refuses_are_pointed_at(service, bad):
    answer = service.post("/v1/datasets", {"name": bad, "sequences": [[1, 2]]})
    assert answer.status == 422 and answer.pointers == ["/name"] and "database" not in answer.json["detail"], (
        answer.body)


def test_a_number_that_would_be_taken_for_0_is_refused(service, name):
    """As a learning rate, as a parameter and as a token."""
    directory = models.write_llama(service.files / name, seed=48310)
    body = {"trajectory": name, "name": "one", "step": 1, "source": {"path": str(directory)}}
    text = json.dumps({**body, "learning_rate": 0.5}).replace("0.5", "1e-400")
    answer = service.post("/v1/checkpoints", text.encode())
    assert answer.status == 400 and "1e-400 is neither 0 nor at least 1e-307" in answer.json["detail"], answer.body
    assert f"column {text.index('1e-400') + 1}:" in answer.json["detail"]
    answer = service.post("/v1/checkpoints", text.replace("1e-400", "1e-300").encode())
    assert answer.status == 201 and answer.json["learning_rate"] == 1e-300
    for tokens in ("1e-400, 5", "5, 0.1e-308"):
        answer = service.post("/v1/datasets", f'{{"name": "{name}", "sequences": [[{tokens}]]}}'.encode())
        assert answer.status == 422 and len(answer.pointers) == 1, answer.body
        assert answer.pointers[0] == f"/sequences/0/{int(tokens[0] == '5')}" and "token id" in answer.json["detail"]
