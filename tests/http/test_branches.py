"""Branches of training runs: what they take over from their trunk, and which schedules they may have."""

import concurrent.futures
import functools
import shutil

import pytest

from earlier import held, psql, until

STEP = 2 * 16
MODEL = {"model_type": "llama", "vocab_size": 256, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
         "num_attention_heads": 2, "max_position_embeddings": 32}
COMMON = {"dataset": "branches", "batch_sequences": 2, "sequence_length": 16, "checkpoint_every": 10 * STEP}
OPTIMIZER = {"name": "sam", "rho": 0.02, "beta2": 0.9}
SCHEDULE = {"name": "wsd", "peak": 0.01, "warmup": 4 * STEP, "decay": 15 * STEP}


def train(service, name, tokens, **more):
    document = service.run("train", **{"trajectory": name, "tokens": tokens, **COMMON, **more})
    assert document["state"] == "succeeded", document["error"]
    items = service.get(f"/v1/checkpoints?trajectory={name}").json["items"]
    return document, {c["step"]: c for c in items}


@pytest.fixture(scope="module")
def trunk(service):
    """30 steps whose rate falls from step 15 on."""
    (service.files / "branches.txt").write_text("".join(chr(97 + i * i % 23) for i in range(4000)))
    service.post("/v1/datasets", {"name": "branches", "path": "branches.txt", "format": "text"})
    return train(service, "trunk", 30 * STEP, model=MODEL, tokenizer={"name": "bytes"}, seed=5, optimizer=OPTIMIZER,
                 schedule=SCHEDULE)


def test_a_branch_goes_on_with_the_settings_of_its_trunk(service, trunk):
    """What is left out is the trunk's, so that the branch ends with the trunk's weights, in the middle of its decay."""
    document, made = trunk
    branch, found = train(service, "goes-on", 30 * STEP, **{"from": "trunk/step0000020"})
    for setting in ("seed", "optimizer", "schedule"):
        assert branch["params"][setting] == document["params"][setting]
    assert branch["params"]["seed"] == 5 and branch["params"]["optimizer"]["rho"] == 0.02
    assert found[30]["sha256"] == made[30]["sha256"]


def test_what_a_branch_posts_is_taken_as_a_whole(service, trunk):
    branch, _ = train(service, "own", 40 * STEP, **{"from": "trunk/step0000010"}, seed=0, optimizer={"name": "adamw"},
                      schedule={"name": "constant", "peak": 0.01})
    assert branch["params"]["seed"] == 0
    assert (branch["params"]["optimizer"]["name"], branch["params"]["optimizer"]["beta2"]) == ("adamw", 0.95)
    assert branch["params"]["schedule"]["warmup"] == 0


def refused(service, step, **more):
    params = {"trajectory": "refused", "from": f"trunk/step00000{step}", **COMMON, **more}
    answer = service.post("/v1/runs", {"kind": "train", "params": params, "dry_run": True})
    assert answer.status == 422, answer.body
    (error,) = answer.json["errors"]
    return error["pointer"], error["detail"]


def accepted(service, step, **more):
    params = {"trajectory": "accepted", "from": f"trunk/step00000{step}", **COMMON, **more}
    answer = service.post("/v1/runs", {"kind": "train", "params": params, "dry_run": True})
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("schedule, pointer, most", [
    ({"name": "wsd", "decay": 31 * STEP}, "decay", 30 * STEP),
    ({"name": "wsd", "warmup": 12 * STEP}, "warmup", 10 * STEP),
    ({"name": "sgdr", "start": 9 * STEP, "period": 8 * STEP}, "start", 10 * STEP),
    ({"name": "oscillating", "period": 8 * STEP}, "start", 10 * STEP),
])
def test_a_schedule_that_bends_before_its_checkpoint_is_refused(service, trunk, schedule, pointer, most):
    """The length that the answer names is accepted."""
    schedule = {"peak": 0.01, **schedule}
    where, said = refused(service, 10, tokens=40 * STEP, schedule=schedule)
    assert where == f"/params/schedule/{pointer}" and f" {most} tokens" in said
    accepted(service, 10, tokens=40 * STEP, schedule={**schedule, pointer: most})


