#include "cli/fields.h"

#include "json/small_number.h"

#include <stdlib.h>
#include <string.h>

/* ---- a value from its text ---- */

/* A reader returns a new reference, or NULL when it does not accept the text. */
typedef json_t *read_text(const struct param *param, const char *text);

/* A name that stands twice is refused, as by the server, which would see only the last one. */
enum { READ_JSON = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES };

/* The server could not see that a number was not 0 when it was written. */
static json_t *read_text_json(const char *text)
{
    size_t size;
    return small_number_find(text, strlen(text), &size) == NULL ? json_loads(text, READ_JSON, NULL) : NULL;
}

static json_t *read_json(const char *text)
{
    return text[0] == '@' ? json_load_file(text + 1, READ_JSON, NULL) : read_text_json(text);
}

static json_t *read_number(const struct param *param, const char *text)
{
    json_t *value = read_text_json(text);
    (void)param;
    if (json_is_number(value)) return value;
    json_decref(value);
    return NULL;
}

static json_t *read_word(const struct param *param, const char *text)
{
    (void)param;
    return json_string(text); /* NULL: not UTF-8 */
}

/* "1" is what a flag without a value has; a grid has its values as words. */
static json_t *read_boolean(const struct param *param, const char *text)
{
    (void)param;
    if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0) return json_true();
    return strcmp(text, "false") == 0 ? json_false() : NULL;
}

static json_t *read_object(const struct param *param, const char *text)
{
    json_t *value = read_json(text);
    (void)param;
    if (json_is_object(value)) return value;
    json_decref(value);
    return NULL;
}

/* The name of a variant or of a recipe, or the whole object as JSON. */
static json_t *read_variant(const struct param *param, const char *text)
{
    if (text[0] == '{' || text[0] == '@') return read_object(param, text);
    for (int i = 0; param->recipes != NULL && param->recipes[i].name != NULL; i++)
        if (strcmp(param->recipes[i].name, text) == 0) return json_pack("{ss}", "recipe", text);
    return json_pack("{ss}", "name", text);
}

static json_t *read_list(const struct param *param, const char *text);

static read_text *const readers[] = {
    [PARAM_INTEGER] = read_number,  [PARAM_NUMBER] = read_number,   [PARAM_BOOLEAN] = read_boolean,
    [PARAM_STRING] = read_word,     [PARAM_CHOICE] = read_word,     [PARAM_OBJECT] = read_object,
    [PARAM_VARIANT] = read_variant, [PARAM_CHECKPOINT] = read_word, [PARAM_DATASET] = read_word,
    [PARAM_TRAJECTORY] = read_word, [PARAM_JSON] = read_object,     [PARAM_ARRAY] = read_list,
    [PARAM_LIST] = read_list,
};

/* What a text should have been that a reader does not accept. */
static const char *const wanted[] = {
    [PARAM_INTEGER] = "a whole number",
    [PARAM_NUMBER] = "a number",
    [PARAM_BOOLEAN] = "true or false",
    [PARAM_STRING] = "UTF-8",
    [PARAM_CHOICE] = "UTF-8",
    [PARAM_OBJECT] = "a JSON object or @FILE of one",
    [PARAM_VARIANT] = "a name, a JSON object or @FILE of one",
    [PARAM_CHECKPOINT] = "UTF-8",
    [PARAM_DATASET] = "UTF-8",
    [PARAM_TRAJECTORY] = "UTF-8",
    [PARAM_JSON] = "a JSON object or @FILE of one",
    [PARAM_ARRAY] = "values separated by commas, a JSON array or @FILE of one",
    [PARAM_LIST] = "values separated by commas, a JSON array or @FILE of one",
};

