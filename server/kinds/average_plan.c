#include "kinds/average_plan.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Strings are compared with the first row of each trajectory alone, because a list may have a thousand. */
static void lanes_find(struct average_plan *plan)
{
    for (int64_t i = 0; i < plan->row_count; i++) {
        plan->lanes[i] = i;
        plan->places[i] = 0;
        for (int64_t k = 0; k < i && plan->lanes[i] == i; k++)
            if (plan->lanes[k] == k && strcmp(plan->rows[k].trajectory.text, plan->rows[i].trajectory.text) == 0)
                plan->lanes[i] = k;
        for (int64_t k = i - 1; k >= 0 && plan->lanes[i] != i; k--) {
            if (plan->lanes[k] != plan->lanes[i]) continue;
            plan->places[i] = plan->places[k] + 1;
            break;
        }
    }
}

static enum status rows_read(struct connection *connection, const struct average_plan_request *request,
                             struct average_plan *plan, struct error *error)
{
    static const char what[] = "checkpoint list";
    enum status status = memory_new(request->count, sizeof *plan->rows, what, &plan->rows, error);
    if (status == STATUS_OK) status = memory_new(request->count, sizeof *plan->lanes, what, &plan->lanes, error);
    if (status == STATUS_OK) status = memory_new(request->count, sizeof *plan->places, what, &plan->places, error);
    plan->row_count = status == STATUS_OK ? request->count : 0;
    for (int64_t i = 0; i < plan->row_count && status == STATUS_OK; i++)
        status = checkpoint_find(connection, request->ids[i], &plan->rows[i], error);
    if (status == STATUS_OK) lanes_find(plan);
    return status;
}

/* Checkpoints that are listed beside trajectories are of these: what came out would not be of what was named. */
static enum status lanes_check(const struct average_plan *plan, const struct average_plan_request *request,
                               struct error *error)
{
    bool used[AVERAGE_LANES] = {false};
    for (int64_t i = 0; i < plan->row_count && request->lane_count > 0; i++) {
        char pointer[60];
        bool named = false;
        for (int64_t lane = 0; lane < request->lane_count; lane++) {
            if (strcmp(plan->rows[i].trajectory.text, request->lanes[lane]) != 0) continue;
            used[lane] = named = true;
        }
        if (named) continue;
        (void)snprintf(pointer, sizeof pointer, "/params/checkpoints/%lld", (long long)i);
        return error_set_at(error, STATUS_INVALID, pointer,
                            "is of trajectory \"%.200s\", which is not in \"%s\": leave one of the two out",
                            plan->rows[i].trajectory_name, request->lanes_at + strlen("/params/"));
    }
    for (int64_t lane = 0; lane < request->lane_count; lane++)
        if (!used[lane])
            return error_set_at(error, STATUS_INVALID, request->lanes_at,
                                "names one that none of the listed checkpoints is of: leave it, or the list, out");
    return STATUS_OK;
}

/* An average is called like the last of its window and has its step: that of a later checkpoint would be in one that
 * claims to be of an earlier step. */
static enum status order_check(const struct average_plan *plan, struct error *error)
{
    for (int64_t i = 1; i < plan->row_count; i++) {
        const struct checkpoint *row = &plan->rows[i];
        char pointer[60];
        for (int64_t k = 0; k < i; k++) {
            const struct checkpoint *before = &plan->rows[k];
            if (row->step < 0 || before->step <= row->step) continue;
            if (plan->lanes[k] != plan->lanes[i]) continue;
            (void)snprintf(pointer, sizeof pointer, "/params/checkpoints/%lld", (long long)i);
            return error_set_at(error, STATUS_INVALID, pointer,
                                "is of step %lld and stands after \"%.200s\" of step %lld: windows need the checkpoints"
                                " of a trajectory by rising step",
                                (long long)row->step, before->name, (long long)before->step);
        }
    }
    return STATUS_OK;
}

static int64_t lanes_count(const struct average_plan *plan)
{
    int64_t count = 0;
    for (int64_t i = 0; i < plan->row_count; i++) count += plan->lanes[i] == i;
    return count;
}

