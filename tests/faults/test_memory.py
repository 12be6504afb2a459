"""The most memory a run takes: two blocks, the embedding and the head, the hidden states, and 300 MB for everything
else, whatever the size of the model. Measured on one more than twice as large, as the kernel counts it (VmHWM: pages of
files that are read do not count)."""

import json
import shutil
import struct

import models
import numpy
import pytest
from faults import finished, started, submit, workers_of

LAYERS, WIDTH, MIDDLE, VOCABULARY, LENGTH, ROWS = 80, 512, 1024, 256, 64, 4
CONFIG = {**models.LLAMA, "hidden_size": WIDTH, "intermediate_size": MIDDLE, "num_hidden_layers": LAYERS,
          "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": VOCABULARY}
BLOCK = 4 * (4 * WIDTH * WIDTH + 3 * WIDTH * MIDDLE + 2 * WIDTH)
TABLES = 2 * 4 * VOCABULARY * WIDTH
# Three streams at the most: evaluation in full precision, evaluation quantized, calibration;
# each as it enters and as it leaves a block.
HIDDEN = 3 * 2 * 4 * ROWS * LENGTH * WIDTH
LIMIT = 2 * BLOCK + TABLES + HIDDEN + 300_000_000


def write_large(directory):
    """One random block, written as often as there are layers."""
    tensors = models.tensors_of({**CONFIG, "num_hidden_layers": 1}, seed=3)
    block = {name.removeprefix("model.layers.0."): array for name, array in tensors.items() if ".layers." in name}
    entries = [(name, array) for name, array in tensors.items() if ".layers." not in name]
    entries += [(f"model.layers.{layer}.{name}", array) for layer in range(LAYERS) for name, array in block.items()]
    header, offset = {}, 0
    for name, array in entries:
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    with open(directory / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in entries:
            file.write(numpy.ascontiguousarray(array).data)
    return offset


@pytest.fixture
def own(disk_directory):
    if shutil.disk_usage(disk_directory).free < 4 << 30:
        pytest.skip("needs 4 GiB of disk")
    service = started(disk_directory)
    yield service
    assert service.stop() == 0


def peak_of(worker):
    with open(f"/proc/{worker}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def test_evaluate_and_quantize_hold_two_blocks_never_the_model(own):
    size = write_large(own.files / "large")
    assert size > 2.5 * LIMIT, "much larger than what is allowed"
    made = own.checkpoint(own.files / "large", "large", "a")
    own.sequences("evaluation", models.rows(ROWS, LENGTH))
    own.sequences("calibration", models.rows(ROWS, LENGTH, seed=2))
    evaluation = {"dataset": "evaluation", "sequence_length": None}
    calibration = {"dataset": "calibration", "sequence_length": None}
    gptq = {"method": {"name": "gptq", "bits": 4, "group_size": 128}, "evaluation": evaluation,
            "calibration": calibration}
    for kind, params in (("evaluate", evaluation), ("quantize", gptq)):
        document = finished(own, submit(own, {"kind": kind, "params": {"checkpoint": made["id"], **params}}), limit=900)
        assert document["state"] == "succeeded", document["error"]
        peaks = document["usage"]["peak_host_bytes"], *map(peak_of, workers_of(own))
        print(f"{kind}: {peaks[0] / 1e6:.0f} MB of {LIMIT / 1e6:.0f} MB allowed; the model has {size / 1e6:.0f} MB; "
              f"{document['usage']['seconds']:.1f} s")
        assert 0 < peaks[0] <= LIMIT and peaks[1] <= LIMIT, (kind, peaks, LIMIT)
