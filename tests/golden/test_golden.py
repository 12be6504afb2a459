"""Numbers of the engine cannot drift unseen: results are held, bit for bit, to those that were recorded (golden.py)."""

import copy
import math
import platform

import golden
import pytest
import runs
from contract import OPENAPI
from service import BINARY

KINDS, REST = golden.read_recorded()

# Losses of models that were trained for 8 steps. On a machine for which no bits are recorded they must agree with the
# portable ones within 64 u, u = 2^-24. A loss is a mean, in double, of some 1000 terms made of float logits with errors
# of a few u; 8 steps of training add some u. The largest difference between levels, compilers and OpenBLAS was 1.3 u.
# Models trained for 192 steps cannot be compared this way: training grows a difference of 1 u to 0.5 % of the loss.
STEADY = [f"{kind} {run}" for kind in ("train", "sharpness") for run in ("gpt-neox", "olmoe", "apertus", "mamba2")]
TOLERANCE = 64 * 2.0**-24


@pytest.fixture(scope="module", autouse=True)
def built():
    if not BINARY.exists():
        pytest.skip("build/deltaq is not built")


@pytest.fixture(scope="module")
def portable():
    if platform.machine() != "x86_64":
        pytest.skip("recorded on x86-64, whose bits other processors need not have; `installed` holds losses to them")
    return golden.measure("portable")


def hold(changed, missing, where):
    assert not changed, golden.advice(changed, where)
    assert not missing, "\n".join([*missing, golden.UNRECORDED])


def assert_near(found):
    for run in STEADY:
        kind, name = run.split()
        if run in found:
            wanted = golden.brief_of(KINDS[kind][name]["numbers"])["number"]
            assert found[run]["number"] == pytest.approx(wanted, rel=TOLERANCE), run


def test_every_kind_of_run_has_golden_numbers():
    every = {
        name.removesuffix("Params").lower() for name in OPENAPI["components"]["schemas"] if name.endswith("Params")
    }
    made = {kind for kind, _, _ in runs.RUNS}
    assert made | runs.WITHOUT_NUMBERS == every, "give the new kind a run in tests/golden/runs.py"
    assert set(KINDS) - {"shared"} == made, golden.UNRECORDED


def choices_of(schema):
    """The values of "name" that a request may have there."""
    return set(OPENAPI["components"]["schemas"][schema]["discriminator"]["mapping"])


def test_every_quantizer_has_golden_numbers():
    made = {params["method"]["name"] for kind, _, params in runs.RUNS if kind == "quantize"}
    assert made == choices_of("MethodNamed"), (
        "give the new quantizer a run in tests/golden/runs.py, and record it: tests/golden/golden.py --write portable"
    )


@pytest.mark.parametrize("field", ["optimizer", "schedule"])
def test_every_way_to_train_has_golden_numbers(field):
    made = {params[field]["name"] for kind, _, params in runs.RUNS if kind == "train"}
    assert made == choices_of(field.title()), (
        f"give the new {field} a run in tests/golden/runs.py, and record it: tests/golden/golden.py --write portable"
    )


def test_every_estimator_of_sharpness_has_golden_numbers():
    every = set(OPENAPI["components"]["schemas"]["SharpnessParams"]["properties"]["estimators"]["items"]["enum"])
    usual = set(OPENAPI["components"]["schemas"]["SharpnessParams"]["properties"]["estimators"]["default"])
    made = {name for kind, _, params in runs.RUNS if kind == "sharpness" for name in params.get("estimators", usual)}
    assert made == every, (
        "give the new estimator a run in tests/golden/runs.py, and record it: tests/golden/golden.py --write portable"
    )


def test_the_changelog_names_the_revision_of_the_numbers():
    assert REST["engine_revision"] == golden.REVISION, (
        f"the golden numbers are of ENGINE_REVISION {REST['engine_revision']}, the engine's is {golden.REVISION}: "
        + golden.UNRECORDED
    )
    assert golden.named_in_changelog(
        golden.REVISION
    ), f'CHANGELOG.md has no line "- numbers: revision {golden.REVISION}: ..."'


def test_portable_numbers_are_those_recorded(portable):
    hold(
        *golden.differences(KINDS, {kind: all_of for kind, all_of in portable.items() if kind != "shared"}), "portable"
    )


def test_numbers_of_a_language_model_are_those_recorded(portable):
    if "shared" not in portable:
        pytest.skip(f"no {golden.SHARED}: the golden runs of stories260K were not made")
    hold(*golden.differences(KINDS, {"shared": portable["shared"]}), "stories260K")


@pytest.mark.parametrize("name", ["v3", "v4", "installed"])
def test_faster_configurations(name):
    key = golden.key_of(name)
    if key is None:
        pytest.skip(f"this processor has no x86-64-{name}")
    found = golden.briefs(golden.measure(name))
    assert_near(found)
    if key not in REST["configurations"]:
        pytest.skip(f"no bits are recorded for: {key}; losses agree with the portable ones within {TOLERANCE:.1e}")
    hold(*golden.brief_differences(REST["configurations"][key], found), name)


