"""The frontier, training as it goes, worst tokens, and the buttons that save any figure."""

import csv
import io
import json

import pytest
import stand_in
from looks import check_looks
from stand_in import HOSTILE, PLOTLY
from stand_in_tokens import keep_tokens, worst_token, worst_tokens


@pytest.fixture(autouse=True)
def drawn():
    if not PLOTLY.is_file():
        pytest.skip("build/static/plotly.js is missing; run `make static`")


def data(page, identity, kind):
    return page.run(f"JSON.parse(JSON.stringify(document.querySelector('#{identity}')"
                    f".data.filter(trace => trace.meta.kind === '{kind}')))")


def ready(identity):
    return f"Boolean(document.querySelector('#{identity} .main-svg') && document.querySelector('#{identity}').data)"


# --- Frontier ---------------------------------------------------------------------------------------------------------
def test_the_frontier_has_loss_over_bits_of_the_newest_checkpoints(world, visit):
    page = visit("#/frontier", ready=ready("quantized-frontier-plot"))
    (points,) = data(page, "quantized-frontier-plot", "points")
    newest = {checkpoint: [run["result"] for run in world.runs if run["params"].get("checkpoint") == checkpoint]
              for checkpoint in ("c7", "c9", "c11")}
    expected = {(result["bits_per_weight"], result["loss_q"]) for results in newest.values() for result in results}
    assert set(zip(points["x"], points["y"])) == expected
    (line,) = data(page, "quantized-frontier-plot", "unbeaten")
    least = {bits: min(loss for at, loss in expected if at == bits) for bits, _ in expected}
    assert line["x"] == [3.15, 4.15] and line["y"] == [least[3.15], least[4.15]]
    rows = page.run("[...document.querySelectorAll('main tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")
    assert sum("yes" in row[5] for row in rows) == 2 and len(rows) == 6
    page.click("button[data-value=size]")
    page.wait("document.querySelector('#quantized-frontier-plot').layout.xaxis.title.text.includes('bytes')")
    (points,) = data(page, "quantized-frontier-plot", "points")
    assert sorted(set(points["x"])) == pytest.approx([1_442_432 * 3.15 / 8, 1_442_432 * 4.15 / 8])
    page.click("button[data-value=all]")
    page.wait("document.querySelectorAll('main tbody tr').length === 24")
    assert page.run("location.hash") == "#/frontier?x=size&which=all"
    check_looks(page, "frontier")


def test_the_frontier_says_which_trajectories_are_left_out(world, visit):
    for number in range(31):
        world.add_trajectory(f"many-{number}", [])
    page = visit("#/frontier", ready=ready("quantized-frontier-plot"))
    left = "At most 32 trajectories are shown at once: 2 more are chosen and left out."
    assert left in page.run("document.querySelector('.remark').innerText")
    pressed = "[...document.querySelectorAll('.legend .key[aria-pressed=true]')].map(key => key.innerText)"
    assert page.run(f"{pressed}.length") == 32 and "constant" not in page.run(pressed)  # the newest come first
    page.run("[...document.querySelectorAll('.legend .key')].find(key => key.innerText === 'constant').click()")
    page.wait(f"{pressed}.includes('constant')")
    page.wait("document.querySelector('#quantized-frontier-plot').data.some(trace => trace.x.length)")


# --- Training ---------------------------------------------------------------------------------------------------------
def test_training_is_drawn_as_its_log_grows(world, visit):
    running, _, _ = stand_in.busy(world)
    for step in (20, 40):
        world.advance(running, line=f"step {step} of 300: loss {6 - step / 40:.4f}, learning rate 0.001, "
                      "gradient norm 0.8, 900 tokens/s")
    page = visit(f"#/runs/{running['id']}", ready=ready("train-plot"))
    page.wait(f"{ready('train-plot')} && document.querySelector('#train-plot').data[0].x.length === 2")
    world.advance(running, done=2300,
                  line="step 60 of 300: loss 4.5000, learning rate 0.002, gradient norm 0.7, 900 tokens/s")
    world.points.append(("validation_loss", world.checkpoints[0], None, None, "", 4.75, None, None, running["id"]))
    page.wait("document.querySelector('#train-plot').data[0].x.length === 3")
    assert data(page, "train-plot", "loss")[0]["y"] == [5.5, 5, 4.5]
    assert (data(page, "train-plot", "rate")[0]["y"] == [0.001, 0.001, 0.002]
            and data(page, "train-plot", "norm")[0]["y"] == [0.8, 0.8, 0.7])
    check_looks(page, "training")


def test_the_last_validation_losses_are_drawn_when_training_ends(world, visit):
    """They come with the last checkpoint, sooner after the reading before than the page would look again. The run has
    the trajectory in common with its trunk, whose losses may be on other sequences."""
    running, _, _ = stand_in.busy(world)
    world.points.append(("validation_loss", world.checkpoints[1], None, None, "", 5.25, None, None, "trunk"))
    page = visit(f"#/runs/{running['id']}")
    world.advance(running, line="step 20 of 300: loss 5.5000, learning rate 0.001, gradient norm 0.8, 900 tokens/s")
    page.wait(ready("train-plot"))
    world.points.append(("validation_loss", world.checkpoints[0], None, None, "", 4.75, None, None, running["id"]))
    world.advance(running, state="succeeded")
    page.wait("document.querySelector('#train-plot').data.some(trace => trace.meta.kind === 'validation')", seconds=10)
    assert data(page, "train-plot", "validation")[0]["y"] == [4.75]


