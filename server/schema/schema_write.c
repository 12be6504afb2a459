#include "schema/schema.h"

#include <string.h>

/* From a filled struct back to a document. */

static json_t *value_of(const struct param *param, const char *base)
{
    int64_t integer;
    double number;
    int choice;
    const char *text;
    if (param->type == PARAM_BOOLEAN) return json_boolean(*(const bool *)(const void *)(base + param->offset));
    if (param->type == PARAM_INTEGER) {
        memcpy(&integer, base + param->offset, sizeof integer);
        return param->nullable && integer == (param->null_is_negative ? -1 : 0) ? json_null() : json_integer(integer);
    }
    if (param->type == PARAM_CHOICE) {
        memcpy(&choice, base + param->offset, sizeof choice);
        return json_string(param->choices[choice]);
    }
    if (param->type == PARAM_STRING) {
        memcpy(&text, base + param->offset, sizeof text);
        return text == NULL ? json_null() : json_string(text);
    }
    memcpy(&number, base + param->offset, sizeof number);
    return param->nullable && (param->null_is_negative ? number < 0 : number == 0) ? json_null() : json_real(number);
}

static bool is_plain(const struct param *param)
{
    return param->type == PARAM_BOOLEAN || param->type == PARAM_INTEGER || param->type == PARAM_NUMBER ||
           param->type == PARAM_CHOICE || param->type == PARAM_STRING;
}

static json_t *objects_of(const struct param *param, const char *base)
{
    struct param_list list;
    json_t *array = json_array();
    memcpy(&list, base + param->offset, sizeof list);
    for (int64_t i = 0; array != NULL && i < list.count; i++)
        (void)json_array_append_new(
            array, schema_document(param->item->children, (const char *)list.objects + (size_t)i * param->item->size));
    return array;
}

json_t *schema_document(const struct param *table, const void *params)
{
    json_t *document = json_object();
    for (const struct param *param = table; param->type != PARAM_END && document != NULL; param++) {
        json_t *value = NULL;
        if (is_plain(param)) value = value_of(param, params);
        if (param->type == PARAM_LIST && param->item->type == PARAM_OBJECT) value = objects_of(param, params);
        if (param->type == PARAM_OBJECT) value = schema_document(param->children, (const char *)params + param->offset);
        if (value != NULL) (void)json_object_set_new(document, param->name, value);
    }
    return document;
}

enum status schema_write_back(const struct param *table, const void *params, json_t *object, struct error *error)
{
    for (const struct param *param = table; param->type != PARAM_END; param++) {
        const bool plain = param->type == PARAM_BOOLEAN || param->type == PARAM_INTEGER || param->type == PARAM_NUMBER;
        if (!plain || json_is_null(json_object_get(object, param->name))) continue;
        if (json_object_set_new(object, param->name, value_of(param, params)) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for parameters");
    }
    return STATUS_OK;
}
