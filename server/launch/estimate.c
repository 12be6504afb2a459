#include "launch/estimate.h"

#include "store/demand.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { AT_ONCE = 20 };

struct estimating {
    const struct dry_run_place *place;
    const struct template *templates;
    size_t count;
};

/* Where the run will be: rates and memory are those of its device. No job is submitted for what no template serves. */
static struct dry_run_place place_of(const struct estimating *how, const json_t *row)
{
    struct dry_run_place place = *how->place;
    const struct template *template =
        template_find(how->templates, how->count, json_string_value(json_object_get(row, "device")),
                      json_integer_value(json_object_get(row, "device_memory_bytes")), json_object_get(row, "labels"));
    if (template == NULL) return place;
    (void)snprintf(place.device, sizeof place.device, "%s", template_device(template));
    place.device_memory_bytes = template->device_memory;
    return place;
}

/* The peak in one kind of memory, where that is known to be more than there is; otherwise 0. */
static int64_t peak_beyond(const json_t *plan, const char *kind)
{
    const json_t *memory = json_object_get(json_object_get(plan, "memory"), kind);
    const json_t *available = json_object_get(memory, "available_bytes");
    const int64_t peak = json_integer_value(json_object_get(memory, "peak_bytes"));
    return json_is_integer(available) && peak > json_integer_value(available) ? peak : 0;
}

/* What a dry run's document says of memory and time. */
static void read_plan(const json_t *plan, struct demand_memory *needed, double *seconds)
{
    const char *problem = json_string_value(json_object_get(json_object_get(plan, "problem"), "code"));
    const bool too_large = problem != NULL && strcmp(problem, status_info(STATUS_TOO_LARGE)->name) == 0;
    const json_t *took = json_object_get(plan, "seconds");
    if (too_large)
        *needed = (struct demand_memory){.host = peak_beyond(plan, "host"), .device = peak_beyond(plan, "device")};
    *seconds = json_is_number(took) ? json_number_value(took) : (double)NAN;
}

static enum status estimate_one(const struct estimating *how, const json_t *row, struct error *error)
{
    struct error why;
    struct demand_memory needed = {0};
    double seconds = (double)NAN;
    json_t *plan = NULL;
    const struct kind *kind = kind_find(kinds, json_string_value(json_object_get(row, "kind")));
    struct prepared_run run = {.kind = kind, .request = {.params = json_object_get(row, "params")}};
    const struct dry_run_place place = place_of(how, row);
    const enum status status = kind == NULL ? STATUS_UNSUPPORTED : dry_run_of_run(&place, &run, &plan, &why);
    if (status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY) {
        *error = why;
        return status;
    }
    read_plan(plan, &needed, &seconds);
    json_decref(plan);
    return demand_planned(place.connection, json_string_value(json_object_get(row, "id")), &needed, seconds, error);
}

enum status estimate_some(const struct dry_run_place *place, const struct template *templates, size_t template_count,
                          int *planned, struct error *error)
{
    size_t i;
    const struct estimating how = {.place = place, .templates = templates, .count = template_count};
    json_t *list = NULL, *row;
    enum status status = demand_unplanned(place->connection, AT_ONCE, &list, error);
    *planned = 0;
    json_array_foreach(list, i, row)
    {
        if (status == STATUS_OK) status = estimate_one(&how, row, error);
        *planned += status == STATUS_OK;
    }
    json_decref(list);
    return status;
}
