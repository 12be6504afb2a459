#include "schema/result_describe.h"

/* Takes `value`; false when memory ran out, which the caller reports once at the end. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool put_type(json_t *schema, const char *type, bool nullable)
{
    return put(schema, "type", nullable ? json_pack("[ss]", type, "null") : json_string(type));
}

/* `more` (may be NULL) follows the text in brackets. */
static bool put_help(json_t *schema, const char *help, const char *more)
{
    if (help == NULL && more == NULL) return true;
    if (help == NULL) return put(schema, "description", json_sprintf("In %s", more));
    return put(schema, "description", more != NULL ? json_sprintf("%s (%s)", help, more) : json_string(help));
}

/* Null is a branch of its own: of an enum that holds it, generators of clients make several types. */
static bool put_choices(json_t *schema, const char *const *choices, bool nullable)
{
    json_t *list = json_array();
    bool good = list != NULL;
    for (; good && *choices != NULL; choices++) good = json_array_append_new(list, json_string(*choices)) == 0;
    if (good && nullable)
        return put(schema, "anyOf", json_pack("[{ss so}{ss}]", "type", "string", "enum", list, "type", "null"));
    good = put_type(schema, "string", false) && good;
    return put(schema, "enum", list) && good;
}

static bool put_length(json_t *schema, int64_t length)
{
    return length == 0 ||
           (put(schema, "minItems", json_integer(length)) && put(schema, "maxItems", json_integer(length)));
}

static bool put_object(json_t *schema, const struct result_shape *shape, bool nullable);
static json_t *describe_field(const struct result_field *field, bool nullable);

static json_t *describe_reference(const struct result_shape *shape, bool nullable)
{
    json_t *reference = json_pack("{so}", "$ref", json_sprintf("#/components/schemas/%s", shape->name));
    return nullable && reference != NULL ? json_pack("{s[o{ss}]}", "anyOf", reference, "type", "null") : reference;
}

static bool is_shaped(const struct result_field *field)
{
    return field->type == RESULT_OBJECT || (field->type == RESULT_DOCUMENT && field->shape != NULL);
}

static bool put_kind(json_t *schema, const struct result_field *field, bool nullable)
{
    static const char *const types[] = {
        [RESULT_INTEGER] = "integer", [RESULT_NUMBER] = "number", [RESULT_BOOLEAN] = "boolean",
        [RESULT_CHOICE] = "string",   [RESULT_TEXT] = "string",   [RESULT_CHARS] = "string",
        [RESULT_INTERVAL] = "array",  [RESULT_OBJECT] = "object", [RESULT_DOCUMENT] = "object",
        [RESULT_LIST] = "array",      [RESULT_ARRAY] = "array",   [RESULT_MAP] = "object",
        [RESULT_MERGED] = NULL,       [RESULT_END] = NULL,
    };
    const bool none = nullable || field->type == RESULT_INTERVAL || (field->type == RESULT_NUMBER && !field->finite);
    if (is_shaped(field)) return put_object(schema, field->shape, nullable);
    const bool listed = field->item != NULL && field->type != RESULT_MAP;
    if (field->choices != NULL) return put_choices(schema, field->choices, nullable);
    bool good = put_type(schema, listed ? "array" : types[field->type], none);
    if (good && field->type == RESULT_INTERVAL)
        good = put(schema, "items", json_pack("{ss}", "type", "number")) && put_length(schema, 2);
    if (good && field->item != NULL)
        good = put(schema, listed ? "items" : "additionalProperties",
                   describe_field(field->item, field->item->absence == RESULT_NULL)) &&
               put_length(schema, field->length);
    return good;
}

static json_t *describe_field(const struct result_field *field, bool nullable)
{
    const struct result_metric *metric = field->metric;
    const char *help = field->help == NULL && metric != NULL ? metric->help : field->help;
    const char *unit = field->unit == NULL && metric != NULL ? metric->unit : field->unit;
    json_t *schema =
        is_shaped(field) && field->shape->name != NULL ? describe_reference(field->shape, nullable) : json_object();
    bool good = schema != NULL;
    if (good && json_object_size(schema) == 0) good = put_kind(schema, field, nullable);
    if (good && put_help(schema, help, unit)) return schema;
    json_decref(schema);
    return NULL;
}

static bool put_fields(const struct result_field *field, bool nullable, bool optional, json_t *properties,
                       json_t *required)
{
    bool good = true;
    for (; good && field->type != RESULT_END; field++) {
        const bool none = nullable || field->absence == RESULT_NULL;
        const bool left_out = optional || field->absence == RESULT_LEFT_OUT || field->later;
        if (field->type == RESULT_MERGED) {
            good = put_fields(field->shape->fields, none, left_out, properties, required);
            continue;
        }
        good = put(properties, field->name, describe_field(field, none));
        if (good && !left_out) good = json_array_append_new(required, json_string(field->name)) == 0;
    }
    return good;
}

static bool put_object(json_t *schema, const struct result_shape *shape, bool nullable)
{
    json_t *properties = json_object(), *required = json_array();
    bool good = properties != NULL && required != NULL && put_type(schema, "object", nullable) &&
                put_help(schema, shape->help, NULL) && put_fields(shape->fields, false, false, properties, required);
    if (good && json_array_size(required) > 0) good = json_object_set(schema, "required", required) == 0;
    if (good) good = json_object_set(schema, "properties", properties) == 0;
    json_decref(properties);
    json_decref(required);
    return good;
}

/* Adds the named shapes that these fields use. */
static bool describe_below(const struct result_field *field, json_t *document)
{
    bool good = true;
    for (; good && field->type != RESULT_END; field++) {
        const struct result_field *one = field;
        while (one->item != NULL) one = one->item;
        if (one->shape == NULL) continue;
        good = is_shaped(one) && one->shape->name != NULL ? result_describe(one->shape, document)
                                                          : describe_below(one->shape->fields, document);
    }
    return good;
}

bool result_describe(const struct result_shape *shape, json_t *document)
{
    if (json_object_get(document, shape->name) != NULL) return true;
    json_t *schema = json_object();
    if (schema != NULL && !put_object(schema, shape, false)) {
        json_decref(schema);
        schema = NULL;
    }
    return put(document, shape->name, schema) && describe_below(shape->fields, document);
}