def test_validation_losses_are_drawn_while_training_goes_on(world, visit):
    """Until the run ends they are in its log alone. That of a checkpoint which was measured is drawn once."""
    running, _, _ = stand_in.busy(world)
    for line in ("step 20 of 300: loss 5.5000, learning rate 0.001, 900 tokens/s",
                 "checkpoint step0000040: training loss 5.3000, validation loss 5.2500",
                 "checkpoint step0000040-ema: validation loss 7.0000", "checkpoint step0000060: training loss 5.1000",
                 "checkpoint step0000080: validation loss nan", "checkpoint step0000244: validation loss 4.8000"):
        world.advance(running, line=line)
    page = visit(f"#/runs/{running['id']}", ready=ready("train-plot"))
    drawn = "document.querySelector('#train-plot').data.find(trace => trace.meta.kind === 'validation')"
    assert page.wait(f"{drawn}?.x.length === 2 && [{drawn}.x, {drawn}.y]") == [[40, 244], [5.25, 4.8]]
    world.points.append(("validation_loss", world.checkpoints[0], None, None, "", 4.75, None, None, running["id"]))
    world.advance(running, state="succeeded")
    page.wait(f"{drawn}.y.includes(4.75)", seconds=10)
    assert data(page, "train-plot", "validation")[0]["x"] == [40, 244]


CURVE = "step,tokens,learning_rate,loss,gradient_norm\n"


def test_an_ended_training_is_drawn_from_its_file(world, visit):
    """Every step, where the log had one of five seconds, and in its place."""
    running, _, _ = stand_in.busy(world)
    page = visit(f"#/runs/{running['id']}")
    world.advance(running, line="step 2 of 4: loss 9.0000, learning rate 0.5, gradient norm 9, 900 tokens/s")
    page.wait(ready("train-plot"))
    world.artifacts[running["id"]] = {"training.csv": (CURVE + "1,64,0.001,5.5,0.5\n2,128,0.002,5,0.25\n"
                                                       "3,192,0.002,4.75,0.125\n4,256,0.001,4.5,2\n").encode()}
    world.points.append(("validation_loss", world.checkpoints[0], None, None, "", 4.75, None, None, running["id"]))
    world.advance(running, state="succeeded")
    for opened in range(2):
        page.wait("document.querySelector('#train-plot')?.data?.[0].x.length === 4 && document.querySelector("
                  "'#train-plot').data.some(trace => trace.meta.kind === 'validation')", seconds=10)
        assert data(page, "train-plot", "loss")[0]["x"] == [1, 2, 3, 4]
        assert data(page, "train-plot", "loss")[0]["y"] == [5.5, 5, 4.75, 4.5]
        assert data(page, "train-plot", "rate")[0]["y"] == [0.001, 0.002, 0.002, 0.001]
        assert data(page, "train-plot", "norm")[0]["y"] == [0.5, 0.25, 0.125, 2]
        assert data(page, "train-plot", "validation")[0]["y"] == [4.75]
        if not opened:
            page = visit(f"#/runs/{running['id']}", ready=ready("train-plot"))  # after its end
    check_looks(page, "trained")


def test_a_long_training_is_drawn_with_its_spikes(world, visit):
    run = world.add_run("train", {"trajectory": "constant", "dataset": "perl-manual"}, "succeeded")
    rows = [f"{step},{64 * step},0.001,{77 if step == 4321 else 4 + step % 3},0.5\n" for step in range(1, 20001)]
    world.artifacts[run["id"]] = {"training.csv": (CURVE + "".join(rows)).encode()}
    page = visit(f"#/runs/{run['id']}", ready=ready("train-plot"))
    page.wait("document.querySelector('#train-plot').data[0].x.length > 100")
    (loss,) = data(page, "train-plot", "loss")
    assert len(loss["x"]) <= 1300 and loss["x"][0] == 1 and loss["x"][-1] == 20000
    assert [x for x, y in zip(loss["x"], loss["y"]) if y == 77] == [4321]


# --- Worst tokens -----------------------------------------------------------------------------------------------------
TOKENS = "section[aria-label=\"Worst tokens\"]"
CELLS = (f"[...document.querySelectorAll('{TOKENS} tbody tr')].map(row => [...row.cells]"
         ".map(cell => cell.innerText.trim()))")


