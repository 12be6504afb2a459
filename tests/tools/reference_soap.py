#!/usr/bin/env python3
"""Writes tests/unit/engine/train/soap_numbers.h: what SOAP (Vyas et al., arXiv 2409.11321, algorithm 3, with the bias
corrections, the decay and the skipped first step of the authors' own code) makes of some tensors in float64.

    build/venv/bin/python tests/tools/reference_soap.py

Written from the paper with numpy alone, for tests only: eigenvectors and QR are LAPACK's. Both are unique up to signs,
which the update does not see, where a side is not longer than the other one. The longer one of a matrix whose sides
are both rotated has a null space after the first step, in which any basis will do; the gradients of the second case
stay out of it.
"""

import pathlib

import numpy

HEADER = pathlib.Path(__file__).resolve().parents[1] / "unit" / "engine" / "train" / "soap_numbers.h"

TENSORS = (
    ("gpt_neox.embed_in.weight", (7, 4)),
    ("gpt_neox.layers.0.input_layernorm.weight", (1, 4)),
    ("gpt_neox.layers.0.attention.query_key_value.weight", (12, 4)),
    ("gpt_neox.layers.0.attention.dense.weight", (4, 4)),
    ("gpt_neox.layers.0.mlp.dense_h_to_4h.weight", (6, 4)),
    ("gpt_neox.layers.0.mlp.dense_4h_to_h.weight", (4, 6)),
)
CASES = (
    {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6, "decay": 0.3, "clip": 2.5, "frequency": 3, "most": 4, "rate": 0.05,
     "steps": 8, "within": False},
    {"beta1": 0.95, "beta2": 0.7, "epsilon": 1e-3, "decay": 0.0, "clip": 0.0, "frequency": 2, "most": 10000,
     "rate": 0.01, "steps": 6, "within": True},
    {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "decay": 0.1, "clip": 0.0, "frequency": 1, "most": 3, "rate": 0.02,
     "steps": 4, "within": False},
)


def waves(tensor, step, rows, columns):
    i, j = numpy.mgrid[:rows, :columns]
    return numpy.sin(1.0 + step + 0.9 * tensor + 0.7 * i * (j + 1) + 1.3 * j * j)


def gradient(case, tensor, step, rows, columns):
    first = waves(tensor, 0 if case["within"] else step, rows, columns)
    if not case["within"] or step == 0:
        return first
    side = min(rows, columns)
    mixed = numpy.eye(side) + 0.5 * waves(tensor + 7, step, side, side)
    return first @ mixed if rows >= columns else mixed @ first


class Matrix:
    """One parameter; a vector has no sides to rotate."""

    def __init__(self, shape, case):
        rows, columns = shape
        self.case, self.vector = case, rows == 1
        i, j = numpy.mgrid[:rows, :columns]
        self.w = 0.1 * ((3 * i + 5 * j) % 7) - 0.3
        self.m, self.v = numpy.zeros(shape), numpy.zeros(shape)
        self.gram = [None if self.vector or n > case["most"] else numpy.zeros((n, n)) for n in shape]
        self.basis = [numpy.eye(n) for n in shape]

    def add_gram(self, g):
        share = 1 - self.case["beta2"]
        for side, outer in ((0, g @ g.T), (1, g.T @ g)):
            if self.gram[side] is not None:
                self.gram[side] = (1 - share) * self.gram[side] + share * outer

    def step(self, g, t):
        case, (left, right) = self.case, self.basis
        if t == 0:
            self.add_gram(g)
            for side, gram in enumerate(self.gram):
                if gram is not None:
                    self.basis[side] = numpy.linalg.eigh(gram)[1][:, ::-1]
            return
        turned = left.T @ g @ right
        self.m = case["beta1"] * self.m + (1 - case["beta1"]) * turned
        self.v = case["beta2"] * self.v + (1 - case["beta2"]) * turned**2
        size = case["rate"] * numpy.sqrt(1 - case["beta2"] ** t) / (1 - case["beta1"] ** t)
        self.w = self.w - size * left @ (self.m / (numpy.sqrt(self.v) + case["epsilon"])) @ right.T
        if not self.vector:
            self.w = self.w - case["rate"] * case["decay"] * self.w
        self.add_gram(g)
        if t % case["frequency"] == 0:
            self.refresh(left @ self.m @ right.T)

    def refresh(self, m):
        for side, gram in enumerate(self.gram):
            if gram is not None:
                basis = self.basis[side]
                order = numpy.argsort(-numpy.diag(basis.T @ gram @ basis), kind="stable")
                self.v = numpy.take(self.v, order, axis=side)
                self.basis[side] = numpy.linalg.qr(gram @ basis[:, order])[0]
        self.m = self.basis[0].T @ m @ self.basis[1]


def run(case):
    matrices = [Matrix(shape, case) for _, shape in TENSORS]
    for t in range(case["steps"]):
        gradients = [gradient(case, k, t, *shape) for k, (_, shape) in enumerate(TENSORS)]
        norm = numpy.sqrt(sum((g**2).sum() for g in gradients))
        scale = case["clip"] / norm if 0 < case["clip"] < norm else 1
        for matrix, g in zip(matrices, gradients):
            matrix.step(scale * g, t)
    return [matrix.w for matrix in matrices]


def lines_of(numbers):
    line = "       "
    for number in numbers:
        text = f" {number:.15g},"
        if len(line) + len(text) > 118:
            yield line
            line = "       "
        line += text
    yield line


def main():
    out = ["/* Written by tests/tools/reference_soap.py. */", "#ifndef SOAP_NUMBERS_H", "#define SOAP_NUMBERS_H", ""]
    out += ["#include <stdbool.h>", ""]
    numbers = sum(rows * columns for _, (rows, columns) in TENSORS)
    out += [f"enum {{ SOAP_TENSORS = {len(TENSORS)}, SOAP_NUMBERS = {numbers} }};", ""]
    out += ["static const char *const soap_tensors[SOAP_TENSORS] = {"]
    out += [f'    "{name}",' for name, _ in TENSORS] + ["};", ""]
    out += ["/* clip 0: not clipped; within: gradients stay in the span of the first. `ends` has the tensors one after",
            " * the other. */", "struct soap_case {",
            "    double beta1, beta2, epsilon, weight_decay, clip;", "    int frequency, most;", "    double rate;",
            "    int steps;", "    bool within;", "    double ends[SOAP_NUMBERS];", "};", ""]
    out += ["/* clang-format off */", "static const struct soap_case soap_cases[] = {"]
    for case in CASES:
        given = [*(case[key] for key in ("beta1", "beta2", "epsilon", "decay", "clip")), case["frequency"],
                 case["most"], case["rate"], case["steps"], str(case["within"]).lower()]
        out += ["    {" + ", ".join(str(value) for value in given) + ",", "     {"]
        out += [*lines_of(numpy.concatenate([w.ravel() for w in run(case)])), "     }},"]
    HEADER.write_text("\n".join([*out, "};", "", "#endif", ""]))


if __name__ == "__main__":
    main()
