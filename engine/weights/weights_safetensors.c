#include "weights/weights_container.h"

#include "formats/safetensors/safetensors.h"

static enum status container_open(int directory, const char *name, void **out, struct error *error)
{
    struct safetensors *file;
    const enum status status = safetensors_open(directory, name, &file, error);
    *out = file;
    return status;
}

static void container_close(void *container)
{
    safetensors_close(container);
}

static int64_t container_count(const void *container)
{
    return safetensors_count(container);
}

static void container_tensor(const void *container, int64_t index, struct weights_tensor *out)
{
    struct safetensors_tensor tensor;
    safetensors_tensor(container, index, &tensor);
    *out = (struct weights_tensor){.name = tensor.name,
                                   .dtype = tensor.dtype,
                                   .rank = tensor.rank,
                                   .shape = tensor.shape,
                                   .elements = tensor.elements,
                                   .bytes = tensor.bytes,
                                   .plain = true};
}

static enum status container_read_f32(const void *container, int64_t index, int64_t first, int64_t count, float *out,
                                      struct error *error)
{
    return safetensors_read_f32(container, index, first, count, out, error);
}

static enum status container_read_bytes(const void *container, int64_t index, int64_t first, int64_t bytes, void *out,
                                        struct error *error)
{
    return safetensors_read_bytes(container, index, first, bytes, out, error);
}

static void container_readahead(const void *container, int64_t index)
{
    safetensors_readahead(container, index);
}

static const struct file *container_file(const void *container, int index)
{
    (void)index;
    return safetensors_file(container);
}

const struct weights_container weights_safetensors = {
    .name = "safetensors",
    .suffix = ".safetensors",
    .single = "model.safetensors",
    .index = "model.safetensors.index.json",
    WEIGHTS_CONTAINER_FUNCTIONS,
    .read_bytes = container_read_bytes,
};
