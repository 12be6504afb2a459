/* A pickle, and the state dict in it, over an archive with the storages "0" (16 bytes) and "1" (8 bytes). Tensors that
 * are accepted lie in their storage, whatever their shape and strides. */
#include "fuzz_file.h"

#include "engine/formats/pytorch/archive.h"
#include "formats/pytorch/torch_names.h"
#include "formats/pytorch/torch_state.h"

#include <string.h>

static void check(const struct torch_state *state, const struct zip *zip)
{
    for (int64_t i = 0; i < state->count; i++) {
        const struct torch_tensor *tensor = &state->tensors[i];
        const int64_t width = (int64_t)dtype_info(tensor->dtype)->bits / 8;
        int64_t last = tensor->offset, elements = 1;
        fuzz_require(tensor->name[0] != '\0' && (i == 0 || strcmp(state->tensors[i - 1].name, tensor->name) < 0));
        fuzz_require(tensor->rank >= 0 && tensor->rank <= STRIDED_RANK_MAX);
        for (int axis = 0; axis < tensor->rank; axis++) {
            fuzz_require(tensor->shape[axis] >= 0 && tensor->stride[axis] >= 0);
            elements *= tensor->shape[axis];
            last += (tensor->shape[axis] - 1) * tensor->stride[axis] * width;
        }
        fuzz_require(elements == tensor->elements);
        bool inside = false;
        for (int64_t e = 0; e < zip_count(zip); e++) {
            const struct zip_entry *entry = zip_entry(zip, e);
            const int64_t end = entry->offset + entry->bytes;
            inside |= strncmp(entry->name, "a/data/", 7) == 0 && tensor->offset >= entry->offset &&
                      tensor->offset <= end && (elements == 0 || last + width <= end);
        }
        fuzz_require(inside);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char empty[] = "\x80\2}.";
    char path[64];
    struct archive archive;
    struct file *file = NULL;
    struct zip *zip = NULL;
    struct pickle *pickle = NULL;
    struct torch_state state;
    struct error error;
    archive_of_pickle(&archive, empty, sizeof empty - 1);
    const int descriptor = fuzz_file(archive.bytes, archive.size, path);
    fuzz_require(file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, INT64_MAX, &file, &error) == STATUS_OK);
    fuzz_require(zip_open(file, &zip, &error) == STATUS_OK);
    enum status status = pickle_read("x", (const char *)bytes, size, torch_names, torch_names_count, &pickle, &error);
    fuzz_require((status == STATUS_OK) == (pickle != NULL));
    if (status == STATUS_OK) {
        status = torch_state_read("x", pickle, zip, "a", &state, &error);
        if (status == STATUS_OK) check(&state, zip);
        torch_state_reset(&state);
    }
    fuzz_require(status == STATUS_OK || ((status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED ||
                                          status == STATUS_INVALID || status == STATUS_TOO_LARGE) &&
                                         error.detail[0]));
    pickle_free(pickle);
    zip_close(zip);
    file_close(file);
    (void)close(descriptor);
    return 0;
}
