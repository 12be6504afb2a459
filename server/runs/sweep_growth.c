#include "runs/sweep_growth.h"

#include "runs/parameter_grid.h"
#include "store/checkpoints.h"
#include "store/datasets.h"
#include "store/sweeps.h"
#include "store/trajectories.h"

#include <stdlib.h>
#include <string.h>

/* The values of every field: those that the sweep has, and those to add. */
struct values {
    json_t *old, *added; /* objects of lists, owned; a field without new values is not in `added` */
};

static bool holds(const json_t *list, const json_t *value)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) if (json_equal(item, value)) return true;
    return false;
}

/* The values of `list` that are not in `old`, each once, compared by `ids`, in which they have the same places (it may
 * be `list`). NULL: no memory. */
static json_t *without(const json_t *list, const json_t *ids, const json_t *old)
{
    size_t i;
    json_t *value, *out = json_array(), *seen = json_array();
    bool good = out != NULL && seen != NULL;
    json_array_foreach(list, i, value)
    {
        json_t *id = json_array_get(ids, i);
        if (holds(old, id) || holds(seen, id)) continue;
        good = good && json_array_append(out, value) == 0 && json_array_append(seen, id) == 0;
    }
    json_decref(seen);
    if (good) return out;
    json_decref(out);
    return NULL;
}

/* The id of what the text names. STATUS_NOT_FOUND, STATUS_CONFLICT. */
static enum status find_id(struct connection *connection, bool dataset, const char *reference, struct store_id *id,
                           struct error *error)
{
    struct checkpoint *checkpoint;
    struct dataset found;
    enum status status;
    if (dataset) {
        status = dataset_find(connection, reference, &found, error);
        if (status != STATUS_OK) return status;
        *id = found.id;
        dataset_reset(&found);
        return status;
    }
    if ((checkpoint = malloc(sizeof *checkpoint)) == NULL) return error_no_memory(error, "a sweep");
    status = checkpoint_find(connection, reference, checkpoint, error);
    if (status == STATUS_OK) *id = checkpoint->id;
    free(checkpoint);
    return status;
}

/* `list` with ids in place of the names of checkpoints and datasets, so that two spellings of one are the same value.
 * What names nothing stays, and is a fault of the runs. */
static enum status resolve(struct connection *connection, const char *key, const json_t *list, json_t **out,
                           struct error *error)
{
    size_t i;
    json_t *value;
    const char *last = strrchr(key, '.') != NULL ? strrchr(key, '.') + 1 : key;
    const bool dataset = strcmp(last, "dataset") == 0, names = dataset || strcmp(last, "checkpoint") == 0;
    *out = json_array();
    if (*out == NULL) return error_no_memory(error, "a sweep");
    json_array_foreach(list, i, value)
    {
        struct store_id id;
        enum status status = STATUS_NOT_FOUND;
        if (names && json_is_string(value)) status = find_id(connection, dataset, json_string_value(value), &id, error);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND && status != STATUS_CONFLICT) return status;
        if ((status == STATUS_OK ? json_array_append_new(*out, json_string(id.text))
                                 : json_array_append(*out, value)) != 0)
            return error_no_memory(error, "a sweep");
    }
    return STATUS_OK;
}

/* The values of `given` that the field has not, under whatever name. */
static enum status read_fresh(struct connection *connection, const char *key, const json_t *given, const json_t *has,
                              json_t **fresh, struct error *error)
{
    json_t *ids = NULL, *old = NULL;
    *fresh = NULL;
    enum status status = resolve(connection, key, given, &ids, error);
    if (status == STATUS_OK) status = resolve(connection, key, has, &old, error);
    if (status == STATUS_OK && (*fresh = without(given, ids, old)) == NULL) status = error_no_memory(error, "a sweep");
    json_decref(ids);
    json_decref(old);
    return status;
}

/* Takes one reference of `list`, which may be NULL. False: no memory. */
static bool keep(json_t *fields, const char *key, json_t *list)
{
    if (list != NULL && json_array_size(list) > 0) return json_object_set_new(fields, key, list) == 0;
    json_decref(list);
    return list != NULL;
}

