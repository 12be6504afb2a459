"""What lies around weights: indexes, links and special files that lead elsewhere,
configurations that promise too much."""

import json
import os
import socket

import models

from .table import TENSORS, adder, beside

PLACES = []
case = adder(PLACES)
OUTSIDE = "outside-of-the-roots"  # beside the root of the tests' server, not below it


def sharded(index, more=None):
    """Two sound shards whose index is `index`: an object, a text, or what makes one of the sound index."""
    def write(directory):
        beside(directory)
        names = sorted(TENSORS)
        for part in (0, 1):
            models.write_safetensors(directory / f"part-{part}.safetensors", {n: TENSORS[n] for n in names[part::2]})
        sound = {n: f"part-{i % 2}.safetensors" for i, n in enumerate(names)}
        said = index(sound) if callable(index) else index
        (directory / "model.safetensors.index.json").write_text(said if isinstance(said, str) else json.dumps(said))
        if more:
            more(directory)
    return write


def every(where):
    """An index that finds every tensor in one file."""
    return sharded(lambda sound: {"weight_map": dict.fromkeys(sound, where)})


def outside(directory):
    """A directory that no root holds, with a sound model in it."""
    top = directory
    while top.name != "files":
        top = top.parent
    return models.write_llama(top.parent / OUTSIDE, tokenizer=False)


def linked(name, target):
    """A sound checkpoint one of whose files is a link."""
    def write(directory):
        models.write_llama(directory, tokenizer=False)
        (directory / name).unlink()
        (directory / name).symlink_to(target(directory) if callable(target) else target)
    return write


def instead(name, make):
    """A sound checkpoint one of whose files is something else."""
    def write(directory):
        models.write_llama(directory, tokenizer=False)
        (directory / name).unlink()
        make(directory / name)
    return write


def socket_at(path):
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def configured(**more):
    return lambda directory: models.write_llama(directory, tokenizer=False, **more)


def spelled(text):
    return lambda directory: beside(models.write_llama(directory, tokenizer=False), text)


SAME = "in the same directory"
case("index-climbs", every("../other/part.safetensors"), SAME)
case("index-is-absolute", every("/etc/passwd.safetensors"), SAME)
case("index-goes-down", every("sub/part.safetensors"), SAME)
case("index-climbs-as-another-system", every("..\\part.safetensors"), SAME)
case("index-names-nothing", every(""), SAME)
case("index-names-the-directory", every("."), SAME)
case("index-names-another-kind", every("part.bin"), SAME)
case("index-names-with-nul", every("part-0.safetensors\0.txt"), "a string contains NUL")
case("index-names-with-an-escape", every("part\x1b.safetensors"), SAME)
case("index-names-what-is-not-there", every("part-7.safetensors"), "cannot open part-7.safetensors", "invalid")
case("index-names-by-number", sharded(lambda sound: {"weight_map": dict.fromkeys(sound, 7)}), "a string")
case("index-names-the-other-file",
     sharded(lambda sound: {"weight_map": {n: f"part-{1 - int(f[5])}.safetensors" for n, f in sound.items()}}),
     "is in another file than listed")
case("index-leaves-a-tensor-out", sharded(lambda sound: {"weight_map": dict(list(sound.items())[:-1])}),
     "does not list tensor")
case("index-has-one-tensor-more", sharded(lambda sound: {"weight_map": {**sound, "x": "part-0.safetensors"}}),
     "is not in any of the files")
case("index-has-a-tensor-twice",
     sharded(lambda sound: (json.dumps({"weight_map": sound})
                            .replace("{", '{"lm_head.weight": "part-0.safetensors", ', 2)
                            .replace('{"lm_head.weight": "part-0.safetensors", ', "{", 1))),
     "is given twice")
case("index-has-two-maps",
     sharded(lambda sound: json.dumps({"weight_map": sound})[:-1] + ', "weight_map": {"x": "part-0.safetensors"}}'),
     "the key is given twice")
case("index-is-empty", sharded({"weight_map": {}}), "weight_map is missing or empty")
case("index-has-no-map", sharded({"metadata": {}}), "weight_map is missing or empty")
case("index-is-a-list", sharded([]), "an object")
case("index-is-cut-short", sharded(lambda sound: json.dumps({"weight_map": sound})[:-20]),
     "the text ends inside a string")
