#include "follow/verdict_change.h"

#include <string.h>

/* So many tests at once take a fifth of a second, and as large a share of the level of each. */
enum { SERIES_MOST = 20 };

/* The tests leave out the points before this x. */
static double first_x(const json_t *rule)
{
    return json_number_value(json_object_get(rule, "from"));
}

enum status verdict_change_begin(const json_t *rule, const json_t *list, struct changepoints_tests *tests,
                                 const char **refused, struct error *error)
{
    *tests = (struct changepoints_tests){.model = NULL};
    *refused =
        json_array_size(list) > SERIES_MOST
            ? "more than 20 series fit, too many to be tested at once: name a method, dataset or protocol in series"
            : NULL;
    return *refused != NULL ? STATUS_OK : changepoints_tests_of(list, first_x(rule), tests, error);
}

/* A change after point i lies among the last N where the first point behind it, i + 1, is one of them. */
static void place_change(const json_t *change, const struct changepoints_series *series, int64_t last,
                         struct verdict_change *out)
{
    const json_t *interval = json_object_get(change, "interval");
    const double first = last < series->count ? series->x[series->count - last] : series->x[0];
    const double behind = json_number_value(json_object_get(json_object_get(change, "before"), "x"));
    const double low = json_number_value(json_array_get(interval, 0));
    const double high = json_number_value(json_array_get(interval, 1));
    const double before = last < series->count ? series->x[series->count - last - 1] : low;
    out->recent = behind >= first;
    out->straddles = low < before && high >= first;
}

enum status verdict_change_test(const json_t *rule, json_t *item, struct changepoints_tests *tests,
                                struct verdict_change *out, struct error *error)
{
    json_t *points = json_object_get(item, "points"), *row = json_object();
    const json_t *newest = json_array_get(points, json_array_size(points) - 1);
    const int64_t last = json_integer_value(json_object_get(rule, "changepoint"));
    struct changepoints_series series = {.x = NULL};
    *out = (struct verdict_change){.reason = NULL};
    enum status status =
        row == NULL ? error_no_memory(error, "a series") : changepoints_take(points, first_x(rule), &series, error);
    if (status != STATUS_OK) goto done;
    if (!json_is_number(json_object_get(newest, "x")))
        out->reason = "the checkpoint has no step, by which a change is found";
    else if (series.count < CHANGEPOINT_LEAST)
        out->reason =
            "fewer than 12 checkpoints up to it are measured in this series, too few for a change to be found";
    if (out->reason != NULL) goto done;
    status = changepoints_test(points, &series, tests, row, error);
    if (status != STATUS_OK) goto done;
    const json_t *change = json_object_get(row, "change");
    if (json_is_object(change)) place_change(change, &series, last, out);
    if (json_object_set(item, "change", json_object_get(row, "change")) != 0 ||
        json_object_set(item, "p_value", json_object_get(row, "adjusted_p_value")) != 0)
        status = error_no_memory(error, "a series");
done:
    changepoints_reset(&series);
    json_decref(row);
    return status;
}