/* Checks that the sweep can take the values which `more` gives for its field. */
static void check_field(const json_t *grid, const char *key, const json_t *given, struct faults *faults)
{
    const json_t *has = json_object_get(grid, key);
    char pointer[160];
    faults_pointer(pointer, sizeof pointer, "/grid", key);
    if (has == NULL)
        faults_add(faults, pointer, "is no field of this sweep's grid: only what varies there can have more values");
    else if (json_is_object(has) && !json_equal(has, given))
        faults_add(faults, pointer,
                   "stands for a trajectory: give it as it is, and its later checkpoints are taken in");
    else if (json_is_array(has) && (!json_is_array(given) || json_array_size(given) == 0))
        faults_add(faults, pointer, "must be a list of at least one value");
}

static enum status check_fields(const json_t *grid, const json_t *more, struct faults *faults, struct error *error)
{
    const char *key;
    json_t *value;
    int trajectories = 0;
    json_object_foreach((json_t *)(uintptr_t)grid, key, value) trajectories += json_is_object(value);
    if (trajectories > 1)
        faults_add(faults, "/grid", "the sweep's grid names several trajectories: post another sweep");
    if (json_object_size(more) == 0)
        faults_add(faults, "/grid", "must have at least one field: what is to have more values");
    json_object_foreach((json_t *)(uintptr_t)more, key, value) check_field(grid, key, value, faults);
    return faults_status(faults, error);
}

/* Reads the checkpoints of the grid's trajectory: those that the sweep has, and, when asked for, later ones. */
static enum status read_checkpoints(struct connection *connection, const char *sweep, const char *key,
                                    const char *trajectory, bool later, struct values *values,
                                    struct sweep_growth *growth, struct error *error)
{
    struct checkpoint *list = NULL;
    size_t count = 0;
    enum status status = trajectory_resolve(connection, trajectory, &growth->trajectory, error);
    if (status == STATUS_OK) status = sweep_taken(connection, sweep, growth->trajectory.text, &growth->taken, error);
    if (status == STATUS_OK && later) status = checkpoint_of_trajectory(connection, trajectory, &list, &count, error);
    if (status == STATUS_NOT_FOUND)
        status = error_set_at(error, STATUS_INVALID, "/grid", "no trajectory \"%.200s\"", trajectory);
    if (status != STATUS_OK) return status;
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) (void)json_array_append_new(all, json_string(list[i].id.text));
    free(list);
    growth->later = json_array_size(all) == count ? without(all, all, growth->taken) : NULL;
    const bool good = growth->later != NULL && json_object_set(values->old, key, growth->taken) == 0 &&
                      keep(values->added, key, json_incref(growth->later));
    json_decref(all);
    return good ? STATUS_OK : error_no_memory(error, "a sweep");
}

/* Fills growth->grid too. */
static enum status read_values(struct connection *connection, const struct sweep_plan_request *request,
                               const char *sweep, bool standing, const json_t *more, struct values *values,
                               struct sweep_growth *growth, struct error *error)
{
    const char *key;
    json_t *has;
    enum status status = STATUS_OK;
    growth->grid = json_deep_copy(request->grid);
    *values = (struct values){json_object(), json_object()};
    if (growth->grid == NULL || values->old == NULL || values->added == NULL) return error_no_memory(error, "a sweep");
    json_object_foreach((json_t *)(uintptr_t)request->grid, key, has)
    {
        const json_t *given = json_object_get(more, key);
        const char *trajectory = json_string_value(json_object_get(has, "trajectory"));
        if (status != STATUS_OK) break;
        if (trajectory != NULL) {
            status =
                read_checkpoints(connection, sweep, key, trajectory, given != NULL && !standing, values, growth, error);
            continue;
        }
        json_t *fresh = NULL;
        if ((status = read_fresh(connection, key, given, has, &fresh, error)) != STATUS_OK) break;
        bool good = json_object_set(values->old, key, has) == 0;
        good = good && fresh != NULL && json_array_extend(json_object_get(growth->grid, key), fresh) == 0;
        if (!keep(values->added, key, fresh) || !good) status = error_no_memory(error, "a sweep");
    }
    return status;
}

/* The values to add, as the sweep keeps them (parameter_grid_lay). Those that are there as they were given are left out
 * before, because a sweep of an earlier version has not laid them over base. */
