/* The index of a sharded checkpoint: no name that is accepted leads out of its directory. */
#include "fuzz.h"

#include "weights/weights_index.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct weights_index *index = NULL;
    struct error error;
    const enum status status = weights_index_new("x", (const char *)bytes, size, ".safetensors", &index, &error);
    if (status != STATUS_OK) {
        fuzz_require(index == NULL && status == STATUS_CORRUPT && error.detail[0]);
        return 0;
    }
    for (int i = 0; i < weights_index_files(index); i++) {
        const char *name = weights_index_file(index, i);
        fuzz_require(strchr(name, '/') == NULL && strlen(name) > strlen(".safetensors") && strlen(name) <= 255);
        fuzz_require(i == 0 || strcmp(weights_index_file(index, i - 1), name) < 0);
    }
    const char *before = NULL;
    for (int64_t i = 0; i < weights_index_count(index); i++) {
        int file = -1;
        const char *name = weights_index_tensor(index, i, &file);
        fuzz_require(file >= 0 && file < weights_index_files(index) && (before == NULL || strcmp(before, name) < 0));
        before = name;
    }
    weights_index_free(index);
    return 0;
}
