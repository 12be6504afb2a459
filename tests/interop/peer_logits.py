#!/usr/bin/env python3
"""peer_logits.py TOKENS.npy LOADER DIRECTORY OUT.npy [LOADER DIRECTORY OUT.npy]...: exports in somebody else's library;
their logits [sequences, tokens, vocabulary], and beside them (OUT.npy.txt) which modules computed them, or the failure.

LOADER: float32 | float16 (Transformers' own reading of the directory),
gptqmodel (with its PyTorch kernels), gguf (Transformers' reader)"""

import os
import pathlib
import sys
import traceback

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")

import numpy
import torch


def transformers_model(directory, dtype):
    """With GPTQModel's PyTorch kernels below: the fast ones are compiled first, for minutes."""
    from transformers import AutoConfig, AutoModelForCausalLM, AwqConfig, GPTQConfig
    told = getattr(AutoConfig.from_pretrained(directory), "quantization_config", {})
    kernel = {"gptq": lambda: GPTQConfig(bits=told["bits"], backend="gptq_torch"),
              "awq": lambda: AwqConfig(backend="torch_awq")}
    chosen = {"quantization_config": kernel[told["quant_method"]]()} if told.get("quant_method") in kernel else {}
    return AutoModelForCausalLM.from_pretrained(directory, dtype=dtype, device_map="cpu", **chosen)


def gptqmodel_model(directory):
    from gptqmodel import BACKEND, GPTQModel
    awq = '"awq"' in (pathlib.Path(directory) / "config.json").read_text()
    return GPTQModel.load(directory, device="cpu", dtype=torch.float16,
                          backend=BACKEND.AWQ_TORCH if awq else BACKEND.TORCH).model


def check_tokenizer(directory, name):
    """What Transformers makes of the tokenizer in the file has to give the ids of the one beside it."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    within, beside = (AutoTokenizer.from_pretrained(directory, gguf_file=name),
                      Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json")))
    for text in ("Hello, world", " a  b\n\tc", "\u00e9 \u4f60\u597d 12345", "it's"):
        got, expected = within(text, add_special_tokens=False)["input_ids"], beside.encode(text).ids
        assert got == expected, f"{text!r}: {got}, not {expected}"


def gguf_model(directory):
    from transformers import AutoModelForCausalLM
    name = next(path.name for path in pathlib.Path(directory).iterdir() if path.suffix == ".gguf")
    check_tokenizer(directory, name)
    return AutoModelForCausalLM.from_pretrained(directory, gguf_file=name, dtype=torch.float32, device_map="cpu")


LOADERS = {
    "float32": lambda directory: transformers_model(directory, torch.float32),
    "float16": lambda directory: transformers_model(directory, torch.float16),
    "gptqmodel": gptqmodel_model,
    "gguf": gguf_model,
}


def logits_of(loader, directory, rows):
    model = LOADERS[loader](directory).eval()
    kinds = sorted({type(module).__name__ for module in model.modules()
                    if hasattr(module, "qweight") or hasattr(module, "weight_packed")})
    with torch.inference_mode():
        logits = [model(torch.from_numpy(row)[None], use_cache=False).logits[0].float().numpy() for row in rows]
    return numpy.stack(logits), " ".join(kinds) or "plain"


def main():
    rows, jobs = numpy.load(sys.argv[1]), sys.argv[2:]
    for loader, directory, out in zip(jobs[::3], jobs[1::3], jobs[2::3]):
        try:
            logits, said = logits_of(loader, directory, rows)
            numpy.save(out, logits)
        except Exception:  # whatever a library does with it
            said = traceback.format_exc()
        pathlib.Path(out + ".txt").write_text(said)


if __name__ == "__main__":
    main()
