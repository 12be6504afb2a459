"""Runs and curves are called by what they are of: the method with its options, and what else tells two of them apart."""

import pytest
import stand_in
from looks import check_looks


@pytest.fixture
def world():
    return stand_in.demonstration()


def newest(page, trajectory):
    return page.run("(row => [...row.querySelectorAll('td[data-label^=Newest] .deltas > *')]"
                    ".map(line => [line.innerText, line.getBoundingClientRect().top]))"
                    "([...document.querySelectorAll('main tbody tr')].find(row => row.querySelector('th .name')"
                    f".innerText === '{trajectory}'))")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_newest_values_name_their_methods_a_line_each(world, visit, width):
    page = visit("#/", width=width)
    lines = newest(page, "constant")
    assert [text.rsplit(" ", 2)[0] for text, _ in lines] == ["gptq 4-bit", "gptq 3-bit"]
    assert len({top for _, top in lines}) == 2
    last = next(item for item in world.checkpoints if item["name"] == "step-1953" and item["trajectory"] == "constant")
    for method, label in (("gptq", "gptq 4-bit g128 desc_act"), ("rtn", "rtn 4-bit g128"), ("awq", "awq 4-bit g128")):
        run = world.measure(last, 4, 0.02, 3.0)
        for place, (metric, at, _, bits, _, *rest) in enumerate(world.points):
            if rest[-1] == run["id"] and metric != "loss_fp":
                world.points[place] = (metric, at, method, bits, label, *rest)
    page = visit("#/", width=width)
    names = [text for text, _ in newest(page, "constant")]
    assert [text.rsplit(" ", 2)[0] for text in names[:4]] == [
        "awq 4-bit", "gptq 4-bit g128", "gptq 4-bit g128 desc_act", "rtn 4-bit"]
    assert names[4:] == ["1 more"]
    check_looks(page, f"newest-{width}")
