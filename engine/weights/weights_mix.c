#include "weights/weights_mix.h"

#include "base/memory.h"
#include "weights/weights_container.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SHAPE_TEXT = 96 };

struct weights_mix {
    int64_t count, tensors;
    double divisor;
    const struct weights **sources; /* [count], lent */
    double *coefficients;           /* [count] */
    int64_t *indexes;               /* [tensors, count]: each tensor's place in each source */
};

enum status weights_mix_read(const struct weights_mix *mix, int64_t tensor, int64_t first, int64_t count, double *out,
                             struct error *error)
{
    float values[WEIGHTS_MIX_CHUNK];
    assert(count <= WEIGHTS_MIX_CHUNK);
    memset(out, 0, (size_t)count * sizeof *out);
    for (int64_t k = 0; k < mix->count; k++) {
        const double coefficient = mix->coefficients[k];
        if (coefficient == 0) continue;
        const int64_t index = mix->indexes[tensor * mix->count + k];
        const enum status status = weights_read_f32(mix->sources[k], index, first, count, values, error);
        if (status != STATUS_OK) return status;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] += coefficient * (double)values[i];
    }
    if (mix->divisor != 1)
        for (int64_t i = 0; i < count; i++) out[i] /= mix->divisor;
    return STATUS_OK;
}

void weights_mix_close(struct weights_mix *mix)
{
    if (mix == NULL) return;
    memory_free(mix->sources);
    memory_free(mix->coefficients);
    memory_free(mix->indexes);
    memory_free(mix);
}

static void mix_close(void *container)
{
    weights_mix_close(container);
}

static int64_t mix_count(const void *container)
{
    return ((const struct weights_mix *)container)->tensors;
}

static void mix_tensor(const void *container, int64_t index, struct weights_tensor *out)
{
    const struct weights_mix *mix = container;
    weights_tensor(mix->sources[0], mix->indexes[index * mix->count], out);
    out->dtype = DTYPE_F32;
    out->bytes = 0;
    out->scattered = out->plain = false;
    for (int64_t k = 0; k < mix->count; k++) {
        struct weights_tensor source;
        if (mix->coefficients[k] == 0) continue;
        weights_tensor(mix->sources[k], mix->indexes[index * mix->count + k], &source);
        out->bytes += source.bytes;
        out->scattered = out->scattered || source.scattered;
    }
}

static enum status mix_read_f32(const void *container, int64_t index, int64_t first, int64_t count, float *out,
                                struct error *error)
{
    const struct weights_mix *mix = container;
    double chunk[WEIGHTS_MIX_CHUNK];
    for (int64_t done = 0; done < count; done += WEIGHTS_MIX_CHUNK) {
        const int64_t size = count - done < WEIGHTS_MIX_CHUNK ? count - done : WEIGHTS_MIX_CHUNK;
        const enum status status = weights_mix_read(mix, index, first + done, size, chunk, error);
        if (status != STATUS_OK) return status;
        for (int64_t i = 0; i < size; i++) out[done + i] = (float)chunk[i];
    }
    return STATUS_OK;
}

static void mix_readahead(const void *container, int64_t index)
{
    const struct weights_mix *mix = container;
    for (int64_t k = 0; k < mix->count; k++)
        if (mix->coefficients[k] != 0) weights_readahead(mix->sources[k], mix->indexes[index * mix->count + k]);
}

static enum status mix_check_unchanged(const void *container, struct error *error)
{
    const struct weights_mix *mix = container;
    enum status status = STATUS_OK;
    for (int64_t k = 0; k < mix->count && status == STATUS_OK; k++)
        status = weights_check_unchanged(mix->sources[k], error);
    return status;
}

/* All sources are of one model, so the first one's configuration holds for all. */
static const char *mix_config(const void *container)
{
    const struct weights_mix *mix = container;
    return weights_config(mix->sources[0]);
}

