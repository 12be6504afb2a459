"""Sentences with a grammar and a skewed vocabulary: text for the tests' smallest study, enough to learn from in
seconds, and for the cell `level` of the plan `open`, whose models learn all there is to learn of it. Standard library
only.
"""

import random

# Words of the cell's texts. A unit trains on 17.6 million tokens, one or two a word.
GRAMMAR = (
    ("grammar-train.txt", 19_000_000),
    ("grammar-words.txt", 400_000),
    ("grammar-validation.txt", 400_000),
)


def vocabulary(source):
    return ["".join(source.choice("aeioubdklmnprst") for _ in range(source.randint(2, 7))) for _ in range(300)]


def sentences(source, words, count):
    """A word depends on the one before it alone, and nine of ten words do not end a sentence."""
    text, k = [], 0
    for _ in range(count):
        k = (7 * k + int(source.expovariate(0.4))) % len(words)
        text.append(words[k] + (".\n" if source.random() < 0.1 else " "))
    return "".join(text)


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    source = random.Random(0)
    words = vocabulary(source)
    for name, count in (
        ("tiny-train.txt", 60000),
        ("tiny-words.txt", 20000),
        ("tiny-validation.txt", 6000),
        ("other.txt", 6000),
    ):
        text = sentences(source, words, count)
        if not (directory / name).exists():
            (directory / name).write_text(text)


def write_grammar(directory):
    """Takes 20 seconds, once. Each text has a source of its own, so that none repeats another."""
    words = vocabulary(random.Random(0))
    for number, (name, count) in enumerate(GRAMMAR, 1):
        if not (directory / name).exists():
            part = directory / f"{name}.part"
            part.write_text(sentences(random.Random(number), words, count))
            part.rename(directory / name)
