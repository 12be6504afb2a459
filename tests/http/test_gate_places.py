"""Gates on trajectories where several checkpoints stand at one step."""

import models
import pytest
from test_gates import JUMP, SCALES, changed, scaled


@pytest.fixture(scope="module")
def twice(service):
    """The weights' norm jumps before number 10; at the last step stands one that did not jump, too, the first one."""
    last = len(SCALES) - 4
    steady = SCALES[last]
    scaled(service, "twice", [scale + (0.5 if JUMP <= i < last else 0) for i, scale in enumerate(SCALES[:last + 1])])

    def change(tensors):
        for tensor in tensors.values():
            tensor *= steady + 0.5

    place = models.write_llama(service.files / "twice" / "again", seed=47130, change=change)
    service.checkpoint(place, "twice", "again", step=100 * last)
    assert service.run("health", checkpoint="twice/again")["state"] == "succeeded"
    return f"step{last}"


def test_a_change_is_looked_for_with_the_number_of_the_checkpoint_that_is_judged(service, twice, name):
    """Of checkpoints at one step a series has one place: it is that of the one which the verdict is about."""
    jumped = changed(service, name, "again", 3, "twice")
    assert jumped["verdict"] == "fail" and jumped["change"]["before"]["checkpoint_name"] == f"step{JUMP}", jumped
    assert changed(service, name, twice, 3, "twice")["verdict"] == "pass"
