import json
import os
import struct

import models
import numpy
import pytest
from service import quoted


def test_registering_reads_the_files(service, name):
    path = models.write_llama(service.files / name)
    made = service.checkpoint(path, name, "step10", step=10, tokens=1000, learning_rate=0.001, tags={"phase": "decay"})
    assert made["architecture"] == "llama" and made["dtype"] == "F32" and len(made["sha256"]) == 64
    assert made["parameters"] == sum(a.size for a in models.tensors_of(models.LLAMA, 0).values())
    assert (made["step"], made["tokens"], made["learning_rate"], made["tags"]) == (10, 1000, 0.001, {"phase": "decay"})
    for reference in (made["id"], quoted(f"{name}/step10")):
        assert service.get(f"/v1/checkpoints/{reference}").json == made
    assert service.get(f"/v1/trajectories/{name}").json["checkpoints"] == 1
    assert [c["id"] for c in service.get(f"/v1/checkpoints?trajectory={name}").json["items"]] == [made["id"]]


def test_step_zero_and_rate_zero_are_kept(service, name):
    path = models.write_llama(service.files / name)
    made = service.checkpoint(path, name, "first", step=0, tokens=0, learning_rate=0.0)
    assert (made["step"], made["tokens"], made["learning_rate"]) == (0, 0, 0.0)


def test_the_same_again_is_200_another_is_409(service, name):
    path, other = models.write_llama(service.files / name / "a"), models.write_llama(service.files / name / "b", seed=1)
    body = {"trajectory": name, "name": "x", "source": {"path": str(path)}}
    first, again = service.post("/v1/checkpoints", body), service.post("/v1/checkpoints", body)
    assert (first.status, again.status) == (201, 200) and first.json == again.json
    assert first.headers["Location"] == "/v1/checkpoints/" + first.json["id"]
    assert service.post("/v1/checkpoints", {**body, "source": {"path": str(other)}}).status == 409
    assert service.post("/v1/checkpoints", {**body, "step": 5}).status == 409


@pytest.mark.parametrize("change,pointer,told", [
    ({"step": 7}, "/step", "step 1 "), ({"tokens": 9}, "/tokens", "tokens 2 "),
    ({"learning_rate": 0.5}, "/learning_rate", "learning_rate 0.1 "),
    ({"tags": {"k": 2}}, "/tags", "other tags"), ({"source": {"path": "{b}"}}, "/source/path", "another source"),
    ({"source": {"path": "{a}", "config": {"rope_theta": 5.0}}}, "/source/config", "another source"),
])
def test_a_conflict_points_at_what_differs(service, name, change, pointer, told):
    places = {f"{{{key}}}": str(models.write_llama(service.files / name / key, seed=seed))
              for seed, key in enumerate("ab")}
    body = {"trajectory": name, "name": "x", "step": 1, "tokens": 2, "learning_rate": 0.1,
            "source": {"path": places["{a}"]}, "tags": {"k": 1}}
    if "source" in change:
        change = {"source": {**change["source"], "path": places[change["source"]["path"]]}}
    assert service.post("/v1/checkpoints", body).status == 201
    answer = service.post("/v1/checkpoints", {**body, **change})
    assert (answer.status, answer.pointers) == (409, [pointer]) and told in answer.json["detail"]


def test_a_conflict_of_content_points_at_the_files(service, name):
    service.checkpoint(models.write_llama(service.files / name), name, "x")
    path = models.write_llama(service.files / name, seed=1)
    answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "x", "source": {"path": str(path)}})
    assert (answer.status, answer.pointers) == (409, ["/source/path"]) and "content" in answer.json["detail"]


def test_a_directory_without_weights_is_a_fault_of_the_body(service, name):
    path = models.write_llama(service.files / name)
    for file in ("config.json", "model.safetensors"):
        (path / file).unlink()
        answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "x", "source": {"path": name}})
        assert (answer.status, answer.pointers) == (422, ["/source/path"]), answer.body


def test_one_file_with_its_config_beside_it(service, name):
    path = models.write_llama(service.files / name)
    made = service.checkpoint(path / "model.safetensors", name, "file")
    assert made["sha256"] == service.checkpoint(path, name, "directory")["sha256"]


def test_names_of_files_are_refused_beside_a_directory_on_disk(service, name):
    models.write_llama(service.files / name)
    answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "a",
                                              "source": {"path": name, "files": ["model.safetensors"]}})
    assert answer.status == 422 and answer.pointers == ["/source/files"], answer.body


