#include "schema/result_render.h"

#include <math.h>

static const void *pointer_at(const void *place)
{
    return *(const void *const *)place;
}

bool result_has(const struct result_field *field, const void *from)
{
    const char *base = from;
    const bool list = field->type == RESULT_LIST || field->type == RESULT_MAP;
    if (list || field->type == RESULT_TEXT || field->type == RESULT_DOCUMENT) {
        const bool empty = list && field->absence == RESULT_ALWAYS && field->length == 0 &&
                           *(const int64_t *)(base + field->count) == 0;
        if (pointer_at(base + field->offset) == NULL && !empty) return false;
    }
    return !field->has_when || *(const bool *)(base + field->when);
}

static json_t *interval_of(double low, double high)
{
    return isfinite(low) && isfinite(high) ? json_pack("[ff]", low, high) : json_null();
}

static json_t *number_of(const struct result_field *field, double value)
{
    return isfinite(value) || field->finite ? json_real(value) : json_null();
}

static size_t size_of(const struct result_field *item)
{
    static const size_t sizes[] = {
        [RESULT_INTEGER] = sizeof(int64_t),
        [RESULT_NUMBER] = sizeof(double),
        [RESULT_BOOLEAN] = sizeof(bool),
        [RESULT_CHOICE] = sizeof(int),
        [RESULT_TEXT] = sizeof(const char *),
        [RESULT_DOCUMENT] = sizeof(void *),
        [RESULT_END] = 0,
    };
    if (item->type == RESULT_INTERVAL) return 2 * sizeof(double);
    if (item->type == RESULT_ARRAY) return (size_t)item->length * size_of(item->item);
    return item->type == RESULT_OBJECT ? item->shape->size : sizes[item->type];
}

static enum status fields_put(const struct result_field *fields, const char *base, bool absent, json_t *object,
                              struct error *error);

static json_t *plain_value(const struct result_field *field, const char *base)
{
    const char *place = base + field->offset;
    if (field->type == RESULT_INTEGER) return json_integer(*(const int64_t *)place);
    if (field->type == RESULT_NUMBER) return number_of(field, *(const double *)place);
    if (field->type == RESULT_BOOLEAN) return json_boolean(*(const bool *)place);
    if (field->type == RESULT_CHOICE) return json_string(field->choices[*(const int *)place]);
    if (field->type == RESULT_TEXT) return json_string(pointer_at(place));
    if (field->type == RESULT_CHARS) return json_string(place);
    if (field->type == RESULT_INTERVAL)
        return interval_of(*(const double *)place, *(const double *)(base + field->high));
    return json_incref(*(json_t *const *)place);
}

static enum status value_make(const struct result_field *field, const char *base, json_t **out, struct error *error);

static int item_put(const struct result_field *field, const char *item, json_t *list, json_t *value)
{
    return field->type == RESULT_MAP ? json_object_set_new(list, pointer_at(item + field->key), value)
                                     : json_array_append_new(list, value);
}

/* Items are made and appended one at a time, so that a failure leaks nothing. */
static enum status list_fill(const struct result_field *field, const char *base, json_t *list, struct error *error)
{
    const char *first = base + field->offset;
    const int64_t count = field->length > 0 ? field->length : *(const int64_t *)(base + field->count);
    const size_t size = field->stride > 0 ? field->stride : size_of(field->item);
    enum status status = STATUS_OK;
    if (field->type != RESULT_ARRAY) first = pointer_at(first);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        const char *item = first + (size_t)i * size;
        json_t *value = NULL;
        status = result_has(field->item, item) ? value_make(field->item, item, &value, error) : STATUS_OK;
        if (status == STATUS_OK && item_put(field, item, list, value != NULL ? value : json_null()) != 0)
            status = error_no_memory(error, "a result");
    }
    return status;
}

static enum status value_make(const struct result_field *field, const char *base, json_t **out, struct error *error)
{
    const bool object = field->type == RESULT_OBJECT, map = field->type == RESULT_MAP;
    const bool list = map || field->type == RESULT_LIST || field->type == RESULT_ARRAY;
    enum status status = STATUS_OK;
    if (field->type == RESULT_NUMBER && field->finite && !isfinite(*(const double *)(base + field->offset)))
        return error_set(error, STATUS_INTERNAL, "the number %s of a result is not finite",
                         field->name != NULL ? field->name : "in a list");
    json_t *value = object || map ? json_object() : list ? json_array() : plain_value(field, base);
    if (value == NULL) return error_no_memory(error, "a result");
    if (object) status = fields_put(field->shape->fields, base + field->offset, false, value, error);
    if (list) status = list_fill(field, base, value, error);
    if (status == STATUS_OK) {
        *out = value;
        return STATUS_OK;
    }
    json_decref(value);
    return status;
}

static enum status field_put(const struct result_field *field, const char *base, bool absent, json_t *object,
                             struct error *error)
{
    json_t *value = NULL;
    enum status status = STATUS_OK;
    const bool there = !absent && result_has(field, base);
    if (!there && field->absence == RESULT_LEFT_OUT) return STATUS_OK;
    if (field->type == RESULT_MERGED)
        return fields_put(field->shape->fields, base + field->offset, !there, object, error);
    if (!there && !absent && field->absence == RESULT_ALWAYS)
        return error_set(error, STATUS_INTERNAL, "the field %s of a result is missing", field->name);
    if (there) status = value_make(field, base, &value, error);
    if (status != STATUS_OK) return status;
    return json_object_set_new(object, field->name, there ? value : json_null()) == 0
               ? STATUS_OK
               : error_no_memory(error, "a result");
}

/* `absent`: all fields are absent and rendered as null. */
static enum status fields_put(const struct result_field *fields, const char *base, bool absent, json_t *object,
                              struct error *error)
{
    enum status status = STATUS_OK;
    for (; fields->type != RESULT_END && status == STATUS_OK; fields++)
        status = field_put(fields, base, absent, object, error);
    return status;
}

enum status result_render(const struct result_shape *shape, const void *from, json_t **out, struct error *error)
{
    json_t *object = json_object();
    enum status status =
        object == NULL ? error_no_memory(error, "a result") : fields_put(shape->fields, from, false, object, error);
    *out = NULL;
    if (status == STATUS_OK)
        *out = object;
    else
        json_decref(object);
    return status;
}