def test_a_decay_that_has_begun_is_not_prolonged(service, trunk):
    """The trunk's own schedule over more tokens is another one: its decay begins where the rate has fallen already."""
    where, said = refused(service, 20, tokens=32 * STEP)
    assert where == "/params/schedule" and f"with its {30 * STEP} tokens" in said


@pytest.mark.parametrize("step, schedule, pointer, jump", [
    (10, {"name": "linear", "peak": 0.01}, "/name", "from 0.01 to 0.0075"),
    (10, {"name": "cosine", "peak": 0.01}, "/name", "from 0.01 to 0.00853553"),
    (10, {"name": "constant"}, "", "from 0.01 to 0.003"),
    (20, {"name": "constant", "peak": 0.01}, "", "from 0.00733333 to 0.01"),
])
def test_a_branch_whose_rate_would_jump_is_refused_with_both_rates(service, trunk, step, schedule, pointer, jump):
    where, said = refused(service, step, tokens=40 * STEP, schedule=schedule)
    assert where == f"/params/schedule{pointer}" and f"would jump {jump}" in said


def test_the_rate_that_a_decay_has_reached_may_be_kept(service, trunk):
    accepted(service, 20, tokens=40 * STEP, schedule={"name": "constant", "peak": trunk[1][20]["learning_rate"]})


def test_a_step_to_another_peak_is_made_when_it_is_posted(service, trunk):
    """As step decays are; by default, or by a schedule that has left its peak there, no rate changes."""
    accepted(service, 10, tokens=40 * STEP, schedule={"name": "constant", "peak": 0.002})
    accepted(service, 20, tokens=40 * STEP, schedule={"name": "wsd", "peak": 0.02, "decay": 20 * STEP})
    where, said = refused(service, 10, tokens=40 * STEP, schedule={"name": "linear", "peak": 0.002})
    assert where == "/params/schedule/name" and "falls from step" in said


def post(service, dry=True, **params):
    return service.post("/v1/runs", {"kind": "train", "params": {**COMMON, **params}, "dry_run": dry})


@pytest.fixture(scope="module")
def bare(service, trunk):
    """Copies of a checkpoint that were registered without its step and have no trunk; one lacks the state."""
    for name in ("bare", "stateless"):
        shutil.copytree(trunk[1][20]["source"]["path"], service.files / name)
    (service.files / "stateless" / "training.state").unlink()
    for name in ("bare", "stateless"):
        service.checkpoint(service.files / name, "bare", name)


def test_where_the_step_is_not_known_the_state_tells_it(service, bare):
    params = {"trajectory": "found-out", "from": "bare/bare", "tokens": 40 * STEP}
    answer = post(service, **params, schedule={"name": "wsd", "decay": 21 * STEP})
    assert answer.status == 422 and "the decay begins at step 19" in answer.json["detail"], answer.body
    answer = post(service, **params, schedule={"name": "wsd", "decay": 20 * STEP})
    assert answer.status == 200 and answer.json["params"]["seed"] == 0, answer.body


@pytest.mark.parametrize("start, more, pointer, said", [
    ("bare/stateless", {}, "from", "no training state"),
    ("bare/bare", {"optimizer": {"name": "muon"}}, "optimizer", 'the state of optimizer "adamw", which "muon" cannot'),
    ("bare/bare", {"tokens": 20 * STEP}, "tokens", f"has seen {20 * STEP} tokens already"),
    ("bare/bare", {"sequence_length": 32}, "batch_sequences", "took 2 sequences of 16 tokens"),
    ("trunk/step0000020", {"tokens": 3 * STEP}, "tokens", f"has seen {20 * STEP} tokens already"),
    ("trunk/step0000020", {"optimizer": {"name": "soap"}}, "optimizer", 'the state of optimizer "adamw"'),
])
@pytest.mark.parametrize("dry", [True, False])
def test_a_state_that_a_branch_cannot_go_on_from_is_refused_at_once(service, bare, start, more, pointer, said, dry):
    """From the header of the state, which the request waits for, and not after the run has waited for a worker."""
    params = {"trajectory": "not-begun", "from": start, "tokens": 40 * STEP,
              "schedule": {"name": "wsd", "decay": 15 * STEP}}
    answer = post(service, dry, **{**params, **more})
    assert answer.status == 422 and answer.pointers == [f"/params/{pointer}"], answer.body
    assert said in answer.json["detail"], answer.body


