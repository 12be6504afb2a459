"""Sentences with a grammar and a skewed vocabulary:
text for the tests' smallest study, enough to learn from in seconds."""

import random


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    source = random.Random(0)
    words = ["".join(source.choice("aeioubdklmnprst") for _ in range(source.randint(2, 7))) for _ in range(300)]
    for name, count in (
        ("tiny-train.txt", 60000),
        ("tiny-words.txt", 20000),
        ("tiny-validation.txt", 6000),
        ("other.txt", 6000),
    ):
        text, k = [], 0
        for _ in range(count):
            k = (7 * k + int(source.expovariate(0.4))) % len(words)
            text.append(words[k] + (".\n" if source.random() < 0.1 else " "))
        if not (directory / name).exists():
            (directory / name).write_text("".join(text))
