"""What a GPU machine has, for check.py and bench.py: it may be gcc, nvcc and PyTorch alone,
with cuBLAS in PyTorch's own packages."""

import concurrent.futures
import ctypes
import glob
import importlib.util
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# DELTAQ_CUDA_PLUGIN names another: the emulated one.
PLUGIN = pathlib.Path(os.environ.get("DELTAQ_CUDA_PLUGIN", ROOT / "build/libdeltaq-cuda.so"))
NVCC_PLACES = ("/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc")
TEXT = 400


class Plugin(ctypes.Structure):  # struct device_plugin, engine/backend/cuda/device.h
    _fields_ = [("version", ctypes.c_int), ("size_count", ctypes.c_int), ("sources", ctypes.c_char_p),
                ("sizes", ctypes.c_void_p),
                ("count", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)),
                ("identify", ctypes.c_void_p),
                ("open",
                 ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t,
                                  ctypes.c_void_p))]


VERSION = 10  # CUDA_PLUGIN_VERSION


def nvcc():
    return shutil.which("nvcc") or next((path for path in NVCC_PLACES if os.access(path, os.X_OK)), None)


def cublas_directories():
    """Of the Python packages beside PyTorch (nvidia/cublas/lib, nvidia/cu13/lib) and of PyTorch itself."""
    found = []
    for name in ("nvidia", "torch"):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or []) if spec else []:
            found += sorted({os.path.dirname(path) for path in glob.glob(f"{place}/**/libcublas.so.*", recursive=True)})
    return found


def environment():
    """For what runs on the device."""
    known = os.environ.get("DELTAQ_CUDA_LIBRARIES")
    directories = cublas_directories()
    more = {"DELTAQ_CUDA_PLUGIN": str(PLUGIN)}
    if not known and directories:
        more["DELTAQ_CUDA_LIBRARIES"] = ":".join(directories)
    return {**os.environ, **more}


def make(*arguments):
    done = subprocess.run(["make", "--no-print-directory", "-s", f"-j{os.cpu_count()}", *arguments], cwd=ROOT)
    return done.returncode == 0


def probe():
    """(what the first device says of itself, None) or (None, why there is none)."""
    os.environ.update({k: v for k, v in environment().items() if k.startswith("DELTAQ_")})
    plugin = Plugin.in_dll(ctypes.CDLL(str(PLUGIN)), "deltaq_cuda_plugin")
    if plugin.version != VERSION:
        return None, f"{PLUGIN} has version {plugin.version}, and {VERSION} is wanted: run `make cuda` again"
    text = ctypes.create_string_buffer(TEXT)
    sound, failure = ctypes.c_bool(), ctypes.c_int()
    if plugin.count(text, TEXT, ctypes.byref(sound)) == 0:
        return None, text.value.decode()
    found = text.value.decode()
    device = plugin.open(0, b"f32", text, TEXT, ctypes.byref(failure))
    if not device:
        return None, f"{found}, but {text.value.decode()}"
    said = ctypes.string_at(device + ctypes.sizeof(ctypes.c_void_p), TEXT).split(b"\0")[0].decode()
    return f"{found}: {said}", None


def probe_apart():
    """probe, in a process that ends: a device that stays open takes memory of it, and turns in the time of others."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        return child.submit(probe).result()


def need_device(what):
    """Builds the plugin and finds a device, or says what is missing and ends with 2:
    nothing was tried, so nothing passed."""
    def stop(reason):
        print(f"{what}: nothing was run: {reason}")
        sys.exit(2)

    if shutil.which("cc") is None and shutil.which("gcc") is None:
        stop("no C compiler (gcc)")
    if "DELTAQ_CUDA_PLUGIN" not in os.environ and nvcc() is None:
        stop("no nvcc, on PATH or in /usr/local/cuda/bin: the CUDA toolkit is needed to build the plugin")
    if "DELTAQ_CUDA_PLUGIN" not in os.environ and not make("cuda"):
        stop("build/libdeltaq-cuda.so does not build; what nvcc said is above")
    said, reason = probe_apart()
    if said is None:
        stop(f"no usable CUDA device: {reason}")
    print(said, flush=True)