case("index-is-nested-deep", sharded('{"a":' * 100000), "nested deeper than 32")
case("index-of-too-many-files", sharded({"weight_map": {f"t{i}": f"p{i}.safetensors" for i in range(20000)}}),
     "more than")
case("index-leads-out-by-a-link",
     sharded(lambda sound: {"weight_map": dict.fromkeys(sound, "part-0.safetensors")},
             lambda d: ((d / "part-0.safetensors").unlink(),
                        (d / "part-0.safetensors").symlink_to(outside(d) / "model.safetensors"))),
     "leads to no file or directory below", "invalid")

case("weights-link-out", linked("model.safetensors", lambda d: outside(d) / "model.safetensors"),
     "leads to no file or directory below", "invalid")
case("weights-link-out-relatively",
     linked("model.safetensors", lambda d: os.path.relpath(outside(d) / "model.safetensors", d)),
     "leads to no file or directory below", "invalid")
case("weights-link-to-a-device", linked("model.safetensors", "/dev/zero"),
     "leads to no file or directory below", "invalid")
case("weights-link-to-memory", linked("model.safetensors", "/proc/self/mem"),
     "leads to no file or directory below", "invalid")
case("weights-link-to-themselves", linked("model.safetensors", "model.safetensors"),
     "leads to no file or directory below", "invalid")
case("weights-link-to-nothing", linked("model.safetensors", "nothing"),
     "leads to no file or directory below", "invalid")
case("configuration-links-out", linked("config.json", lambda d: outside(d) / "config.json"),
     "leads to no file or directory below", "invalid")
case("configuration-links-to-a-device", linked("config.json", "/dev/zero"),
     "leads to no file or directory below", "invalid")
case("weights-are-a-pipe", instead("model.safetensors", os.mkfifo), "not a regular file", "invalid")
case("weights-are-a-directory", instead("model.safetensors", os.mkdir), "not a regular file", "invalid")
case("weights-are-a-socket", instead("model.safetensors", socket_at), "not a regular file", "invalid")
case("weights-are-a-hole-of-a-terabyte", instead("model.safetensors", lambda p: (p.touch(), os.truncate(p, 1 << 40))),
     "a header of 0 bytes")
case("configuration-is-a-pipe", instead("config.json", os.mkfifo), "not a regular file", "invalid")
case("configuration-is-a-directory", instead("config.json", os.mkdir), "not a regular file", "invalid")
case("configuration-of-a-gigabyte", instead("config.json", lambda p: (p.touch(), os.truncate(p, 1 << 30))),
     "at most", "too_large")

case("configuration-is-no-json", spelled("{"), "config.json", "malformed")
case("configuration-is-nested-deep", spelled('{"a":' * 100000), "config.json", "malformed")
case("configuration-is-a-list", spelled("[]"), "expected an object", "invalid")
case("configuration-of-infinite-width",
     spelled(json.dumps(models.LLAMA).replace('"hidden_size": 32', '"hidden_size": 1e999')),
     "expected an integer, found 1e999", "invalid")
case("configuration-of-2-to-31-layers",
     lambda d: beside(models.write_llama(d, tokenizer=False), {**models.LLAMA, "num_hidden_layers": 2**31}),
     "2147483648 is not in", "invalid")
case("configuration-of-2-to-62-columns",
     lambda d: beside(models.write_llama(d, tokenizer=False), {**models.LLAMA, "hidden_size": 2**62}),
     "4611686018427387904 is not in", "invalid")
case("configuration-of-negative-width",
     lambda d: beside(models.write_llama(d, tokenizer=False), {**models.LLAMA, "hidden_size": -32}),
     "hidden_size", "invalid")
case("configuration-of-no-heads",
     lambda d: beside(models.write_llama(d, tokenizer=False), {**models.LLAMA, "num_attention_heads": 0}),
     "num_attention_heads", "invalid")
case("configuration-with-code", lambda d: beside(models.write_llama(d, tokenizer=False), {
    **models.LLAMA, "model_type": "evil", "architectures": ["EvilForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "evil.Evil"}}), "evil", "unsupported")
case("configuration-of-quantized-weights", lambda d: beside(models.write_llama(d, tokenizer=False), {
    **models.LLAMA, "quantization_config": {"quant_method": "gptq"}}), "already quantized", "unsupported")
