#!/usr/bin/env python3
"""peer_tasks.py MODEL FOLDER SHOTS LIMIT BATCH TASK...: the same tasks in lm-evaluation-harness,
float32 on the CPU; a line of JSON.

The harness's own task definitions over the records of FOLDER (TASK.eval.jsonl, TASK.fewshot.jsonl), one model for all.
The clock runs inside its loglikelihood calls alone: tokenizing and the model, not the building of requests and not what
comes after. BATCH 0 counts the tokens and computes nothing. LIMIT records of each task, 0: all; of mmlu a twentieth of
that of each of its twenty subjects."""

import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import datasets  # noqa: E402
import lm_eval  # noqa: E402
import torch  # noqa: E402
from lm_eval.api import task as harness_task  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402

SUBJECTS = 20


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def local_download(folder):
    """In place of the hub: the split that is evaluated from one file,
    the one that examples come from from the other."""
    def download(self, *_, **__):
        config = self.config
        name = "mmlu" if config.task.startswith("mmlu_") else config.task
        subject = config.dataset_name if name == "mmlu" else None
        evaluated, pool = ([record for record in records(folder / f"{name}.{part}.jsonl")
                            if subject is None or record["subject"] == subject]
                           for part in ("eval", "fewshot"))
        splits = {split: pool for split in (config.training_split, config.fewshot_split) if split}
        splits[config.test_split or config.validation_split] = evaluated
        if config.test_split and config.validation_split:
            splits[config.validation_split] = pool
        self.dataset = datasets.DatasetDict({split: datasets.Dataset.from_list(rows) for split, rows in splits.items()})
    harness_task.ConfigurableTask.download = download


class Timed(HFLM):
    """Counts what is fed to the model, padding and all, and times the calls."""
    tokens, seconds, processor, counting = 0, 0.0, 0.0, False

    def _model_call(self, inps, *arguments, **keywords):
        self.tokens += inps.numel()
        if self.counting:
            return torch.zeros(1, 1, 1).expand(*inps.shape, self.vocab_size)
        return super()._model_call(inps, *arguments, **keywords)

    def loglikelihood(self, *arguments, **keywords):
        began, worked = time.perf_counter(), time.process_time()
        answers = super().loglikelihood(*arguments, **keywords)
        self.seconds += time.perf_counter() - began
        self.processor += time.process_time() - worked
        return answers


def main():
    path, folder, shots, limit, batch, names = (sys.argv[1], pathlib.Path(sys.argv[2]),
                                                *map(int, sys.argv[3:6]), sys.argv[6:])
    local_download(folder)
    model = Timed(pretrained=path, dtype="float32", device="cpu", batch_size=batch or 1)
    model.counting = batch == 0
    if batch == 0:  # the log-softmax over nothing, at once
        torch.nn.functional.log_softmax = lambda logits, **_: logits
    subjects = (sorted({"mmlu_" + record["subject"] for record in records(folder / "mmlu.eval.jsonl")})
                if "mmlu" in names else [])
    rows, accuracy = [], {}
    for some, most in (([name for name in names if name != "mmlu"], limit), (subjects, -(-limit // SUBJECTS))):
        if some:
            found = lm_eval.simple_evaluate(model=model, tasks=some, num_fewshot=shots, limit=most or None,
                                            bootstrap_iters=0)
            rows += [row for one in found["samples"].values() for row in one]
            accuracy |= {name: value["acc,none"] for name, value in found["results"].items() if "acc,none" in value}
    right = [accuracy.pop(name) for name in subjects]
    accuracy |= {"mmlu": sum(right) / len(right)} if right else {}
    what = (f"lm-eval {lm_eval.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads, "
            f"batches of {batch}")
    print(json.dumps(
        {"seconds": model.seconds, "processor_seconds": model.processor, "tokens": model.tokens, "items": len(rows),
         "sum": sum(float(answer[0]) for row in rows for answer in row["filtered_resps"]),
         "accuracy": sum(accuracy.values()) / len(accuracy),
         "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "what": what}))


if __name__ == "__main__":
    main()
