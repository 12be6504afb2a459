/* The header of a safetensors file. The input's first two bytes are the number of data bytes, the rest is the header.
 * What is accepted must hold all that safetensors_header.h promises. */
#include "fuzz.h"

#include "formats/safetensors/safetensors_header.h"

#include <string.h>

static void check(const struct safetensors_header *header, int64_t data_bytes)
{
    const int64_t count = safetensors_header_count(header);
    struct safetensors_tensor tensor, other;
    int64_t covered = 0;
    for (int64_t i = 0; i < count; i++) {
        safetensors_header_tensor(header, i, &tensor);
        int64_t elements = 1;
        fuzz_require(tensor.rank >= 0 && tensor.rank <= SAFETENSORS_RANK_MAX);
        for (int axis = 0; axis < tensor.rank; axis++) {
            fuzz_require(tensor.shape[axis] >= 0 && tensor.shape[axis] < INT64_C(1) << 48);
            elements *= tensor.shape[axis];
        }
        fuzz_require(elements == tensor.elements &&
                     elements * (int64_t)(dtype_info(tensor.dtype)->bits / 8) == tensor.bytes);
        fuzz_require(tensor.offset >= 0 && tensor.offset <= data_bytes && tensor.bytes <= data_bytes - tensor.offset);
        fuzz_require(safetensors_header_find(header, tensor.name) == i);
        for (const char *at = tensor.name; *at; at++) fuzz_require((unsigned char)*at >= 0x20 && *at != 0x7f);
        covered += tensor.bytes;
        if (i == 0 || count > 64) continue;
        for (int64_t k = 0; k < i; k++) {
            safetensors_header_tensor(header, k, &other);
            fuzz_require(other.offset + other.bytes <= tensor.offset || tensor.offset + tensor.bytes <= other.offset);
        }
        fuzz_require(strcmp(other.name, tensor.name) < 0);
    }
    fuzz_require(covered == data_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct safetensors_header *header = NULL;
    struct error error;
    if (size < 2) return 0;
    const int64_t data_bytes = bytes[0] | bytes[1] << 8;
    const enum status status =
        safetensors_header_new("x", (const char *)bytes + 2, size - 2, data_bytes, &header, &error);
    if (status == STATUS_OK)
        check(header, data_bytes);
    else
        fuzz_require(header == NULL && (status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED) && error.detail[0]);
    safetensors_header_free(header);
    return 0;
}
