#include "health/reading.h"

#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, CHUNKS = 32, SLICE = CHUNK * CHUNKS };

/* A slice that was read and will be hashed while the next one is read. */
struct pending {
    struct tensor_reading *tensor; /* NULL: none */
    const float *values;
    int64_t count;
    bool first, last;
};

struct work {
    const struct reading_request *request;
    struct tensor_reading *tensor;
    int64_t index, other; /* the tensor's index in the weights and in the previous ones (-1: absent) */
    int64_t first, count; /* of the slice */
    float *slices[2];     /* [SLICE] each: one is read while the other is hashed */
    int slice;
    float *scratch; /* [threads, CHUNK]: numbers of the previous checkpoint */
    int64_t *bins;  /* [threads, MAGNITUDE_BINS] */
    struct moments moments[CHUNKS];
    struct distance distances[CHUNKS];
    struct pending pending;
    /* One for the hash (0) and one per chunk. */
    enum status statuses[CHUNKS + 1];
    struct error errors[CHUNKS + 1];
};

static enum status hash_slice(const struct pending *pending, const struct reading_hash *hash, struct error *error)
{
    enum status status = STATUS_OK;
    if (pending->tensor == NULL) return STATUS_OK;
    if (pending->first) status = hash->begin(hash->owner, error);
    if (status == STATUS_OK)
        status = hash->add(hash->owner, pending->values, (size_t)pending->count * sizeof *pending->values, error);
    if (status == STATUS_OK && pending->last) status = hash->finish(hash->owner, pending->tensor->digest, error);
    return status;
}

static enum status read_chunk(struct work *work, int64_t chunk, int thread, struct error *error)
{
    const int64_t begin = chunk * CHUNK, left = work->count - begin, count = left < CHUNK ? left : CHUNK;
    float *values = work->slices[work->slice] + begin, *others = work->scratch + (int64_t)thread * CHUNK;
    enum status status =
        weights_read_f32(work->request->weights, work->index, work->first + begin, count, values, error);
    if (status != STATUS_OK) return status;
    moments_of(values, count, &work->moments[chunk]);
    magnitude_add(work->bins + (int64_t)thread * MAGNITUDE_BINS, values, count);
    if (work->other < 0) return STATUS_OK;
    status = weights_read_f32(work->request->previous, work->other, work->first + begin, count, others, error);
    if (status == STATUS_OK) distance_of(values, others, count, &work->distances[chunk]);
    return status;
}

static void task(void *context, int64_t i, int thread)
{
    struct work *work = context;
    work->statuses[i] = i == 0 ? hash_slice(&work->pending, work->request->hash, &work->errors[0])
                               : read_chunk(work, i - 1, thread, &work->errors[i]);
}

/* Reads the slice at work->first while the previous slice is hashed. */
static enum status slice_run(struct work *work, struct error *error)
{
    const int64_t chunks = (work->count + CHUNK - 1) / CHUNK;
    team_run(work->request->team, chunks + 1, task, work);
    for (int64_t i = 0; i <= chunks; i++)
        if (work->statuses[i] != STATUS_OK) {
            *error = work->errors[i];
            return work->statuses[i];
        }
    for (int64_t i = 0; i < chunks; i++) {
        moments_merge(&work->tensor->moments, &work->moments[i]);
        if (work->other >= 0) distance_merge(&work->tensor->distance, &work->distances[i]);
    }
    work->pending = (struct pending){
        .tensor = work->tensor,
        .values = work->slices[work->slice],
        .count = work->count,
        .first = work->first == 0,
        .last = work->first + work->count == work->tensor->elements,
    };
    work->slice = 1 - work->slice;
    return monitor_check(work->request->monitor, error);
}

/* Adds up the threads' bins and clears them for the next tensor. */
static int64_t outliers(struct work *work)
{
    const struct moments *moments = &work->tensor->moments;
    const int threads = team_size(work->request->team);
    for (int thread = 1; thread < threads; thread++)
        for (int64_t bin = 0; bin < MAGNITUDE_BINS; bin++)
            work->bins[bin] += work->bins[(int64_t)thread * MAGNITUDE_BINS + bin];
    const int64_t found =
        moments->squares > 0
            ? magnitude_beyond(work->bins, READING_OUTLIER * sqrt(moments->squares / (double)moments->count))
            : 0;
    memset(work->bins, 0, (size_t)threads * MAGNITUDE_BINS * sizeof *work->bins);
    return found;
}

static int layer_of(const char *name)
{
    for (const char *at = name; *at != '\0'; at++) {
        if (!isdigit((unsigned char)*at) || (at > name && at[-1] != '.')) continue;
        char *end;
        const long layer = strtol(at, &end, 10);
        if ((*end == '.' || *end == '\0') && layer < 100000) return (int)layer;
    }
    return -1;
}

/* Index of the same tensor in the previous weights; -1: none to compare with. */
static int64_t counterpart(const struct weights *previous, const struct weights_tensor *tensor)
{
    struct weights_tensor other;
    const int64_t place = previous == NULL ? -1 : weights_find(previous, tensor->name);
    if (place < 0) return -1;
    weights_tensor(previous, place, &other);
    return other.elements == tensor->elements && dtype_info(other.dtype)->to_f32 != NULL ? place : -1;
}

