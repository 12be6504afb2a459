"""Pickles that would run code, or that take the machine that reads them apart;
and tensors over storages that are not there."""

import struct

import containers

from .table import FIRST, RAN, TENSORS, adder, beside

PICKLES = []
case = adder(PICKLES)
text, integer = containers.text, containers.integer
TOUCH = text(f"touch {RAN}")


def short(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


def pickled(body, proto=b"\x80\2", storages=None):
    def write(directory):
        beside(directory)
        containers.archive(directory / "pytorch_model.bin", proto + body, storages or {})
    return write


def call(module, name, arguments=TOUCH):
    return f"c{module}\n{name}\n".encode() + b"(" + arguments + b"tR"


def in_a_dict(value, key="a"):
    return b"}(" + text(key) + value + b"u."


WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "weights")


def refused_name(what, module, name, arguments=TOUCH):
    case(what, pickled(in_a_dict(call(module, name, arguments))), f"{module}.{name}, which is refused", "unsupported")


for dotted in ("posix.system", "nt.system", "os.system", "os.popen", "subprocess.Popen", "builtins.eval",
               "builtins.exec", "builtins.getattr", "builtins.__import__", "__builtin__.eval", "builtins.open",
               "_io.FileIO", "runpy._run_code", "importlib.import_module", "functools.partial", "operator.methodcaller",
               "operator.attrgetter", "webbrowser.open", "pip.main", "pydoc.pipepager", "timeit.timeit", "cProfile.run",
               "bdb.Bdb.run", "idlelib.run.Executive.runcode", "ctypes.CDLL", "marshal.loads", "pickle.loads",
               "types.FunctionType", "socket.create_connection", "shutil.rmtree", "torch.load", "torch.hub.load",
               "torch.storage._load_from_bytes", "torch.serialization.load", "torch._dynamo.guards.GuardBuilder.get",
               "torch.jit.unsupported_tensor_ops.execWrapper", "torch.utils.collect_env.run",
               "torch.fx.graph_module.reduce_graph_module", "numpy.testing._private.utils.runstring",
               "numpy.f2py.crackfortran.myeval", "transformers.AutoModel.from_pretrained", "dill._dill._load_type",
               "joblib.load"):
    refused_name("pickle-calls-" + dotted.lower().replace(".", "-").replace("_", ""), *dotted.rsplit(".", 1))

SYSTEM = call("posix", "system")
case("pickle-runs-before-it-breaks", pickled(SYSTEM + b"\xff\xff\xff"), "posix.system", "unsupported")
case("pickle-runs-in-a-key", pickled(b"}(" + SYSTEM + text("a") + b"u."), "posix.system", "unsupported")
case("pickle-runs-beside-tensors",
     pickled(b"}(" + text("x") + containers.tensor("0", TENSORS[FIRST]) + text("y") + SYSTEM + b"u.",
             storages={"0": TENSORS[FIRST]}), "posix.system", "unsupported")
case("pickle-names-by-the-stack", pickled(in_a_dict(short("posix") + short("system") + b"\x93(" + TOUCH + b"tR"),
                                          b"\x80\4"), "posix.system", "unsupported")
case("pickle-names-by-memos", pickled(b"\x8c\5posix\x94\x8c\6system\x94" + b"h\0h\1\x93(" + TOUCH + b"tR.", b"\x80\4"),
     "posix.system", "unsupported")
case("pickle-names-by-two-dots", pickled(in_a_dict(short("torch") + short("Size.__class__") + b"\x93", ""), b"\x80\4"),
     "torch.Size.__class__", "unsupported")
case("pickle-names-in-an-escape", pickled(in_a_dict(call("posix\x1b[2J", "system"))), "posix?[2J.system", "unsupported")
case("pickle-of-inst", pickled(b"(" + TOUCH + b"iposix\nsystem\n."), "opcode INST is refused", "unsupported")
case("pickle-of-obj", pickled(b"(cposix\nsystem\n" + TOUCH + b"o."), "posix.system", "unsupported")
case("pickle-of-obj-of-a-known-name", pickled(b"(ctorch\nSize\n" + TOUCH + b"o."), "opcode OBJ is refused",
     "unsupported")
