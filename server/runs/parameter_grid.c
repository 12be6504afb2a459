#include "runs/parameter_grid.h"

#include "store/checkpoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status checkpoints_of(struct connection *connection, const char *trajectory, json_t *out,
                                  struct error *error)
{
    struct checkpoint *list = NULL;
    size_t count = 0;
    const enum status status = checkpoint_of_trajectory(connection, trajectory, &list, &count, error);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        (void)json_array_append_new(out, json_string(list[i].id.text));
    free(list);
    return status;
}

/* Reads the values of one key into a new array *out; faults are added to `faults`. */
static enum status read_values(struct connection *connection, const char *pointer, json_t *value, bool may_be_empty,
                               struct faults *faults, json_t **out, struct error *error)
{
    const char *trajectory = json_string_value(json_object_get(value, "trajectory"));
    *out = json_is_array(value) ? json_incref(value) : json_array();
    if (*out == NULL) return error_no_memory(error, "a sweep");
    if (trajectory != NULL && json_object_size(value) == 1) {
        const enum status status = checkpoints_of(connection, trajectory, *out, error);
        if (status == STATUS_NOT_FOUND)
            faults_add(faults, pointer, "%s", error->detail);
        else if (status != STATUS_OK)
            return status;
        else if (json_array_size(*out) == 0 && !may_be_empty)
            faults_add(faults, pointer, "the trajectory has no checkpoints");
    } else if (!json_is_array(value)) {
        faults_add(faults, pointer, "must be a list of values, or {\"trajectory\": NAME}");
    } else if (json_array_size(value) == 0) {
        faults_add(faults, pointer, "must hold at least one value");
    }
    return STATUS_OK;
}

/* Puts `value` at the dotted key and makes missing objects. False: part of the path is no object, or memory ran out. */
static bool put_at(json_t *params, const char *key, json_t *value)
{
    const char *dot;
    while ((dot = strchr(key, '.')) != NULL) {
        char part[128];
        const size_t length = (size_t)(dot - key);
        if (length == 0 || length >= sizeof part) return false;
        memcpy(part, key, length);
        part[length] = '\0';
        json_t *next = json_object_get(params, part);
        if (next == NULL && json_object_set_new(params, part, next = json_object()) != 0) return false;
        if (!json_is_object(next)) return false;
        params = next;
        key = dot + 1;
    }
    return *key != '\0' && json_object_set_new(params, key, json_deep_copy(value)) == 0;
}

/* Replaces every run so far by one run for each of the values. */
static enum status multiply(const char *key, const char *pointer, const json_t *values, struct faults *faults,
                            json_t **runs, struct error *error)
{
    json_t *product = json_array(), *run, *value;
    size_t i, j;
    if (product == NULL) return error_no_memory(error, "a sweep");
    if (json_array_size(*runs) * json_array_size(values) > PARAMETER_GRID_MOST) {
        faults_add(faults, pointer, "makes more than %d runs: use several sweeps", PARAMETER_GRID_MOST);
        json_decref(product);
        return STATUS_OK;
    }
    json_array_foreach(*runs, i, run)
    {
        json_array_foreach(values, j, value)
        {
            json_t *copy = json_deep_copy(run);
            if (copy == NULL || json_array_append_new(product, copy) != 0) {
                json_decref(product);
                return error_no_memory(error, "a sweep");
            }
            if (!put_at(copy, key, value) && i == 0 && j == 0)
                faults_add(faults, pointer, "does not lead to a field: something on the way in base is no object");
        }
    }
    json_decref(*runs);
    *runs = product;
    return STATUS_OK;
}

enum status parameter_grid_expand(struct connection *connection, const json_t *base, const json_t *grid,
                                  bool may_be_empty, struct faults *faults, json_t **out, struct error *error)
{
    enum status status = STATUS_OK;
    json_t *runs = json_pack("[o]", json_deep_copy(base));
    *out = NULL;
    if (runs == NULL) return error_no_memory(error, "a sweep");
    for (void *at = json_object_iter((json_t *)(uintptr_t)grid); at != NULL && status == STATUS_OK;
         at = json_object_iter_next((json_t *)(uintptr_t)grid, at)) {
        char pointer[160];
        json_t *values = NULL;
        const char *key = json_object_iter_key(at);
        faults_pointer(pointer, sizeof pointer, "/grid", key);
        status = read_values(connection, pointer, json_object_iter_value(at), may_be_empty, faults, &values, error);
        if (status == STATUS_OK) status = multiply(key, pointer, values, faults, &runs, error);
        json_decref(values);
    }
    if (status == STATUS_OK) status = faults_status(faults, error);
    if (status == STATUS_OK)
        *out = runs;
    else
        json_decref(runs);
    return status;
}

/* ---- laying a grid over its base ---- */

struct laying {
    const json_t *base, *grid, *more;
    bool stored; /* the grid without `more` is that of a stored sweep */
    struct faults *faults;
    json_t *out; /* owned by parameter_grid_lay */
};

/* Whether a value of a shorter field leaves the end of a longer one to that field. */
static bool leaves(const json_t *value, const char *rest)
{
    for (const char *dot; (dot = strchr(rest, '.')) != NULL; rest = dot + 1) {
        if (!json_is_object(value)) return false;
        value = json_object_getn(value, rest, (size_t)(dot - rest));
        if (value == NULL) return true;
    }
    return json_is_object(value) && json_object_get(value, rest) == NULL;
}

