#include "schema/schema.h"

#include "base/words.h"
#include "json/written.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTER_MAX = 160, KNOWN_MAX = 400 };

struct reader {
    struct faults *faults;
    struct schema_filled *filled;
    bool no_memory;
};

static void fill_object(struct reader *reader, const struct param *table, const char *pointer, json_t *object,
                        char *base, bool variant);
static void fill_value(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                       char *base);

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",    [JSON_NULL] = "null",
    };
    return names[json_typeof(value)];
}

static bool has_bounds(const struct param *param)
{
    return param->minimum != 0 || param->maximum != 0;
}

static void check_bounds(struct reader *reader, const struct param *param, const char *pointer, double value)
{
    if (has_bounds(param) && (value < param->minimum || value > param->maximum))
        faults_add(reader->faults, pointer, "must be from %.12g to %.12g, found %.12g", param->minimum, param->maximum,
                   value);
}

/* Bounds are printed in whole digits, because 9.00719925474e+15 could not be copied into a request. */
static void check_integer_bounds(struct reader *reader, const struct param *param, const char *pointer, int64_t value)
{
    const bool low =
        value<(int64_t)param->minimum, high = value>(int64_t) param->maximum; /* 2^53 + 1 as a double is 2^53 */
    if (has_bounds(param) && (low || high))
        faults_add(reader->faults, pointer, "must be from %.0f to %.0f, found %lld", param->minimum, param->maximum,
                   (long long)value);
}

static void list_length_fault(struct reader *reader, const struct param *param, const char *pointer, int64_t count)
{
    if (param->minimum == param->maximum)
        faults_add(reader->faults, pointer, "must have %.0f items, found %lld", param->minimum, (long long)count);
    else
        faults_add(reader->faults, pointer, "must have %.0f to %.0f items, found %lld", param->minimum, param->maximum,
                   (long long)count);
}

/* From 2^53 on a double does not identify the integer that was written. */
#define EXACT_BOUND 9007199254740992.0

/* Whether `value` is an integer in the sense of JSON Schema, which includes 256.0 and 1e9; *out is its value. */
static bool integer_of(const json_t *value, int64_t *out)
{
    const double real = json_real_value(value);
    const bool exact = json_is_real(value) && fabs(real) < EXACT_BOUND && trunc(real) == real;
    if (json_is_integer(value))
        *out = json_integer_value(value);
    else if (exact)
        *out = (int64_t)real;
    return json_is_integer(value) || exact;
}

/* The stored form of a number, so that equal requests look equal: a new reference; NULL when `value` has that form, is
 * no number, or memory ran out (which sets no_memory). */
static json_t *normalize(struct reader *reader, enum param_type type, const json_t *value)
{
    json_t *made = NULL;
    int64_t integer = 0;
    const bool real = type == PARAM_NUMBER && json_is_integer(value);
    const bool whole = type == PARAM_INTEGER && json_is_real(value) && integer_of(value, &integer);
    if (real) made = json_real(json_number_value(value));
    if (whole) made = json_integer(integer);
    if ((real || whole) && made == NULL) reader->no_memory = true;
    return made;
}

static void not_integer(struct reader *reader, const char *pointer, const json_t *value)
{
    const double real = json_real_value(value);
    if (!json_is_real(value))
        faults_add(reader->faults, pointer, "must be an integer, found %s", type_name(value));
    else if (trunc(real) != real)
        faults_add(reader->faults, pointer, "must be an integer, found the fraction %.17g", real);
    else
        faults_add(reader->faults, pointer,
                   "must be an integer, found %.17g: from 2^53 on write all digits, without point or exponent", real);
}

static void fill_integer(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                         char *base)
{
    if (!json_is_integer(value)) {
        not_integer(reader, pointer, value);
        return;
    }
    const int64_t integer = json_integer_value(value);
    if (param->allowed != NULL) {
        char list[KNOWN_MAX] = "";
        for (const int64_t *allowed = param->allowed; *allowed != 0; allowed++) {
            if (*allowed == integer) {
                memcpy(base + param->offset, &integer, sizeof integer);
                return;
            }
            words_add(list, sizeof list, "%lld", (long long)*allowed);
        }
        faults_add(reader->faults, pointer, "must be one of %s, found %lld", list, (long long)integer);
        return;
    }
    check_integer_bounds(reader, param, pointer, integer);
    if (param->not_zero && integer == 0) faults_add(reader->faults, pointer, "must not be 0");
    memcpy(base + param->offset, &integer, sizeof integer);
}

static void fill_number(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                        char *base)
{
    if (!json_is_number(value)) {
        faults_add(reader->faults, pointer, "must be a number, found %s", type_name(value));
        return;
    }
    const double number = json_number_value(value);
    check_bounds(reader, param, pointer, number);
    memcpy(base + param->offset, &number, sizeof number);
}

