#include "quant/activation.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { COLUMNS_A_TASK = 256 };

struct round_job {
    const struct activation *activation;
    struct matrix x, to;
    bool *left;
};

static void find_outliers(void *context, int64_t task, int thread)
{
    (void)thread;
    const struct round_job *job = context;
    const int64_t first = task * COLUMNS_A_TASK;
    const int64_t last = first + COLUMNS_A_TASK < job->x.columns ? first + COLUMNS_A_TASK : job->x.columns;
    const float threshold = (float)job->activation->threshold;
    for (int64_t c = first; c < last; c++) job->left[c] = false;
    for (int64_t t = 0; t < job->x.rows; t++) {
        const float *x = (const float *)job->x.data + t * job->x.stride;
        for (int64_t c = first; c < last; c++)
            if (fabsf(x[c]) >= threshold) job->left[c] = true;
    }
}

/* Largest magnitude of what is rounded; `to` holds it. */
static float row_maximum(const struct round_job *job, const float *to)
{
    const struct activation *activation = job->activation;
    const float threshold = activation->threshold > 0 ? (float)activation->threshold : INFINITY;
    float most = 0;
    if (activation->spared == NULL && activation->threshold == 0) {
#pragma omp simd reduction(max : most)
        for (int64_t c = 0; c < job->x.columns; c++) most = fabsf(to[c]) > most ? fabsf(to[c]) : most;
        return most;
    }
    for (int64_t c = 0; c < job->x.columns; c++) {
        const bool out = activation->exact ? job->left[c] : fabsf(to[c]) >= threshold;
        if (!out && (activation->spared == NULL || !activation->spared[c])) most = fmaxf(most, fabsf(to[c]));
    }
    return most;
}

static void round_row(void *context, int64_t t, int thread)
{
    (void)thread;
    const struct round_job *job = context;
    const struct activation *activation = job->activation;
    const float *x = (const float *)job->x.data + t * job->x.stride, *smoothing = activation->smoothing;
    float *to = (float *)job->to.data + t * job->to.stride;
    const int64_t columns = job->x.columns;
    const float top = (float)((1 << (activation->bits - 1)) - 1);
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) to[c] = smoothing == NULL ? x[c] : x[c] / smoothing[c];
    const float most = row_maximum(job, to), step = most / top;
#pragma omp simd
    for (int64_t c = 0; c < columns; c++) {
        const float code = most > 0 ? rintf(top * to[c] / most) : 0;
        to[c] = code * step;
        if (smoothing != NULL) to[c] *= smoothing[c];
    }
    for (int64_t c = 0; c < columns && activation->threshold > 0; c++)
        if (job->left[c]) to[c] = activation->exact ? 0 : x[c];
    for (int64_t c = 0; c < columns && activation->spared != NULL; c++)
        if (activation->spared[c]) to[c] = x[c];
}