def test_paths_may_be_relative_to_a_root(service, name):
    models.write_llama(service.files / name)
    assert service.checkpoint(name, name, "relative")["architecture"] == "llama"


def test_patch_changes_what_is_given_and_clears_with_null(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a", step=1, tags={"x": 1})
    changed = service.request("PATCH", f"/v1/checkpoints/{made['id']}", {"step": None, "tokens": 7, "name": "b"}).json
    assert (changed["step"], changed["tokens"], changed["name"], changed["tags"]) == (None, 7, "b", {"x": 1})
    refused = service.request("PATCH", f"/v1/checkpoints/{made['id']}", {"step": -1, "what": 1})
    assert refused.status == 422 and set(refused.pointers) == {"/step", "/what"}


def test_patch_keeps_numbers_of_tags_as_a_post_does(service, name):
    tags = {"large": 1e19, "whole": 9e18, "integer": 3, "long": 2**62}
    place = models.write_llama(service.files / name)
    posted = service.checkpoint(place, name, "posted", tags=tags)
    other = service.checkpoint(place, name, "patched")
    address = f"/v1/checkpoints/{other['id']}"
    answer = service.request("PATCH", address, {"tags": tags})
    assert answer.status == 200, answer.body
    for found in (posted["tags"], answer.json["tags"], service.get(address).json["tags"]):
        assert found == tags and [type(found[key]) for key in tags] == [float, float, int, int]
    listed = service.get(f"/v1/checkpoints?trajectory={name}")
    assert listed.status == 200 and [item["tags"] for item in listed.json["items"]] == [tags, tags]
    assert service.request("PATCH", address, {"tags": None}).json["tags"] == {}


def test_names_and_tags_that_no_address_reaches_are_refused(service, name):
    source = {"path": str(models.write_llama(service.files / name))}
    for bad, pointer in (({"name": "."}, "/name"), ({"trajectory": ".."}, "/trajectory"),
                         ({"tags": {"a:b": 1}}, "/tags"), ({"tags": {"": 1}}, "/tags")):
        answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "a", "source": source, **bad})
        assert answer.status == 422 and answer.pointers == [pointer], answer.body
    made = service.checkpoint(source["path"], name, "...", tags={"a": "b:c"})
    for bad, pointer in (({"name": ".."}, "/name"), ({"tags": {"a:b": 1}}, "/tags")):
        assert service.request("PATCH", f"/v1/checkpoints/{made['id']}", bad).pointers == [pointer]
    fetched = service.post("/v1/checkpoints", {"trajectory": name, "name": "a", "source": {"repo": "some/model"},
                                               "tags": {"a:b": 1}})
    assert fetched.status == 422 and fetched.pointers == ["/tags"], fetched.body


def test_delete_forgets(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    assert service.request("DELETE", f"/v1/checkpoints/{made['id']}").status == 204
    assert service.get(f"/v1/checkpoints/{made['id']}").status == 404
    assert (service.files / name / "config.json").exists()


def test_tensors_are_listed(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "a")
    items = service.get(f"/v1/checkpoints/{made['id']}/tensors").json["items"]
    assert {i["name"]: i["shape"] for i in items} == {k: list(v.shape)
                                                      for k, v in models.tensors_of(models.LLAMA, 0).items()}
    assert sum(i["bytes"] for i in items) == made["bytes"]


def test_a_bare_name_of_two_checkpoints_is_a_conflict(service, name):
    path = models.write_llama(service.files / name)
    service.checkpoint(path, name + "-1", name)
    service.checkpoint(path, name + "-2", name)
    assert service.get(f"/v1/checkpoints/{name}").status == 409


def told_of(service, name, path):
    answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "x",
                                              "source": {"path": path.replace("{files}", str(service.files))}})
    assert answer.status == 422 and answer.pointers == ["/source/path"]
    return answer.json["detail"]


@pytest.mark.parametrize("bad", ["/etc", "/etc/passwd", "/nowhere/at/all", "../../../etc", "{files}/../../../../etc",
                                 "/dev/zero", "/proc/self/root/etc", "{files}x", "{files}/../nothing"])
def test_absent_and_forbidden_paths_look_the_same(service, name, bad):
    assert told_of(service, name, bad) == told_of(service, name, "/nowhere/else")
    assert "outside the server's roots" in told_of(service, name, bad)


@pytest.mark.parametrize("bad", ["nothing", "{files}/nothing", "{files}/nothing/more", "nothing/../../etc",
                                 "{files}/%2e%2e", "~", "." "\\..", "pipe"])