static enum status group_new(struct average_plan *plan, int64_t most, const char *name, struct average_group **out,
                             struct error *error)
{
    struct average_group *groups = realloc(plan->groups, (size_t)(plan->count + 1) * sizeof *groups);
    if (groups == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a list of averages");
    plan->groups = groups;
    *out = &groups[plan->count++];
    **out = (struct average_group){.name = name};
    const enum status status = memory_new(most, sizeof *(*out)->members, "average", &(*out)->members, error);
    return status == STATUS_OK ? memory_new(most, sizeof(double), "average", &(*out)->weights, error) : status;
}

static void group_add(struct average_group *group, const struct checkpoint *row, double weight)
{
    group->members[group->count] = row;
    group->weights[group->count++] = weight;
    if (group->newest == NULL || row->step >= group->newest->step) group->newest = row;
}

static void groups_free(struct average_plan *plan)
{
    for (int64_t i = 0; i < plan->count; i++) {
        memory_free(plan->groups[i].members);
        memory_free(plan->groups[i].weights);
    }
    free(plan->groups);
    plan->groups = NULL;
    plan->count = 0;
}

/* Adds the `window` rows of the lane that end at row `end`; false when there are fewer. */
static bool window_add(const struct average_plan *plan, int64_t end, const struct average_plan_request *request,
                       int64_t window, struct average_group *group)
{
    const bool weighted = request != NULL && request->weights != NULL;
    const int64_t lane = plan->lanes[end], first = plan->places[end] + 1 - window;
    if (first < 0) return false;
    for (int64_t i = lane; i <= end; i++)
        if (plan->lanes[i] == lane && plan->places[i] >= first)
            group_add(group, &plan->rows[i], weighted ? request->weights[plan->places[i] - first] : 1);
    return true;
}

/* The row of `lane` at `step`, -1 when it has none. */
static int64_t row_at(const struct average_plan *plan, int64_t lane, int64_t step)
{
    for (int64_t i = lane; i < plan->row_count; i++)
        if (plan->rows[i].step == step && plan->lanes[i] == lane) return i;
    return -1;
}

/* The windows that end at `row` of the first lane and at its step in the others; false when one is not full. */
static bool windows_add(const struct average_plan *plan, const struct average_plan_request *request, int64_t row,
                        struct average_group *group)
{
    if (!window_add(plan, row, request, request->window, group)) return false;
    for (int64_t i = 0; i < plan->row_count; i++) {
        if (plan->lanes[i] != i || i == plan->lanes[row]) continue;
        const int64_t end = row_at(plan, i, plan->rows[row].step);
        if (end < 0 || !window_add(plan, end, request, request->window, group)) return false;
    }
    group->newest = &plan->rows[row];
    return true;
}

static enum status plan_windows(struct average_plan *plan, const struct average_plan_request *request,
                                struct error *error)
{
    const int64_t lanes = lanes_count(plan);
    enum status status;
    for (int64_t i = 0; i < plan->row_count && lanes > 1; i++)
        if (plan->rows[i].step < 0)
            return error_set_at(error, STATUS_INVALID, "/params/window",
                                "trajectories are matched by step, which checkpoint \"%.200s\" has none of",
                                plan->rows[i].name);
    for (int64_t i = 0; i < plan->row_count; i++) {
        struct average_group *group = NULL;
        if (plan->lanes[i] != 0) continue;
        status = group_new(plan, request->window * lanes, plan->rows[i].name, &group, error);
        if (status != STATUS_OK) return status;
        if (!windows_add(plan, request, i, group)) {
            plan->count--;
            memory_free(group->members);
            memory_free(group->weights);
        }
    }
    if (plan->count > 0) return STATUS_OK;
    const char *everywhere = lanes > 1 ? " in every trajectory" : "";
    if (request->window_from != NULL)
        return error_set_at(
            error, STATUS_INVALID, request->window_from,
            "no checkpoint ends a window of %lld%s, over which a trajectory is averaged when no window is"
            " given: give a window, or a list of checkpoints alone for one average of all",
            (long long)request->window, everywhere);
    return error_set_at(error, STATUS_INVALID, "/params/window", "no place has %lld checkpoints behind it%s",
                        (long long)request->window, everywhere);
}

static enum status plan_all(struct average_plan *plan, const struct average_plan_request *request, struct error *error)
{
    struct average_group *group = NULL;
    const enum status status = group_new(plan, plan->row_count, request->name, &group, error);
    for (int64_t i = 0; i < plan->row_count && status == STATUS_OK; i++)
        group_add(group, &plan->rows[i], request->weights != NULL ? request->weights[i] : 1);
    return status;
}

static int compare_steps(const void *a, const void *b)
{
    const int64_t one = (*(const struct checkpoint *const *)a)->step,
                  other = (*(const struct checkpoint *const *)b)->step;
    return (one > other) - (one < other);
}

/* Lays the shape over `count` members from the first one on, which it sorts by step. */
static enum status shape_part(struct average_group *group, int64_t first, int64_t count, enum average_shape shape,
                              struct error *error)
{
    const struct checkpoint **members = group->members + first;
    qsort(members, (size_t)count, sizeof *members, compare_steps);
    for (int64_t k = 0; k < count; k++) {
        if (members[k]->step < 0)
            return error_set_at(
                error, STATUS_INVALID, "/params/shape",
                "is laid over checkpoints in order of their steps, and \"%.200s\" has none: give weights",
                members[k]->name);
        if (k > 0 && members[k]->step == members[k - 1]->step)
            return error_set_at(error, STATUS_INVALID, "/params/shape",
                                "is laid over checkpoints in order of their steps, and \"%.100s\" and \"%.100s\" are"
                                " both of step %lld: give weights, or trajectories with a window",
                                members[k - 1]->name, members[k]->name, (long long)members[k]->step);
    }
    average_shape_weights(shape, count, group->weights + first);
    return STATUS_OK;
}

/* In a window each lane has the shape, else all together have it. */
static enum status plan_shape(struct average_plan *plan, const struct average_plan_request *request,
                              struct error *error)
{
    enum status status = STATUS_OK;
    if (request->shape == AVERAGE_UNIFORM) return STATUS_OK;
    for (int64_t i = 0; i < plan->count; i++) {
        struct average_group *group = &plan->groups[i];
        const int64_t part = request->window > 0 ? request->window : group->count;
        for (int64_t first = 0; first < group->count && status == STATUS_OK; first += part)
            status = shape_part(group, first, part, request->shape, error);
    }
    return status;
}

static enum status check_weights(const struct average_plan_request *request, struct error *error)
{
    const int64_t expected = request->window > 0 ? request->window : request->count;
    double sum = 0;
    if (request->weights == NULL) return STATUS_OK;
    if (request->weight_count != expected)
        return error_set_at(error, STATUS_INVALID, "/params/weights",
                            "must have one weight for each of the %lld %s, found %lld", (long long)expected,
                            request->window > 0 ? "places of the window" : "checkpoints",
                            (long long)request->weight_count);
    for (int64_t i = 0; i < expected; i++) sum += request->weights[i];
    if (!(fabs(sum) > 1e-9))
        return error_set_at(error, STATUS_INVALID, "/params/weights",
                            "must not sum to 0: they are divided by their sum");
    return STATUS_OK;
}

enum status average_plan_make(struct connection *connection, const struct average_plan_request *request,
                              struct average_plan *out, struct error *error)
{
    *out = (struct average_plan){0};
    enum status status = check_weights(request, error);
    if (status == STATUS_OK) status = rows_read(connection, request, out, error);
    if (status == STATUS_OK) status = lanes_check(out, request, error);
    if (status == STATUS_OK && request->ordered) status = order_check(out, error);
    if (status == STATUS_OK)
        status = request->window > 0 ? plan_windows(out, request, error) : plan_all(out, request, error);
    if (status == STATUS_OK) status = plan_shape(out, request, error);
    if (status != STATUS_OK) average_plan_reset(out);
    return status;
}

void average_plan_reset(struct average_plan *plan)
{
    groups_free(plan);
    memory_free(plan->rows);
    memory_free(plan->lanes);
    memory_free(plan->places);
    *plan = (struct average_plan){0};
}

enum status average_plan_last(struct average_plan *plan, int64_t window, const char *name, struct error *error)
{
    struct average_group *group = NULL;
    groups_free(plan);
    const enum status status = group_new(plan, window * lanes_count(plan), name, &group, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < plan->row_count; i++) {
        bool ends = true;
        for (int64_t k = i + 1; k < plan->row_count; k++) ends = ends && plan->lanes[k] != plan->lanes[i];
        if (ends && !window_add(plan, i, NULL, window, group))
            return error_set_at(error, STATUS_INVALID, "/params/windows",
                                "%lld is more than the checkpoints of \"%.200s\"", (long long)window,
                                plan->rows[i].trajectory_name);
    }
    return STATUS_OK;
}

json_t *average_plan_origin(const struct average_group *group)
{
    json_t *ids = json_array(), *weights = json_array();
    double sum = 0;
    for (int64_t k = 0; k < group->count; k++) sum += group->weights[k];
    for (int64_t k = 0; k < group->count; k++) {
        (void)json_array_append_new(ids, json_string(group->members[k]->id.text));
        (void)json_array_append_new(weights, json_real(group->weights[k] / sum));
    }
    return json_pack("{so so}", "checkpoints", ids, "weights", weights);
}

static bool origins_equal(const json_t *origin, const json_t *stored)
{
    const json_t *a = json_object_get(origin, "weights"), *b = json_object_get(stored, "weights");
    if (!json_equal(json_object_get(origin, "checkpoints"), json_object_get(stored, "checkpoints"))) return false;
    for (size_t i = 0; i < json_array_size(a); i++)
        if (fabs(json_number_value(json_array_get(a, i)) - json_number_value(json_array_get(b, i))) > 1e-12)
            return false;
    return true;
}

/* Whether the average is stored as `dtype`, NULL: as its first member is. True where that cannot be told, as of members
 * in types that averages are not stored in. */
static enum status stored_as(struct connection *connection, const struct average_group *group, const char *dtype,
                             const json_t *stored, bool *out, struct error *error)
{
    const char *found = json_string_value(json_object_get(stored, "dtype"));
    json_t *member = NULL;
    enum status status = STATUS_OK;
    if (dtype == NULL) {
        status = checkpoint_get(connection, group->members[0]->id.text, &member, error);
        dtype = json_string_value(json_object_get(member, "dtype"));
        if (dtype != NULL && strcmp(dtype, "F32") != 0 && strcmp(dtype, "BF16") != 0 && strcmp(dtype, "F16") != 0)
            dtype = NULL;
    }
    *out = found == NULL || dtype == NULL || strcmp(found, dtype) == 0;
    json_decref(member);
    return status;
}

enum status average_plan_find(struct connection *connection, const char *into, const struct average_group *group,
                              const char *dtype, const char *pointer, struct store_id *id, struct error *error)
{
    char reference[600];
    json_t *document = NULL, *origin = NULL;
    bool same_type = true;
    *id = (struct store_id){""};
    (void)snprintf(reference, sizeof reference, "%s/%s", into, group->name);
    enum status status = checkpoint_get(connection, reference, &document, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status != STATUS_OK) return status;
    origin = average_plan_origin(group);
    if (origin == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    else if (origins_equal(origin, json_object_get(document, "derived_from")))
        status = stored_as(connection, group, dtype, document, &same_type, error);
    else
        status = error_set_at(error, STATUS_CONFLICT, pointer,
                              "another checkpoint \"%.250s\" is registered there: choose another name", reference);
    if (status == STATUS_OK && !same_type)
        status = error_set_at(error, STATUS_CONFLICT, pointer,
                              "the average \"%.250s\" is registered there and stored in %s: choose another name",
                              reference, json_string_value(json_object_get(document, "dtype")));
    if (status == STATUS_OK)
        (void)snprintf(id->text, sizeof id->text, "%s", json_string_value(json_object_get(document, "id")));
    json_decref(origin);
    json_decref(document);
    return status;
}
