#!/usr/bin/env python3
"""peer_methods.py LIBRARY MODEL CALIBRATION EVALUATION LENGTH GROUP METHOD…: what bench_methods does, by a published
library, in float32 on the CPU: files of 32-bit tokens, sequences of LENGTH, groups of GROUP columns, a line of JSON a
method. LIBRARY and its methods:

    bitsandbytes   nf4 nf4-double fp4 fp4-double: the weights of all linears through its quantize_4bit and
                   dequantize_4bit; llm_int8 llm_int8-whole: the operations of its Linear8bitLt, thresholds 6 and 0
                   (none leaves), in float32; llm_int8-half llm_int8-whole-half: the module itself, which casts inputs
                   and weights to float16
    autoawq        awq4-unclipped awq3-unclipped: its AwqQuantizer, without duo scaling and clipping (which wants rows
                   in 64s), the weights rounded by its pseudo_quantize_tensor; awq4-linears awq3-linears: the same,
                   alphas judged by the outputs of the linears that share an input, as the paper has it, where the
                   library takes those of attention and MLP
    llmcompressor  awq4-unclipped awq3-unclipped: AWQModifier without duo scaling; awq4-duo: as it comes; smoothquant:
                   SmoothQuantModifier(0.5), then rounding of rows and, dynamically, tokens; smoothquant-all:
                   down_proj smoothed too; rtn4 rtn3
    gptqmodel      gptq4 gptq3: its defaults, saved and loaded again with its torch kernel"""

import importlib.metadata
import json
import logging
import os
import sys
import tempfile
import traceback

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy
import torch
import transformers
from transformers import AutoModelForCausalLM


def rows(path, length):
    tokens = torch.from_numpy(numpy.fromfile(path, numpy.uint32).astype(numpy.int64))
    return tokens[: len(tokens) // length * length].reshape(-1, length)


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32).eval()


@torch.inference_mode()
def loss_of(model, evaluation, together):
    """`together` sequences at a time: what LLM.int8 does to one depends on those beside it."""
    total = 0.0
    for some in evaluation.split(together):
        logits = model(input_ids=some, use_cache=False).logits[:, :-1].double()
        total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), some[:, 1:].flatten(), reduction="sum").item()
    return total / (evaluation.shape[0] * (evaluation.shape[1] - 1))


def block_linears(model):
    return {name: module for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and "lm_head" not in name and "embed_out" not in name}


class FloatLinear8bit(torch.nn.Module):
    """The operations of bitsandbytes' MatMul8bitLt in its order, without the casts to float16 around them."""

    def __init__(self, linear, threshold):
        super().__init__()
        self.codes, self.scales, _ = torch.ops.bitsandbytes.int8_vectorwise_quant.default(linear.weight.data, 0.0)
        self.bias, self.threshold = linear.bias, threshold

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        codes, scales, outliers = torch.ops.bitsandbytes.int8_vectorwise_quant.default(flat, self.threshold)
        out, _ = torch.ops.bitsandbytes.int8_mixed_scaled_mm.default(
            flat, codes, self.codes, scales, self.scales, outliers, self.bias)
        return out.reshape(*x.shape[:-1], -1)


@torch.no_grad()
def bitsandbytes(path, method, calibration, length, group):
    import bitsandbytes as bnb

    model = load(path)
    for name, linear in block_linears(model).items():
        if method.startswith("llm_int8"):
            threshold = 0.0 if "-whole" in method else 6.0
            if method.endswith("-half"):
                other = bnb.nn.Linear8bitLt(linear.in_features, linear.out_features, linear.bias is not None,
                                            has_fp16_weights=False, threshold=threshold)
                other.load_state_dict(linear.state_dict())
                other = other.to("cpu").eval()
            else:
                other = FloatLinear8bit(linear, threshold)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, other)
        else:
            packed, state = bnb.functional.quantize_4bit(linear.weight.data.contiguous(), blocksize=64,
                                                         compress_statistics=method.endswith("-double"),
                                                         quant_type=method[:3])
            linear.weight.data = bnb.functional.dequantize_4bit(packed, state).to(torch.float32)
    return model


class Together(torch.nn.Module):
    """Linears that share an input, one output beside the other."""

    def __init__(self, linears):
        super().__init__()
        self.linears = torch.nn.ModuleList(linears)

    def forward(self, x):
        return torch.cat([linear(x) for linear in self.linears], dim=-1)