def test_a_mistake_in_a_path_below_the_roots_is_told_from_one_outside(service, name, bad):
    if not (service.files / "pipe").exists():
        os.mkfifo(service.files / "pipe")
    assert "no such file or directory below" in told_of(service, name, bad)


def test_a_link_that_leads_out_says_the_same_whether_there_is_something(service, name):
    (service.files / f"{name}-link").symlink_to("/etc")
    assert (told_of(service, name, f"{name}-link/passwd") == told_of(service, name, f"{name}-link/nothing")
            == told_of(service, name, "/etc"))


def test_links_out_of_the_roots_are_refused(service, name, tmp_path):
    outside = models.write_llama(tmp_path / "outside")
    (service.files / name).mkdir()
    (service.files / name / "link").symlink_to(outside)
    hollow = models.write_llama(service.files / name / "hollow")
    (hollow / "model.safetensors").unlink()
    (hollow / "model.safetensors").symlink_to(outside / "model.safetensors")
    for path in ("link", "hollow"):
        answer = service.post("/v1/checkpoints",
                              {"trajectory": name, "name": "x", "source": {"path": f"{name}/{path}"}})
        assert answer.status == 422 and answer.pointers == ["/source/path"], answer.body


def test_links_within_the_roots_are_fine(service, name):
    models.write_llama(service.files / name / "real")
    (service.files / name / "link").symlink_to(service.files / name / "real")
    assert service.checkpoint(f"{name}/link", name, "x")["architecture"] == "llama"


def spoil_truncated(path):
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def spoil_length(path):
    file = path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 2**64 - 1) + file.read_bytes()[8:])


def spoil_overlap(path):
    file = path / "model.safetensors"
    raw = file.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    names = list(header)
    header[names[1]]["data_offsets"] = header[names[0]]["data_offsets"]
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def spoil_config(path):
    (path / "config.json").write_text("{")


def spoil_architecture(path):
    (path / "config.json").write_text(json.dumps({**models.LLAMA, "model_type": "dancer",
                                                  "architectures": ["DancerForCausalLM"]}))


def spoil_shape(path):
    (path / "config.json").write_text(json.dumps({**models.LLAMA, "hidden_size": 64}))


def spoil_fifo(path):
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")


def spoil_tokenizer(path):
    (path / "tokenizer.json").unlink(missing_ok=True)
    os.mkfifo(path / "tokenizer.json")


def spoil_no_config(path):
    (path / "config.json").unlink()


def spoil_pickle(path):
    (path / "model.safetensors").rename(path / "pytorch_model.bin")


@pytest.mark.parametrize("spoil,words", [
    (spoil_truncated, ""), (spoil_length, ""), (spoil_overlap, ""), (spoil_config, "config.json"),
    (spoil_architecture, "dancer"),
    (spoil_shape, ""), (spoil_no_config, "config.json is not beside the weights"), (spoil_fifo, ""),
    (spoil_tokenizer, "regular"), (spoil_pickle, "safetensors"),
], ids=lambda x: getattr(x, "__name__", ""))
def test_broken_checkpoints_are_refused_precisely(service, name, spoil, words):
    path = models.write_llama(service.files / name)
    spoil(path)
    answer = service.post("/v1/checkpoints", {"trajectory": name, "name": "x", "source": {"path": str(path)}})
    assert answer.status in (400, 422) and words in answer.json["detail"] and answer.pointers == ["/source/path"], (
        answer.body)
    assert service.get(f"/v1/trajectories/{name}").status == 404, "nothing is left behind"


def test_names_with_slashes_are_refused(service, name):
    path = str(models.write_llama(service.files / name))
    for field in ("trajectory", "name"):
        body = {"trajectory": name, "name": "x", "source": {"path": path}, field: "a/b"}
        assert service.post("/v1/checkpoints", body).pointers == ["/" + field]


def test_every_fault_of_a_body_is_told_at_once(service):
    answer = service.post("/v1/checkpoints", {"name": 3, "step": 1.5, "tokens": -1, "learning_rate": "x", "source": [],
                                              "tags": 1, "more~/": 1})
    assert set(answer.pointers) == {"/trajectory", "/name", "/step", "/tokens", "/learning_rate", "/source",
                                    "/tags", "/more~0~1"}