case("pickle-of-newobj", pickled(b"cposix\nsystem\n(" + TOUCH + b"t\x81."), "posix.system", "unsupported")
case("pickle-of-newobj-ex", pickled(b"ctorch\nSize\n)}\x92.", b"\x80\4"), "opcode NEWOBJ_EX is refused", "unsupported")
case("pickle-of-extensions", pickled(b"\x82\1."), "opcode EXT1 is refused", "unsupported")
case("pickle-of-long-extensions", pickled(b"\x84\1\0\0\0."), "opcode EXT4 is refused", "unsupported")
case("pickle-of-persid", pickled(b"Pposix\n."), "opcode PERSID is refused", "unsupported")
case("pickle-of-next-buffer", pickled(b"\x97.", b"\x80\5"), "opcode NEXT_BUFFER is refused", "unsupported")
case("pickle-of-protocol-0", pickled(b"(dp0\nVa\np1\nI1\ns.", b""), "does not begin with protocol 2, 3, 4 or 5")
case("pickle-of-protocol-9", pickled(b"}.", b"\x80\x09"), "does not begin with protocol 2, 3, 4 or 5")
case("pickle-of-two-protocols", pickled(b"\x80\2}."), "opcode PROTO is refused", "unsupported")
case("pickle-of-an-unknown-opcode", pickled(b"\xfe."), "0xfe is no opcode")
case("pickle-without-an-end", pickled(b"}"), "the pickle ends early")
case("pickle-with-bytes-after-its-end", pickled(b"}." + SYSTEM), "bytes follow the end")
case("pickle-with-a-full-stack", pickled(b"}}."), "values are left on the stack")
case("pickle-with-an-empty-stack", pickled(b"0."), "the stack is empty")
case("pickle-of-nothing", pickled(b"", b""), "does not begin with protocol 2, 3, 4 or 5")
case("pickle-with-a-text-of-4-gigabytes", pickled(b"X\xff\xff\xff\xffa."), "the pickle ends early")
case("pickle-with-a-text-of-2-to-64", pickled(b"\x8d" + b"\xff" * 8 + b"a.", b"\x80\4"),
     "opcode BINUNICODE8 is refused", "unsupported")
case("pickle-with-a-bytearray-of-2-to-63", pickled(b"\x96" + struct.pack("<Q", 2**63) + b"a.", b"\x80\5"),
     "opcode BYTEARRAY8 is refused", "unsupported")
case("pickle-with-a-frame-beyond-it", pickled(b"\x95" + b"\xff" * 8 + b"}.", b"\x80\4"),
     "a frame is longer than the pickle")
case("pickle-with-a-name-without-an-end", pickled(b"cposix"), "a name without an end")
case("pickle-with-a-memo-out-of-order", pickled(b"}r\xff\xff\xff\x7f."), "memos are not numbered in order")
case("pickle-with-an-unwritten-memo", pickled(b"h\5."), "a memo that was not written")
case("pickle-with-a-mark-remembered", pickled(b"(q\0."), "a mark where a value is expected")
case("pickle-of-marks-alone", pickled(b"(" * 100000 + b"."), "a mark where a value is expected")
case("pickle-that-contains-itself", pickled(b"}q\0(" + text("a") + b"h\0u."), "an object contains itself")
case("pickle-nested-a-million-deep", pickled(b"]" * 1000000 + b"a" * 999999 + b"."),
     "more than 64 levels of nesting", "too_large")
case("pickle-of-a-billion-laughs",
     pickled(b"}q\0" + b"".join(b"0}(" + b"".join(text(w) + b"h" + bytes([i]) for w in WRAPPERS) + b"uq"
                                + bytes([i + 1]) for i in range(40)) + b"."), "no state dict in it", "invalid")