/* [1,2], @FILE or 1,2, whose words are read by `read`. */
static json_t *read_words(const char *text, json_t *(*read)(const void *of, const char *word), const void *of)
{
    const bool whole = text[0] == '[' || text[0] == '@';
    json_t *list = whole ? read_json(text) : json_array();
    bool good = json_is_array(list);
    while (good && !whole) {
        const size_t length = strcspn(text, ",");
        char *word = strndup(text, length);
        json_t *value = word != NULL ? read(of, word) : NULL;
        good = value != NULL && json_array_append_new(list, value) == 0;
        free(word);
        text += length;
        if (*text++ != ',') break;
    }
    if (good) return list;
    json_decref(list);
    return NULL;
}

static json_t *read_item(const void *of, const char *word)
{
    const struct param *item = of;
    return readers[item != NULL ? item->type : PARAM_STRING](item, word);
}

static json_t *read_list(const struct param *param, const char *text)
{
    return read_words(text, read_item, param->item);
}

static bool may_be_null(const struct param *param)
{
    return param->nullable || (param->fallback != NULL && strcmp(param->fallback, "null") == 0);
}

enum status fields_value(const struct field *field, const char *text, json_t **out, struct error *error)
{
    *out = NULL;
    for (int i = 0; i < field->count && *out == NULL; i++) {
        const struct param *param = field->params[i];
        if (strcmp(text, "null") == 0 && may_be_null(param))
            *out = json_null();
        else
            *out = readers[param->type](param, text);
    }
    if (*out != NULL) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s must be %s, found \"%.200s\"", field->flags[FIELDS_SHORT],
                     wanted[field->params[0]->type], text);
}

struct values {
    const struct field *field;
    struct error *error;
};

static json_t *read_value(const void *of, const char *word)
{
    const struct values *values = of;
    json_t *value;
    return fields_value(values->field, word, &value, values->error) == STATUS_OK ? value : NULL;
}

enum status fields_values(const struct field *field, const char *text, json_t **out, struct error *error)
{
    const struct values values = {field, error};
    (void)error_set(error, STATUS_INVALID, "values of %s must be a JSON array, @FILE of one, or separated by commas",
                    field->path);
    *out = read_words(text, read_value, &values);
    return *out != NULL ? STATUS_OK : error->status;
}

/* ---- into the document ---- */

/* Sets the value at a path and takes `value`; missing objects on the way are made. */
static enum status put(json_t *into, const struct field *field, json_t *value, struct error *error)
{
    const char *at = field->path, *dot;
    while ((dot = strchr(at, '.')) != NULL) {
        char name[FIELDS_PATH];
        (void)snprintf(name, sizeof name, "%.*s", (int)(dot - at), at);
        json_t *below = json_object_get(into, name);
        if (below != NULL && !json_is_object(below)) {
            json_decref(value);
            return error_set(error, STATUS_INVALID, "%s goes with --%.*s, which is no object here",
                             field->flags[FIELDS_SHORT], (int)(dot - field->path), field->path);
        }
        if (below == NULL) {
            below = json_object();
            if (json_object_set_new(into, name, below) != 0) break;
        }
        into = below;
        at = dot + 1;
    }
    if (json_object_set_new(into, at, value) == 0) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a request");
}

static enum status read_field(const struct field *field, const struct options *options, json_t *into,
                              struct error *error)
{
    int given = -1;
    json_t *value = NULL;
    for (int which = 0; which < FIELDS_ROWS; which++) {
        const char *flag = field->flags[which];
        if (flag[0] == '\0' || !options_given(options, flag)) continue;
        if (given >= 0)
            return error_set(error, STATUS_INVALID, "%s and %s are the same parameter", field->flags[given], flag);
        given = which;
    }
    if (given < 0) return STATUS_OK;
    if (given >= FIELDS_NO_SHORT) return put(into, field, json_false(), error);
    const enum status status = fields_value(field, options_text(options, field->flags[given]), &value, error);
    return status == STATUS_OK ? put(into, field, value, error) : status;
}

enum status fields_read(const struct fields *fields, int object, const struct options *options, json_t *into,
                        struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; status == STATUS_OK && i < fields->count; i++)
        if (fields->items[i].object == object) status = read_field(&fields->items[i], options, into, error);
    return status;
}