/* Checks that no value of `key` gives the field `longer`, which has values of its own. */
static void check_longer(struct laying *laying, const char *key, const char *longer)
{
    size_t i;
    json_t *value;
    char pointer[160];
    json_array_foreach(json_object_get(laying->more, key), i, value)
    {
        if (leaves(value, longer + strlen(key) + 1)) continue;
        faults_pointer(pointer, sizeof pointer, "/grid", key);
        faults_add(laying->faults, pointer,
                   "\"%.100s\" is in the grid too: these values must be objects without that field", longer);
        return;
    }
}

/* `values` laid over the object that base has there. *out: a new array, NULL: no memory. False: one is no object. */
static bool lay_values(const json_t *under, const json_t *values, json_t **out)
{
    size_t i;
    json_t *value;
    bool good = (*out = json_array()) != NULL;
    json_array_foreach(values, i, value)
    {
        if (!json_is_object(value)) return false;
        json_t *laid = json_deep_copy(under);
        good = good && laid != NULL && json_object_update_recursive(laid, value) == 0;
        if (!good || json_array_append(*out, laid) != 0) good = false;
        json_decref(laid);
    }
    if (good) return true;
    json_decref(*out);
    *out = NULL;
    return true;
}

/* Adds the field to the grid that is made, if it is one and not there. */
static enum status lay_field(struct laying *laying, const char *key, struct error *error)
{
    char pointer[160];
    json_t *values = json_object_get(laying->more, key), *laid = NULL;
    const json_t *under = parameter_grid_value(laying->base, key);
    if (values == NULL || json_object_get(laying->out, key) != NULL) return STATUS_OK;
    const bool alone = under == NULL || (laying->stored && !json_is_object(under));
    if (alone) {
        laid = json_incref(values);
    } else if (!json_is_object(under) || !json_is_array(values) || !lay_values(under, values, &laid)) {
        faults_pointer(pointer, sizeof pointer, "/grid", key);
        faults_add(laying->faults, pointer, "is in base and in grid: leave it out of one");
        json_decref(laid);
        laid = json_incref(values);
    }
    return json_object_set_new(laying->out, key, laid) == 0 ? STATUS_OK : error_no_memory(error, "a sweep");
}

/* Adds the field behind those of which it is a part. */
static enum status lay_in_order(struct laying *laying, const char *key, struct error *error)
{
    enum status status = STATUS_OK;
    for (const char *dot = strchr(key, '.'); dot != NULL && status == STATUS_OK; dot = strchr(dot + 1, '.')) {
        char *shorter = strndup(key, (size_t)(dot - key));
        if (shorter == NULL) return error_no_memory(error, "a sweep");
        if (json_object_get(laying->grid, shorter) != NULL) {
            status = lay_field(laying, shorter, error);
            check_longer(laying, shorter, key);
        }
        free(shorter);
    }
    return status == STATUS_OK ? lay_field(laying, key, error) : status;
}

enum status parameter_grid_lay(const json_t *base, const json_t *grid, const json_t *more, struct faults *faults,
                               json_t **out, struct error *error)
{
    const char *key;
    json_t *ignored;
    struct laying laying = {base, grid, more != NULL ? more : grid, more != NULL, faults, json_object()};
    enum status status = laying.out == NULL ? error_no_memory(error, "a sweep") : STATUS_OK;
    json_object_foreach((json_t *)(uintptr_t)grid, key, ignored)
    {
        if (status == STATUS_OK) status = lay_in_order(&laying, key, error);
    }
    if (status == STATUS_OK) status = faults_status(faults, error);
    *out = status == STATUS_OK ? laying.out : NULL;
    if (status != STATUS_OK) json_decref(laying.out);
    return status;
}

/* ---- where a parameter comes from ---- */

json_t *parameter_grid_value(const json_t *params, const char *key)
{
    for (const char *dot; params != NULL && (dot = strchr(key, '.')) != NULL; key = dot + 1)
        params = json_object_getn(params, key, (size_t)(dot - key));
    return json_object_get(params, key);
}

const char *parameter_grid_pointer(const json_t *grid, const char *params_pointer, char *out, size_t size)
{
    const char *rest = params_pointer + strlen("/params"), *key, *below = "";
    json_t *value;
    if (strncmp(params_pointer, "/params", strlen("/params")) != 0) {
        (void)snprintf(out, size, "%s", params_pointer);
        return below;
    }
    (void)snprintf(out, size, "/base%s", rest);
    json_object_foreach((json_t *)(uintptr_t)grid, key, value)
    {
        char path[160];
        (void)value;
        (void)snprintf(path, sizeof path, "/%.150s", key);
        for (char *at = path; *at != '\0'; at++)
            if (*at == '.') *at = '/';
        const char after = strncmp(rest, path, strlen(path)) == 0 ? rest[strlen(path)] : '?';
        if (after != '\0' && after != '/') continue;
        (void)snprintf(out, size, "/grid/%s", key);
        below = rest + strlen(path) + (after == '/');
    }
    return below;
}