case("pickle-called-by-a-text", pickled(b"X\1\0\0\0a)R."), "a call of something that is no name")
case("pickle-called-without-arguments", pickled(b"ctorch\nSize\n}R."), "a call without a tuple of arguments")
case("pickle-with-a-key-alone", pickled(b"}(" + text("a") + b"u."), "a key without a value")
case("pickle-with-keys-for-a-list", pickled(b"](" + text("a") + text("b") + b"u."),
     "keys for something that is no dict")
case("pickle-with-a-state-for-a-text", pickled(text("a") + b"}b."), "a state for something that has none")
case("pickle-of-no-tensors", pickled(in_a_dict(integer(1))), "no state dict in it", "invalid")


# --- Tensors of a pickle over storages that are there or not ----------------------------------------------------------
def storage(kind="FloatStorage", key="0", count=16):
    return b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + integer(count) + b"tQ"


def long(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(stored=None, offset=0, shape=(4, 4), strides=(4, 1), size=64, more=b""):
    numbers = lambda values: b"(" + b"".join(map(long, values)) + b"t"  # noqa: E731
    rebuilt = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + (storage() if stored is None else stored) + long(offset)
               + numbers(shape) + numbers(strides) + b"\x89ccollections\nOrderedDict\n)R" + more + b"tR")
    def write(directory):
        beside(directory)
        containers.archive(directory / "pytorch_model.bin", b"\x80\2" + in_a_dict(rebuilt, "x"),
                           {"0": TENSORS[FIRST].ravel()[: size // 4]})
    return write


case("tensor-begins-beyond-its-storage", tensor(offset=1), "reaches beyond its storage")
case("tensor-begins-before-its-storage", tensor(offset=-1), "reaches beyond its storage")
case("tensor-begins-at-2-to-63", tensor(offset=2**63 - 1), "reaches beyond its storage")
case("tensor-strides-beyond-its-storage", tensor(strides=(5, 1)), "reaches beyond its storage")
case("tensor-strides-overflow", tensor(strides=(2**62, 2**62)), "reaches beyond its storage")
case("tensor-strides-backwards", tensor(offset=15, strides=(-4, -1)), "reaches beyond its storage")
case("tensor-strides-of-nothing", tensor(shape=(1 << 20, 1 << 20), strides=(0, 0)), "repeats its elements",
     "unsupported")
case("tensor-shape-overflows", tensor(shape=(2**40, 2**40)), "reaches beyond its storage")
case("tensor-shape-negative", tensor(shape=(-4, 4)), "reaches beyond its storage")
case("tensor-of-two-ranks", tensor(strides=(4,)), "is not described as torch.save does")
case("tensor-of-nine-dimensions", tensor(shape=(1,) * 9, strides=(1,) * 9), "more than 8 dimensions")
case("storage-missing", tensor(storage(key="7")), "has a storage that is not in the archive")
case("storage-is-a-path", tensor(storage(key="../../../../etc/passwd")), "whose key is no plain name")
case("storage-is-an-absolute-path", tensor(storage(key="/etc/passwd")), "whose key is no plain name")
case("storage-larger-than-its-entry", tensor(storage(count=17)), "has a storage of another size than its entry")
case("storage-of-negative-size", tensor(storage(count=-1)), "has a storage of another size than its entry")
case("storage-of-complex-numbers", tensor(storage("ComplexFloatStorage", count=8)), "has complex numbers",
     "unsupported")
case("storage-of-quantized-numbers", tensor(storage("QInt8Storage", count=64)), "a quantized tensor", "unsupported")
case("storage-of-an-unknown-type", tensor(storage("EvilStorage")), "torch.EvilStorage, which is refused", "unsupported")
case("storage-that-is-a-number", tensor(integer(7)), "has no storage")
case("tensor-is-sparse", pickled(in_a_dict(b"ctorch._utils\n_rebuild_sparse_tensor\n)R")), "a sparse tensor",
     "unsupported")
case("tensor-is-on-no-device", pickled(in_a_dict(b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n)R")),
     "a tensor without values", "unsupported")
case("tensor-of-another-class", pickled(in_a_dict(b"ctorch._utils\n_rebuild_wrapper_subclass\n)R")),
     "a distributed tensor", "unsupported")
