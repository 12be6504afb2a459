"""plain.py: OLMo 2 and GPT-NeoX in plain PyTorch, read block by block from safetensors, for peer.py: nothing fused but
what PyTorch fuses in scaled_dot_product_attention. Weights are named and shaped as in the file;
a block is a dictionary of them."""

import json
import pathlib
import struct

import torch
import torch.nn.functional as F


class Files:
    """The tensors of a sharded checkpoint."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.config = json.loads((self.directory / "config.json").read_text())
        self.where = json.loads((self.directory / "model.safetensors.index.json").read_text())["weight_map"]
        self.headers = {}

    def read(self, name, dtype, device):
        path = self.directory / self.where[name]
        with open(path, "rb") as file:
            if path not in self.headers:
                size = struct.unpack("<Q", file.read(8))[0]
                self.headers[path] = 8 + size, json.loads(file.read(size))
            base, header = self.headers[path]
            begin, end = header[name]["data_offsets"]
            file.seek(base + begin)
            raw = torch.frombuffer(bytearray(file.read(end - begin)), dtype=torch.bfloat16)
        return raw.view(header[name]["shape"]).to(device).to(dtype)

    def part(self, prefix, dtype, device):
        return {name[len(prefix):]: self.read(name, dtype, device) for name in self.where if name.startswith(prefix)}


def rms(x, weight, epsilon):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight


def rotate(x, base, part):
    """Of the first `part` columns of each head, halves turned against each other."""
    length, half = x.shape[-2], part // 2
    angle = torch.arange(length, device=x.device)[:, None] * base ** (
        -torch.arange(half, device=x.device).float() * 2 / part)
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:part]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine, x[..., part:]), -1)


class Plain:
    def __init__(self, directory, dtype, device):
        self.files, self.dtype, self.device = Files(directory), dtype, device
        self.config = self.files.config
        self.neox = self.config["model_type"] == "gpt_neox"
        self.heads, self.layers = self.config["num_attention_heads"], self.config["num_hidden_layers"]
        self.kv_heads = self.config.get("num_key_value_heads", self.heads)
        self.prefix = "gpt_neox.layers." if self.neox else "model.layers."
        self.ends_names = (("gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm.", "embed_out.weight") if self.neox
                           else ("model.embed_tokens.weight", "model.norm.", "lm_head.weight"))

    def block(self, layer):
        return self.files.part(f"{self.prefix}{layer}.", self.dtype, self.device)

    def embedding(self):
        return self.files.read(self.ends_names[0], self.dtype, self.device)

    def head(self):
        return (self.files.part(self.ends_names[1], self.dtype, self.device),
                self.files.read(self.ends_names[2], self.dtype, self.device))

    def attention(self, q, k, v):
        rows, length = q.shape[0], q.shape[1]
        width = q.shape[-1] // self.heads
        q, k, v = (x.view(rows, length, -1, width).transpose(1, 2) for x in (q, k, v))
        part, base = (width, self.config["rope_theta"]) if not self.neox else (
            int(width * self.config["rotary_pct"]), float(self.config["rotary_emb_base"]))
        q, k = rotate(q, base, part), rotate(k, base, part)
        if self.kv_heads != self.heads:
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, -1)

    def forward(self, w, x, seen=lambda names, value: None):
        """A block; `seen` is shown the input of each set of linears that share one, before they run."""
        def linear(name, value):
            return F.linear(value, w[name + ".weight"], w.get(name + ".bias"))

        def norm(name, value):
            if self.neox:
                return F.layer_norm(value, value.shape[-1:], w[name + ".weight"], w[name + ".bias"],
                                    self.config["layer_norm_eps"])
            return rms(value, w[name + ".weight"], self.config["rms_norm_eps"])

        if self.neox:
            first, second = norm("input_layernorm", x), norm("post_attention_layernorm", x)
            seen(["attention.query_key_value"], first)
            width = x.shape[-1] // self.heads
            q, k, v = (part.flatten(2) for part in linear("attention.query_key_value", first)
                       .unflatten(-1, (self.heads, 3, width)).unbind(-2))
            mixed = self.attention(q, k, v)
            seen(["attention.dense"], mixed)
            seen(["mlp.dense_h_to_4h"], second)
            inner = F.gelu(linear("mlp.dense_h_to_4h", second))
            seen(["mlp.dense_4h_to_h"], inner)
            return x + linear("attention.dense", mixed) + linear("mlp.dense_4h_to_h", inner)
        seen(["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], x)
        q, k, v = (linear(f"self_attn.{n}_proj", x) for n in "qkv")
        mixed = self.attention(norm("self_attn.q_norm", q), norm("self_attn.k_norm", k), v)
        seen(["self_attn.o_proj"], mixed)
        x = x + norm("post_attention_layernorm", linear("self_attn.o_proj", mixed))
        seen(["mlp.gate_proj", "mlp.up_proj"], x)
        inner = F.silu(linear("mlp.gate_proj", x)) * linear("mlp.up_proj", x)
        seen(["mlp.down_proj"], inner)
        return x + norm("post_feedforward_layernorm", linear("mlp.down_proj", inner))

    def loss(self, head, x, tokens, reduction="sum"):
        last, output = head
        if self.neox:
            x = F.layer_norm(x, x.shape[-1:], last["weight"], last["bias"], self.config["layer_norm_eps"])
        else:
            x = rms(x, last["weight"], self.config["rms_norm_eps"])
        logits = F.linear(x[:, :-1], output).float()
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction=reduction)