# ---- which names are free -------------------------------------------------------------------------------------------

FRESH = {"model": MODEL, "tokenizer": {"name": "bytes"}, "tokens": 20 * STEP}


def taken(answer, name, run=None):
    assert answer.status == 409 and answer.pointers == ["/params/trajectory"], answer.body
    assert f'there is a checkpoint "{name}"' in answer.json["detail"], answer.body
    assert (f"of run {run} already" if run else '" already') in answer.json["detail"], answer.body
    return answer.json["detail"]


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("more", [
    {"tokens": 30 * STEP}, {"tokens": 7 * STEP, "checkpoint_every": 0}, {"tokens": 35 * STEP, "checkpoint_every": 0}])
def test_fresh_weights_need_a_trajectory_of_their_own(service, trunk, more, dry):
    """Under names that are there the run would fail at its end, under others two trainings would be one curve."""
    run = trunk[0]["id"]
    said = taken(post(service, dry, **{**FRESH, "trajectory": "trunk", **more}), "trunk/step0000010", run)
    assert "choose another" in said and '"from"' in said


def test_what_was_registered_by_hand_is_in_the_way_too(service, trunk, bare):
    taken(post(service, **FRESH, trajectory="bare"), "bare/bare")


def test_an_equal_request_gets_its_run_whatever_that_has_made(service, trunk):
    posted = {**FRESH, "trajectory": "equal"}
    first = service.run("train", **COMMON, **posted)
    assert first["state"] == "succeeded", first["error"]
    answer = post(service, False, **posted)
    assert answer.status == 200 and answer.json["id"] == first["id"], answer.body
    assert post(service, **posted).status == 200
    forced = service.post("/v1/runs", {"kind": "train", "params": {**COMMON, **posted}, "force": True})
    taken(forced, "equal/step0000010", first["id"])


def test_a_branch_may_write_into_a_trajectory_under_names_that_are_free(service, trunk):
    """As one that goes on where its trunk ended; where the trunk went on, it may not."""
    start = {"trajectory": "trunk", "from": "trunk/step0000020", "schedule": {"name": "constant", "peak": 0.002}}
    said = taken(post(service, **start, tokens=40 * STEP), "trunk/step0000030", trunk[0]["id"])
    assert '"from"' not in said
    assert post(service, **start, tokens=35 * STEP, checkpoint_every=0).status == 200
    ends = {**start, "from": "trunk/step0000030", "schedule": {"name": "constant", "peak": 1e-4}}
    assert post(service, **ends, tokens=50 * STEP).status == 200


def test_validation_losses_of_other_sequences_or_arithmetic_lie_on_other_curves(service, trunk):
    """Of branches in one trajectory as of several trajectories, so that correlations do not pool them either."""
    checked = {"validation": "branches", "ema": {"decay": 0.5}}
    fresh = {"model": MODEL, "tokenizer": {"name": "bytes"}, "schedule": {"name": "constant", "peak": 0.01}, **checked}
    train(service, "checked", 10 * STEP, **{**fresh, "checkpoint_every": 5 * STEP})
    start = {"from": "checked/step0000010", "checkpoint_every": 0}
    for steps, more in ((12, {}), (14, {"validation_sequences": 3}), (16, {"precision": "bf16"})):
        train(service, "checked", steps * STEP, **{**start, **checked, **more})
    train(service, "checked-longer", 10 * STEP, **{**fresh, "batch_sequences": 1, "sequence_length": 32})

    def series(*names):
        asked = "".join(f"&trajectory={name}" for name in names)
        found = service.get(f"/v1/curves?metric=validation_loss{asked}").json["series"]
        return {tuple(point["x"] for point in one["points"]): one["protocol_id"] for one in found}

    own = series("checked")
    assert set(own) == {(5, 10, 12), (14,), (16,)} and None not in own.values() and len(set(own.values())) == 3
    assert series("checked-ema") == own
    assert set(series("checked-longer").values()).isdisjoint(own.values())
    found = service.get("/v1/correlations?x=step&y=validation_loss&trajectory=checked&trajectory=checked-longer").json
    assert sorted(one["n"] for one in found["series"]) == [1, 1, 1, 3]