def test_recorded_configurations_agree_within_the_tolerance():
    assert REST["configurations"]
    for found in REST["configurations"].values():
        assert_near(found)


# --- The check itself ------------------------------------------------------------------------------------------------


def changed_in(kind, run, path, value):
    found = copy.deepcopy(KINDS)
    found[kind][run]["numbers"][path] = value
    return golden.differences(KINDS, found)


def test_one_bit_of_one_number_is_seen():
    before = KINDS["quantize"]["gptq"]["numbers"]["loss_q"]
    after = math.nextafter(before, math.inf)
    changed, missing = changed_in("quantize", "gptq", "loss_q", after)
    assert missing == [] and changed == [
        f"quantize gptq: loss_q was {before}, is {after} ({(after - before) / before:.1e} of it)"
    ]
    said = golden.advice(changed, "portable", revision=7)
    assert (
        "raise ENGINE_REVISION in engine/base/version.h to 8" in said
        and "- numbers: revision 8: ..." in said
        and "--write" in said
    )


def test_what_to_do_about_a_new_number_is_told():
    """It changes the checksums of briefs, which do not say what else changed."""
    before = golden.brief_of({"loss_q": 1.0})
    after = golden.brief_of({"loss_q": 1.0, "another": 2})
    changed, _ = golden.brief_differences({"quantize a": before}, {"quantize a": after})
    assert golden.NEW_NUMBER in golden.advice(changed, "v3")
    after = golden.brief_of({"loss_q": 1.5})
    changed, _ = golden.brief_differences({"quantize a": before}, {"quantize a": after})
    assert len(changed) == 1 and golden.NEW_NUMBER not in golden.advice(changed, "v3")


def test_one_bit_inside_a_list_is_seen():
    losses = [1.0 + k for k in range(9)]
    other = [*losses[:4], math.nextafter(losses[4], 0), *losses[5:]]
    assert golden.numbers_of({"losses": losses}) != golden.numbers_of({"losses": other})
    assert golden.numbers_of({"layers": [{"error": x, "name": "a"} for x in losses]}) != golden.numbers_of(
        {"layers": [{"error": x, "name": "a"} for x in other]}
    )


def test_a_number_that_is_gone_is_a_change_and_a_new_one_is_not():
    changed, missing = golden.differences(
        {"evaluate": {"a": {"request": 1, "numbers": {"loss": 1.0, "kl": 2.0}}}},
        {"evaluate": {"a": {"request": 1, "numbers": {"loss": 1.0, "bits": 4}}}},
    )
    assert changed == ["evaluate a: kl is gone"] and missing == ["evaluate a: bits is not recorded"]
    changed, missing = golden.differences({}, {"evaluate": {"a": {"request": 2, "numbers": {"loss": 2.0}}}})
    assert (changed, missing) == ([], ["evaluate a: this request is not recorded"])


def test_the_changelog_is_read_by_lines():
    text = "# Changelog\n\n## Unreleased\n- numbers: revision 3: another epsilon.\n- numbers: revision 4:\n"
    assert golden.named_in_changelog(3, text)
    assert not golden.named_in_changelog(4, text), "a line that says nothing is not enough"
    assert not golden.named_in_changelog(2, text)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Records of one run in a temporary directory, with a changelog that names the given revisions."""
    said = {"loss": 1.0, "revisions": {5}}
    monkeypatch.setattr(golden, "NUMBERS", tmp_path)
    monkeypatch.setattr(golden, "CONFIGURATIONS", tmp_path / "configurations.json")
    monkeypatch.setattr(golden, "REVISION", 5)
    monkeypatch.setattr(golden, "key_of", lambda name: f"key of {name}")
    monkeypatch.setattr(golden, "named_in_changelog", lambda revision: revision in said["revisions"])
    monkeypatch.setattr(
        golden,
        "measure",
        lambda name, threads=None: {"evaluate": {"a": {"request": 1, "numbers": {"loss": said["loss"]}}}},
    )
    assert golden.record(list(golden.ENVIRONMENTS)) is None
    return said


def test_changed_numbers_are_recorded_only_with_a_new_revision_that_the_changelog_names(recorded, monkeypatch):
    assert golden.record(["portable"]) is None, "the same numbers may be recorded again"
    recorded["loss"] = math.nextafter(1.0, 2.0)
    assert "raise ENGINE_REVISION" in golden.record(["portable"]) and "raise ENGINE_REVISION" in golden.record(
        ["installed"]
    )
    assert golden.read_recorded()[0]["evaluate"]["a"]["numbers"] == {"loss": 1.0}
    monkeypatch.setattr(golden, "REVISION", 6)
    assert "CHANGELOG.md has no line" in golden.record(["portable"])
    recorded["revisions"].add(6)
    assert golden.record(["portable"]) is None
    kinds, rest = golden.read_recorded()
    assert kinds["evaluate"]["a"]["numbers"] == {"loss": recorded["loss"]} and rest["engine_revision"] == 6
    assert all(
        one["evaluate a"]["number"] == recorded["loss"] for one in rest["configurations"].values()
    ), "nothing of revision 5 is kept"
    monkeypatch.setattr(golden, "REVISION", 5)
    assert "revisions only grow" in golden.record(["portable"])
