#!/usr/bin/env python3
"""Makes the reference values of tiny Qwen2 models in double, independently of the engine.

    build/venv/bin/python tests/tools/reference_qwen2.py [--check] [MODEL]...

They lie in tests/unit/shared/reference/micro: qwen2, one layer that sees everything, and qwen2_window, two layers, of
which the second (from max_window_layers on) sees the last three tokens. --check writes nothing: it compares what it
finds with those files. Another architecture, whose block differs in a few lines, is another row of MODELS; named
alone, it leaves the files of the others as they are. The equations (rms is RMSNorm, the rotation pairs column j of a
head with column j + head_dim / 2):

    x = E[ids]
    h = rms(x; input_layernorm);  q, k, v = W h + b each      biases on these three alone, whatever the config says
    x = x + o_proj(attend(rope(q), rope(k), v))               o_proj has no bias; two query heads share a head of keys
    h = rms(x; post_attention_layernorm)
    x = x + down_proj(silu(gate_proj(h)) * up_proj(h))
    logits = rms(x; norm) lm_head^T                           loss: mean over the next tokens

The gradient is written out by hand. It is an analytic function, so that the product with the Hessian is its derivative
along v by one step i * 1e-30 into the complex plane, exact to the last digits; the gradient itself is held to the loss
in the same way."""

import argparse
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

