#include "jobs/landscape.h"

#include "base/memory.h"
#include "eval/evaluate.h"
#include "jobs/saved_table.h"

#include <math.h>
#include <string.h>

/* Adaptive margins: a side moves out in steps of STEP_SHARE of the extent until the loss at its middle has risen by
 * RISE of the path's lowest loss, or MARGIN_MOST is reached: sharp basins are drawn close, flat ones wide. */
#define STEP_SHARE   0.125
#define MARGIN_LEAST 0.125
#define MARGIN_MOST  1.5
#define RISE         0.25

void landscape_result_reset(struct landscape_result *result)
{
    plane_reset(&result->plane);
    memory_free(result->x);
    memory_free(result->y);
    memory_free(result->mesh);
    memory_free(result->path);
    *result = (struct landscape_result){0};
}

struct survey {
    const struct landscape_request *request;
    struct landscape_result *out;
    double *coefficients;   /* [members] */
    double low[2], high[2]; /* extent of the projections */
    struct saved_table table;
};

static enum status measure(struct survey *survey, double x, double y, struct point *out, struct error *error)
{
    plane_at(&survey->out->plane, x, y, survey->coefficients);
    survey->out->measured++;
    return point_measure(&survey->request->point, survey->coefficients, 1, out, error);
}

static void extent_find(struct survey *survey)
{
    const struct plane *plane = &survey->out->plane;
    for (int axis = 0; axis < 2; axis++) {
        survey->low[axis] = INFINITY;
        survey->high[axis] = -INFINITY;
        for (int64_t k = 0; k < plane->count; k++) {
            survey->low[axis] = fmin(survey->low[axis], plane->points[2 * k + axis]);
            survey->high[axis] = fmax(survey->high[axis], plane->points[2 * k + axis]);
        }
    }
}

/* Takes row `done` of the saved table, or measures it if no earlier attempt did. Rows are requested in a fixed
 * order. */
static enum status next(struct survey *survey, int64_t index, double x, double y, struct point *out,
                        struct error *error)
{
    struct saved_table *table = &survey->table;
    double row[POINT_NUMBERS];
    enum status status = STATUS_OK;
    if (index >= table->done) {
        status = measure(survey, x, y, out, error);
        memcpy(row, out, sizeof row);
        if (status == STATUS_OK) status = saved_table_add(table, row, error);
    }
    memcpy(out, table->values + index * table->width, sizeof *out);
    return status;
}

/* The loss at the middle of a side, `margin` outside. */
static enum status side_loss(struct survey *survey, int side, double margin, double *loss, struct error *error)
{
    const int axis = side / 2;
    const double extent = survey->high[axis] - survey->low[axis];
    double at[2] = {(survey->low[0] + survey->high[0]) / 2, (survey->low[1] + survey->high[1]) / 2};
    struct point point;
    at[axis] = side % 2 == 0 ? survey->low[axis] - margin * extent : survey->high[axis] + margin * extent;
    const enum status status = measure(survey, at[0], at[1], &point, error);
    *loss = point.loss;
    return status;
}

static enum status margins_adapt(struct survey *survey, struct error *error)
{
    double lowest = INFINITY;
    for (int64_t k = 0; k < survey->out->plane.count; k++) lowest = fmin(lowest, survey->out->path[k].loss);
    for (int side = 0; side < 4; side++) {
        double *margin = &survey->out->margins[side], loss = 0;
        for (*margin = MARGIN_LEAST; *margin < MARGIN_MOST; *margin += STEP_SHARE) {
            const enum status status = side_loss(survey, side, *margin, &loss, error);
            if (status != STATUS_OK) return status;
            if (!(loss < (1 + RISE) * lowest)) break; /* also if it is NaN */
        }
    }
    return STATUS_OK;
}

static void axis_fill(const struct survey *survey, int axis, int64_t count, double *out)
{
    const double extent = survey->high[axis] - survey->low[axis];
    const double low = survey->low[axis] - survey->out->margins[2 * axis] * extent;
    const double high = survey->high[axis] + survey->out->margins[2 * axis + 1] * extent;
    for (int64_t i = 0; i < count; i++)
        out[i] = i == count - 1 ? high : low + (high - low) * ((double)i / (double)(count - 1));
}

static void report(const struct survey *survey, int64_t done)
{
    monitor_progress(survey->request->point.monitor, done, survey->table.rows, "point");
}

/* Measures the path first, because adaptive margins need its losses. */
static enum status survey_path(struct survey *survey, struct error *error)
{
    const struct plane *plane = &survey->out->plane;
    for (int64_t k = 0; k < plane->count; k++) {
        const double *at = plane->points + 2 * k;
        const enum status status = next(survey, k, at[0], at[1], &survey->out->path[k], error);
        if (status != STATUS_OK) return status;
        report(survey, k + 1);
    }
    return STATUS_OK;
}

