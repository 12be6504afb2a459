"""A client that openapi-python-client, which others wrote, makes of openapi.yaml: made without a warning, with every
operation, and used as a person would use it, with types for bodies and results in place of raw documents."""

import datetime
import importlib
import json
import subprocess
import sys

import attrs
import models
import pytest
from contract import OPENAPI, ROOT

PACKAGE = "deltaq_client"
SEQUENCES = models.rows(8, 24)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The client's package, importable; code in it is not formatted, which takes longer than making it."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "config.yaml").write_text("post_hooks: []\n")
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", ROOT / "openapi.yaml", "--meta", "none",
         "--output-path", folder / PACKAGE, "--config", folder / "config.yaml", "--fail-on-warning"],
        capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0 and "arning" not in done.stdout + done.stderr, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield importlib.import_module(PACKAGE)
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def types(package):
    return importlib.import_module(f"{PACKAGE}.models")


@pytest.fixture(scope="module")
def own(serving, tmp_path_factory):
    """A server of its own, for a token is made: then all need one."""
    with serving(tmp_path_factory.mktemp("deltaq")) as service:
        yield service


@pytest.fixture(scope="module")
def client(package, types, own):
    """Whoever has no token yet makes one; then a client has it."""
    nobody = package.Client(base_url=own.url)
    body = types.TokenBody(scope=types.TokenBodyScope.ADMIN, name="generated")
    made = operation("system.create_token").sync(client=nobody, body=body)
    assert made.scope == types.TokenScope.ADMIN
    refused = operation("runs.list_runs").sync_detailed(client=nobody)
    assert refused.status_code == 401 and isinstance(refused.parsed, types.Problem) and refused.parsed.status == 401
    own.token = made.token
    with package.AuthenticatedClient(base_url=own.url, token=made.token, timeout=90) as client:
        yield client


def operation(name):
    return importlib.import_module(f"{PACKAGE}.api.{name}")


def operations():
    """operationId → the module that the generator should make of it."""
    for path in OPENAPI["paths"].values():
        for method in path.keys() - {"parameters"}:
            name = path[method]["operationId"]
            snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
            yield name, f"{path[method]['tags'][0]}.{snake}"


def alike(sent, read):
    """Whether two documents say the same; times may be written in two ways."""
    if isinstance(sent, dict) and isinstance(read, dict):
        return sent.keys() == read.keys() and all(alike(sent[key], read[key]) for key in sent)
    if isinstance(sent, list) and isinstance(read, list):
        return len(sent) == len(read) and all(map(alike, sent, read))
    try:
        return sent == read or datetime.datetime.fromisoformat(sent) == datetime.datetime.fromisoformat(read)
    except (TypeError, ValueError):
        return False


def untyped(value, place="answer"):
    """Fields of an answer that are in no schema: the types hold them as plain documents."""
    if isinstance(value, list):
        return [found for item in value for found in untyped(item, place)]
    if not attrs.has(type(value)):
        return []
    found = []
    for field in attrs.fields(type(value)):
        if field.name != "additional_properties":
            found += untyped(getattr(value, field.name), f"{place}.{field.name}")
        elif field.type == "dict[str, Any]" and len(attrs.fields(type(value))) > 1:  # neither typed nor a free object
            found += [f"{place}.{name}" for name in value.additional_properties]
    return found


def asked(client, name, kind, *arguments, **named):
    """The answer, of the type `kind`, with all that the server sent."""
    answer = operation(name).sync_detailed(*arguments, client=client, **named)
    assert answer.status_code < 300 and type(answer.parsed) is kind, answer
    assert alike(json.loads(answer.content), answer.parsed.to_dict()) and untyped(answer.parsed, name) == []
    return answer.parsed


def finished(client, types, request):
    run = asked(client, "runs.create_run", types.Run, body=request)
    for _ in range(20):
        if run.state not in (types.RunState.QUEUED, types.RunState.RUNNING):
            break
        run = asked(client, "runs.get_run", types.Run, run.id, wait=30)
    assert run.state == types.RunState.SUCCEEDED and run.error is None, run
    return run


@pytest.fixture(scope="module")
def trajectory(client, types, own):
    """Two checkpoints of a trajectory, and sequences to measure them on."""
    found = []
    for step in (1000, 2000):
        path = models.write_llama(own.files / f"step{step}", step)
        body = types.CheckpointBody(trajectory="generated", name=path.name, step=step,
                                    source=types.WeightsSource(path=str(path)))
        made = asked(client, "checkpoints.create_checkpoint", types.Checkpoint, body=body)
        assert (made.step, made.source.path) == (step, str(path))
        found.append(made)
    data = asked(client, "datasets.create_dataset", types.Dataset,
                 body=types.DatasetBody(name="tokens", sequences=SEQUENCES))
    assert data.name == "tokens"
    changed = asked(client, "checkpoints.change_trajectory", types.Trajectory, "generated",
                    body=types.TrajectoryPatch(notes="By a generated client."))
    assert (changed.name, changed.notes) == ("generated", "By a generated client.")
    return found


