"""Runs of tasks over HTTP: what comes back, what is refused, the questions that flip.
Numbers are held to the harness's by unit tests."""

import hashlib
import json

import models
import pytest


def piqa(goal, label, first="with fire", second="with ice"):
    return json.dumps({"goal": goal, "sol1": first, "sol2": second, "label": label})


RECORDS = "\n".join(piqa(goal, k % 2)
                    for k, goal in enumerate(("boil", "freeze", "warm", "cool", "melt", "harden"))) + "\n"
POOL = "\n".join(piqa(goal, k % 2) for k, goal in enumerate(("cut", "eat", "see", "hear"))) + "\n"


@pytest.fixture(scope="module")
def ready(service):
    folder = service.files / "tasks"
    folder.mkdir()
    (folder / "piqa.jsonl").write_text(RECORDS)
    (folder / "pool.jsonl").write_text(POOL)
    made = [service.checkpoint(models.write_llama(folder / f"step{k}", seed=k, max_position_embeddings=160), "tasks",
                               f"step{k}", step=k)["id"] for k in (1, 2)]
    return {"checkpoint": made[0],
            "tasks": [{"name": "piqa", "path": str(folder / "piqa.jsonl"), "fewshot": str(folder / "pool.jsonl")}],
            "shots": 2}


def test_a_run_says_how_often_the_model_is_right(service, ready):
    run = service.run("tasks", **ready)
    assert run["state"] == "succeeded", run["error"]
    result, (task,) = run["result"], run["result"]["tasks"]
    assert task["name"] == "piqa" and task["n"] == 6 and task["metrics"] == ["acc", "acc_norm"]
    assert task["sha256"] == hashlib.sha256(RECORDS.encode()).hexdigest() == run["params"]["tasks"][0]["sha256"]
    assert result["mean_accuracy"] == task["accuracy"] and result["tokens_computed"] < result["tokens_alone"]
    lines = service.get(f"/v1/runs/{run['id']}/artifacts/items.jsonl").body.decode().splitlines()
    items = [json.loads(line) for line in lines]
    assert [(item["task"], item["doc"], item["gold"]) for item in items] == [("piqa", k, k % 2) for k in range(6)]
    right = sum(item["choice"] == item["gold"] for item in items)
    assert (task["accuracy"] == pytest.approx(right / 6)
            and task["accuracy_interval"][0] <= right / 6 <= task["accuracy_interval"][1])
    assert all(item["choice"] == max(range(2), key=lambda k: item["log_likelihoods"][k]) for item in items)
    again = service.post("/v1/runs", {"kind": "tasks", "params": ready})
    assert again.status == 200 and again.json["id"] == run["id"]


def test_bf16_changes_log_likelihoods_a_little(service, ready):
    """Which may turn answers around, so that no curve joins the two."""
    items, protocols = [], set()
    for precision in ("f32", "bf16"):
        run = service.run("tasks", **ready, precision=precision)
        assert run["state"] == "succeeded" and run["device"] == "cpu", run["error"]
        lines = service.get(f"/v1/runs/{run['id']}/artifacts/items.jsonl").body.decode().splitlines()
        items.append([x for line in lines for x in json.loads(line)["log_likelihoods"]])
        protocols.add(run["result"]["protocol_id"])
    for metric in ("accuracy", "mean_accuracy"):
        series = service.get(f"/v1/curves?trajectory=tasks&metric={metric}").json["series"]
        plain = [one["protocol_id"] for one in series if one["dataset"].endswith("2-shot") and not one["method"]]
        assert len(plain) == len(set(plain)) == len(protocols) == 2
    assert items[0] != items[1] and items[1] == pytest.approx(items[0], rel=2**-7)


