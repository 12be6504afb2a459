"""Gradients and Hessians of tiny models of the llama kind in numpy and double precision: passes backwards written by
hand, and their derivatives by complex steps, which have no roundoff of differences."""

import numpy

STEP = 1e-30


class Tape:
    """Values in the order in which they were made, with what carries a gradient to the values they were made of."""

    def __init__(self):
        self.values, self.back = [], []

    def make(self, value, *parents):
        self.values.append(value)
        self.back.append(parents)
        return len(self.values) - 1

    def gradients(self):
        """Of the last value, by every one."""
        found = [numpy.zeros_like(value) for value in self.values]
        found[-1] = numpy.ones_like(self.values[-1])
        for at in reversed(range(len(found))):
            for parent, carry in self.back[at]:
                found[parent] = found[parent] + carry(found[at])
        return found


def linear(tape, x, w):
    a, b = tape.values[x], tape.values[w]
    rows = lambda y: y.reshape(-1, y.shape[-1])
    return tape.make(a @ b.T, (x, lambda g: g @ b), (w, lambda g: rows(g).T @ rows(a)))


def plus(tape, x, y):
    return tape.make(tape.values[x] + tape.values[y], (x, lambda g: g), (y, lambda g: g))


def times(tape, x, y):
    a, b = tape.values[x], tape.values[y]
    return tape.make(a * b, (x, lambda g: g * b), (y, lambda g: g * a))


def silu(tape, x):
    a = tape.values[x]
    s = 1 / (1 + numpy.exp(-a))
    return tape.make(a * s, (x, lambda g: g * s * (1 + a * (1 - s))))


def norm(tape, x, w, epsilon):
    a, b = tape.values[x], tape.values[w]
    r = 1 / numpy.sqrt((a * a).mean(-1, keepdims=True) + epsilon)
    n = a * r
    return tape.make(n * b, (x, lambda g: r * (g * b - n * (g * b * n).mean(-1, keepdims=True))),
                     (w, lambda g: (g * n).sum((0, 1))))


def rotated(x, theta, sign):  # [B, heads, T, dim]
    half = x.shape[-1] // 2
    angle = sign * numpy.arange(x.shape[2])[:, None] * theta ** (-numpy.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate([a * numpy.cos(angle) - b * numpy.sin(angle), b * numpy.cos(angle) + a * numpy.sin(angle)],
                             -1)


def split(tape, x, heads):
    a = tape.values[x]
    batch, tokens, width = a.shape
    joined = lambda g: g.transpose(0, 2, 1, 3).reshape(a.shape)
    return tape.make(a.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3), (x, joined))


def rotate(tape, x, theta):
    return tape.make(rotated(tape.values[x], theta, 1), (x, lambda g: rotated(g, theta, -1)))


def attention(tape, q, k, v):
    a, b, c = tape.values[q], tape.values[k], tape.values[v]
    share, scale = a.shape[1] // b.shape[1], a.shape[-1] ** -0.5
    b, c = numpy.repeat(b, share, 1), numpy.repeat(c, share, 1)
    scores = scale * a @ b.swapaxes(2, 3) + numpy.triu(numpy.full((a.shape[2],) * 2, -numpy.inf), 1)
    p = numpy.exp(scores - scores.real.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)

    def shared(g):
        return g.reshape(g.shape[0], -1, share, *g.shape[2:]).sum(2)

    def of_scores(g):
        weights = g @ c.swapaxes(2, 3)
        return scale * p * (weights - (weights * p).sum(-1, keepdims=True))

    return tape.make(p @ c, (q, lambda g: of_scores(g) @ b), (k, lambda g: shared(of_scores(g).swapaxes(2, 3) @ a)),
                     (v, lambda g: shared(p.swapaxes(2, 3) @ g)))


def join(tape, x):
    a = tape.values[x]
    batch, heads, tokens, width = a.shape
    back = lambda g: g.reshape(batch, tokens, heads, width).transpose(0, 2, 1, 3)
    return tape.make(a.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * width), (x, back))


def embed(tape, table, ids):
    def back(g):
        out = numpy.zeros_like(tape.values[table])
        numpy.add.at(out, ids, g)
        return out

    return tape.make(tape.values[table][ids], (table, back))


def mean_loss(tape, logits, ids):
    a = tape.values[logits][:, :-1]
    p = numpy.exp(a - a.real.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    hot = numpy.eye(a.shape[-1])[ids[:, 1:]]
    count = ids[:, 1:].size

    def back(g):
        out = numpy.zeros_like(tape.values[logits])
        out[:, :-1] = g * (p - hot) / count
        return out

    return tape.make(-numpy.log((p * hot).sum(-1)).sum() / count, (logits, back))


class Model:
    """Of a configuration (untied) and its tensors; vectors have the tensors one after the other."""

    def __init__(self, config, tensors):
        self.config, self.names = config, sorted(tensors)
        self.shapes = [tensors[name].shape for name in self.names]
        self.weights = self.flat(tensors)

    def flat(self, tensors):
        return numpy.concatenate([numpy.asarray(tensors[name], float).ravel() for name in self.names])

    def gradient(self, rows, weights=None):
        """The mean loss of sequences of one length, and its gradient."""
        tape, at, ids = Tape(), 0, numpy.array(rows)
        weights, named = self.weights if weights is None else weights, {}
        for name, shape in zip(self.names, self.shapes):
            size = int(numpy.prod(shape))
            named[name.removesuffix(".weight")] = tape.make(weights[at : at + size].reshape(shape))
            at += size
        self.forward(tape, named, ids)
        found = tape.gradients()[: len(self.names)]
        return tape.values[-1], numpy.concatenate([one.ravel() for one in found])

    def forward(self, tape, named, ids):
        config, epsilon = self.config, self.config["rms_norm_eps"]
        x = embed(tape, named["model.embed_tokens"], ids)
        for layer in range(config["num_hidden_layers"]):
            of = lambda name: named[f"model.layers.{layer}.{name}"]
            h = norm(tape, x, of("input_layernorm"), epsilon)
            q, k, v = (split(tape, linear(tape, h, of(f"self_attn.{name}_proj")), heads) for name, heads in
                       zip("qkv", (config["num_attention_heads"], *(config["num_key_value_heads"],) * 2)))
            mixed = attention(tape, rotate(tape, q, config["rope_theta"]), rotate(tape, k, config["rope_theta"]), v)
            x = plus(tape, x, linear(tape, join(tape, mixed), of("self_attn.o_proj")))
            h = norm(tape, x, of("post_attention_layernorm"), epsilon)
            gate = silu(tape, linear(tape, h, of("mlp.gate_proj")))
            x = plus(tape, x, linear(tape, times(tape, gate, linear(tape, h, of("mlp.up_proj"))), of("mlp.down_proj")))
        logits = linear(tape, norm(tape, x, named["model.norm"], epsilon), named["lm_head"])
        return mean_loss(tape, logits, ids)

    def product(self, rows, v):
        """The Hessian of the mean loss times v."""
        return self.gradient(rows, self.weights + 1j * STEP * v)[1].imag / STEP

    def hessian(self, rows):
        return numpy.array([self.product(rows, v) for v in numpy.eye(len(self.weights))])