static bool fill_string(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                        char *base)
{
    const char *text = json_string_value(value);
    if (text == NULL) {
        faults_add(reader->faults, pointer, "must be a string, found %s", type_name(value));
        return false;
    }
    const size_t length = strlen(text);
    if (length == 0 && param->minimum >= 0 && param->type != PARAM_CHOICE)
        faults_add(reader->faults, pointer, "must not be empty");
    else if (param->maximum > 0 && (double)length > param->maximum)
        faults_add(reader->faults, pointer, "must have at most %.0f bytes, found %zu", param->maximum, length);
    else if ((double)length < param->minimum && param->type != PARAM_CHOICE)
        faults_add(reader->faults, pointer, "must have at least %.0f bytes, found %zu", param->minimum, length);
    else if (param->form != NULL && !param->form->fits(text))
        faults_add(reader->faults, pointer, "%s", param->form->wanted);
    else if (param->type != PARAM_CHOICE)
        memcpy(base + param->offset, &text, sizeof text);
    return true;
}

static void fill_choice(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                        char *base)
{
    char list[KNOWN_MAX] = "";
    if (!fill_string(reader, param, pointer, value, base)) return;
    for (int i = 0; param->choices[i] != NULL; i++) {
        if (strcmp(param->choices[i], json_string_value(value)) == 0) {
            memcpy(base + param->offset, &i, sizeof i);
            return;
        }
        words_add(list, sizeof list, "\"%s\"", param->choices[i]);
    }
    faults_add(reader->faults, pointer, "must be one of %s, found \"%.60s\"", list, json_string_value(value));
}

/* Copies the fields of a recipe into the object that names it, where they are missing. */
static void expand_recipe(struct reader *reader, const struct param *param, const char *pointer, json_t *value)
{
    const json_t *asked = json_object_get(value, "recipe");
    char list[KNOWN_MAX] = "", at[POINTER_MAX];
    if (param->recipes == NULL || asked == NULL) return;
    faults_pointer(at, sizeof at, pointer, "recipe");
    for (const struct param_recipe *recipe = param->recipes; recipe->name != NULL; recipe++) {
        if (json_is_string(asked) && strcmp(recipe->name, json_string_value(asked)) == 0) {
            json_t *fields = json_loads(recipe->fields, 0, NULL);
            if (json_object_get(value, "name") != NULL)
                faults_add(reader->faults, at, "stands beside a name; give one of them");
            else if (fields == NULL || json_object_update_missing(value, fields) != 0)
                reader->no_memory = true;
            json_decref(fields);
            (void)json_object_del(value, "recipe");
            return;
        }
        words_add(list, sizeof list, "\"%s\"", recipe->name);
    }
    if (json_is_string(asked))
        faults_add(reader->faults, at, "must be one of %s, found \"%.60s\"", list, json_string_value(asked));
    else
        faults_add(reader->faults, at, "must be a string: one of %s", list);
    (void)json_object_set_new(value, "name", json_string(param->variants[0].name)); /* one fault is enough */
    (void)json_object_del(value, "recipe");
}

static void fill_variant(struct reader *reader, const struct param *param, const char *pointer, json_t *value,
                         char *base)
{
    char list[KNOWN_MAX] = "", at[POINTER_MAX];
    if (!json_is_object(value)) {
        faults_add(reader->faults, pointer, "must be an object, found %s", type_name(value));
        return;
    }
    expand_recipe(reader, param, pointer, value);
    const json_t *name = json_object_get(value, "name");
    for (int i = 0; param->variants[i].name != NULL; i++) {
        if (json_is_string(name) && strcmp(param->variants[i].name, json_string_value(name)) == 0) {
            memcpy(base + param->offset, &i, sizeof i);
            fill_object(reader, param->variants[i].params, pointer, value,
                        base + param->offset + param->variants[i].offset, true);
            return;
        }
        words_add(list, sizeof list, "\"%s\"", param->variants[i].name);
    }
    faults_pointer(at, sizeof at, pointer, "name");
    if (json_is_string(name))
        faults_add(reader->faults, at, "must be one of %s, found \"%.60s\"", list, json_string_value(name));
    else
        faults_add(reader->faults, at, name == NULL ? "is missing: one of %s" : "must be a string: one of %s", list);
}

/* Stores `block` (taken) with the filled struct. False: memory ran out. */
static bool keep(struct reader *reader, void *block)
{
    struct schema_filled *filled = reader->filled;
    void **blocks = block == NULL ? NULL : realloc(filled->blocks, (filled->block_count + 1) * sizeof *blocks);
    if (blocks == NULL) {
        free(block);
        reader->no_memory = true;
        return false;
    }
    filled->blocks = blocks;
    filled->blocks[filled->block_count++] = block;
    return true;
}