def test_accuracies_that_the_harness_does_not_have_are_not_in_the_mean(service, ready):
    lines = [json.dumps({"sentence": f"The cup fell on the box because the _ was {word}.",
                         "option1": "cup", "option2": "box", "answer": str(1 + k % 2)})
             for k, word in enumerate(("soft", "hard", "low", "high"))]
    path = service.files / "tasks" / "winogrande.jsonl"
    path.write_text("\n".join(lines) + "\n")
    made = service.checkpoint(models.write_llama(path.parent / "other", seed=3, max_position_embeddings=160),
                              "other-tasks", "one")
    asked = {"checkpoint": made["id"], "shots": 0, "method": {"name": "rtn", "bits": 2, "group_size": 16}}
    winogrande = {"name": "winogrande", "path": str(path)}
    run = service.run("tasks", **asked, tasks=[winogrande, {"name": "piqa", "path": ready["tasks"][0]["path"]}])
    assert run["state"] == "succeeded", run["error"]
    without, having = run["result"]["tasks"]
    assert without["metrics"] == ["acc"] and 0 <= without["accuracy"] <= 1 and without["mcnemar_p"] <= 1
    assert 0 <= without["accuracy_norm"] <= 1 and without["mcnemar_norm_p"] <= 1
    assert run["result"]["mcnemar_p"] is None and run["result"]["mcnemar_norm_p"] is None, "none of the mean"
    for name in ("accuracy_norm", "accuracy_norm_interval", "accuracy_norm_change"):
        assert run["result"][f"mean_{name}"] == pytest.approx(having[name])
    assert run["result"]["mean_accuracy"] == pytest.approx((without["accuracy"] + having["accuracy"]) / 2)
    alone = service.run("tasks", **asked, tasks=[winogrande])
    assert (alone["state"] == "succeeded" and alone["result"]["mean_accuracy_norm"] is None
            and "mean_accuracy_norm_q" not in alone["result"])
    assert alone["result"]["mean_accuracy_change_interval"] == alone["result"]["tasks"][0]["accuracy_change_interval"]


def test_a_quantized_model_is_asked_the_same_and_flips_are_listed(service, ready):
    results = []
    for step in ("step1", "step2"):
        run = service.run("tasks", **{**ready, "checkpoint": f"tasks/{step}"},
                          method={"name": "rtn", "bits": 2, "group_size": 16})
        assert run["state"] == "succeeded", run["error"]
        results.append(run["result"])
    for found in results:
        task = found["tasks"][0]
        assert task["accuracy_change"] == pytest.approx(task["accuracy_q"] - task["accuracy"])
        assert (task["flips_up"] - task["flips_down"] == round(6 * task["accuracy_change"])
                and 0 < task["mcnemar_p"] <= 1)
    flips = service.get("/v1/flips?trajectory=tasks").json
    assert [at["name"] for at in flips["checkpoints"]] == ["step1", "step2"]
    for at, found in zip(flips["checkpoints"], results):
        assert (at["up"], at["down"]) == (found["flips_up"], found["flips_down"]) and at["items"] == 6
        assert at["right"] == round(6 * found["mean_accuracy"])
    assert (sum(item["up"] + item["down"] for item in flips["items"])
            == sum(found["flips_up"] + found["flips_down"] for found in results))
    assert all(item["task"] == "piqa" and "Question: " in item["question"] and len(item["course"]) == 2
               for item in flips["items"])
    assert service.get("/v1/flips?trajectory=tasks&task=mmlu").json["items"] == []
    of = f"protocol={results[0]['protocol_id']}"
    series = service.get(f"/v1/curves?trajectory=tasks&metric=mean_accuracy&x=step&{of}").json["series"]
    assert sorted(one["label"] for one in series if one["dataset"] == "2-shot") == ["", "rtn 2-bit g16"]


def right_ones(service, run, field="choice"):
    lines = service.get(f"/v1/runs/{run['id']}/artifacts/items.jsonl").body.decode().splitlines()
    return sum(item[field] == item["gold"] for item in map(json.loads, lines))