@pytest.fixture(scope="module")
def quantized(client, types, trajectory):
    """The finished run of each checkpoint."""
    method = types.MethodRtn(name="rtn", bits=types.Bits.VALUE_3, group_size=16)
    return [finished(client, types, types.QuantizeRequest(kind="quantize", params=types.QuantizeParams(
        checkpoint=checkpoint.id, method=method, evaluation=types.Evaluation(dataset="tokens")))) for
        checkpoint in trajectory]


def test_every_operation_is_there(package):
    """A generator leaves out what it does not understand."""
    names = dict(operations())
    assert len(names) > 50
    for module in names.values():
        assert callable(operation(module).sync_detailed), module


def test_quantize_and_read_the_curve(client, types, trajectory, quantized):
    for run in quantized:
        assert type(run.result) is types.QuantizeResult
        assert run.result.delta == pytest.approx(run.result.loss_q / run.result.loss_fp - 1, rel=1e-6)
        assert run.result.interval_method.value == "student"  # eight sequences
        low, high = run.result.delta_interval
        assert low < run.result.delta < high
    curve = asked(client, "curves.get_curves", types.Curve, trajectory=["generated"], metric=types.Metric.DELTA)
    [series] = curve.series
    assert (series.method, series.bits, series.dataset) == ("rtn", 3, "tokens")
    assert [(point.checkpoint, point.step, point.run, point.y) for point in series.points] == [
        (checkpoint.id, checkpoint.step, run.id, run.result.delta) for checkpoint, run in zip(trajectory, quantized)]


def test_results_have_the_types_of_their_kinds(client, types, trajectory):
    """The client tries the types of an answer one after the other, and takes the first that fits."""
    one, two = (checkpoint.id for checkpoint in trajectory)
    data = types.Evaluation(dataset="tokens")
    requests = {
        "evaluate": types.EvaluateParams(checkpoint=one, dataset="tokens"),
        "sharpness": types.SharpnessParams(checkpoint=one, dataset="tokens", max_iterations=8, probes=2),
        "interpolate": types.InterpolateParams(from_=one, to=two, points=3, dataset="tokens"),
        "health": types.HealthParams(checkpoint=two),
    }
    for kind, params in requests.items():
        request = getattr(types, f"{kind.title()}Request")(kind=kind, params=params)
        assert type(finished(client, types, request).result) is getattr(types, f"{kind.title()}Result")
    method = types.MethodNf4(name="nf4")
    forecast = asked(client, "runs.create_run", types.RunForecast, body=types.QuantizeRequest(
        kind="quantize", dry_run=True, params=types.QuantizeParams(checkpoint=one, method=method, evaluation=data)))
    assert forecast.kind == "quantize"


def test_faults_have_a_type(client, types, trajectory):
    method = types.MethodRtn(name="rtn", group_size=-5)
    answer = operation("runs.create_run").sync_detailed(client=client, body=types.QuantizeRequest(
        kind="quantize", params=types.QuantizeParams(checkpoint=trajectory[0].id, method=method,
                                                     evaluation=types.Evaluation(dataset="tokens"))))
    assert answer.status_code == 422 and type(answer.parsed) is types.Problem
    assert [fault.pointer for fault in answer.parsed.errors] == ["/params/method/group_size"]


def test_lists_have_types(client, types, quantized):
    for name, kind, least in [
        ("checkpoints.list_trajectories", types.TrajectoryPage, 1),
        ("checkpoints.list_checkpoints", types.CheckpointPage, 2),
        ("datasets.list_datasets", types.DatasetPage, 1),
        ("runs.list_runs", types.RunPage, 2),
        ("runs.list_recipes", types.ListRecipesResponse200, 1),
        ("checkpoints.list_schedules", types.ListSchedulesResponse200, 1),
        ("curves.list_measurements", types.ListMeasurementsResponse200, 2),
        ("curves.describe_metrics", types.DescribeMetricsResponse200, 1),
        ("system.list_workers", types.WorkerPage, 1),
        ("system.list_tokens", types.TokenPage, 1),
    ]:
        assert len(asked(client, name, kind).items) >= least, name
    tensors = asked(client, "checkpoints.list_tensors", types.TensorPage, quantized[0].params["checkpoint"])
    assert "lm_head.weight" in [tensor.name for tensor in tensors.items]
    assert asked(client, "system.get_ready", types.Ready).status == "ready"


def test_answers_that_are_not_json(client, types, quantized):
    """Bytes are a file, a stream of events that ends is text."""
    run = quantized[0]
    artifacts = asked(client, "runs.list_artifacts", types.ArtifactPage, run.id)
    [losses] = [artifact for artifact in artifacts.items if artifact.name == "losses.csv"]
    content = operation("runs.get_artifact").sync(run.id, losses.name, client=client).payload.read()
    assert len(content) == losses.bytes_ and content.startswith(b"sequence,")
    told = operation("runs.stream_run").sync(run.id, client=client)
    assert isinstance(told, str) and "event: state\n" in told and '"to":"succeeded"' in told
    changes = operation("changes.stream_events").sync(client=client, after="0", follow=False,
                                                      kind=[types.ChangeKind.CHECKPOINT])
    assert isinstance(changes, str) and changes.count("event: checkpoint\n") >= 2
    assert "deltaq_" in operation("system.get_metrics").sync(client=client)
