"""Losses on different evaluations cannot be compared: what stands together is of one evaluation, or each says which."""

import json

import pytest
import stand_in
from looks import DRAWN, check_looks, traces

HEADS = ("[...document.querySelectorAll('table.checkpoints thead th')]"
         ".map(cell => cell.innerText.replace(/ [↓↑]$/, ''))")
USUAL, WIKI = "perl-manual-validation: 192 sequences, 24576 tokens", "wiki: 8 sequences, 1024 tokens"


def measure(world, checkpoint, bits, delta, loss, dataset="wiki", sequences=8):
    """A quantization that is measured on other data than the usual."""
    run = world.measure(checkpoint, bits, delta, loss)
    run["params"]["evaluation"].update(dataset=dataset, max_sequences=sequences)
    run["result"].update(sequences=sequences, tokens=128 * sequences)
    world.datasets[run["id"]], world.protocols[run["id"]] = dataset, "f00dfeed12345678"
    if not any(point[0] == "loss_fp" and point[-1] == run["id"] for point in world.points):
        world.points.append(("loss_fp", checkpoint, None, None, "", loss, None, None, run["id"]))
    return run


@pytest.fixture
def world():
    """The usual evaluation has every checkpoint but the last one of `constant`; wiki has that one and the first."""
    world = stand_in.demonstration()
    last = world.add_checkpoint("constant", 9, 4e-3)
    for checkpoint, loss in ((world.checkpoints[0], 3.75), (last, 3.25)):
        measure(world, checkpoint, 4, 0.02, loss)
    return world


def rows(page, table):
    return page.run(f"[...document.querySelectorAll('table.{table} tbody tr')].map(row => [...row.cells]"
                    ".map(cell => cell.innerText.trim()))")


@pytest.mark.parametrize("width", [1280, 400])
def test_losses_of_the_table_are_of_one_evaluation_that_is_named(world, visit, width):
    page = visit("#/curves?trajectory=constant", width=width)
    page.wait(DRAWN)
    heads = page.run(HEADS)
    (column,) = [place for place, head in enumerate(heads) if head.startswith("Loss")]
    assert heads[column] == f"Loss (nats), on {USUAL}" and "on perl-manual-validation" in heads[column + 1]
    losses = {row[0]: row[column] for row in rows(page, "checkpoints")}
    assert losses["step-2197"] == "–" and losses["step-244"] == "4.3177", losses
    caption = page.run("document.querySelector('table.checkpoints').closest('div').nextElementSibling.innerText")
    assert caption.startswith(f"Loss (nats): on {USUAL}; checkpoints that were measured on another one")
    check_looks(page, f"evaluations-{width}")


def test_the_evaluation_of_a_lone_column_is_in_its_caption(visit, world):
    page = visit("#/curves?trajectory=decay-1M")
    page.wait(DRAWN)
    assert "Loss (nats)" in page.run(HEADS) and f"Loss (nats): on {USUAL}." in page.run(
        "[...document.querySelectorAll('.caption')].map(one => one.innerText)")


def test_losses_are_of_most_checkpoints_and_then_of_the_first_column(visit):
    def series(dataset, checkpoints, **more):
        points = [{"x": place, "y": 1.0, "checkpoint": f"c{place}", "run": "r"} for place in range(checkpoints)]
        return {"trajectory": "t", "dataset": dataset, "protocol_id": dataset, "evaluated_on": f"{dataset} words",
                "points": points, **more}

    page = visit("#/runs")

    def words(curves, losses):
        given = json.dumps({"curves": {"series": curves}, "loss": {"series": losses}})
        return page.run("import('/curves.js').then(({assemble}) => "
                        f"assemble(['t'], 'delta', 'step', {given}).evaluations.map(({{words}}) => words))")

    own = [series("b", 1, label="rtn 3-bit", bits=3), series("c", 1, label="rtn 4-bit", bits=4)]
    losses = [series("a", 2), series("b", 3), series("c", 1)]
    assert words(own, losses) == ["b words", "a words", "c words"]
    even = [series(name, 2) for name in "abc"]
    assert words(own, even) == ["c words", "a words", "b words"]
    assert words([series("d", 9, label="rtn 4-bit", bits=4)], losses) == ["b words", "a words", "c words"]
    assert words([], []) == []
    trained = [series("b", 1, source="validation_loss"), series("b", 3)]
    assert words([], trained) == ["b words", "b words, in training"]


