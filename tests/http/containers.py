"""Checkpoints in other containers than safetensors, written with numpy and the standard library: files of torch.save, GGUF."""

import io
import struct
import zipfile

import numpy

LLAMA_TO_GGUF = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def integer(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return b"(" + b"".join(integer(v) for v in values) + b"t"


def tensor(key, array):
    """As torch.save pickles one: a call of _rebuild_tensor_v2 over a storage that lies beside the pickle. A transposed array stays one."""
    count, width = array.size, array.itemsize
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integer(count) + b"tQ"
    strides = numbers(s // width for s in array.strides)
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(0) + numbers(array.shape) + strides + b"\x89ccollections\nOrderedDict\n)RtR"


def archive(path, pickle, storages):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickle)
        file.writestr("archive/byteorder", "little")
        for key, array in storages.items():
            file.writestr(f"archive/data/{key}", array.T.tobytes() if array.flags.f_contiguous and array.ndim > 1 else array.tobytes())
        file.writestr("archive/version", "3\n")


def write_torch(path, tensors, wrap=None, prefix=""):
    """`wrap`: the key of the state dict in a training state with a step, an optimizer and a float beside it."""
    keys = {name: str(i) for i, name in enumerate(tensors)}
    state = b"}(" + b"".join(text(prefix + name) + tensor(keys[name], array) for name, array in tensors.items()) + b"u"
    if wrap:
        optimizer = b"}(" + text("state") + b"}" + text("lr") + b"G" + struct.pack(">d", 1e-3) + text("groups") + b"](K\1K\2eu"
        state = b"}(" + text("step") + integer(4000) + text(wrap) + state + text("optimizer") + optimizer + b"u"
    archive(path, b"\x80\2" + state + b".", {keys[n]: a for n, a in tensors.items()})


def interleaved(matrix, heads):
    """Rows of each head so that the pairs that are rotated together are neighbours, as converters to GGUF leave them."""
    return matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def gguf_name(name):
    base, ending = name.rsplit(".", 1)
    if base in LLAMA_TO_GGUF:
        return f"{LLAMA_TO_GGUF[base]}.{ending}"
    _, _, layer, rest = base.split(".", 3)
    return f"blk.{layer}.{LLAMA_TO_GGUF[rest]}.{ending}"


def write_gguf(path, tensors, config):
    string = lambda value: struct.pack("<Q", len(value)) + value.encode()  # noqa: E731
    metadata = [("general.architecture", 8, string("llama"))]
    for key, value in (("embedding_length", config["hidden_size"]), ("feed_forward_length", config["intermediate_size"]),
                       ("block_count", config["num_hidden_layers"]), ("attention.head_count", config["num_attention_heads"]),
                       ("attention.head_count_kv", config["num_key_value_heads"]), ("context_length", config["max_position_embeddings"])):
        metadata.append((f"llama.{key}", 4, struct.pack("<I", value)))
    metadata.append(("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", config["rms_norm_eps"])))
    metadata.append(("llama.rope.freq_base", 6, struct.pack("<f", config["rope_theta"])))
    head = io.BytesIO()
    head.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, kind, value in metadata:
        head.write(string(key) + struct.pack("<I", kind) + value)
    data = b""
    for name, array in tensors.items():
        if "q_proj" in name:
            array = interleaved(array, config["num_attention_heads"])
        if "k_proj" in name:
            array = interleaved(array, config["num_key_value_heads"])
        shape = array.shape[::-1]
        head.write(string(gguf_name(name)) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 0, len(data)))
        data += numpy.ascontiguousarray(array).tobytes()
        data += bytes(-len(data) % 32)
    head.write(bytes(-head.tell() % 32))
    path.write_bytes(head.getvalue() + data)
