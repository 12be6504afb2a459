#include "weights/weights_container.h"

#include "formats/pytorch/torch_file.h"

static enum status container_open(int directory, const char *name, void **out, struct error *error)
{
    struct torch_file *file;
    const enum status status = torch_file_open(directory, name, &file, error);
    *out = file;
    return status;
}

static void container_close(void *container)
{
    torch_file_close(container);
}

static int64_t container_count(const void *container)
{
    return torch_file_state(container)->count;
}

static void container_tensor(const void *container, int64_t index, struct weights_tensor *out)
{
    const struct torch_tensor *tensor = &torch_file_state(container)->tensors[index];
    const bool scattered = torch_file_scattered(container, index);
    *out = (struct weights_tensor){.name = tensor->name,
                                   .dtype = tensor->dtype,
                                   .rank = tensor->rank,
                                   .shape = tensor->shape,
                                   .elements = tensor->elements,
                                   .bytes = tensor->elements * (int64_t)(dtype_info(tensor->dtype)->bits / 8),
                                   .scattered = scattered,
                                   .plain = !scattered};
}

static enum status container_read_f32(const void *container, int64_t index, int64_t first, int64_t count, float *out,
                                      struct error *error)
{
    return torch_file_read_f32(container, index, first, count, out, error);
}

static enum status container_read_bytes(const void *container, int64_t index, int64_t first, int64_t bytes, void *out,
                                        struct error *error)
{
    return torch_file_read_bytes(container, index, first, bytes, out, error);
}

static void container_readahead(const void *container, int64_t index)
{
    torch_file_readahead(container, index);
}

static const struct file *container_file(const void *container, int index)
{
    (void)index;
    return torch_file_file(container);
}

static void container_progress(const void *container, struct weights_progress *out)
{
    const struct torch_state *state = torch_file_state(container);
    *out = (struct weights_progress){.step = state->step, .tokens = state->tokens};
}

/* One format under three endings. */
#define ROW(ending)                                                                                       \
    .name = "PyTorch", .suffix = ending, WEIGHTS_CONTAINER_FUNCTIONS, .read_bytes = container_read_bytes, \
    .progress = container_progress

const struct weights_container weights_torch_bin = {ROW(".bin"), .single = "pytorch_model.bin",
                                                    .index = "pytorch_model.bin.index.json"};
const struct weights_container weights_torch_pt = {ROW(".pt")};
const struct weights_container weights_torch_pth = {ROW(".pth")};