def judge_linears(wrapped):
    found = wrapped.get_layers_for_scaling
    wrapped.get_layers_for_scaling = lambda *given: [{**one, "module2inspect": Together(one["layers"]), "kwargs": {}}
                                                     for one in found(*given)]


def autoawq(path, method, calibration, length, group):
    from awq import AutoAWQForCausalLM
    from transformers import AutoTokenizer

    wrapped = AutoAWQForCausalLM.from_pretrained(path, torch_dtype=torch.float32, device_map="cpu", safetensors=True)
    if method.endswith("-linears"):
        judge_linears(wrapped)
    wrapped.quantize(AutoTokenizer.from_pretrained(path),
                     quant_config={"zero_point": True, "q_group_size": group, "w_bit": int(method[3]),
                                   "version": "GEMM"},
                     calib_data=calibration.tolist(), max_calib_samples=len(calibration), max_calib_seq_len=length,
                     duo_scaling=False, apply_clip=False, export_compatible=True)
    for linear in block_linears(wrapped.model).values():
        linear.weight.data = wrapped.quantizer.pseudo_quantize_tensor(linear.weight.data)[0]
    return wrapped.model.eval()


def llmcompressor(path, method, calibration, length, group):
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform.awq import AWQModifier
    from llmcompressor.modifiers.transform.smoothquant import SmoothQuantModifier
    from llmcompressor.pipelines.cache import IntermediatesCache

    IntermediatesCache.pin_memory = lambda cache, index: None  # asks for a GPU's driver; changes no number
    eight = {"num_bits": 8, "type": "int", "symmetric": True}
    if method.startswith("smoothquant"):
        mappings = [[["re:.*q_proj", "re:.*k_proj", "re:.*v_proj"], "re:.*input_layernorm"],
                    [["re:.*gate_proj", "re:.*up_proj"], "re:.*post_attention_layernorm"]]
        if method == "smoothquant-all":
            mappings += [[["re:.*down_proj"], "re:.*up_proj"]]
        scheme = {"weights": {**eight, "strategy": "channel"},
                  "input_activations": {**eight, "strategy": "token", "dynamic": True}}
        first = [SmoothQuantModifier(smoothing_strength=0.5, mappings=mappings)]
    else:
        scheme = {"weights": {"num_bits": int(method[3]), "type": "int", "symmetric": method.startswith("rtn"),
                              "strategy": "group", "group_size": group}}
        first = [] if method.startswith("rtn") else [AWQModifier(duo_scaling=method.endswith("-duo"))]
    recipe = first + [QuantizationModifier(config_groups={"group_0": {"targets": ["Linear"], **scheme}},
                                           ignore=["lm_head"])]
    model = load(path)
    data = Dataset.from_dict({"input_ids": calibration.tolist(), "attention_mask": [[1] * length] * len(calibration)})
    oneshot(model=model, dataset=data, recipe=recipe, max_seq_length=length, num_calibration_samples=len(calibration))
    return model.eval()


def gptqmodel(path, method, calibration, length, group):
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig

    model = GPTQModel.load(path, QuantizeConfig(bits=int(method[4:]), group_size=group), device="cpu",
                           dtype=torch.float32)
    model.quantize([{"input_ids": row, "attention_mask": [1] * length} for row in calibration.tolist()], batch_size=4)
    with tempfile.TemporaryDirectory() as directory:
        model.save(directory)
        return GPTQModel.load(directory, device="cpu", backend=BACKEND.TORCH, dtype=torch.float16).model.eval()


LIBRARIES = {"bitsandbytes": bitsandbytes, "autoawq": autoawq, "llmcompressor": llmcompressor, "gptqmodel": gptqmodel}


def main():
    logging.disable(logging.WARNING)
    transformers.logging.disable_progress_bar()
    library, path, length, group = sys.argv[1], sys.argv[2], int(sys.argv[5]), int(sys.argv[6])
    calibration, evaluation = rows(sys.argv[3], length), rows(sys.argv[4], length)
    reference = loss_of(load(path), evaluation, 16)
    version = f"{library} {importlib.metadata.version(library)}, torch {torch.__version__}"
    failed = 0
    for method in sys.argv[7:]:
        try:
            loss = loss_of(LIBRARIES[library](path, method, calibration, length, group), evaluation,
                           1 if method.startswith("llm_int8") else 16)
        except Exception:  # the other methods are tried all the same
            traceback.print_exc()
            failed = 1
            continue
        print(json.dumps({"method": method, "loss_fp": reference, "loss_q": loss, "delta": loss / reference - 1,
                          "what": version}), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
