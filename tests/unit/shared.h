/* shared.h: the reference data that some tests are held to. A little of it lies in tests/unit/shared, the rest outside
 * the repository
 * ($DELTAQ_SHARED, else ../shared); where it is absent those tests skip and say so. */
#ifndef SHARED_H
#define SHARED_H

#include "formats/safetensors/safetensors.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `relative` below the shared data into `path`; skips the running test when it is not there. */
static inline const char *shared_require(const char *relative, char *path, size_t size)
{
    const char *root = getenv("DELTAQ_SHARED");
    (void)snprintf(path, size, "tests/unit/shared/%s", relative);
    if (access(path, R_OK) == 0) return path;
    (void)snprintf(path, size, "%s/%s", root == NULL ? "../shared" : root, relative);
    if (access(path, R_OK) != 0) {
        print_message("skip: the reference data %s is not here (set DELTAQ_SHARED)\n", relative);
        skip();
    }
    return path;
}

/* A whole tensor's bytes as stored; the caller frees them. *elements may be NULL. */
static inline void *shared_tensor(const char *file, const char *name, int64_t *elements)
{
    struct error error;
    struct safetensors *tensors = NULL;
    struct safetensors_tensor tensor;
    assert_int_equal(safetensors_open(AT_FDCWD, file, &tensors, &error), STATUS_OK);
    const int64_t index = safetensors_find(tensors, name);
    if (index < 0) fail_msg("%s has no tensor %s", file, name);
    safetensors_tensor(tensors, index, &tensor);
    void *bytes = malloc((size_t)tensor.bytes + 1);
    assert_non_null(bytes);
    assert_int_equal(safetensors_read_bytes(tensors, index, 0, tensor.bytes, bytes, &error), STATUS_OK);
    if (elements != NULL) *elements = tensor.elements;
    safetensors_close(tensors);
    return bytes;
}

#endif
