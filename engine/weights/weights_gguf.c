#include "weights/weights_container.h"

#include "formats/gguf/gguf_model.h"

static enum status container_open(int directory, const char *name, void **out, struct error *error)
{
    struct gguf_model *model;
    const enum status status = gguf_model_open(directory, name, &model, error);
    *out = model;
    return status;
}

static void container_close(void *container)
{
    gguf_model_close(container);
}

static int64_t container_count(const void *container)
{
    return gguf_model_count(container);
}

static void container_tensor(const void *container, int64_t index, struct weights_tensor *out)
{
    const struct gguf_model_tensor *tensor = gguf_model_tensor(container, index);
    *out = (struct weights_tensor){.name = tensor->name,
                                   .dtype = tensor->stored->dtype,
                                   .rank = tensor->rank,
                                   .shape = tensor->shape,
                                   .elements = tensor->elements,
                                   .bytes = tensor->bytes,
                                   .file = tensor->part};
}

static enum status container_read_f32(const void *container, int64_t index, int64_t first, int64_t count, float *out,
                                      struct error *error)
{
    return gguf_model_read_f32(container, index, first, count, out, error);
}

static void container_readahead(const void *container, int64_t index)
{
    const struct gguf_model_tensor *tensor = gguf_model_tensor(container, index);
    const struct file *file = gguf_file(gguf_model_part(container, tensor->part));
    file_readahead(file, tensor->stored->offset + tensor->first / tensor->elements * tensor->bytes, tensor->bytes);
}

static int container_files(const void *container)
{
    return gguf_model_parts(container);
}

static const struct file *container_file(const void *container, int index)
{
    return gguf_file(gguf_model_part(container, index));
}

static const char *container_config(const void *container)
{
    return gguf_model_config(container);
}

const struct weights_container weights_gguf = {
    .name = "GGUF",
    .suffix = ".gguf",
    .single = "model.gguf",
    WEIGHTS_CONTAINER_FUNCTIONS,
    .files = container_files,
    .config = container_config,
};