static enum status tensor_run(struct work *work, struct error *error)
{
    const struct reading_request *request = work->request;
    struct tensor_reading *tensor = work->tensor;
    struct weights_tensor found;
    weights_tensor(request->weights, work->index, &found);
    *tensor = (struct tensor_reading){.name = found.name,
                                      .dtype = found.dtype,
                                      .rank = found.rank,
                                      .file = found.file,
                                      .layer = layer_of(found.name),
                                      .elements = found.elements};
    work->other = counterpart(request->previous, &found);
    tensor->compared = work->other >= 0;
    work->first = 0;
    do { /* at least once, so that an empty tensor has a digest too */
        const int64_t left = found.elements - work->first;
        work->count = left < SLICE ? left : SLICE;
        const enum status status = slice_run(work, error);
        if (status != STATUS_OK) return status;
        work->first += work->count;
    } while (work->first < found.elements);
    tensor->outliers = outliers(work);
    return STATUS_OK;
}

/* Mirrors the allocations of work_new and reading_make and the reads of tensor_run. */
void reading_plan(const struct weights *weights, const struct weights *previous, int threads, struct run_plan *plan)
{
    const int64_t total = weights_count(weights),
                  thread = CHUNK * (int64_t)sizeof(float) + MAGNITUDE_BINS * (int64_t)sizeof(int64_t);
    plan_take(plan, PLAN_HOST, (int64_t)sizeof(struct work) + 2 * SLICE * (int64_t)sizeof(float) + threads * thread);
    plan_take(plan, PLAN_HOST, total * (int64_t)sizeof(struct tensor_reading));
    for (int64_t i = 0; i < total; i++) {
        struct weights_tensor tensor, other = {.bytes = 0};
        weights_tensor(weights, i, &tensor);
        if (dtype_info(tensor.dtype)->to_f32 == NULL) continue;
        const int64_t place = counterpart(previous, &tensor);
        if (place >= 0) weights_tensor(previous, place, &other);
        plan->read_bytes += tensor.bytes + other.bytes;
    }
}

static enum status work_new(struct work *work, struct error *error)
{
    const int threads = team_size(work->request->team);
    enum status status;
    for (int i = 0; i < 2; i++)
        if ((status = memory_new(SLICE, sizeof(float), "slice of a tensor", &work->slices[i], error)) != STATUS_OK)
            return status;
    if ((status = memory_new((int64_t)threads * CHUNK, sizeof(float), "chunk of a tensor", &work->scratch, error)) !=
        STATUS_OK)
        return status;
    return memory_new((int64_t)threads * MAGNITUDE_BINS, sizeof *work->bins, "histogram", &work->bins, error);
}

static void work_free(struct work *work)
{
    if (work == NULL) return;
    memory_free(work->slices[0]);
    memory_free(work->slices[1]);
    memory_free(work->scratch);
    memory_free(work->bins);
    memory_free(work);
}

enum status reading_make(const struct reading_request *request, struct reading *out, struct error *error)
{
    const int64_t total = weights_count(request->weights);
    struct work *work = NULL;
    enum status status;
    *out = (struct reading){0};
    if ((status = memory_new(1, sizeof *work, "reading", &work, error)) != STATUS_OK) return status;
    work->request = request;
    if ((status = work_new(work, error)) != STATUS_OK) goto done;
    if ((status = memory_new(total, sizeof *out->tensors, "list of tensors", &out->tensors, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < total; i++) {
        struct weights_tensor tensor;
        weights_tensor(request->weights, i, &tensor);
        if (dtype_info(tensor.dtype)->to_f32 == NULL) continue;
        work->index = i;
        work->tensor = &out->tensors[out->count++];
        if ((status = tensor_run(work, error)) != STATUS_OK) goto done;
        monitor_progress(request->monitor, i + 1, total, "tensor");
    }
    status = hash_slice(&work->pending, request->hash, error);
done:
    work_free(work);
    if (status != STATUS_OK) reading_reset(out);
    return status;
}

void reading_reset(struct reading *reading)
{
    memory_free(reading->tensors);
    *reading = (struct reading){0};
}

void reading_health(const struct reading *reading, int layer, struct health *out)
{
    struct distance distance = {0};
    double squares = 0, weight = 0, kurtosis = 0;
    *out = (struct health){0};
    for (int64_t i = 0; i < reading->count; i++) {
        const struct tensor_reading *tensor = &reading->tensors[i];
        const double own = moments_kurtosis(&tensor->moments);
        if (layer != READING_ALL && tensor->layer != layer) continue;
        out->count += tensor->moments.count;
        out->nan += tensor->moments.nan;
        out->infinite += tensor->moments.infinite;
        out->outliers += tensor->outliers;
        out->l1 += tensor->moments.l1;
        out->linf = fmax(out->linf, tensor->moments.linf);
        squares += tensor->moments.squares;
        if (tensor->compared) {
            distance_merge(&distance, &tensor->distance);
            out->compared = true;
        }
        if (tensor->rank < 2 || !isfinite(own)) continue;
        kurtosis += (double)tensor->moments.count * own;
        weight += (double)tensor->moments.count;
    }
    out->l2 = sqrt(squares);
    out->kurtosis = weight > 0 ? kurtosis / weight : NAN;
    out->outlier_share = out->count > 0 ? (double)out->outliers / (double)out->count : 0;
    out->relative = distance_relative(&distance);
    out->cosine = distance_cosine(&distance);
}

int reading_layers(const struct reading *reading)
{
    int layers = 0;
    for (int64_t i = 0; i < reading->count; i++)
        if (reading->tensors[i].layer >= layers) layers = reading->tensors[i].layer + 1;
    return layers;
}