def test_the_worst_tokens_stand_in_their_text(world, visit):
    keep_tokens(world)
    world.worst_tokens["r0"] = {"tokenizer": worst_tokens([
        worst_token(1, 101, 2.25, 8.875, "the first\nline of ", HOSTILE, " and so on, for as long as it takes to wrap"),
        worst_token(0, 3, 2, 5, "a", "  ", "b"),
        worst_token(0, 2, 2, None, "a", "", "\u20ac"),
    ])}
    page = visit("#/runs/r0")
    page.click("#worst-tokens")
    page.wait(f"document.querySelector('{TOKENS} tbody tr') !== null")
    rows = page.run(CELLS)
    assert [row[:2] for row in rows] == [["1", "101"], ["0", "3"], ["0", "2"]]
    assert rows[0][2] == f"the first↵line of {HOSTILE} and so on, for as long as it takes to wrap"
    assert [row[2] for row in rows[1:]] == ["a␣␣b", "a‹19›€"]
    assert rows[0][3:6] == ["2.2500", "8.8750", "6.6250"] and rows[2][4] == "not finite"
    assert page.run(f"[...document.querySelectorAll('{TOKENS} mark')].map(mark => mark.textContent)") == [
        HOSTILE, "␣␣", "‹19›"]
    assert page.run(f"document.querySelectorAll('{TOKENS} polyline').length") == 6
    assert "3 of 4,000 predictions that quantization made worse most, in validation" in page.run(
        f"document.querySelector('{TOKENS}').innerText")
    assert page.run("window.hurt") is None
    check_looks(page, "tokens")


def test_without_a_tokenizer_ids_stand_for_text_and_the_reason_is_said(world, visit):
    keep_tokens(world)
    ids = worst_tokens([worst_token(0, 3, 2, 5, None, None, None)], decode="ids")
    world.worst_tokens["r0"] = {"tokenizer": (422, "Invalid request", "the checkpoint has no tokenizer", "/decode"),
                                "ids": ids}
    page = visit("#/runs/r0")
    page.expected = ["422"]
    page.click("#worst-tokens")
    page.wait(f"document.querySelector('{TOKENS} tbody tr') !== null")
    assert page.run(CELLS)[0][2] == "5 ‹20› 6"
    assert "the checkpoint has no tokenizer" in page.run(f"document.querySelector('{TOKENS} .remark').innerText")


def test_a_refusal_of_worst_tokens_is_shown_whole(world, visit):
    keep_tokens(world)
    world.worst_tokens["r0"] = {"tokenizer": (409, "Input changed", "its tokens cannot be had: other files", "/run")}
    page = visit("#/runs/r0")
    page.expected = ["409"]
    page.click("#worst-tokens")
    page.wait(f"document.querySelector('{TOKENS} .problem')?.innerText.includes('cannot be had: other files')")


def test_a_run_without_losses_of_tokens_says_how_they_are_had(world, visit):
    world.artifacts["r0"] = {"losses.csv": b"sequence,tokens\n0,5\n"}
    page = visit("#/runs/r0")
    page.wait("[...document.querySelectorAll('details summary')].some(one => one.innerText === 'Worst tokens')")
    commands = page.run("[...document.querySelectorAll('details .command code')].map(one => one.textContent)")
    assert any('"per_token":true' in command and '"kind":"quantize"' in command for command in commands)


# --- Saving -----------------------------------------------------------------------------------------------------------
def test_the_numbers_of_a_figure_name_their_axes_and_series_as_they_are(world, visit):
    """Not as Plotly's markup has them."""
    for item in world.trajectories[:1] + world.checkpoints[:8]:
        item["name" if item in world.trajectories else "trajectory"] = "a<b & \"c\""
    page = visit("#/scatter?x=loss_fp&y=delta", ready=ready("scatter-plot"))
    page.click("#scatter-plot-csv")
    rows = list(csv.reader(io.StringIO(page.downloaded(".csv").read_text())))
    assert rows[0] == ["series", "full-precision loss (nats)", "ΔQL (%)", "point"] and rows[-1][3].startswith("step-")
    assert {row[0] for row in rows[1:]} >= {"a<b & \"c\" · gptq 3-bit g128", "fit · gptq 4-bit g128"}


def test_every_figure_is_saved_as_picture_and_numbers(world, visit):
    page = visit("#/runs/r1", ready=ready("layers-plot"))
    page.click("#layers-plot-csv")
    rows = list(csv.reader(io.StringIO(page.downloaded(".csv").read_text())))
    assert rows[0] == ["series", "block", "y", "value"] and len(rows) == 1 + 42
    layers = {layer["name"]: layer["relative_error"]
              for layer in next(run for run in world.runs if run["id"] == "r1")["result"]["layers"]}
    assert float(next(row for row in rows if row[1:3] == ["3", "mlp.up_proj"])[3]) == pytest.approx(
        100 * layers["model.layers.3.mlp.up_proj"])
    page.click("#layers-plot-svg")
    assert "self_attn.q_proj" in page.downloaded(".svg").read_text()
    page.click("#layers-plot-png")
    assert page.downloaded(".png").read_bytes()[:4] == b"\x89PNG"
    assert page.run("[...document.querySelectorAll('.panel > .plot')]"
                    ".every(plot => plot.parentElement.querySelectorAll('button[id$=-png], button[id$=-svg], "
                    "button[id$=-csv]').length >= 3)")
    assert json.loads(page.run("document.querySelector('details .command code').textContent")
                      .split("-d '")[1].rstrip("'"))["kind"] == "quantize"