static void fill_json(struct reader *reader, const struct param *param, const char *pointer, json_t *value, char *base)
{
    if (!json_is_object(value)) {
        faults_add(reader->faults, pointer, "must be an object, found %s", type_name(value));
        return;
    }
    char *text = written_json(value, JSON_COMPACT);
    if (keep(reader, text)) memcpy(base + param->offset, &text, sizeof text);
}

static size_t item_size(const struct param *item)
{
    return item->type == PARAM_INTEGER  ? sizeof(int64_t)
           : item->type == PARAM_NUMBER ? sizeof(double)
           : item->type == PARAM_CHOICE ? sizeof(int)
           : item->type == PARAM_OBJECT ? item->size
                                        : sizeof(const char *);
}

static void fill_list(struct reader *reader, const struct param *param, const char *pointer, json_t *value, char *base)
{
    struct param_list list = {.count = (int64_t)json_array_size(value)};
    if (!json_is_array(value)) {
        faults_add(reader->faults, pointer, "must be an array, found %s", type_name(value));
        return;
    }
    if (has_bounds(param) && ((double)list.count < param->minimum || (double)list.count > param->maximum)) {
        list_length_fault(reader, param, pointer, list.count);
        return;
    }
    const size_t size = item_size(param->item);
    char *items = calloc((size_t)list.count + 1, size);
    if (!keep(reader, items)) return;
    for (int64_t i = 0; i < list.count && !reader->no_memory; i++) {
        char at[POINTER_MAX], place[24];
        json_t *item = json_array_get(value, (size_t)i), *made = normalize(reader, param->item->type, item);
        (void)snprintf(place, sizeof place, "%lld", (long long)i);
        faults_pointer(at, sizeof at, pointer, place);
        if (made != NULL && json_array_set_new(value, (size_t)i, made) != 0) reader->no_memory = true;
        if (!reader->no_memory)
            fill_value(reader, param->item, at, made != NULL ? made : item, items + (size_t)i * size);
    }
    list.integers = (const int64_t *)(const void *)items;
    memcpy(base + param->offset, &list, sizeof list);
}

static void fill_negative(const struct param *param, char *base)
{
    const int64_t integer = -1;
    const double number = -1;
    if (param->type == PARAM_INTEGER) memcpy(base + param->offset, &integer, sizeof integer);
    if (param->type == PARAM_NUMBER) memcpy(base + param->offset, &number, sizeof number);
}

static void fill_value(struct reader *reader, const struct param *param, const char *pointer, json_t *value, char *base)
{
    if (json_is_null(value)) {
        if (!param->nullable && !param->apart) faults_add(reader->faults, pointer, "must not be null");
        if (param->null_is_negative) fill_negative(param, base);
        return;
    }
    switch (param->type) {
    case PARAM_INTEGER:
        fill_integer(reader, param, pointer, value, base);
        break;
    case PARAM_NUMBER:
        fill_number(reader, param, pointer, value, base);
        break;
    case PARAM_BOOLEAN:
        if (json_is_boolean(value))
            *(bool *)(void *)(base + param->offset) = json_is_true(value);
        else
            faults_add(reader->faults, pointer, "must be true or false, found %s", type_name(value));
        break;
    case PARAM_STRING:
    case PARAM_CHECKPOINT:
    case PARAM_DATASET:
    case PARAM_TRAJECTORY:
        (void)fill_string(reader, param, pointer, value, base);
        break;
    case PARAM_CHOICE:
        fill_choice(reader, param, pointer, value, base);
        break;
    case PARAM_OBJECT:
        if (json_is_object(value))
            fill_object(reader, param->children, pointer, value, base + param->offset, false);
        else
            faults_add(reader->faults, pointer, "must be an object, found %s", type_name(value));
        break;
    case PARAM_VARIANT:
        fill_variant(reader, param, pointer, value, base);
        break;
    case PARAM_JSON:
        fill_json(reader, param, pointer, value, base);
        break;
    case PARAM_ARRAY:
        if (!json_is_array(value)) faults_add(reader->faults, pointer, "must be an array, found %s", type_name(value));
        break;
    case PARAM_LIST:
        fill_list(reader, param, pointer, value, base);
        break;
    case PARAM_END:
        break;
    }
}

static const struct param *find_param(const struct param *table, const char *name)
{
    for (; table->type != PARAM_END; table++)
        if (strcmp(table->name, name) == 0) return table;
    return NULL;
}

static void refuse_unknown(struct reader *reader, const struct param *table, const char *pointer, json_t *object,
                           bool variant)
{
    char known[KNOWN_MAX] = "", at[POINTER_MAX];
    const char *name;
    json_t *value;
    if (variant) (void)snprintf(known, sizeof known, "name");
    for (const struct param *param = table; param->type != PARAM_END; param++)
        words_add(known, sizeof known, "%s", param->name);
    json_object_foreach(object, name, value)
    {
        if (find_param(table, name) != NULL || (variant && strcmp(name, "name") == 0)) continue;
        faults_pointer(at, sizeof at, pointer, name);
        faults_add(reader->faults, at, "unknown field; %s%s", known[0] ? "known here: " : "there are none here", known);
    }
}

