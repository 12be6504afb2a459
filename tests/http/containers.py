"""Checkpoints in other containers than safetensors,
written with numpy and the standard library: files of torch.save, GGUF."""

import io
import struct
import zipfile

import numpy

LLAMA_TO_GGUF = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    "lm_head": "output",
}


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def integer(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return b"(" + b"".join(integer(v) for v in values) + b"t"


def tensor(key, array):
    """As torch.save pickles one: a call of _rebuild_tensor_v2 over a storage that lies beside the pickle.
    A transposed array stays one."""
    count, width = array.size, array.itemsize
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integer(count) + b"tQ"
    strides = numbers(s // width for s in array.strides)
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(0) + numbers(array.shape) + strides
            + b"\x89ccollections\nOrderedDict\n)RtR")


def archive(path, pickle, storages):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickle)
        file.writestr("archive/byteorder", "little")
        for key, array in storages.items():
            file.writestr(f"archive/data/{key}",
                          array.T.tobytes() if array.flags.f_contiguous and array.ndim > 1 else array.tobytes())
        file.writestr("archive/version", "3\n")


def write_torch(path, tensors, wrap=None, prefix=""):
    """`wrap`: the key of the state dict in a training state with a step, an optimizer and a float beside it."""
    keys = {name: str(i) for i, name in enumerate(tensors)}
    state = b"}(" + b"".join(text(prefix + name) + tensor(keys[name], array) for name, array in tensors.items()) + b"u"
    if wrap:
        optimizer = (b"}(" + text("state") + b"}" + text("lr") + b"G" + struct.pack(">d", 1e-3) + text("groups")
                     + b"](K\1K\2eu")
        state = b"}(" + text("step") + integer(4000) + text(wrap) + state + text("optimizer") + optimizer + b"u"
    archive(path, b"\x80\2" + state + b".", {keys[n]: a for n, a in tensors.items()})


def interleaved(matrix, heads):
    """Rows of each head so that the pairs that are rotated together are neighbours,
    as converters to GGUF leave them."""
    return matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def gguf_name(name):
    base, ending = name.rsplit(".", 1)
    if base in LLAMA_TO_GGUF:
        return f"{LLAMA_TO_GGUF[base]}.{ending}"
    _, _, layer, rest = base.split(".", 3)
    return f"blk.{layer}.{LLAMA_TO_GGUF[rest]}.{ending}"


def gguf_string(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_value(value):
    """A value of the metadata behind its type: a list is an array of texts, integers or floats."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    kind, items = {str: (8, gguf_string), int: (5, struct.Struct("<i").pack),
                   float: (6, struct.Struct("<f").pack)}[type(value[0]) if value else str]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(items, value))


def gguf_file(path, tensors, metadata):
    """Arrays by their names in the file; values by key."""
    head = io.BytesIO()
    head.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        head.write(gguf_string(key) + gguf_value(value))
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        head.write(gguf_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
                   + struct.pack("<IQ", 0, len(data)))
        data += numpy.ascontiguousarray(array).tobytes()
        data += bytes(-len(data) % 32)
    head.write(bytes(-head.tell() % 32))
    path.write_bytes(head.getvalue() + data)


def write_gguf(path, tensors, config, parts=1, more=None):
    """A llama; in `parts` files path-00001-of-0000N.gguf when there is more than one; `more` goes into the metadata."""
    metadata = {"general.architecture": "llama", **(more or {})}
    for key, value in (("embedding_length", "hidden_size"), ("feed_forward_length", "intermediate_size"),
                       ("block_count", "num_hidden_layers"), ("attention.head_count", "num_attention_heads"),
                       ("attention.head_count_kv", "num_key_value_heads"),
                       ("context_length", "max_position_embeddings")):
        metadata[f"llama.{key}"] = config[value]
    metadata["llama.attention.layer_norm_rms_epsilon"] = float(config["rms_norm_eps"])
    metadata["llama.rope.freq_base"] = float(config["rope_theta"])
    renamed = {}
    for name, array in tensors.items():
        heads = (config["num_attention_heads"] if "q_proj" in name
                 else config["num_key_value_heads"] if "k_proj" in name else 0)
        renamed[gguf_name(name)] = interleaved(array, heads) if heads else array
    if parts == 1:
        return gguf_file(path, renamed, metadata)
    names = list(renamed)
    for part in range(parts):
        split = {"split.no": part, "split.count": parts, "split.tensors.count": len(names)}
        own = {n: renamed[n] for n in names[part::parts]}
        gguf_file(gguf_part(path, part + 1, parts), own, {**metadata, **split} if part == 0 else split)


def gguf_part(path, part, parts):
    return path.with_name(f"{path.name}-{part:05d}-of-{parts:05d}.gguf")


def gguf_tokenizer(document, pre=None):
    """The metadata that converters make of a tokenizer.json: byte-level with the name of its splitting, else
    SentencePiece with scores in place of merges."""
    vocabulary, added = document["model"]["vocab"], document["added_tokens"]
    size = 1 + max([*vocabulary.values(), *(a["id"] for a in added)])
    tokens, types = [f"[PAD{i}]" for i in range(size)], [5] * size
    for token, at in vocabulary.items():
        byte = pre is None and len(token) == 6 and token.startswith("<0x")
        tokens[at], types[at] = token, 6 if byte else 1
    for a in added:
        tokens[a["id"]], types[a["id"]] = a["content"], 3 if a["special"] else 4
    out = {"tokenizer.ggml.model": "gpt2" if pre else "llama", "tokenizer.ggml.tokens": tokens,
           "tokenizer.ggml.token_type": types}
    if pre:
        merges = [m if isinstance(m, str) else " ".join(m) for m in document["model"]["merges"]]
        return {**out, "tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": merges}
    types[0] = 2
    spaces = size > 1000  # runs of spaces come last in the one large vocabulary that there is
    score = lambda t, i: (  # noqa: E731
        0.0 if i < 259 else -1e9 if spaces and len(t) > 1 and set(t) == {"\u2581"} else 259.0 - i)
    return {**out, "tokenizer.ggml.scores": [score(t, i) for i, t in enumerate(tokens)]}
