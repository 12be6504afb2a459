"""Answers to tasks along a trajectory, as /v1/flips gives them."""


def flips(world, trajectory, items=()):
    """Every checkpoint of the trajectory was asked without quantization; `items` are the questions that flipped."""
    own = [item for item in world.checkpoints if item["trajectory"] == trajectory]
    series = {"label": "", "dataset": "0-shot", "shots": 0, "protocol_id": "00112233aabbccdd", "calibration_id": None,
              "calibrated_on": None}  # fmt: skip
    return {"trajectory": trajectory, "series": series, "items": list(items),
            "checkpoints": [{"checkpoint": item["id"], "name": item["name"], "step": item["step"],
                             "items": 100, "right": 40 + place, "right_q": None, "up": 0, "down": 0}
                            for place, item in enumerate(own)]}  # fmt: skip


def flipped(world, trajectory):
    """A question that the quantized model answers wrongly at the last checkpoint alone."""
    own = [item for item in world.checkpoints if item["trajectory"] == trajectory]
    course = [{"checkpoint": item["id"], "right": True, "right_q": item is not own[-1]} for item in own]
    return {"task": "arc_easy", "doc": 7, "question": "What melts ice?", "course": course, "up": 0, "down": 1,
            "changes": 0}