PLACE = pathlib.Path(__file__).resolve().parents[1] / "unit" / "shared" / "reference" / "micro"
VOCABULARY, WIDTH, HEADS, PAIRS, INNER = 13, 16, 4, 2, 12  # PAIRS: heads of keys and values
HEAD = WIDTH // HEADS
ROWS, COLUMNS = 2, 9
EPSILON, THETA = 1e-6, 1e6
STEP = 1e-30
WINDOW, FIRST_WINDOWED = 3, 1
EMBEDDING, NORM, HEAD_MATRIX = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
BEFORE, QUERY, KEY, VALUE, OUTPUT, AFTER, GATE, UP, DOWN = (
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
LAYER_SHAPES = {
    QUERY + ".weight": (WIDTH, WIDTH), QUERY + ".bias": (WIDTH,), KEY + ".weight": (PAIRS * HEAD, WIDTH),
    KEY + ".bias": (PAIRS * HEAD,), VALUE + ".weight": (PAIRS * HEAD, WIDTH), VALUE + ".bias": (PAIRS * HEAD,),
    OUTPUT + ".weight": (WIDTH, WIDTH), GATE + ".weight": (INNER, WIDTH), UP + ".weight": (INNER, WIDTH),
    DOWN + ".weight": (WIDTH, INNER), BEFORE + ".weight": (WIDTH,), AFTER + ".weight": (WIDTH,),
}


class Model:
    """A model's settings and the shapes of its tensors."""

    def __init__(self, name, layers, windowed):
        self.name, self.layers, self.windowed = name, layers, windowed
        self.config = {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "torch_dtype": "float32",
            "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": PAIRS,
            "num_hidden_layers": layers, "intermediate_size": INNER, "hidden_act": "silu", "rms_norm_eps": EPSILON,
            "rope_theta": THETA, "max_position_embeddings": 64, "tie_word_embeddings": False,
            "use_sliding_window": windowed, "sliding_window": WINDOW, "max_window_layers": FIRST_WINDOWED,
            "bos_token_id": 1, "eos_token_id": 2,
        }
        self.shapes = {EMBEDDING: (VOCABULARY, WIDTH)}
        for layer in range(layers):
            self.shapes.update({f"model.layers.{layer}.{name}": shape for name, shape in LAYER_SHAPES.items()})
        self.shapes.update({NORM: (WIDTH,), HEAD_MATRIX: (VOCABULARY, WIDTH)})

    def window(self, layer):
        return WINDOW if self.windowed and layer >= FIRST_WINDOWED else COLUMNS


MODELS = (Model("qwen2", 1, False), Model("qwen2_window", 2, True))


def rms(x, weight):
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return weight * x * scale, scale


def rms_back(x, weight, scale, dy):
    inner = (dy * weight * x).mean(-1, keepdims=True)
    return scale * dy * weight - scale**3 * x * inner, (dy * x * scale).sum(0)


def angles(count):
    frequencies = THETA ** (-2.0 * np.arange(HEAD // 2) / HEAD)
    return np.arange(count)[:, None] * frequencies[None, :]


def rotate(rows, turn):
    """Each head of `rows` [T, heads * HEAD], by the angles of its position; turn = -1 takes it back."""
    out, half, angle = np.array(rows), HEAD // 2, turn * angles(len(rows))
    for first in range(0, rows.shape[1], HEAD):
        a, b = rows[:, first : first + half], rows[:, first + half : first + HEAD]
        out[:, first : first + half] = a * np.cos(angle) - b * np.sin(angle)
        out[:, first + half : first + HEAD] = b * np.cos(angle) + a * np.sin(angle)
    return out


def softmax(scores):
    powers = np.exp(scores - scores.real.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def columns_of(head):
    return slice(head * HEAD, (head + 1) * HEAD)


def attend(q, k, v, window):
    seen = np.tri(len(q), dtype=bool) & ~np.tri(len(q), k=-window, dtype=bool)
    weights, outputs, mask = [], [], np.where(seen, 0, -np.inf)
    for head in range(HEADS):
        own, shared = columns_of(head), columns_of(head // (HEADS // PAIRS))
        weights.append(softmax(q[:, own] @ k[:, shared].T / np.sqrt(HEAD) + mask))
        outputs.append(weights[-1] @ v[:, shared])
    return np.concatenate(outputs, 1), weights


def attend_back(q, k, v, weights, dy):
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for head in range(HEADS):
        own, shared = columns_of(head), columns_of(head // (HEADS // PAIRS))
        p, dp = weights[head], dy[:, own] @ v[:, shared].T
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(HEAD)
        dq[:, own] += ds @ k[:, shared]
        dk[:, shared] += ds.T @ q[:, own]
        dv[:, shared] += p.T @ dy[:, own]
    return dq, dk, dv


def block(w, layer, x0, window):
    """The layer's output, and what its pass back needs."""

    def at(name):
        return w[f"model.layers.{layer}.{name}"]

    h0, scale0 = rms(x0, at(BEFORE + ".weight"))
    q, k, v = (h0 @ at(name + ".weight").T + at(name + ".bias") for name in (QUERY, KEY, VALUE))
    q, k = rotate(q, 1), rotate(k, 1)
    attended, weights = attend(q, k, v, window)
    x1 = x0 + attended @ at(OUTPUT + ".weight").T
    h1, scale1 = rms(x1, at(AFTER + ".weight"))
    gate, up = h1 @ at(GATE + ".weight").T, h1 @ at(UP + ".weight").T
    logistic = 1 / (1 + np.exp(-gate))
    inner = gate * logistic * up
    x2 = x1 + inner @ at(DOWN + ".weight").T

    def back(dx, gradient):
        def add(name, value):
            gradient[f"model.layers.{layer}.{name}"] += value

        add(DOWN + ".weight", dx.T @ inner)
        dinner = dx @ at(DOWN + ".weight")
        dgate, dup = dinner * up * logistic * (1 + gate * (1 - logistic)), dinner * gate * logistic
        add(GATE + ".weight", dgate.T @ h1)
        add(UP + ".weight", dup.T @ h1)
        dh, dweight = rms_back(x1, at(AFTER + ".weight"), scale1,
                               dgate @ at(GATE + ".weight") + dup @ at(UP + ".weight"))
        add(AFTER + ".weight", dweight)
        dx = dx + dh
        add(OUTPUT + ".weight", dx.T @ attended)
        dq, dk, dv = attend_back(q, k, v, weights, dx @ at(OUTPUT + ".weight"))
        dh = 0
        for name, d in ((QUERY, rotate(dq, -1)), (KEY, rotate(dk, -1)), (VALUE, dv)):
            add(name + ".weight", d.T @ h0)
            add(name + ".bias", d.sum(0))
            dh = dh + d @ at(name + ".weight")
        dh, dweight = rms_back(x0, at(BEFORE + ".weight"), scale0, dh)
        add(BEFORE + ".weight", dweight)
        return dx + dh

    return x2, back


def sequence(model, w, ids, gradient, scale):
    """Logits of one sequence and its share of the loss; adds to the gradient."""
    x, backs = w[EMBEDDING][ids], []
    for layer in range(model.layers):
        x, back = block(w, layer, x, model.window(layer))
        backs.append(back)
    h, norm_scale = rms(x, w[NORM])
    logits = h @ w[HEAD_MATRIX].T
    probabilities = softmax(logits[:-1])
    loss = -scale * np.log(probabilities[np.arange(len(ids) - 1), ids[1:]]).sum()

    dlogits = np.zeros_like(logits)
    dlogits[:-1] = probabilities * scale
    dlogits[np.arange(len(ids) - 1), ids[1:]] -= scale
    gradient[HEAD_MATRIX] += dlogits.T @ h
    dx, dweight = rms_back(x, w[NORM], norm_scale, dlogits @ w[HEAD_MATRIX])
    gradient[NORM] += dweight
    for back in reversed(backs):
        dx = back(dx, gradient)
    np.add.at(gradient[EMBEDDING], ids, dx)
    return logits, loss


def evaluate(model, w, tokens):
    gradient = {name: np.zeros(shape, np.result_type(*w.values())) for name, shape in model.shapes.items()}
    results = [sequence(model, w, ids, gradient, 1 / (ROWS * (COLUMNS - 1))) for ids in tokens]
    return np.stack([logits for logits, _ in results]), sum(loss for _, loss in results), gradient


def flat(model, tensors):
    return np.concatenate([tensors[name].ravel() for name in model.shapes])


def along(model, w, tokens, v):
    """Derivatives of the loss and of its gradient along v."""
    _, loss, gradient = evaluate(model, {name: w[name] + 1j * STEP * v[name] for name in model.shapes}, tokens)
    return loss.imag / STEP, {name: value.imag / STEP for name, value in gradient.items()}


def hessian(model, w, tokens):
    rows, size = [], sum(int(np.prod(shape)) for shape in model.shapes.values())
    for number in range(size):
        v, at = {}, 0
        for name, shape in model.shapes.items():
            unit = np.zeros(shape)
            if at <= number < at + unit.size:
                unit.flat[number - at] = 1
            v[name], at = unit, at + unit.size
        rows.append(flat(model, along(model, w, tokens, v)[1]))
    return np.array(rows)


def make(model):
    rng = np.random.default_rng(1729)
    weights = {}
    for name, shape in model.shapes.items():
        drawn = rng.normal(0, 0.3 if len(shape) == 1 else 0.45, shape)
        weights[name] = ((1 if "norm" in name else 0) + drawn).astype(np.float32)
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    tokens = rng.integers(0, VOCABULARY, (ROWS, COLUMNS))
    v = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in model.shapes.items()}
    logits, loss, gradient = evaluate(model, w, tokens)
    wide = {name: value.astype(np.float64) for name, value in v.items()}
    slope, product = along(model, w, tokens, wide)
    # the gradient is the loss's
    assert abs(slope - flat(model, gradient) @ flat(model, wide)) < 1e-13 * np.linalg.norm(flat(model, wide))
    matrix = hessian(model, w, tokens)
    assert np.abs(matrix - matrix.T).max() < 1e-13 * np.abs(matrix).max()
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    numbers = {
        "model_type": "qwen2", "loss": float(loss), "grad_norm": float(np.linalg.norm(flat(model, gradient))),
        "grad_norms": {name: float(np.linalg.norm(gradient[name])) for name in model.shapes},
        "hessian": {"max_algebraic": float(values[-1]), "min_algebraic": float(values[0]),
                    "max_magnitude": float(values[np.abs(values).argmax()]), "trace": float(np.trace(matrix)),
                    "frobenius": float(np.linalg.norm(matrix))},
    }
    tensors = {"tokens": tokens.astype(np.int64), "logits": logits}
    for prefix, part in (("grad", gradient), ("hvp.v", v), ("hvp.hv", product)):
        tensors.update({f"{prefix}.{name}": np.ascontiguousarray(part[name]) for name in model.shapes})
    return weights, tensors, numbers


def numbers_in(value):
    if isinstance(value, dict):
        return [x for part in value.values() for x in numbers_in(part)]
    return [value] if isinstance(value, float) else []


def check(model, weights, tensors, numbers):
    place = PLACE / model.name
    there = load_file(place / "reference.safetensors")
    apart = [np.abs(there[name] - tensors[name]).max() for name in tensors]
    apart += [np.abs(load_file(place / "model.safetensors")[name] - weights[name]).max() for name in weights]
    read = json.loads((place / "reference.json").read_text())
    apart += [abs(a - b) / max(1, abs(a)) for a, b in zip(numbers_in(read), numbers_in(numbers), strict=True)]
    print(f"{model.name}: largest difference {max(apart):.3g}")
    return max(apart) < 1e-11 and set(there) == set(tensors)


def write(model, weights, tensors, numbers):
    place = PLACE / model.name
    place.mkdir(parents=True, exist_ok=True)
    save_file(weights, place / "model.safetensors")
    save_file(tensors, place / "reference.safetensors")
    (place / "config.json").write_text(json.dumps(model.config, indent=1) + "\n")
    (place / "reference.json").write_text(json.dumps(numbers, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="those of them alone")
    options = parser.parse_args()
    names = [model.name for model in MODELS]
    if unknown := set(options.models) - set(names):
        parser.error(f"no model {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    made = [(model, *make(model)) for model in MODELS if not options.models or model.name in options.models]
    if options.check:
        return 0 if all([check(*parts) for parts in made]) else 1
    for parts in made:
        write(*parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