def test_flips_are_of_one_series(service, ready):
    """Shots, records and methods are never mixed: neither along the trajectory nor at a checkpoint."""
    path = service.files / "tasks" / "others.jsonl"
    path.write_text("\n".join(piqa(f"stir {k}", k % 2) for k in range(4)) + "\n")
    folder = service.files / "tasks"
    for k in (1, 2):
        model = models.write_llama(folder / f"other{k}", seed=10 + k, max_position_embeddings=160)
        service.checkpoint(model, "one-series", f"step{k}", step=k)

    def ask(step, bits, **given):
        run = service.run("tasks", **{**ready, "shots": 0, **given, "checkpoint": f"one-series/{step}"},
                          **({"method": {"name": "rtn", "bits": bits, "group_size": 16}} if bits else {}))
        assert run["state"] == "succeeded", run["error"]
        return run

    def flips(**fields):
        fields = "".join(f"&{name}={value}" for name, value in fields.items())
        found = service.get(f"/v1/flips?trajectory=one-series&limit=1000{fields}").json
        return found["series"], [(at["name"], at["items"], at["right"], at["right_q"]) for at in found["checkpoints"]]

    def told(name, run, quantized=True):
        return (name, run["result"]["items"], right_ones(service, run),
                right_ones(service, run, "choice_q") if quantized else None)

    assert flips() == (None, [])
    first, second = ask("step1", 2), ask("step2", 2)
    shot, four = ask("step2", 2, shots=2), ask("step2", 4)
    other = ask("step2", 2, tasks=[{"name": "piqa", "path": str(path)}])
    series, found = flips()
    assert found == [told("step2", other)] and series["protocol_id"] == other["result"]["protocol_id"]
    assert (series["label"], series["shots"], series["calibration_id"]) == ("rtn 2-bit g16", 0, None)
    series, found = flips(protocol=first["result"]["protocol_id"], label="rtn%202-bit%20g16")
    assert found == [told("step1", first), told("step2", second)] and series["dataset"] == "0-shot"
    assert flips(label="rtn%204-bit%20g16")[1] == [told("step2", four)]
    assert flips(shots=2)[1] == [told("step2", shot)] and flips(shots=2)[0]["shots"] == 2
    series, found = flips(task="piqa", shots=2)
    assert series["dataset"] == "piqa 2-shot" and found == [told("step2", shot)]
    assert flips(shots=3) == (None, []) and flips(protocol="0" * 16) == (None, [])
    plain = ask("step1", None)
    series, found = flips()
    assert series["label"] == "" and found == [told("step1", plain, False), told("step2", four, False)]
    answer = service.get("/v1/flips?trajectory=one-series&shots=33")
    assert answer.status == 422
    for field, words in (("task", "there are arc_challenge, "), ("label", "method_label")):
        answer = service.get(f"/v1/flips?trajectory=one-series&{field}=bogus")
        assert answer.status == 422 and answer.pointers == [f"/{field}"] and words in answer.json["detail"]
    # No run asked these, but they are known.
    assert flips(task="mmlu") == flips(task="sciq") == (None, []) and flips(label="")[0]["label"] == ""


def test_checkpoints_of_the_same_content_share_their_flips(service, ready):
    """As in curves: a run that asks the same of the same weights is answered with the earlier one, and measures
    nothing."""
    model = models.write_llama(service.files / "tasks" / "twice", seed=48100, max_position_embeddings=160)
    for step in (1, 2):
        service.checkpoint(model, "flips-here", f"here{step}", step=step)
    there = service.checkpoint(model, "flips-there", "there")
    run = service.run("tasks", **{**ready, "checkpoint": "flips-here/here1"},
                      method={"name": "rtn", "bits": 2, "group_size": 16})
    assert run["state"] == "succeeded", run["error"]
    assert service.run("tasks", **{**ready, "checkpoint": there["id"]},
                       method={"name": "rtn", "bits": 2, "group_size": 16})["id"] == run["id"]
    here, other = (service.get(f"/v1/flips?trajectory={name}").json for name in ("flips-here", "flips-there"))
    assert [at["name"] for at in here["checkpoints"]] == ["here1", "here2"] and here["series"] == other["series"]
    counts = [{name: at[name] for name in ("items", "right", "right_q", "up", "down")}
              for at in here["checkpoints"] + other["checkpoints"]]
    assert len(counts) == 3 and counts[0] == counts[1] == counts[2]
    assert counts[0]["up"] == run["result"]["flips_up"] and counts[0]["down"] == run["result"]["flips_down"]
    assert other["checkpoints"][0]["checkpoint"] == there["id"]
    assert all(item["checkpoints"] == 2 and item["changes"] == 0 for item in here["items"])
    # The trajectory has its name, whatever it was asked by.
    owner = service.get("/v1/trajectories/flips-here").json["id"]
    assert service.get(f"/v1/flips?trajectory={owner}").json == here


def test_what_a_run_needs_is_told_before(service, ready):
    asked = {**ready, "checkpoint": "tasks/step2", "shots": 1, "method": {"name": "rtn", "bits": 3, "group_size": 16}}
    told = service.post("/v1/runs", {"kind": "tasks", "params": asked, "dry_run": True}).json
    assert told["fits"] and told["problem"] is None and told["memory"]["host"]["peak_bytes"] > 1 << 20
    run = service.run("tasks", **asked)
    assert run["state"] == "succeeded", run["error"]
    assert told["tokens"] == run["result"]["tokens_computed"] + 2 * 2, (
        "and the two that quantizing evaluates, in both streams")
    size = (service.files / "tasks" / "step2" / "model.safetensors").stat().st_size
    assert size < told["disk"]["written_bytes"] < 1.1 * size + 4096, "the quantized model, and what is kept of answers"
    again = service.post("/v1/runs", {"kind": "tasks", "params": asked, "dry_run": True}).json
    assert again["seconds"] > 0 and "tasks run" in again["seconds_from"]