static enum status lay(const struct sweep_plan_request *request, const json_t *more, struct faults *faults,
                       json_t **laid, struct error *error)
{
    const char *key;
    json_t *given, *left = json_object();
    enum status status = left == NULL ? error_no_memory(error, "a sweep") : STATUS_OK;
    *laid = NULL;
    json_object_foreach((json_t *)(uintptr_t)more, key, given)
    {
        const json_t *has = json_object_get(request->grid, key);
        json_t *values = json_is_array(has) ? without(given, given, has) : json_incref(given);
        if (status == STATUS_OK && json_object_set_new(left, key, values) != 0)
            status = error_no_memory(error, "a sweep");
    }
    if (status == STATUS_OK) status = parameter_grid_lay(request->base, request->grid, left, faults, laid, error);
    json_decref(left);
    return status;
}

/* The runs in which `axis` is the first field with a new value: fields before it have old values, later fields have
 * any. */
static json_t *part(const json_t *grid, const struct values *values, const char *axis)
{
    const char *key;
    json_t *ignored, *out = json_object();
    bool behind = false, good = out != NULL;
    json_object_foreach((json_t *)(uintptr_t)grid, key, ignored)
    {
        json_t *old = json_object_get(values->old, key), *added = json_object_get(values->added, key);
        const bool here = strcmp(key, axis) == 0;
        json_t *list = here ? json_copy(added) : json_copy(old);
        if (behind && added != NULL && list != NULL && json_array_extend(list, added) != 0) good = false;
        good = good && list != NULL && json_object_set_new(out, key, list) == 0;
        behind = behind || here;
    }
    if (good) return out;
    json_decref(out);
    return NULL;
}

static bool any_empty(const json_t *grid)
{
    const char *key;
    json_t *list;
    json_object_foreach((json_t *)(uintptr_t)grid, key, list) if (json_array_size(list) == 0) return true;
    return false;
}

static enum status expand(struct connection *connection, const struct sweep_plan_request *request,
                          const struct values *values, json_t *product, struct faults *faults, struct error *error)
{
    const char *axis;
    json_t *ignored;
    enum status status = STATUS_OK;
    json_object_foreach(values->added, axis, ignored)
    {
        json_t *grid = part(request->grid, values, axis), *runs = NULL;
        if (grid == NULL)
            status = error_no_memory(error, "a sweep");
        else if (!any_empty(grid))
            status = parameter_grid_expand(connection, request->base, grid, false, faults, &runs, error);
        if (status == STATUS_OK && runs != NULL && json_array_extend(product, runs) != 0)
            status = error_no_memory(error, "a sweep");
        json_decref(runs);
        json_decref(grid);
        if (status != STATUS_OK) return status;
    }
    if (json_array_size(product) <= PARAMETER_GRID_MOST) return STATUS_OK;
    faults_add(faults, "/grid", "makes more than %d runs: use several sweeps", PARAMETER_GRID_MOST);
    return faults_status(faults, error);
}

enum status sweep_growth_make(struct connection *connection, const struct sweep_plan_request *request,
                              const char *sweep, bool standing, const json_t *more, struct faults *faults,
                              struct sweep_growth *out, struct error *error)
{
    struct values values = {0};
    json_t *product = json_array(), *laid = NULL;
    enum status status = product == NULL ? error_no_memory(error, "a sweep") : STATUS_OK;
    if (status == STATUS_OK) status = check_fields(request->grid, more, faults, error);
    if (status == STATUS_OK) status = lay(request, more, faults, &laid, error);
    if (status == STATUS_OK) status = read_values(connection, request, sweep, standing, laid, &values, out, error);
    if (status == STATUS_OK) status = expand(connection, request, &values, product, faults, error);
    if (status == STATUS_OK) status = sweep_plan_of(connection, request, product, faults, &out->plan, error);
    json_decref(values.old);
    json_decref(values.added);
    json_decref(product);
    json_decref(laid);
    return status;
}

void sweep_growth_reset(struct sweep_growth *growth)
{
    sweep_plan_reset(&growth->plan);
    json_decref(growth->grid);
    json_decref(growth->taken);
    json_decref(growth->later);
    *growth = (struct sweep_growth){0};
}