static enum status survey_mesh(struct survey *survey, struct error *error)
{
    const struct landscape_request *request = survey->request;
    struct landscape_result *out = survey->out;
    const int64_t before = out->plane.count, points = request->rows * request->columns;
    enum status status = STATUS_OK;
    for (int side = 0; side < 4; side++) out->margins[side] = request->margin;
    if (isnan(request->margin) && (status = margins_adapt(survey, error)) != STATUS_OK) return status;
    axis_fill(survey, 0, request->columns, out->x);
    axis_fill(survey, 1, request->rows, out->y);
    for (int64_t i = 0; i < points && status == STATUS_OK; i++) {
        status =
            next(survey, before + i, out->x[i % request->columns], out->y[i / request->columns], &out->mesh[i], error);
        report(survey, before + i + 1);
    }
    return status;
}

static enum status survey_prepare(struct survey *survey, struct error *error)
{
    const struct landscape_request *request = survey->request;
    struct landscape_result *out = survey->out;
    const int64_t members = request->point.family->count, points = request->rows * request->columns;
    enum status status;
    if ((status = memory_new(members, sizeof(double), "coefficients", &survey->coefficients, error)) != STATUS_OK ||
        (status = memory_new(request->columns, sizeof(double), "mesh", &out->x, error)) != STATUS_OK ||
        (status = memory_new(request->rows, sizeof(double), "mesh", &out->y, error)) != STATUS_OK ||
        (status = memory_new(points, sizeof *out->mesh, "mesh", &out->mesh, error)) != STATUS_OK ||
        (status = memory_new(members, sizeof *out->path, "path", &out->path, error)) != STATUS_OK)
        return status;
    return saved_table_open(request->work_directory, "landscape.table", point_fingerprint(&request->point),
                            members + points, POINT_NUMBERS, &survey->table, error);
}

static enum status check(const struct landscape_request *request, struct error *error)
{
    const struct point_request *point = &request->point;
    if (request->columns < 2 || request->rows < 2)
        return error_set(error, STATUS_INVALID, "a mesh needs two points or more each way, found %lld x %lld",
                         (long long)request->columns, (long long)request->rows);
    return evaluate_check(&point->family->models[0]->config, point->evaluation, "evaluation", error);
}

int64_t landscape_points(const struct landscape_request *request)
{
    const int64_t steps = (int64_t)ceil((MARGIN_MOST - MARGIN_LEAST) / STEP_SHARE);
    return request->point.family->count + request->rows * request->columns + (isnan(request->margin) ? 4 * steps : 0);
}

/* Every point is a mix of all members, so the position of the plane does not matter. */
enum status landscape_plan(const struct landscape_request *request, const struct plan_budget *budget,
                           struct run_plan *out, struct error *error)
{
    const int64_t members = request->point.family->count, points = request->rows * request->columns,
                  rows = members + points;
    double *ones = NULL;
    struct run_plan point;
    enum status status;
    *out = (struct run_plan){.at_most = isnan(request->margin)};
    if ((status = check(request, error)) != STATUS_OK) return status;
    if ((status = memory_new(members, sizeof *ones, "coefficients", &ones, error)) != STATUS_OK) return status;
    for (int64_t k = 0; k < members; k++) ones[k] = 1;
    plan_take(out, PLAN_HOST, (members + request->columns + request->rows) * (int64_t)sizeof(double));
    plan_take(out, PLAN_HOST, rows * (int64_t)sizeof(struct point));
    saved_table_plan(rows, POINT_NUMBERS, request->work_directory != NULL ? rows : 0, out);
    plane_plan(request->point.family, out);
    status = point_plan(&request->point, ones, (double)members, budget, &point, error);
    plan_add(out, &point, landscape_points(request));
    memory_free(ones);
    return status;
}

enum status landscape_run(const struct landscape_request *request, struct landscape_result *out, struct error *error)
{
    struct survey survey = {.request = request, .out = out};
    const struct point_request *point = &request->point;
    enum status status;
    *out = (struct landscape_result){0};
    if ((status = check(request, error)) != STATUS_OK) return status;
    if ((status = survey_prepare(&survey, error)) != STATUS_OK) goto done;
    if ((status = plane_find(point->family, request->team, point->monitor, &out->plane, error)) != STATUS_OK) goto done;
    extent_find(&survey);
    if ((status = survey_path(&survey, error)) != STATUS_OK) goto done;
    status = survey_mesh(&survey, error);
done:
    saved_table_reset(&survey.table);
    memory_free(survey.coefficients);
    if (status != STATUS_OK) landscape_result_reset(out);
    return status;
}