@pytest.mark.parametrize("change,pointer", [
    ({"name": "arc_hard"}, "/params/tasks/0/name"), ({"path": "/etc/passwd"}, "/params/tasks/0/path"),
    ({"fewshot": None}, "/params/tasks/0/fewshot"), ({"path": None}, "/params/tasks/0/path"),
    ({"sha256": "0" * 64}, "/params/tasks/0/path"), ({"name": "arc_easy"}, "/params/tasks/0"),
    ({"size": 3}, "/params/tasks/0/size")])
def test_tasks_that_do_not_fit_are_blamed(service, ready, change, pointer):
    answer = service.post("/v1/runs",
                          {"kind": "tasks", "params": {**ready, "tasks": [{**ready["tasks"][0], **change}]}})
    assert answer.status == 422 and answer.pointers == [pointer], answer.json


@pytest.mark.parametrize("change",
                         [{"fewshot": "/etc/passwd"}, {"fewshot": "nothing.jsonl"}, {"fewshot_sha256": "0" * 64}])
def test_a_wrong_path_of_examples_is_told_where_none_are_shown(service, ready, change):
    answer = service.post("/v1/runs", {"kind": "tasks",
                                       "params": {**ready, "shots": 0, "tasks": [{**ready["tasks"][0], **change}]}})
    assert answer.status == 422 and answer.pointers == ["/params/tasks/0/fewshot"], answer.json


@pytest.mark.parametrize("fields,pointer", [
    ({"shots": 33}, "/params/shots"), ({"limit": 0}, "/params/limit"), ({"tasks": []}, "/params/tasks"),
    ({"precision": "f16"}, "/params/precision"), ({"method": {"name": "gptq"}}, "/params/calibration"),
    ({"method": {"name": "rtn", "rotation": "hadamard"}}, "/params/method/rotation")])
def test_bad_parameters_are_blamed(service, ready, fields, pointer):
    answer = service.post("/v1/runs", {"kind": "tasks", "params": {**ready, **fields}})
    assert answer.status == 422 and answer.pointers == [pointer], answer.json


@pytest.mark.parametrize("spoiled,words", [
    (RECORDS + '{"goal": "x", "sol1": "a", "label": 0}\n', 'line 7: "sol2" is missing'),
    (RECORDS + piqa("x", 2), "line 7: the answer"),
    (RECORDS + '{"goal": ', "line 7"), ("PAR1", "Parquet")])
def test_records_that_do_not_fit_are_named(service, ready, spoiled, words):
    (service.files / "tasks" / "spoiled.jsonl").write_text(spoiled)
    task = {**ready["tasks"][0], "path": str(service.files / "tasks" / "spoiled.jsonl")}
    answer = service.post("/v1/runs", {"kind": "tasks", "params": {**ready, "tasks": [task]}})
    assert answer.status == 422 and words in answer.json["detail"] and "spoiled.jsonl" in answer.json["detail"], (
        answer.json)


def test_a_choice_longer_than_the_model_fails_the_run_and_a_long_prompt_is_cut(service, ready):
    path = service.files / "tasks" / "long.jsonl"
    path.write_text(piqa("boil " * 60, 0))
    task = {**ready["tasks"][0], "path": str(path)}
    run = service.run("tasks", **{**ready, "tasks": [task]})
    assert run["state"] == "succeeded" and run["result"]["truncated"] == 2
    path.write_text(piqa("boil", 0, first="long " * 60))
    run = service.run("tasks", **{**ready, "tasks": [task]})
    assert run["state"] == "failed" and "piqa, item 0: a choice has" in run["error"]["detail"], run["error"]


def test_the_width_of_a_method_without_bits_is_told(service, ready, name):
    """nf4 has no parameter `bits`: its accuracies are found by its width as its ΔQL is."""
    place = models.write_llama(service.files / name, seed=47140, max_position_embeddings=160)
    service.checkpoint(place, name, "step1", step=1)
    run = service.run("tasks", **{**ready, "checkpoint": f"{name}/step1"}, method={"name": "nf4", "block_size": 32})
    assert run["state"] == "succeeded", run["error"]
    series, = service.get(f"/v1/curves?trajectory={name}&metric=mean_accuracy&bits=4").json["series"]
    assert (series["method"], series["bits"]) == ("nf4", 4)
