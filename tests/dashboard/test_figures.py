"""The frontier, training as it goes, worst tokens, and the buttons that save any figure."""

import csv
import io
import json
import struct

import pytest
import stand_in
from looks import check_looks
from stand_in import PLOTLY


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
    """They come with the last checkpoint, sooner after the reading before than the page would look again."""
    running, _, _ = stand_in.busy(world)
    page = visit(f"#/runs/{running['id']}")
    world.advance(running, line="step 20 of 300: loss 5.5000, learning rate 0.001, gradient norm 0.8, 900 tokens/s")
    page.wait(ready("train-plot"))
    world.points.append(("validation_loss", world.checkpoints[0], None, None, "", 4.75, None, None, running["id"]))
    world.advance(running, state="succeeded")
    page.wait("document.querySelector('#train-plot').data.some(trace => trace.meta.kind === 'validation')", seconds=10)
    assert data(page, "train-plot", "validation")[0]["y"] == [4.75]


# --- Worst tokens -----------------------------------------------------------------------------------------------------
def npy(values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(
        f"<{len(values)}f", *values)


def test_the_worst_tokens_are_found_in_their_sequences(world, visit):
    tokens = [5, 129, 33]
    full = [2.0 + place % 3 for place in range(sum(tokens) - len(tokens))]
    quantized = [value + 0.125 for value in full]
    quantized[4 + 100] += 6.5  # the 101st prediction of the second sequence
    quantized[2] += 3  # the third of the first
    lines = ["sequence,tokens,loss_fp,loss_q,kl", *(f"{place},{count},2,2,0" for place, count in enumerate(tokens))]
    world.artifacts["r0"] = {"losses.csv": "\n".join(lines).encode(), "token_losses_fp.npy": npy(full),
                             "token_losses_q.npy": npy(quantized), "token_kl.npy": npy([0.01] * len(full))}
    page = visit("#/runs/r0")
    page.click("#worst-tokens")
    page.wait("document.querySelector('section[aria-label=\"Worst tokens\"] tbody tr') !== null")
    rows = page.run("[...document.querySelectorAll('section[aria-label=\"Worst tokens\"] tbody tr')]"
                    ".map(row => [...row.cells].map(cell => cell.innerText.trim()))")
    assert (rows[0][:5] == ["1", "101", f"{full[104]:.4f}", f"{quantized[104]:.4f}", "6.6250"]
            and rows[1][:2] == ["0", "3"])
    assert (len(rows) == 50
            and page.run("document.querySelectorAll('section[aria-label=\"Worst tokens\"] polyline').length") == 100)
    check_looks(page, "tokens")


def test_a_file_of_other_numbers_is_refused_with_a_reason(world, visit):
    world.artifacts["r0"] = {"losses.csv": b"sequence,tokens\n0,5\n", "token_losses_fp.npy": npy([1.0] * 9)}
    page = visit("#/runs/r0")
    page.click("#worst-tokens")
    page.wait("document.querySelector('section[aria-label=\"Worst tokens\"] .problem')?.innerText.includes('9 losses "
              "for 4 predictions')")


# --- Saving -----------------------------------------------------------------------------------------------------------
def test_every_figure_is_saved_as_picture_and_numbers(world, visit):
    page = visit("#/runs/r1", ready=ready("layers-plot"))
    page.click("#layers-plot-csv")
    rows = list(csv.reader(io.StringIO(page.downloaded(".csv").read_text())))
    assert rows[0] == ["series", "x", "y", "value"] and len(rows) == 1 + 42
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
