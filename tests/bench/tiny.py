"""What the benches' `--tiny` form measures: a tokenizer of bytes, two records of every task, and tokens, made here in a
moment. It tries the benches themselves; its times say nothing. Needs numpy."""

import json
import pathlib

import numpy

PLAIN = (*range(33, 127), *range(161, 173), *range(174, 256))  # the bytes that stand for themselves in GPT-2's alphabet
END = 256
WORDS = ("stone", "river", "cloud", "bread", "glass")


def tokenizer():
    """Ids are the bytes; one more ends a text."""
    others = (byte for byte in range(256) if byte not in PLAIN)
    alphabet = {byte: chr(byte) for byte in PLAIN} | {byte: chr(256 + k) for k, byte in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": END, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": {alphabet[byte]: byte for byte in range(256)}, "merges": []}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}


def lettered(number, key="question"):
    def record(k):
        return {"id": str(k), key: f"What is number {k}?",
                "choices": {"text": list(WORDS[:number]), "label": list("ABCDE"[:number])},
                "answerKey": "ABCDE"[k % number]}
    return record


RECORDS = {
    "arc_challenge": lettered(4),
    "arc_easy": lettered(4),
    "openbookqa": lettered(4, "question_stem"),
    "commonsense_qa": lettered(5),
    "piqa": lambda k: {"goal": f"break it {k} times", "sol1": "with a stone", "sol2": "with bread", "label": k % 2},
    "hellaswag": lambda k: {"ind": k, "activity_label": "Rowing", "ctx_a": f"{k} boats go.",
                            "ctx_b": "they", "ctx": f"{k} boats go. they",
                            "endings": [f"see a {word}." for word in WORDS[:4]], "label": str(k % 4)},
    "winogrande": lambda k: {"sentence": f"The {k} stones met the bread, and the _ broke.", "option1": "stones",
                             "option2": "bread", "answer": str(1 + k % 2)},
    "mathqa": lambda k: {"Problem": f"what is {k} + 1 ?", "options": f"a ) {k} , b ) {k + 1} , c ) 7 , d ) 8 , e ) 9",
                         "correct": "b"},
    "pubmedqa": lambda k: {"PMID": str(k), "QUESTION": f"Do {k} stones float?", "CONTEXTS": ["Stones sink."],
                           "final_decision": "no"},
    "sciq": lambda k: {"question": f"What are {k} drops?", "distractor1": "bread", "distractor2": "glass",
                       "distractor3": "stone", "correct_answer": "a river", "support": "Drops make a river."},
    "social_iqa": lambda k: {"context": f"Kim threw {k} stones.", "question": "What breaks?", "answerA": "glass",
                             "answerB": "bread", "answerC": "a river", "label": str(1 + k % 3)},
    "mmlu": lambda k: {"question": f"Which is number {k}?", "subject": "abstract_algebra", "choices": list(WORDS[:4]),
                       "answer": k % 4},
}


def write_tasks(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for task, record in RECORDS.items():
        for part, first in (("eval", 0), ("fewshot", 10)):
            (folder / f"{task}.{part}.jsonl").write_text("".join(json.dumps(record(first + k)) + "\n"
                                                                 for k in range(2)))


def write_tokenizer(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tokenizer()))
    return path


def write_tokens(path, count, vocabulary, seed):
    numpy.random.default_rng(seed).integers(0, vocabulary, count, numpy.uint32).tofile(path)
    return pathlib.Path(path)