static const struct weights_container weights_mixed = {
    .name = "mix",
    .suffix = "",
    .close = mix_close,
    .count = mix_count,
    .tensor = mix_tensor,
    .read_f32 = mix_read_f32,
    .readahead = mix_readahead,
    .config = mix_config,
    .check_unchanged = mix_check_unchanged,
};

static const char *shape_text(const struct weights_tensor *tensor, char out[SHAPE_TEXT])
{
    size_t used = (size_t)snprintf(out, SHAPE_TEXT, "[");
    for (int i = 0; i < tensor->rank && used < SHAPE_TEXT; i++)
        used +=
            (size_t)snprintf(out + used, SHAPE_TEXT - used, "%s%lld", i > 0 ? ", " : "", (long long)tensor->shape[i]);
    if (used < SHAPE_TEXT) (void)snprintf(out + used, SHAPE_TEXT - used, "]");
    return out;
}

static const char *label_of(const char *const *labels, int64_t k, char out[24])
{
    if (labels != NULL) return labels[k];
    (void)snprintf(out, 24, "%lld", (long long)k + 1);
    return out;
}

/* Finds `name` in source k and checks that it has the same shape as in the first source. */
static enum status locate(const struct weights_mix_request *request, const char *name, int64_t k, int64_t *out,
                          struct error *error)
{
    struct weights_tensor here, there;
    char shape[SHAPE_TEXT], expected[SHAPE_TEXT], this_one[24], first_one[24];
    const char *label = label_of(request->labels, k, this_one), *first = label_of(request->labels, 0, first_one);
    const int64_t place = weights_find(request->sources[0], name);
    *out = weights_find(request->sources[k], name);
    if (*out < 0 || place < 0)
        return error_set(
            error, STATUS_INVALID,
            "checkpoint \"%.80s\" has no tensor \"%.120s\", which \"%.80s\" has; they must be of one model", label,
            name, first);
    weights_tensor(request->sources[k], *out, &here);
    weights_tensor(request->sources[0], place, &there);
    if (here.rank == there.rank && memcmp(here.shape, there.shape, (size_t)here.rank * sizeof *here.shape) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "tensor \"%.100s\" is %s in checkpoint \"%.60s\" and %s in \"%.60s\"; they must be of one model",
                     name, shape_text(&here, shape), label, shape_text(&there, expected), first);
}

enum status weights_mix_new(const struct weights_mix_request *request, struct weights_mix **out, struct error *error)
{
    struct weights_mix *mix = NULL;
    enum status status = memory_new(1, sizeof *mix, "mix", &mix, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    *mix = (struct weights_mix){.count = request->count, .tensors = request->tensors, .divisor = request->divisor};
    if ((status = memory_new(mix->count, sizeof *mix->sources, "mix", &mix->sources, error)) != STATUS_OK) goto done;
    if ((status = memory_new(mix->count, sizeof(double), "mix", &mix->coefficients, error)) != STATUS_OK) goto done;
    if ((status = memory_new(mix->tensors * mix->count, sizeof(int64_t), "mix", &mix->indexes, error)) != STATUS_OK)
        goto done;
    for (int64_t k = 0; k < mix->count; k++) {
        mix->sources[k] = request->sources[k];
        mix->coefficients[k] = request->coefficients[k];
    }
    for (int64_t t = 0; t < mix->tensors; t++)
        for (int64_t k = 0; k < mix->count; k++)
            if ((status = locate(request, request->names[t], k, &mix->indexes[t * mix->count + k], error)) != STATUS_OK)
                goto done;
    *out = mix;
    mix = NULL;
done:
    weights_mix_close(mix);
    return status;
}

enum status weights_mix_open(struct weights_mix *mix, struct weights **out, struct error *error)
{
    const char *given = weights_given_config(mix->sources[0]);
    enum status status = weights_of_container(&weights_mixed, mix, weights_directory(mix->sources[0]), out, error);
    if (status != STATUS_OK || given == NULL) return status;
    if ((status = weights_give_config(*out, given, error)) != STATUS_OK) {
        weights_close(*out);
        *out = NULL;
    }
    return status;
}