def test_scan_registers_all_below(service, name):
    top = service.files / name
    for i, folder in enumerate(("step1000", "sub/checkpoint-500", "ckpt_100", "iter_0002000",
                                "step3000-tokens6B", "plain")):
        models.write_llama(top / folder, seed=i)
    (top / "plain" / "trainer_state.json").write_text(
        json.dumps({"global_step": 77, "num_input_tokens_seen": 9,
                    "log_history": [{"learning_rate": 0.5}, {"loss": 1}, {"learning_rate": 0.25}]}))
    models.write_llama(top / "broken")
    spoil_truncated(top / "broken")
    found = service.post(f"/v1/trajectories/{name}/scan", {"path": str(top)}).json
    steps = {c["name"]: (c["step"], c["tokens"], c["learning_rate"]) for c in found["registered"]}
    assert steps == {"step1000": (1000, None, None), "sub-checkpoint-500": (500, None, None),
                     "ckpt_100": (100, None, None), "iter_0002000": (2000, None, None),
                     "step3000-tokens6B": (3000, 6 * 10**9, None), "plain": (77, 9, 0.25)}
    assert [f["path"] for f in found["failed"]] == ["broken"]
    again = service.post(f"/v1/trajectories/{name}/scan", {"path": str(top)}).json
    assert again["registered"] == [] and again["existing"] == 6


def test_a_name_that_is_not_utf8_hides_no_other(service, name):
    top = service.files / name
    models.write_llama(top / "step1")
    os.rename(models.write_llama(top / "step2"), os.fsencode(top) + b"/step\xff2")
    found = service.post(f"/v1/trajectories/{name}/scan", {"path": str(top)})
    assert found.status == 200 and [c["name"] for c in found.json["registered"]] == ["step1"], found.body
    (failed,) = found.json["failed"]
    assert failed["path"] == "step\\xff2" and failed["status"] == "invalid" and "rename" in failed["detail"]


def test_scan_refuses_what_it_cannot_do(service, name):
    (service.files / name).mkdir()
    assert service.post(f"/v1/trajectories/{name}/scan", {"path": name}).pointers == ["/path"]
    assert service.post(f"/v1/trajectories/{name}/scan", {"path": "/etc"}).pointers == ["/path"]
    for wrong in ("a%2Fb", "x" * 201):
        answer = service.post(f"/v1/trajectories/{wrong}/scan", {"path": name})
        assert answer.status == 422 and answer.json["detail"].startswith("the name in the address must"), answer.body


def test_nan_weights_fail_the_run_by_name(service, name):
    def spoil(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = numpy.nan

    made = service.checkpoint(models.write_llama(service.files / name, change=spoil), name, "nan")
    run = service.run("evaluate", checkpoint=made["id"], dataset=service.sequences(name, models.rows(2, 16))["id"],
                      sequence_length=None)
    assert run["state"] == "failed" and "model.layers.1.mlp.up_proj.weight" in run["error"]["detail"]


def test_files_that_change_after_registration_fail_the_run(service, name):
    path = models.write_llama(service.files / name)
    made = service.checkpoint(path, name, "a")
    models.write_llama(path, seed=5)
    run = service.run("evaluate", checkpoint=made["id"], dataset=service.sequences(name, models.rows(2, 16))["id"],
                      sequence_length=None)
    assert run["state"] == "failed" and run["error"]["type"].endswith("input_changed")


def test_published_runs_get_their_learning_rate(service, name):
    rows = {(row["repository"], row["revisions"]): row for row in service.get("/v1/schedules").json["items"]}
    assert rows["EleutherAI/pythia-160m", "step"]["peak"] == 6e-4 and all(row["source"] for row in rows.values())
    impostor = service.checkpoint(models.write_llama(service.files / name), "pythia-160m", "step143000", step=143000)
    assert impostor["learning_rate"] is None  # the name alone does not make it one: it has too few parameters


def test_a_name_cannot_be_cleared_and_counts_may_be_written_as_fractions(service, name):
    made = service.checkpoint(models.write_llama(service.files / name), name, "x", step=1.0, tokens=1e9)
    assert (made["step"], made["tokens"]) == (1, 1000000000)
    address = f"/v1/checkpoints/{made['id']}"
    assert service.request("PATCH", address, {"name": None}).pointers == ["/name"]
    assert service.request("PATCH", address, {"step": 256.5}).pointers == ["/step"]
    assert service.request("PATCH", address, {"step": 1e300}).pointers == ["/step"]
    changed = service.request("PATCH", address, {"step": 256.0, "tokens": None})
    assert (changed.status == 200
            and (changed.json["name"], changed.json["step"], changed.json["tokens"]) == ("x", 256, None))