@pytest.mark.parametrize("width", [1280, 400])
def test_the_panel_of_losses_tells_evaluations_apart(world, visit, width):
    page = visit("#/curves?trajectory=constant", width=width)
    page.wait(DRAWN)
    assert page.run("document.querySelector('#loss-evaluations').innerText").split("\n") == [
        "full-precision loss", f"on {USUAL}", f"on {WIKI}"]
    usual, wiki = traces(page, "loss")
    assert usual["name"] == f"full-precision loss, on {USUAL}" and wiki["name"] == f"full-precision loss, on {WIKI}"
    assert (usual["line"]["dash"], wiki["line"]["dash"]) == ("solid", "dot")
    assert usual["marker"]["symbol"] != wiki["marker"]["symbol"] and wiki["y"] == [3.75, 3.25]
    hover = page.run("document.querySelector('#plot').data.find(({meta}) => meta.kind === 'curve').text[1]")
    assert f"full-precision loss on {USUAL} " in hover
    page = visit("#/curves?trajectory=decay-1M", width=width)
    page.wait(DRAWN)
    assert page.run("document.querySelector('#loss-evaluations')") is None
    assert [trace["name"] for trace in traces(page, "loss")] == ["decay-1M"]


def test_neighbours_say_what_they_were_measured_on(world, visit):
    measure(world, world.checkpoints[1], 4, 0.02, 3.5)
    page = visit("#/checkpoints/c0")
    page.wait("document.querySelector('table.beside') !== null")
    found = {row[-1] for row in rows(page, "beside") if row[0].startswith("ΔQL gptq 4-bit")}
    assert found == {"perl-manual-validation, 192 sequences of 128 tokens", "wiki, 8 sequences of 128 tokens"}


@pytest.mark.parametrize("width", [1280, 400])
def test_the_frontier_names_evaluations_and_praises_nobody_who_is_alone(world, visit, width):
    """Of the newest checkpoints that of `constant` is on wiki, at one width; both decays are on the usual one."""
    plot = "document.querySelector('#quantized-frontier-plot')"
    page = visit("#/frontier", width=width, ready=f"Boolean({plot}?.data)")
    heads = page.run("[...document.querySelectorAll('table.boards thead th')].map(cell => cell.innerText)")
    on, best, method = (heads.index(name) for name in ("Measured on", "Unbeaten", "Method"))
    found = rows(page, "boards")
    assert {row[on] for row in found} == {USUAL, WIKI} and {row[method][:4] for row in found} == {"gptq"}
    assert [(row[method], row[best]) for row in found if row[on] == WIKI] == [("gptq 4-bit g128", "–")]
    assert sum("yes" in row[best] for row in found if row[on] == USUAL) == 2
    steps = f"[...{plot}.data].filter(trace => trace.meta.kind === 'unbeaten').map(trace => trace.meta.evaluation)"
    assert page.run(steps) == [USUAL]
    assert f"(dotted on {USUAL})" in page.run("document.querySelector('.marks').innerText")
    words = page.run(f"[...{plot}.data].filter(trace => trace.meta.kind === 'points').flatMap(trace => trace.text)")
    assert {line for text in words for line in text.split("<br>") if line.startswith("on ")} == {
        f"on {USUAL}", f"on {WIKI}"}
    check_looks(page, f"frontier-evaluations-{width}")
    measure(world, world.checkpoints[-1], 3, 0.05, 3.25)
    page = visit("#/frontier", width=width, ready=f"Boolean({plot}?.data)")
    assert page.run(steps) == [USUAL, WIKI]
    assert f"(dotted on {USUAL}; dashed on {WIKI})" in page.run("document.querySelector('.marks').innerText")
