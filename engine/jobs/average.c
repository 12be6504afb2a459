#include "jobs/average.h"

#include "base/directory.h"
#include "base/memory.h"
#include "formats/safetensors/safetensors_writer.h"
#include "jobs/config_files.h"
#include "model/config_dtype.h"
#include "model/recognise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char too_long[] = "a checkpoint's path is too long";

/* Rounds toward zero and sets the last bit if anything was lost ("round to odd"; Boldo and Melquiond, IEEE TC 57(4),
 * 2008). Rounding the result to a type of fewer bits equals rounding `value` directly; two roundings to nearest may
 * not. */
static float round_to_odd(double value)
{
    float near = (float)value;
    uint32_t bits;
    if (!isfinite(value) || (double)near == value) return near;
    memcpy(&bits, &near, sizeof bits);
    if (fabs((double)near) > fabs(value)) bits--;
    bits |= 1;
    memcpy(&near, &bits, sizeof bits);
    return near;
}

static enum dtype dtype_of(const struct average_request *request, int64_t tensor)
{
    const struct family *family = request->family;
    struct weights_tensor found;
    weights_tensor(family->sources[0], family->indexes[tensor * family->count], &found);
    if (request->dtype >= 0) return (enum dtype)request->dtype;
    /* Weights that were stored in quantized blocks are not quantized again. */
    return found.dtype == DTYPE_F64 || dtype_info(found.dtype)->block > 1 ? DTYPE_F32 : found.dtype;
}

/* Whether `count` numbers of tensor `t`, from element `first` on, are finite as they will be stored. */
static enum status finite_check(const struct average_request *request, int64_t t, int64_t first, const float *values,
                                int64_t count, struct error *error)
{
    const struct dtype_info *dtype = dtype_info(dtype_of(request, t));
    _Alignas(64) char stored[WEIGHTS_MIX_CHUNK * sizeof *values];
    float back[WEIGHTS_MIX_CHUNK];
    if (dtype->from_f32 == NULL) return STATUS_OK; /* the writer refuses it */
    dtype->from_f32(values, stored, count);
    dtype->to_f32(stored, back, count);
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(back[i])) continue;
        const char *name = request->family->names[t];
        const long long element = (long long)(first + i);
        if (!isfinite(values[i]))
            return error_set(error, STATUS_NOT_FINITE, "the average of tensor \"%.200s\" is not finite at element %lld",
                             name, element);
        return error_set(error, STATUS_NOT_FINITE,
                         "the average of tensor \"%.200s\" is %g at element %lld, too large for %s: take another "
                         "\"dtype\", as \"f32\"",
                         name, (double)values[i], element, dtype->name);
    }
    return STATUS_OK;
}

