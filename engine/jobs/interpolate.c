#include "jobs/interpolate.h"

#include "base/memory.h"
#include "jobs/saved_table.h"

#include <string.h>

void interpolate_result_reset(struct interpolate_result *result)
{
    memory_free(result->alphas);
    memory_free(result->points);
    *result = (struct interpolate_result){0};
}

/* Both ends are exact. */
static double alpha_at(const struct interpolate_request *request, int64_t i)
{
    const int64_t last = request->points - 1;
    if (i == last) return request->high;
    return request->low + (request->high - request->low) * ((double)i / (double)last);
}

static enum status walk(const struct interpolate_request *request, struct saved_table *table, const double *alphas,
                        struct error *error)
{
    monitor_progress(request->point.monitor, table->done, request->points, "point");
    while (table->done < request->points) {
        const double alpha = alphas[table->done], coefficients[2] = {1 - alpha, alpha};
        double row[POINT_NUMBERS];
        struct point point;
        enum status status = point_measure(&request->point, coefficients, 1, &point, error);
        memcpy(row, &point, sizeof row);
        if (status == STATUS_OK) status = saved_table_add(table, row, error);
        if (status != STATUS_OK) return status;
        monitor_progress(request->point.monitor, table->done, request->points, "point");
    }
    return STATUS_OK;
}

static enum status check(const struct interpolate_request *request, struct error *error)
{
    if (request->point.family->count == 2 && request->points >= 2) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "an interpolation needs two checkpoints and two points or more");
}

/* Points at the ends read one checkpoint. */
enum status interpolate_plan(const struct interpolate_request *request, const struct plan_budget *budget,
                             struct run_plan *out, struct error *error)
{
    static const double mixes[][2] = {{1, 0}, {0, 1}, {0.5, 0.5}};
    int64_t times[] = {0, 0, 0};
    *out = (struct run_plan){.flops = 0};
    enum status status = check(request, error);
    for (int64_t i = 0; i < request->points; i++) {
        const double alpha = alpha_at(request, i);
        times[alpha == 0 ? 0 : alpha == 1 ? 1 : 2]++;
    }
    saved_table_plan(request->points, POINT_NUMBERS, request->work_directory != NULL ? request->points : 0, out);
    plan_take(out, PLAN_HOST, request->points * (int64_t)(sizeof(double) + sizeof(struct point)));
    for (int i = 0; i < 3 && status == STATUS_OK; i++) {
        struct run_plan point;
        if (times[i] == 0) continue;
        status = point_plan(&request->point, mixes[i], 1, budget, &point, error);
        plan_add(out, &point, times[i]);
    }
    return status;
}

enum status interpolate_run(const struct interpolate_request *request, struct interpolate_result *out,
                            struct error *error)
{
    struct saved_table table = {0};
    enum status status;
    *out = (struct interpolate_result){.count = request->points};
    if ((status = check(request, error)) != STATUS_OK) return status;
    if ((status = memory_new(request->points, sizeof *out->alphas, "alphas", &out->alphas, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(request->points, sizeof *out->points, "losses", &out->points, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < request->points; i++) out->alphas[i] = alpha_at(request, i);
    status = saved_table_open(request->work_directory, "interpolate.table", point_fingerprint(&request->point),
                              request->points, POINT_NUMBERS, &table, error);
    if (status != STATUS_OK) goto done;
    if ((status = walk(request, &table, out->alphas, error)) != STATUS_OK) goto done;
    memcpy(out->points, table.values, (size_t)request->points * sizeof *out->points);
done:
    saved_table_reset(&table);
    if (status != STATUS_OK) interpolate_result_reset(out);
    return status;
}