@pytest.mark.parametrize("optimizer, kept", [
    ("adamw", "f32"), ("sam", "f32"), ("soap", "f32"), ("schedule_free", "f32"), ("adamw", "bf16")])
def test_where_training_measures_its_losses(service, trunk, optimizer, kept):
    """As measures.md says: those of batches before the update, of schedule_free elsewhere than at checkpoints; those on
    validation data of the weights that are trained, before they are rounded to be stored. Every batch is the text."""
    (service.files / "once.txt").write_text("again and again!")
    service.post("/v1/datasets", {"name": "once", "path": "once.txt", "format": "text"})
    name = f"losses-{optimizer}-{kept}"
    run, made = train(service, name, 64, model=MODEL, tokenizer={"name": "bytes"}, dataset="once", validation="once",
                      batch_sequences=1, checkpoint_every=16, optimizer={"name": optimizer}, dtype=kept,
                      schedule={"name": "constant", "peak": 0.01})
    curve = service.get(f"/v1/runs/{run['id']}/artifacts/training.csv").body.decode().splitlines()[1:]
    trained = [float(line.split(",")[3]) for line in curve]
    points = service.get(f"/v1/curves?trajectory={name}&metric=validation_loss").json["series"][0]["points"]
    apart = trained[-1] - points[-2]["y"]
    assert abs(apart) < 1e-6 if optimizer != "schedule_free" else abs(apart) > 1e-4
    stored = service.run("evaluate", checkpoint=made[4]["id"], dataset="once", sequence_length=16)["result"]["loss"]
    assert (stored == pytest.approx(points[-1]["y"], rel=1e-6)) == (kept == "f32")


def test_averages_are_in_the_way_of_averages(service, trunk):
    posted = {**FRESH, "trajectory": "averaged", "ema": {"decay": 0.9}}
    assert post(service, **posted).status == 200
    service.checkpoint(trunk[1][20]["source"]["path"], "averaged-ema", "by-hand")
    taken(post(service, **posted), "averaged-ema/by-hand")
    assert post(service, **{**posted, "ema": None}).status == 200


def test_a_run_that_has_not_ended_holds_its_names(service, trunk):
    service.gate.hold("train", 3, "step", lease="*")
    run = post(service, False, **FRESH, trajectory="held").json["id"]
    service.held(run)
    answer = post(service, **{**FRESH, "trajectory": "held", "tokens": 7 * STEP, "checkpoint_every": 0})
    assert answer.status == 409 and answer.pointers == ["/params/trajectory"], answer.body
    assert f'run {run}, which has not ended, is to train in the trajectory "held" too' in answer.json["detail"]
    branch = {"trajectory": "held", "from": "trunk/step0000010", "schedule": {"name": "constant", "peak": 0.01}}
    answer = post(service, **branch, tokens=40 * STEP)
    assert answer.status == 409 and 'make a checkpoint "held/step0000020" too' in answer.json["detail"], answer.body
    assert post(service, **branch, tokens=40 * STEP, checkpoint_every=0).status == 200
    service.gate.open()
    assert service.wait(run)["state"] == "succeeded"


