#include "schema/schema.h"

#include <string.h>

/* Takes `value`; false when memory ran out, which the caller reports once at the end. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *type_of(const char *name, bool nullable)
{
    return nullable ? json_pack("[ss]", name, "null") : json_string(name);
}

static json_t *number_value(const struct param *param, double value)
{
    return param->type == PARAM_NUMBER ? json_real(value) : json_integer((json_int_t)value);
}

static bool describe_bounds(const struct param *param, json_t *schema)
{
    const bool text = param->type != PARAM_NUMBER && param->type != PARAM_INTEGER;
    const bool bounded = param->minimum != 0 || param->maximum != 0;
    bool good = true;
    if (!text && bounded) good = put(schema, "minimum", number_value(param, param->minimum));
    if (text && param->minimum >= 0) good = put(schema, "minLength", json_integer(1));
    if (good && param->form != NULL) good = put(schema, "pattern", json_string(param->form->pattern));
    if (!bounded || (text && param->maximum == 0)) return good;
    return good && put(schema, text ? "maxLength" : "maximum", number_value(param, param->maximum));
}

static bool describe_enum(const struct param *param, json_t *schema)
{
    json_t *list = json_array();
    bool good = list != NULL;
    for (int i = 0; good && param->type == PARAM_CHOICE && param->choices[i] != NULL; i++)
        good = json_array_append_new(list, json_string(param->choices[i])) == 0;
    for (int i = 0; good && param->type == PARAM_INTEGER && param->allowed[i] != 0; i++)
        good = json_array_append_new(list, json_integer(param->allowed[i])) == 0;
    if (good && param->nullable) good = json_array_append_new(list, json_null()) == 0;
    return put(schema, "enum", list) && good;
}

static json_t *describe_table(const struct param *table, const char *name, bool nullable);
static json_t *describe_param(const struct param *param);

static bool describe_list(const struct param *param, json_t *schema)
{
    bool good = put(schema, "items", describe_param(param->item));
    if (good && param->minimum > 0) good = put(schema, "minItems", json_integer((json_int_t)param->minimum));
    if (good && param->maximum > 0) good = put(schema, "maxItems", json_integer((json_int_t)param->maximum));
    return good;
}

static json_t *describe_recipes(const struct param *param)
{
    json_t *names = json_array();
    for (const struct param_recipe *recipe = param->recipes; recipe->name != NULL && names != NULL; recipe++)
        (void)json_array_append_new(names, json_string(recipe->name));
    return json_pack("{ss s{s{so}} s[s] ss}", "type", "object", "properties", "recipe", "enum", names, "required", "recipe",
                     "description", "A method by name; its fields may stand beside it and change it");
}

static bool describe_variants(const struct param *param, json_t *schema)
{
    json_t *list = json_array();
    bool good = list != NULL;
    for (const struct param_variant *variant = param->variants; good && variant->name != NULL; variant++)
        good = json_array_append_new(list, describe_table(variant->params, variant->name, false)) == 0;
    if (good && param->recipes != NULL) good = json_array_append_new(list, describe_recipes(param)) == 0;
    if (good && param->nullable) good = json_array_append_new(list, json_pack("{ss}", "type", "null")) == 0;
    return put(schema, "oneOf", list) && good;
}

static json_t *describe_param(const struct param *param)
{
    static const char *const types[] = {
        [PARAM_INTEGER] = "integer", [PARAM_NUMBER] = "number",
        [PARAM_BOOLEAN] = "boolean", [PARAM_STRING] = "string",
        [PARAM_CHOICE] = "string",   [PARAM_JSON] = "object",
        [PARAM_ARRAY] = "array",     [PARAM_CHECKPOINT] = "string",
        [PARAM_DATASET] = "string",  [PARAM_TRAJECTORY] = "string",
        [PARAM_OBJECT] = "object",   [PARAM_VARIANT] = "object",
        [PARAM_LIST] = "array",      [PARAM_END] = NULL,
    };
    json_t *schema = param->type == PARAM_OBJECT ? describe_table(param->children, NULL, param->nullable) : json_object();
    bool good = schema != NULL;
    if (good && param->type == PARAM_VARIANT)
        good = describe_variants(param, schema);
    else if (good)
        good = put(schema, "type", type_of(types[param->type], param->nullable));
    if (good && (param->type == PARAM_LIST || (param->type == PARAM_ARRAY && param->item != NULL)))
        good = describe_list(param, schema);
    else if (good && (param->type == PARAM_CHOICE || param->allowed != NULL))
        good = describe_enum(param, schema);
    else if (good && (param->type == PARAM_INTEGER || param->type == PARAM_NUMBER || param->type == PARAM_STRING ||
                      param->type == PARAM_CHECKPOINT || param->type == PARAM_DATASET || param->type == PARAM_TRAJECTORY))
        good = describe_bounds(param, schema);
    if (good && param->fallback != NULL && !param_optional_not_null(param))
        good = put(schema, "default", json_loads(param->fallback, JSON_DECODE_ANY, NULL));
    if (good && param->help != NULL) good = put(schema, "description", json_string(param->help));
    if (good) return schema;
    json_decref(schema);
    return NULL;
}

/* `name`: of the variant that the table belongs to, or NULL. */
static json_t *describe_table(const struct param *table, const char *name, bool nullable)
{
    json_t *schema = json_object(), *properties = json_object(), *required = json_array();
    bool good = schema != NULL && properties != NULL && required != NULL && put(schema, "type", type_of("object", nullable)) &&
                put(schema, "additionalProperties", json_false());
    if (good && name != NULL)
        good =
            put(properties, "name", json_pack("{ss}", "const", name)) && json_array_append_new(required, json_string("name")) == 0;
    for (; good && table->type != PARAM_END; table++) {
        good = put(properties, table->name, describe_param(table));
        if (good && table->fallback == NULL) good = json_array_append_new(required, json_string(table->name)) == 0;
    }
    if (good) good = json_object_set(schema, "properties", properties) == 0;
    if (good && json_array_size(required) > 0) good = json_object_set(schema, "required", required) == 0;
    json_decref(properties);
    json_decref(required);
    if (good) return schema;
    json_decref(schema);
    return NULL;
}

json_t *schema_describe(const struct param *table)
{
    return describe_table(table, NULL, false);
}
