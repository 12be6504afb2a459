"""The page of tasks: ΔQL stands beside an accuracy only of a quantizer that is named,
and that the reader can choose."""

import pytest
from looks import check_looks
from stand_in import PLOTLY, Handler
from stand_in_tasks import flips

DRAWN = "Boolean(document.querySelector('#accuracy-plot .main-svg') && document.querySelector('#accuracy-plot').data)"


@pytest.fixture
def answered(world, monkeypatch):
    """Every checkpoint of `constant` was asked without quantization."""
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")
    answer = flips(world, "constant")
    monkeypatch.setattr(Handler, "get_flips", lambda handler, parts, fields: answer, raising=False)
    return answer


def test_no_quantizer_is_made_up_and_one_can_be_chosen(world, answered, visit):
    page = visit("#/flips?trajectory=constant", ready=DRAWN)
    names = "document.querySelector('#accuracy-plot').data.map(trace => trace.name)"
    assert page.run(names) == ["full precision", "quantized"]
    rows = page.run("[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert len(rows[0]) == 6 and rows[0][4:] == ["–", "–"]
    choice = "document.querySelector('[aria-label=\"ΔQL of\"]')"
    assert page.run(f"[...{choice}.options].map(option => option.text)") == [
        "none", "gptq 4-bit g128", "gptq 3-bit g128"]
    page.run(f"(select => {{ select.value = 'gptq 3-bit g128'; "
             f"select.dispatchEvent(new Event('change')); }})({choice})")
    page.wait(f"{DRAWN} && {names}.includes('ΔQL of gptq 3-bit g128')")
    curve = next(series for series in world.curves(["constant"], "delta", "step")["series"] if series["bits"] == 3)
    assert page.run("[...document.querySelector('#accuracy-plot').data[2].y]") == pytest.approx(
        [100 * point["y"] for point in curve["points"]])
    assert "delta=gptq+3-bit+g128" in page.run("location.hash")
    assert page.run("document.querySelector('#accuracy-plot').layout.xaxis.ticktext").count("1,953") == 1


def test_the_tasks_quantizer_has_the_delta_of_its_own_calibration(world, answered, visit):
    curve = next(series for series in world.curves(["constant"], "delta", "step")["series"] if series["bits"] == 3)
    names = "document.querySelector('#accuracy-plot').data.map(trace => trace.name)"
    answered["series"].update(label=curve["method_label"], calibration_id=None)
    page = visit("#/flips?trajectory=constant&label=gptq+3-bit+g128", ready=DRAWN)
    assert page.run(names)[2:] == ["ΔQL of gptq 3-bit g128"]
    bars = page.run("document.querySelector('#accuracy-plot').data[2].error_y")
    point = curve["points"][0]
    assert bars["array"][0] == pytest.approx(100 * (point["high"] - point["y"]))
    answered["series"].update(calibration_id="another")
    page = visit("#/flips?trajectory=constant&label=gptq+3-bit+g128", ready=DRAWN)
    assert page.run(names)[2:] == []


def choose(page, name, value):
    page.run(f"(select => {{ select.value = '{value}'; select.dispatchEvent(new Event('change')); }})"
             f"(document.querySelector('[aria-label=\"{name}\"]'))")


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(world, answered, visit):
    page = visit("#/flips?trajectory=constant", ready=DRAWN)
    page.hold("trajectory=decay-1M")
    choose(page, "Trajectory", "decay-1M")
    choose(page, "Trajectory", "decay-3M")
    page.wait("location.hash.includes('decay-3M')")
    page.release(4)  # its quantizers, its tasks, its ΔQL, its answers
    assert "trajectory=decay-3M" in page.run("location.hash")
    assert page.run("document.querySelector('[aria-label=Trajectory]').value") == "decay-3M"


def test_a_view_of_tasks_stands_in_its_address(world, answered, visit):
    page = visit("#/flips?trajectory=constant&zoomx=500%2C1500&answers=-Accuracy", ready=DRAWN)
    span = "[...document.querySelector('#accuracy-plot')._fullLayout.xaxis.range]"
    first = "document.querySelector('main tbody tr').innerText"
    assert page.run(span) == [500, 1500] and "step-1953" in page.run(first)
    page.run("void Plotly.relayout('accuracy-plot', {'xaxis.range': [600, 1200]})")
    page.wait("location.hash.includes('zoomx=600%2C1200')")
    page.run("[...document.querySelectorAll('main .sort')].find(one => one.innerText.startsWith('Checkpoint')).click()")
    choose(page, "ΔQL of", "gptq 3-bit g128")
    page.wait("location.hash.includes('delta=gptq')")
    kept = page.run("location.hash")
    assert "answers=Checkpoint" in kept and "zoomx=600%2C1200" in kept
    page.call("Page.reload")
    page.wait(DRAWN)
    assert page.run(span) == [600, 1200] and "step-244" in page.run(first)
    choose(page, "Trajectory", "decay-1M")
    page.wait("location.hash.includes('decay-1M')")
    assert "zoomx" not in page.run("location.hash")


def test_accuracies_have_the_intervals_of_their_runs(world, answered, visit):
    """Of the chosen task those of `accuracy`, else those of the mean where it is the share that is shown."""
    own = [item for item in world.checkpoints if item["trajectory"] == "constant"]
    for place, (at, asked) in enumerate(zip(own, answered["checkpoints"])):
        asked.update(right_q=30 + place, up=0, down=10)
        for label, right in (("", 40 + place), ("rtn 4-bit", 30 + place)):
            run = world.add_run("tasks", {"checkpoint": at["id"]}, "succeeded")["id"]
            world.datasets[run] = "arc_easy 0-shot"
            world.points.append(("accuracy", at, None, 4 if label else None, label, right / 100, right / 100 - 0.09,
                                 right / 100 + 0.1, run))
            mean = world.add_run("tasks", {"checkpoint": at["id"]}, "succeeded")["id"]
            world.datasets[mean] = "0-shot"
            world.protocols[run] = world.protocols[mean] = answered["series"]["protocol_id"]
            world.points.append(("mean_accuracy", at, None, 4 if label else None, label, right / 100 + 0.05,
                                 right / 100 - 0.04, right / 100 + 0.15, mean))
    cells = ("[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells]"
             ".map(cell => cell.innerText.trim().replace('\\n', ' ')))")
    page = visit("#/flips?trajectory=constant&task=arc_easy", ready=DRAWN)
    assert page.run(cells)[0][2:4] == ["40.0 % 31.0 to 50.0 %", "30.0 % 21.0 to 40.0 %"]
    full = page.run("document.querySelector('#accuracy-plot').data[0].error_y")
    assert full["array"] == pytest.approx([10] * 8) and full["arrayminus"] == pytest.approx([9] * 8)
    # Every task that was answered can be chosen, whether or not an answer flipped.
    tasks = "[...document.querySelector('[aria-label=Task]').options].map(option => option.value)"
    assert page.run(tasks) == ["", "arc_easy"]
    assert page.run("document.querySelector('[aria-label=Task]').value") == "arc_easy"
    caption = page.run("document.querySelector('main .caption').innerText")
    assert "of accuracies Wilson's" in caption and "full precision alone, protocol 00112233aabbccdd" in caption
    check_looks(page, "tasks-intervals")
    page = visit("#/flips?trajectory=constant", ready=DRAWN)  # the mean is another number than the share of all items
    assert page.run(cells)[0][2:4] == ["40.0 %", "30.0 %"]
    assert "choose a task" in page.run("document.querySelector('main .caption').innerText")
    assert page.run(tasks) == ["", "arc_easy"]
    world.points = [(metric, at, method, bits, label, y - 0.05, low, high, run)
                    if metric == "mean_accuracy" else (metric, at, method, bits, label, y, low, high, run)
                    for metric, at, method, bits, label, y, low, high, run in world.points]  # fmt: skip
    page = visit("#/flips?trajectory=constant", ready=DRAWN)
    assert page.run(cells)[0][2:4] == ["40.0 % 36.0 to 55.0 %", "30.0 % 26.0 to 45.0 %"]


def test_a_runs_footnote_tells_its_intervals_apart(world, visit):
    run = world.add_run("tasks", {"checkpoint": "c0", "method": {"name": "rtn", "bits": 4}}, "succeeded")
    task = {"name": "arc_easy", "n": 100, "accuracy": 0.4, "accuracy_interval": [0.31, 0.5], "accuracy_q": 0.38,
            "accuracy_q_interval": [0.29, 0.48], "accuracy_change": -0.02, "accuracy_change_interval": [-0.05, 0.01],
            "flips_up": 1, "flips_down": 3, "mcnemar_p": 0.6}  # fmt: skip
    run["result"] = {"tasks": [task], "items": 100, "mean_accuracy": 0.4, "mean_accuracy_q": 0.38,
                     "tokens_alone": 1000, "tokens_computed": 400}
    page = visit(f"#/runs/{run['id']}")
    page.wait("document.querySelector('section[aria-label=Result] table') !== null")
    text = page.run("document.querySelector('section[aria-label=Result]').innerText")
    assert "−2.0 points" in text and "−5.0 to 1.0 points" in text and "38.0 %" in text
    assert "of accuracies Wilson's" in text and "Those of changes are made of Clopper and Pearson's limits" in text
    check_looks(page, "tasks-footnote")