void activation_round(const struct activation *activation, struct team *team, struct matrix x, struct matrix to, bool *left)
{
    struct round_job job = {activation, x, to, left};
    if (activation->threshold > 0) team_run(team, (x.columns + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK, find_outliers, &job);
    team_run(team, x.rows, round_row, &job);
}

/* What of x left the product, zero elsewhere. */
static void keep_outliers(const struct activations *activations, const bool *spared, struct matrix x, struct matrix to)
{
    for (int64_t t = 0; t < x.rows; t++) {
        const float *from = (const float *)x.data + t * x.stride;
        float *at = (float *)to.data + t * to.stride;
        for (int64_t c = 0; c < x.columns; c++) at[c] = activations->left[c] && (spared == NULL || !spared[c]) ? from[c] : 0;
    }
}

static void multiply(const struct activations *activations, struct matrix x, struct matrix weight, struct matrix y, double beta)
{
    activations->backend->ops->gemm(
        activations->backend, &(struct gemm_args){.a = x, .b = weight, .c = y, .transpose_b = true, .alpha = 1, .beta = beta});
}

static void run_rows(const struct activations *activations, const struct activation_entry *entry, struct matrix weight,
                     struct matrix x, struct matrix y)
{
    const struct matrix rounded = matrix_of(activations->rounded, x.rows, x.columns, sizeof(float));
    activation_round(&entry->treatment, activations->backend->team, x, rounded, activations->left);
    multiply(activations, rounded, weight, y, 0);
    if (!entry->treatment.exact || entry->treatment.threshold == 0) return;
    const struct matrix outliers = matrix_of(activations->outliers, x.rows, x.columns, sizeof(float));
    keep_outliers(activations, entry->treatment.spared, x, outliers);
    multiply(activations, outliers, matrix_of(entry->original, weight.rows, weight.columns, sizeof(float)), y, 1);
}

static void product_run(void *owner, const struct pass *pass, int parameter, struct matrix x, struct matrix y)
{
    const struct activations *activations = owner;
    const struct activation_entry *entry = &activations->entries[parameter];
    const struct matrix weight = pass_parameter(pass->parameters, parameter);
    x = activations_input(activations, parameter, x);
    if (!entry->active) {
        multiply(activations, x, weight, y, 0);
    } else if (entry->treatment.threshold == 0 || x.rows != pass->batch->tokens) {
        run_rows(activations, entry, weight, x, y);
    } else {
        for (int64_t s = 0; s < pass->batch->sequences; s++) {
            const int64_t first = pass->batch->starts[s], rows = pass->batch->starts[s + 1] - first;
            run_rows(activations, entry, weight, matrix_rows(x, first, rows), matrix_rows(y, first, rows));
        }
    }
}

void activations_turn(struct activations *activations, int parameter, const struct hadamard *online)
{
    activations->entries[parameter].online = online;
}

struct matrix activations_input(const struct activations *activations, int parameter, struct matrix x)
{
    const struct hadamard *online = activations->entries[parameter].online;
    if (online == NULL) return x;
    const struct matrix turned = matrix_of(activations->turned, x.rows, x.columns, sizeof(float));
    hadamard_rows(online, activations->backend->team, NULL, false, x, turned);
    return turned;
}

enum status activations_init(struct activations *activations, struct backend *backend, int64_t tokens, int64_t widest,
                             struct error *error)
{
    enum status status;
    *activations = (struct activations){0};
    if (!backend->ops->host)
        return error_set(error, STATUS_UNSUPPORTED,
                         "methods that round the inputs of layers do not go on device %s yet: use --device cpu for them",
                         backend->ops->name);
    *activations = (struct activations){.backend = backend, .tokens = tokens, .widest = widest};
    activations->product = (struct linear_product){activations, product_run};
    if ((status = memory_new(tokens * widest, sizeof(float), "turned activations", &activations->turned, error)) != STATUS_OK ||
        (status = memory_new(tokens * widest, sizeof(float), "rounded activations", &activations->rounded, error)) != STATUS_OK)
        return status;
    return memory_new(widest, sizeof(bool), "outliers", &activations->left, error);
}

void activations_clear(struct activations *activations)
{
    for (int i = 0; i < PROGRAM_PARAMETERS; i++) {
        struct activation_entry *entry = &activations->entries[i];
        memory_free(entry->owned);
        memory_free(entry->original);
        *entry = (struct activation_entry){0};
    }
}

void activations_reset(struct activations *activations)
{
    activations_clear(activations);
    memory_free(activations->turned);
    memory_free(activations->rounded);
    memory_free(activations->outliers);
    memory_free(activations->left);
    *activations = (struct activations){0};
}

enum status activations_set(struct activations *activations, int parameter, const struct activation *treatment, int64_t columns,
                            float *original, struct error *error)
{
    struct activation_entry *entry = &activations->entries[parameter];
    const size_t count = (size_t)columns;
    enum status status;
    entry->active = treatment->bits > 0;
    entry->treatment = *treatment;
    entry->original = original;
    if (original != NULL && activations->outliers == NULL) {
        const int64_t room = activations->tokens * activations->widest;
        status = memory_new(room, sizeof(float), "outliers", &activations->outliers, error);
        if (status != STATUS_OK) return status;
    }
    if ((status = memory_new(columns, sizeof(float) + sizeof(bool), "activations", &entry->owned, error)) != STATUS_OK)
        return status;
    float *smoothing = entry->owned;
    bool *spared = (bool *)(smoothing + count);
    if (treatment->smoothing != NULL) entry->treatment.smoothing = memcpy(smoothing, treatment->smoothing, count * sizeof(float));
    if (treatment->spared != NULL) entry->treatment.spared = memcpy(spared, treatment->spared, count * sizeof(bool));
    return STATUS_OK;
}