def test_of_runs_posted_at_the_same_time_one_gets_the_names(service, trunk):
    """Each looks for others in the transaction that writes it, and one transaction at a time does."""
    service.gate.hold("train", 3, "step", lease="*")
    for i in range(8):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            into = functools.partial(post, service, False, **FRESH, trajectory=f"at-once-{i}")
            answers = list(pool.map(lambda seed: into(seed=seed), range(6)))
        made = [answer.json["id"] for answer in answers if answer.status == 202]
        assert sorted(answer.status for answer in answers) == [202] + [409] * 5, (i, made)
        refused = [answer.json["detail"] for answer in answers if answer.status == 409]
        assert all(f"run {made[0]}, which has not ended" in detail for detail in refused), refused
        assert service.post(f"/v1/runs/{made[0]}/cancel").status == 202
    service.gate.open()


def test_of_equal_runs_posted_at_the_same_time_all_get_the_first(service, trunk):
    """All have come to the lock on names when the first is written."""
    service.gate.hold("train", 3, "step", lease="*")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        with held(service.data, "select pg_advisory_xact_lock(1986096754, 0)"):
            answers = [pool.submit(post, service, False, **FRESH, trajectory="together") for _ in range(3)]
            waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            until(lambda: psql(service.data, waiting) == "3\n")
        answers = [answer.result() for answer in answers]
    assert sorted(answer.status for answer in answers) == [200, 200, 202], [answer.body for answer in answers]
    assert len({answer.json["id"] for answer in answers}) == 1
    service.gate.open()
    assert service.wait(answers[0].json["id"])["state"] == "succeeded"


def cancelled(service, step, **params):
    """A run that was cancelled at that step; the gate stays closed."""
    service.gate.hold("train", step, "step", lease="*")
    run = post(service, False, **FRESH, **params).json["id"]
    service.held(run)
    service.post(f"/v1/runs/{run}/cancel")
    assert service.wait(run)["state"] == "cancelled"
    return run


def test_a_run_that_appears_while_an_equal_one_is_checked_answers_it(service, trunk):
    """It was cancelled when an equal one was looked for, and waits when the names are."""
    run = cancelled(service, 3, trajectory="appearing")
    appears = ("update runs set state = 'queued', finished_at = null, cancel_requested_at = null"
               f" where id = '{run}'")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with held(service.data, f"lock table checkpoints in access exclusive mode; {appears}", "commit"):
            answer = pool.submit(post, service, True, **FRESH, trajectory="appearing")
            until(lambda: "f" in psql(service.data, "select granted from pg_locks where not granted"))
        assert answer.result().status == 200, answer.result().body
    service.gate.open()
    assert service.wait(run)["state"] == "succeeded"


def test_a_worker_looks_again_before_it_trains(service, trunk):
    """At what came into the trajectory while the run waited; what the run itself made is not in its way."""
    first = cancelled(service, 3, trajectory="meanwhile", seed=1)
    service.gate.open()
    service.checkpoint(trunk[1][20]["source"]["path"], "meanwhile", "by-hand")
    service.post(f"/v1/runs/{first}/retry")
    run = service.wait(first)
    assert run["state"] == "failed" and run["error"]["status"] == 409, run
    assert 'there is a checkpoint "meanwhile/by-hand"' in run["error"]["detail"]
    assert run["progress"]["unit"] != "step" or run["progress"]["done"] <= 3, run["progress"]


def test_a_run_that_is_tried_again_finds_its_own_checkpoints(service, trunk):
    run = cancelled(service, 15, trajectory="again")
    service.gate.open()
    assert len(service.get("/v1/checkpoints?trajectory=again").json["items"]) == 1
    taken(post(service, **FRESH, trajectory="again"), "again/step0000010", run)
    service.post(f"/v1/runs/{run}/retry")
    assert service.wait(run)["state"] == "succeeded"


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("grid, where, said", [
    ({"seed": [0, 1]}, "/base/trajectory", 'make a checkpoint "swept/step0000010"'),
    ({"schedule.peak": [0.01, 0.02], "trajectory": ["swept"]}, "/grid/trajectory", "make a checkpoint"),
    ({"tokens": [7 * STEP, 12 * STEP], "checkpoint_every": [0]}, "/base/trajectory", 'train in the trajectory "swept"'),
])
def test_runs_of_a_sweep_do_not_write_over_each_other(service, trunk, grid, where, said, dry):
    base = {**COMMON, **FRESH, "trajectory": "swept", "schedule": {"name": "constant"}}
    base = {key: value for key, value in base.items() if key not in grid}
    answer = service.post("/v1/sweeps", {"kind": "train", "base": base, "grid": grid, "dry_run": dry})
    assert answer.status == 409 and answer.pointers == [where], answer.body
    assert "runs 1 and 2 of the product would both " in answer.json["detail"] and said in answer.json["detail"]


