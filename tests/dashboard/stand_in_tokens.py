"""The worst tokens of runs, as the server says them."""


def worst_token(sequence, position, full, quantized, before, text, after):
    """The windows are of three tokens."""
    return {"sequence": sequence, "position": position, "token": 17 + position, "loss": quantized,
            "reference_loss": full, "kl": 0.01,
            "difference": None if None in (full, quantized) else quantized - full,
            "before": before, "text": text, "after": after, "from": position - 1,
            "tokens": [5, 17 + position, 6], "losses": [None if position == 1 else 2.5, quantized, 1],
            "reference_losses": [None, full, None if full is None else 0.5]}


def worst_tokens(items, **more):
    return {"run": "r0", "against": None, "kind": "quantize", "checkpoint": "c0", "dataset": "validation",
            "reference": "full_precision", "decode": "tokenizer", "predictions": 4000, "items": items, **more}


def keep_tokens(world, run="r0", name="token_losses_q.npy"):
    world.artifacts[run] = {"losses.csv": b"sequence,tokens\n0,5\n", name: b"\x93NUMPY"}
