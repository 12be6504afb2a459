#include "launch/estimate.h"

#include "store/demand.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 20 };

/* Reads memory and time from the document of a dry run. */
static void read_plan(const json_t *plan, int64_t *memory, double *seconds)
{
    const json_t *host = json_object_get(json_object_get(plan, "memory"), "host");
    const char *problem = json_string_value(json_object_get(json_object_get(plan, "problem"), "code"));
    const int64_t peak = json_integer_value(json_object_get(host, "peak_bytes"));
    const bool too_large = problem != NULL && strcmp(problem, status_info(STATUS_TOO_LARGE)->name) == 0;
    const json_t *took = json_object_get(plan, "seconds");
    *memory = too_large && peak > json_integer_value(json_object_get(host, "available_bytes")) ? peak : 0;
    *seconds = json_is_number(took) ? json_number_value(took) : (double)NAN;
}

static enum status estimate_one(const struct dry_run_place *place, const json_t *row, struct error *error)
{
    struct error why;
    int64_t memory = 0;
    double seconds = (double)NAN;
    json_t *plan = NULL;
    const struct kind *kind = kind_find(kinds, json_string_value(json_object_get(row, "kind")));
    struct prepared_run run = {.kind = kind, .request = {.params = json_object_get(row, "params")}};
    const enum status status = kind == NULL ? STATUS_UNSUPPORTED : dry_run_of_run(place, &run, &plan, &why);
    if (status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY) {
        *error = why;
        return status;
    }
    read_plan(plan, &memory, &seconds);
    json_decref(plan);
    return demand_planned(place->connection, json_string_value(json_object_get(row, "id")), memory, seconds, error);
}

enum status estimate_some(const struct dry_run_place *place, int *planned, struct error *error)
{
    size_t i;
    json_t *list = NULL, *row;
    enum status status = demand_unplanned(place->connection, AT_ONCE, &list, error);
    *planned = 0;
    json_array_foreach(list, i, row)
    {
        if (status == STATUS_OK) status = estimate_one(place, row, error);
        *planned += status == STATUS_OK;
    }
    json_decref(list);
    return status;
}