def test_branches_of_a_sweep_may_share_a_trajectory(service, trunk):
    """Those of unlike lengths, one checkpoint each."""
    body = {"kind": "train", "dry_run": True, "grid": {"tokens": [32 * STEP, 36 * STEP]}, "base": {
        **COMMON, "trajectory": "shared", "from": "trunk/step0000010", "checkpoint_every": 0,
        "schedule": {"name": "constant", "peak": 0.01}}}
    answer = service.post("/v1/sweeps", body)
    assert answer.status == 200, answer.body
    body["base"]["checkpoint_every"] = 4 * STEP
    answer = service.post("/v1/sweeps", body)
    assert answer.status == 409 and 'checkpoint "shared/step0000012"' in answer.json["detail"], answer.body
    assert service.post("/v1/sweeps", {**body, "grid": {"trajectory": ["trunk"], "tokens": [40 * STEP]}}).pointers == [
        "/grid/trajectory"]


def test_a_tokenizer_is_learned_from_text_alone(service, trunk):
    service.sequences("tokens-alone", [[1, 2, 3, 4] * 8] * 4)
    params = {**COMMON, "trajectory": "learned", "tokens": STEP, "model": {**MODEL, "vocab_size": 300},
              "tokenizer": {"name": "train", "vocabulary_size": 300}}
    for key, status, pointers in (("dataset", 422, ["/params/tokenizer"]), ("validation", 200, None)):
        request = {"dry_run": True, "kind": "train", "params": {**params, key: "tokens-alone"}}
        answer = service.post("/v1/runs", request)
        assert answer.status == status and (status == 200 or answer.pointers == pointers), answer.body


@pytest.mark.parametrize(("key", "value", "status", "said"), [
    ("num_key_value_head", 1, 422, '"num_key_value_heads"?'), ("colour", "blue", 422, "leave it out"),
    ("attention_dropout", 0.1, 422, "no dropout"), ("attention_dropout", 0.0, 200, None),
    ("torch_dtype", "x", 200, None),
])
def test_a_key_of_a_model_is_read_or_refused(service, trunk, key, value, status, said):
    answer = service.post("/v1/runs", {"dry_run": True, "kind": "train", "params": {
        **COMMON, "trajectory": "keys", "tokens": 30 * STEP, "model": {**MODEL, key: value},
        "tokenizer": {"name": "bytes"}, "schedule": SCHEDULE}})
    assert answer.status == status, answer.body
    if said:
        assert answer.pointers == [f"/params/model/{key}"] and said in answer.json["detail"], answer.body


@pytest.mark.parametrize(("key", "kind"), [("initializer_range", "llama"), ("init_std", "opt")])
def test_fresh_weights_have_no_negative_spread(service, trunk, key, kind):
    opt = {"model_type": "opt", "ffn_dim": 24, "word_embed_proj_dim": 8, "activation_function": "relu"}
    for value, status in ((-0.02, 422), (0.0, 200)):
        model = {**MODEL, **(opt if kind == "opt" else {}), key: value}
        answer = service.post("/v1/runs", {"dry_run": True, "kind": "train", "params": {
            **COMMON, "trajectory": "spread", "tokens": 30 * STEP, "model": model, "tokenizer": {"name": "bytes"}}})
        assert answer.status == status, answer.body
        assert status == 200 or (answer.pointers == ["/params/model"] and "-0.02" in answer.json["detail"])