/* Returns the field's value: the default, which is also put into the object, when it is absent; a number in its stored
 * form. Lent; NULL: the field is absent (a fault when it is required), or memory ran out. */
static json_t *complete_field(struct reader *reader, const struct param *param, const char *pointer, json_t *object)
{
    json_t *value = json_object_get(object, param->name), *made = NULL;
    if (value == NULL && param->fallback == NULL) {
        faults_add(reader->faults, pointer, "is missing: %s", param->help);
        return NULL;
    }
    if (value == NULL && param_optional_not_null(param)) return NULL;
    if (value == NULL) {
        json_t *given = json_loads(param->fallback, JSON_DECODE_ANY, NULL);
        made = normalize(reader, param->type, given);
        if (made == NULL)
            made = given;
        else
            json_decref(given);
        if (made == NULL) reader->no_memory = true;
    } else {
        made = normalize(reader, param->type, value);
    }
    if (reader->no_memory) {
        json_decref(made);
        return NULL;
    }
    if (made == NULL) return value;
    if (json_object_set_new(object, param->name, made) != 0) reader->no_memory = true;
    return reader->no_memory ? NULL : made;
}

static void fill_object(struct reader *reader, const struct param *table, const char *pointer, json_t *object,
                        char *base, bool variant)
{
    refuse_unknown(reader, table, pointer, object, variant);
    for (const struct param *param = table; param->type != PARAM_END && !reader->no_memory; param++) {
        char at[POINTER_MAX];
        faults_pointer(at, sizeof at, pointer, param->name);
        json_t *value = complete_field(reader, param, at, object);
        if (value != NULL) fill_value(reader, param, at, value, base);
    }
}

enum status schema_fill(const struct param *table, size_t size, json_t *object, const char *pointer,
                        struct faults *faults, struct schema_filled *out, struct error *error)
{
    struct faults own = {0};
    struct reader reader = {.faults = &own, .filled = out};
    *out = (struct schema_filled){.params = calloc(1, size > 0 ? size : 1)};
    if (out->params == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for parameters");
    if (json_is_object(object))
        fill_object(&reader, table, pointer, object, out->params, false);
    else
        faults_add(&own, pointer, "must be an object");
    enum status status =
        reader.no_memory ? error_set(error, STATUS_NO_MEMORY, "no memory for parameters") : faults_status(&own, error);
    if (faults != NULL)
        for (size_t i = 0; i < faults_kept(&own); i++)
            faults_add(faults, own.items[i].pointer, "%s", own.items[i].detail);
    if (status != STATUS_OK) schema_filled_reset(out);
    return status;
}

void schema_filled_reset(struct schema_filled *filled)
{
    for (size_t i = 0; i < filled->block_count; i++) free(filled->blocks[i]);
    free(filled->blocks);
    free(filled->params);
    *filled = (struct schema_filled){0};
}

static bool is_reference(enum param_type type)
{
    return type == PARAM_CHECKPOINT || type == PARAM_DATASET || type == PARAM_TRAJECTORY;
}

static enum status list_references(const struct param *item, json_t *list, const char *pointer, schema_visitor *visit,
                                   void *context, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK && is_reference(item->type); i++) {
        char at[POINTER_MAX], place[24];
        (void)snprintf(place, sizeof place, "%zu", i);
        faults_pointer(at, sizeof at, pointer, place);
        status = visit(context, item->type, at, json_array_get(list, i), error);
    }
    return status;
}

enum status schema_references(const struct param *table, json_t *object, const char *pointer, schema_visitor *visit,
                              void *context, struct error *error)
{
    enum status status = STATUS_OK;
    for (const struct param *param = table; param->type != PARAM_END && status == STATUS_OK; param++) {
        char at[POINTER_MAX];
        json_t *value = json_object_get(object, param->name);
        faults_pointer(at, sizeof at, pointer, param->name);
        if (value == NULL || json_is_null(value)) continue;
        if (is_reference(param->type))
            status = visit(context, param->type, at, value, error);
        else if (param->type == PARAM_LIST)
            status = list_references(param->item, value, at, visit, context, error);
        else if (param->type == PARAM_OBJECT)
            status = schema_references(param->children, value, at, visit, context, error);
        else if (param->type == PARAM_VARIANT)
            for (const struct param_variant *variant = param->variants; variant->name != NULL && status == STATUS_OK;
                 variant++)
                if (strcmp(variant->name, json_string_value(json_object_get(value, "name"))) == 0)
                    status = schema_references(variant->params, value, at, visit, context, error);
    }
    return status;
}
