#include "quant/gptq_factor.h"

struct permute_job {
    const struct gptq_order *order;
    struct matrix hessian, upper;
    const float *diagonal;
    float added;
};

static void permute_row(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct permute_job *job = context;
    const int32_t *from = job->order->from;
    const float *row = (const float *)job->hessian.data + from[i] * job->hessian.stride;
    float *to = (float *)job->upper.data + i * job->upper.stride;
    for (int64_t j = 0; j < i; j++) to[j] = row[from[j]];
    to[i] = job->diagonal[from[i]] + job->added;
}

static bool try_damp(struct backend *backend, struct permute_job *job, double mean, double damp)
{
    job->added = (float)(damp * mean);
    team_run(backend->team, job->order->columns, permute_row, job);
    return backend->ops->inverse_cholesky(backend, job->upper);
}

enum status gptq_factor(struct backend *backend, const struct gptq_order *order, struct matrix hessian, const float *diagonal,
                        double damp, const char *name, struct matrix upper, double *used, struct error *error)
{
    static const double increment = GPTQ_DAMP_INCREMENT;
    struct permute_job job = {order, hessian, upper, diagonal, 0};
    double mean = 0;
    int64_t failed = 0, worked = 0;
    for (int64_t c = 0; c < order->columns; c++) mean += diagonal[c];
    mean /= (double)order->columns;
    *used = damp;
    if (try_damp(backend, &job, mean, damp)) return STATUS_OK;
    while (damp + increment * (double)(worked + 1) < 1) worked++;
    const double highest = damp + increment * (double)worked;
    bool last = worked > 0 && try_damp(backend, &job, mean, highest);
    if (!last)
        return error_set(error, STATUS_INVALID,
                         "%s: the Hessian of its inputs is not positive definite even with damping %.2f; use more calibration data",
                         name, highest);
    /* `failed` steps do not work, `worked` steps do; more damping never hurts */
    while (worked - failed > 1) {
        const int64_t middle = failed + (worked - failed) / 2;
        last = try_damp(backend, &job, mean, damp + increment * (double)middle);
        if (last)
            worked = middle;
        else
            failed = middle;
    }
    *used = damp + increment * (double)worked;
    if (!last && !try_damp(backend, &job, mean, *used))
        return error_set(error, STATUS_INTERNAL, "%s: a factorisation that worked at damping %.2f fails the second time", name,
                         *used);
    return STATUS_OK;
}
