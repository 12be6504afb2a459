#include "kinds/changepoints.h"

#include "base/memory.h"

#include <math.h>

#define ALARM 0.05

void changepoints_reset(struct changepoints_series *series)
{
    memory_free(series->x);
    memory_free(series->y);
    memory_free(series->places);
    *series = (struct changepoints_series){.x = NULL};
}

enum status changepoints_take(const json_t *points, double from, struct changepoints_series *out, struct error *error)
{
    const int64_t most = (int64_t)json_array_size(points);
    size_t i;
    json_t *point;
    *out = (struct changepoints_series){.x = NULL};
    enum status status = memory_new(most, sizeof *out->x, "series", &out->x, error);
    if (status == STATUS_OK) status = memory_new(most, sizeof *out->y, "series", &out->y, error);
    if (status == STATUS_OK) status = memory_new(most, sizeof *out->places, "series", &out->places, error);
    if (status != STATUS_OK) {
        changepoints_reset(out);
        return status;
    }
    json_array_foreach(points, i, point)
    {
        const json_t *x = json_object_get(point, "x"), *y = json_object_get(point, "y");
        if (!json_is_number(x) || !json_is_number(y)) continue;
        if (json_number_value(x) < from) continue;
        if (out->count > 0 && json_number_value(x) <= out->x[out->count - 1]) continue;
        out->x[out->count] = json_number_value(x);
        out->y[out->count] = json_number_value(y);
        out->places[out->count++] = i;
    }
    return STATUS_OK;
}

bool changepoints_testable(const struct changepoints_series *series)
{
    return series->count >= CHANGEPOINT_LEAST && series->count <= CHANGEPOINT_MOST;
}

enum status changepoints_tests_of(const json_t *list, double from, struct changepoints_tests *out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct changepoints_tests){.model = NULL};
    for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++) {
        struct changepoints_series series;
        status = changepoints_take(json_object_get(json_array_get(list, i), "points"), from, &series, error);
        if (status != STATUS_OK) return status;
        out->count += changepoints_testable(&series);
        changepoints_reset(&series);
    }
    return status;
}

void changepoints_tests_reset(struct changepoints_tests *tests)
{
    changepoint_model_free(tests->model);
    tests->model = NULL;
}

static json_t *end_of(const json_t *points, const struct changepoints_series *series, int64_t i)
{
    const json_t *point = json_array_get(points, series->places[i]);
    return json_pack("{sO sO? sO?}", "x", json_object_get(point, "x"), "checkpoint",
                     json_object_get(point, "checkpoint"), "checkpoint_name",
                     json_object_get(point, "checkpoint_name"));
}

static json_t *change_of(const json_t *points, const struct changepoints_series *series,
                         const struct changepoint *found)
{
    static const char *const words[CHANGEPOINT_KINDS] = {"level", "slope"};
    return json_pack("{ss so so s[f f] sf}", "kind", words[found->kind], "after", end_of(points, series, found->after),
                     "before", end_of(points, series, found->after + 1), "interval", series->x[found->low],
                     series->x[found->high + 1], "size", found->size);
}

/* More tests at once need smaller p values, and so more simulations. */
static int64_t simulations_for(int64_t tests)
{
    const int64_t wanted = 100 * tests - 1;
    return wanted > CHANGEPOINT_SIMULATIONS ? wanted : CHANGEPOINT_SIMULATIONS;
}

enum status changepoints_test(const json_t *points, const struct changepoints_series *series,
                              struct changepoints_tests *tests, json_t *out, struct error *error)
{
    struct changepoint found = {.p = NAN};
    if (changepoints_testable(series)) {
        const enum status status =
            changepoint_model_of(series->x, series->count, simulations_for(tests->count), &tests->model, error);
        if (status != STATUS_OK) return status;
        changepoint_find(tests->model, series->y, &found);
    }
    const bool tested = isfinite(found.p);
    const double adjusted = fmin(1, found.p * (double)tests->count);
    const bool set =
        json_object_set_new(out, "points", json_integer(series->count)) == 0 &&
        json_object_set_new(out, "p_value", tested ? json_real(found.p) : json_null()) == 0 &&
        json_object_set_new(out, "adjusted_p_value", tested ? json_real(adjusted) : json_null()) == 0 &&
        json_object_set_new(out, "change",
                            tested && adjusted <= ALARM ? change_of(points, series, &found) : json_null()) == 0;
    return set ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a series");
}