static enum status tensor_write(const struct average_request *request, const struct weights_mix *mix,
                                struct safetensors_writer *writer, int64_t t, struct error *error)
{
    const struct family *family = request->family;
    const bool exact = dtype_of(request, t) == DTYPE_F32;
    double sums[WEIGHTS_MIX_CHUNK];
    float values[WEIGHTS_MIX_CHUNK];
    for (int64_t first = 0; first < family->elements[t]; first += WEIGHTS_MIX_CHUNK) {
        const int64_t left = family->elements[t] - first, size = left < WEIGHTS_MIX_CHUNK ? left : WEIGHTS_MIX_CHUNK;
        enum status status = weights_mix_read(mix, t, first, size, sums, error);
        for (int64_t i = 0; i < size && status == STATUS_OK; i++)
            values[i] = exact ? (float)sums[i] : round_to_odd(sums[i]);
        if (status == STATUS_OK) status = finite_check(request, t, first, values, size, error);
        if (status == STATUS_OK) status = safetensors_writer_f32(writer, t, values, size, error);
        if (status == STATUS_OK) status = monitor_check(request->monitor, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Members that make config.json name the stored type; empty when nothing changes. Where tensors are of several types it
 * names what it named for the first member, whose types they are. */
static enum status config_members(const struct average_request *request, char out[CONFIG_DTYPE_SIZE],
                                  struct error *error)
{
    const struct family *family = request->family;
    const enum dtype stored = dtype_of(request, 0);
    char *text = NULL;
    size_t size = 0;
    out[0] = '\0';
    for (int64_t t = 1; t < family->tensors; t++)
        if (dtype_of(request, t) != stored) return STATUS_OK;
    enum status status = recognise_text(family->sources[0], &text, &size, error);
    if (status == STATUS_OK) status = config_dtype_members("config.json", text, size, stored, out, error);
    memory_free(text);
    return status;
}

/* The caller frees *out. */
static enum status entries_list(const struct average_request *request, struct safetensors_entry **out,
                                struct error *error)
{
    const struct family *family = request->family;
    const enum status status = memory_new(family->tensors, sizeof **out, "tensor list", out, error);
    for (int64_t t = 0; t < family->tensors && status == STATUS_OK; t++) {
        struct weights_tensor tensor;
        weights_tensor(family->sources[0], family->indexes[t * family->count], &tensor);
        (*out)[t] = (struct safetensors_entry){tensor.name, dtype_of(request, t), tensor.rank, tensor.shape};
    }
    return status;
}

static enum status weights_write(const struct average_request *request, const struct weights_mix *mix, const char *path,
                                 struct error *error)
{
    const struct family *family = request->family;
    struct safetensors_entry *entries = NULL;
    struct safetensors_writer *writer = NULL;
    const int64_t parts = request->parts > 0 ? request->parts : 1;
    enum status status = entries_list(request, &entries, error);
    if (status != STATUS_OK) return status;
    if ((status = safetensors_writer_open(path, entries, family->tensors, &writer, error)) != STATUS_OK) goto done;
    for (int64_t t = 0; t < family->tensors; t++) {
        if ((status = tensor_write(request, mix, writer, t, error)) != STATUS_OK) goto done;
        monitor_progress(request->monitor, request->part * family->tensors + t + 1, parts * family->tensors, "tensor");
    }
    for (int64_t k = 0; k < family->count; k++)
        if ((status = weights_check_unchanged(family->sources[k], error)) != STATUS_OK) goto done;
    status = safetensors_writer_commit(writer, error);
done:
    safetensors_writer_close(writer);
    memory_free(entries);
    return status;
}

static enum status mix_new(const struct average_request *request, struct weights_mix **out, struct error *error)
{
    const int64_t count = request->family->count;
    double *coefficients = NULL, sum = 0;
    enum status status = memory_new(count, sizeof *coefficients, "weights of an average", &coefficients, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    for (int64_t k = 0; k < count; k++) {
        coefficients[k] = request->weights == NULL ? 1 : request->weights[k];
        sum += coefficients[k];
    }
    status = isfinite(sum) && (sum < 0 || sum > 0)
                 ? family_mix(request->family, coefficients, sum, out, error)
                 : error_set(error, STATUS_INVALID, "the weights of an average sum to %g", sum);
    memory_free(coefficients);
    return status;
}

/* Makes the new directory's entry in its parent durable. */
static enum status sync_parent(const char *directory, struct error *error)
{
    char parent[PATH_MAX];
    enum status status = directory_path(directory, "..", too_long, parent, error);
    if (status != STATUS_OK) return status;
    const int descriptor = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0) status = error_set_errno(error, "cannot make a checkpoint durable");
    if (descriptor >= 0) (void)close(descriptor);
    return status;
}

enum status average_write(const struct average_request *request, struct error *error)
{
    char path[PATH_MAX], config[CONFIG_DTYPE_SIZE];
    struct weights_mix *mix = NULL;
    enum status status;
    if ((status = mix_new(request, &mix, error)) != STATUS_OK) goto done;
    if ((status = config_members(request, config, error)) != STATUS_OK) goto done;
    if (mkdir(request->directory, 0777) != 0 && errno != EEXIST) {
        status = error_set_errno(error, "cannot make a checkpoint's directory");
        goto done;
    }
    status =
        config_files_write(request->family->sources[0], request->directory, config[0] != '\0' ? config : NULL, error);
    if (status == STATUS_OK) status = directory_path(request->directory, "model.safetensors", too_long, path, error);
    if (status == STATUS_OK) status = weights_write(request, mix, path, error);
    if (status == STATUS_OK) status = sync_parent(request->directory, error);
done:
    weights_mix_close(mix);
    return status;
}

enum status average_plan(const struct average_request *request, struct run_plan *out, struct error *error)
{
    const struct family *family = request->family;
    struct safetensors_entry *entries = NULL;
    char config[CONFIG_DTYPE_SIZE];
    int64_t bytes = 0;
    *out = (struct run_plan){.read_bytes = family_stored_bytes(family)};
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES);
    enum status status = config_members(request, config, error);
    if (status == STATUS_OK)
        status = config_files_plan(family->sources[0], config[0] != '\0' ? config : NULL, out, error);
    if (status == STATUS_OK) status = entries_list(request, &entries, error);
    if (status == STATUS_OK) status = safetensors_writer_measure(entries, family->tensors, &bytes, error);
    plan_take(out, PLAN_DISK, bytes);
    out->written_bytes += bytes;
    out->flops = 2 * (double)family->count * (double)family->parameters;
    memory_free(entries);
    return status;
}
