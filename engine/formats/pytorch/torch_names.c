#include "formats/pytorch/torch_names.h"

#define CALL(module, name, meaning)                   \
    {                                                 \
        module, name, PICKLE_RULE_CALL, meaning, NULL \
    }
#define STORAGE(name, dtype) CALL("torch", name, TORCH_STORAGE + (int)(dtype))
#define DTYPE(name, dtype)   CALL("torch", name, TORCH_DTYPE + (int)(dtype))
#define REFUSE(module, name, advice)                \
    {                                               \
        module, name, PICKLE_RULE_REFUSE, 0, advice \
    }
#define SPARSE    "a sparse tensor; save tensor.to_dense()"
#define QUANTIZED "a quantized tensor; register the full-precision checkpoint"
#define SHARDED   "a distributed tensor; gather a full state dict and save that"
#define SCRIPT    "a compiled module; save module.state_dict() instead"

const struct pickle_global torch_names[] = {
    CALL("torch._utils", "_rebuild_tensor_v2", TORCH_REBUILD_TENSOR),
    CALL("torch._utils", "_rebuild_tensor", TORCH_REBUILD_TENSOR),
    CALL("torch._utils", "_rebuild_tensor_v3", TORCH_REBUILD_TYPED),
    CALL("torch._utils", "_rebuild_parameter", TORCH_REBUILD_PARAMETER),
    CALL("torch._utils", "_rebuild_parameter_with_state", TORCH_REBUILD_PARAMETER),
    CALL("torch._tensor", "_rebuild_from_type_v2", TORCH_REBUILD_FROM_TYPE),
    CALL("torch", "Size", TORCH_SIZE),
    STORAGE("FloatStorage", DTYPE_F32),
    STORAGE("HalfStorage", DTYPE_F16),
    STORAGE("BFloat16Storage", DTYPE_BF16),
    STORAGE("DoubleStorage", DTYPE_F64),
    STORAGE("LongStorage", DTYPE_I64),
    STORAGE("IntStorage", DTYPE_I32),
    STORAGE("ShortStorage", DTYPE_I16),
    STORAGE("CharStorage", DTYPE_I8),
    STORAGE("ByteStorage", DTYPE_U8),
    STORAGE("BoolStorage", DTYPE_BOOL),
    STORAGE("ComplexFloatStorage", DTYPE_COUNT),
    STORAGE("ComplexDoubleStorage", DTYPE_COUNT),
    CALL("torch", "UntypedStorage", TORCH_BYTES),
    CALL("torch.storage", "UntypedStorage", TORCH_BYTES),
    DTYPE("float32", DTYPE_F32),
    DTYPE("float16", DTYPE_F16),
    DTYPE("bfloat16", DTYPE_BF16),
    DTYPE("float64", DTYPE_F64),
    DTYPE("int64", DTYPE_I64),
    DTYPE("int32", DTYPE_I32),
    DTYPE("int16", DTYPE_I16),
    DTYPE("int8", DTYPE_I8),
    DTYPE("uint8", DTYPE_U8),
    DTYPE("bool", DTYPE_BOOL),
    DTYPE("uint16", DTYPE_U16),
    DTYPE("uint32", DTYPE_U32),
    DTYPE("uint64", DTYPE_U64),
    DTYPE("float8_e4m3fn", DTYPE_F8_E4M3),
    DTYPE("float8_e5m2", DTYPE_F8_E5M2),
    DTYPE("complex64", DTYPE_COUNT),
    DTYPE("complex128", DTYPE_COUNT),

    {"collections", "OrderedDict", PICKLE_RULE_DICT, TORCH_PASSED_OVER, NULL},
    {"builtins", "dict", PICKLE_RULE_DICT, TORCH_PASSED_OVER, NULL},
    {"__builtin__", "dict", PICKLE_RULE_DICT, TORCH_PASSED_OVER, NULL}, /* protocol 2 uses Python 2's name */

    /* In other parts of training states; skipped. */
    CALL("torch", "Tensor", TORCH_PASSED_OVER),
    CALL("torch.nn.parameter", "Parameter", TORCH_PASSED_OVER),
    CALL("torch", "device", TORCH_PASSED_OVER),
    CALL("torch.serialization", "_get_layout", TORCH_PASSED_OVER),
    CALL("collections", "defaultdict", TORCH_PASSED_OVER),
    CALL("collections", "Counter", TORCH_PASSED_OVER),
    CALL("collections", "deque", TORCH_PASSED_OVER),
    CALL("builtins", "list", TORCH_PASSED_OVER),
    CALL("builtins", "set", TORCH_PASSED_OVER),
    CALL("__builtin__", "list", TORCH_PASSED_OVER),
    CALL("__builtin__", "set", TORCH_PASSED_OVER),
    CALL("__builtin__", "bytearray", TORCH_PASSED_OVER),
    CALL("__builtin__", "complex", TORCH_PASSED_OVER),
    CALL("builtins", "bytearray", TORCH_PASSED_OVER),
    CALL("builtins", "complex", TORCH_PASSED_OVER),
    CALL("argparse", "Namespace", TORCH_PASSED_OVER),
    CALL("datetime", "timedelta", TORCH_PASSED_OVER),
    CALL("datetime", "datetime", TORCH_PASSED_OVER),
    CALL("pathlib", "PosixPath", TORCH_PASSED_OVER),
    CALL("_codecs", "encode", TORCH_PASSED_OVER), /* protocol 2's way to write bytes */
    CALL("numpy", "dtype", TORCH_PASSED_OVER),
    CALL("numpy", "ndarray", TORCH_PASSED_OVER),
    CALL("numpy.core.multiarray", "scalar", TORCH_PASSED_OVER),
    CALL("numpy.core.multiarray", "_reconstruct", TORCH_PASSED_OVER),
    CALL("numpy._core.multiarray", "scalar", TORCH_PASSED_OVER),
    CALL("numpy._core.multiarray", "_reconstruct", TORCH_PASSED_OVER),

    REFUSE("torch._utils", "_rebuild_sparse_tensor", SPARSE),
    REFUSE("torch._utils", "_rebuild_sparse_csr_tensor", SPARSE),
    REFUSE("torch._utils", "_rebuild_nested_tensor", "a nested tensor; save its parts"),
    REFUSE("torch._utils", "_rebuild_qtensor", QUANTIZED),
    REFUSE("torch", "QInt8Storage", QUANTIZED),
    REFUSE("torch", "QUInt8Storage", QUANTIZED),
    REFUSE("torch", "QInt32Storage", QUANTIZED),
    REFUSE("torch._utils", "_rebuild_meta_tensor_no_storage",
           "a tensor without values (device \"meta\"); save the materialised model"),
    REFUSE("torch._utils", "_rebuild_wrapper_subclass", SHARDED),
    REFUSE("torch._utils", "_rebuild_device_tensor_from_numpy",
           "a tensor of another device's library; move the model to the CPU and save it"),
    REFUSE("torch._utils", "_rebuild_device_tensor_from_cpu_tensor",
           "a tensor of another device's library; move the model to the CPU and save it"),
    REFUSE("torch.distributed.tensor", "DTensor", SHARDED),
    REFUSE("torch.distributed._tensor.api", "DTensor", SHARDED),
    REFUSE("torch.distributed._tensor", "DTensor", SHARDED),
    REFUSE("torch.distributed._shard.sharded_tensor.api", "ShardedTensor", SHARDED),
    REFUSE("torch.jit", "ScriptModule", SCRIPT),
    REFUSE("torch.jit._script", "unpackage_script_module", SCRIPT),
};
const size_t torch_names_count = sizeof torch_names / sizeof torch_names[0];
