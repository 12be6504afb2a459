#include "schema/schema.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A named part is described once in the document and referred to elsewhere. */
struct describer {
    json_t *document; /* schemas by name */
    char twice[80];   /* a name that two different schemas have; "": none */
};

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
    if (text && param->minimum >= 0)
        good = put(schema, "minLength", json_integer(param->minimum > 1 ? (int)param->minimum : 1));
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
    return put(schema, "enum", list) && good;
}

static json_t *refer(const char *name)
{
    return json_pack("{ss+}", "$ref", "#/components/schemas/", name);
}

/* Takes `schema` and puts it into the document under `name`. */
static bool keep(struct describer *describer, const char *name, json_t *schema)
{
    const json_t *there = json_object_get(describer->document, name);
    if (schema == NULL || there == NULL) return put(describer->document, name, schema);
    const bool same = json_equal(there, schema) == 1;
    if (!same) (void)snprintf(describer->twice, sizeof describer->twice, "%s", name);
    json_decref(schema);
    return same;
}

/* Takes `schema`. Returns it, or a reference to it when `name` is not NULL. */
static json_t *named(struct describer *describer, const char *name, json_t *schema)
{
    if (name == NULL || schema == NULL) return schema;
    return keep(describer, name, schema) ? refer(name) : NULL;
}

/* Takes `schema`. */
static json_t *or_null(json_t *schema)
{
    return schema == NULL ? NULL : json_pack("{s[o{ss}]}", "oneOf", schema, "type", "null");
}

static json_t *describe_table(struct describer *describer, const struct param *table, const char *name);
static json_t *describe_param(struct describer *describer, const struct param *param);

static bool describe_list(struct describer *describer, const struct param *param, json_t *schema)
{
    bool good = put(schema, "items", describe_param(describer, param->item));
    if (good && param->minimum > 0) good = put(schema, "minItems", json_integer((json_int_t)param->minimum));
    if (good && param->maximum > 0) good = put(schema, "maxItems", json_integer((json_int_t)param->maximum));
    return good;
}

static json_t *describe_recipes(const struct param *param)
{
    json_t *names = json_array();
    for (const struct param_recipe *recipe = param->recipes; recipe->name != NULL && names != NULL; recipe++)
        (void)json_array_append_new(names, json_string(recipe->name));
    return json_pack("{ss s{s{ssso}} s[s] ss}", "type", "object", "properties", "recipe", "type", "string", "enum",
                     names, "required", "recipe", "description",
                     "A method by name; its fields may stand beside it and change it");
}

/* "Method" and "llm_int8" make "MethodLlmInt8". */
static const char *part_name(const char *schema, const char *name, char *out, size_t size)
{
    bool first = true;
    if (schema == NULL) return NULL;
    (void)snprintf(out, size, "%s", schema);
    size_t used = strlen(out);
    for (; *name != '\0' && used + 1 < size; name++) {
        if (*name != '_') out[used++] = (char)(first ? toupper((unsigned char)*name) : *name);
        first = *name == '_';
    }
    out[used] = '\0';
    return out;
}

/* {"oneOf"} of the variants; "name" selects the variant, and each one is a named schema. */
static json_t *describe_names(struct describer *describer, const struct param *param)
{
    json_t *list = json_array(), *mapping = json_object();
    bool good = list != NULL && mapping != NULL;
    for (const struct param_variant *variant = param->variants; good && variant->name != NULL; variant++) {
        char text[80];
        const char *name = part_name(param->schema, variant->name, text, sizeof text);
        json_t *schema = named(describer, name, describe_table(describer, variant->params, variant->name));
        if (name != NULL) good = json_object_set(mapping, variant->name, json_object_get(schema, "$ref")) == 0;
        if (json_array_append_new(list, schema) != 0) good = false;
    }
    json_t *schema = good ? json_pack("{sO}", "oneOf", list) : NULL;
    if (schema != NULL && param->schema != NULL)
        good = put(schema, "discriminator", json_pack("{ss sO}", "propertyName", "name", "mapping", mapping));
    json_decref(list);
    json_decref(mapping);
    if (good) return schema;
    json_decref(schema);
    return NULL;
}

static json_t *describe_variant(struct describer *describer, const struct param *param)
{
    char text[80];
    json_t *names = describe_names(describer, param);
    if (param->recipes == NULL || names == NULL) return names;
    json_t *by_name = named(describer, part_name(param->schema, "named", text, sizeof text), names);
    json_t *recipe = named(describer, part_name(param->schema, "recipe", text, sizeof text), describe_recipes(param));
    return json_pack("{s[oo]}", "oneOf", by_name, recipe);
}

static bool describe_plain(struct describer *describer, const struct param *param, bool nullable, json_t *schema)
{
    static const char *const types[] = {
        [PARAM_INTEGER] = "integer", [PARAM_NUMBER] = "number",
        [PARAM_BOOLEAN] = "boolean", [PARAM_STRING] = "string",
        [PARAM_CHOICE] = "string",   [PARAM_JSON] = "object",
        [PARAM_ARRAY] = "array",     [PARAM_CHECKPOINT] = "string",
        [PARAM_DATASET] = "string",  [PARAM_TRAJECTORY] = "string",
        [PARAM_OBJECT] = NULL,       [PARAM_VARIANT] = NULL,
        [PARAM_LIST] = "array",      [PARAM_END] = NULL,
    };
    const bool good = put(schema, "type", type_of(types[param->type], nullable));
    if (!good || param->type == PARAM_BOOLEAN || param->type == PARAM_JSON) return good;
    if (param->type == PARAM_LIST || param->type == PARAM_ARRAY)
        return param->item == NULL || describe_list(describer, param, schema);
    return param->type == PARAM_CHOICE || param->allowed != NULL ? describe_enum(param, schema)
                                                                 : describe_bounds(param, schema);
}

/* Describes the values of the field; `nullable` adds null where the type can express it. */
static json_t *describe_value(struct describer *describer, const struct param *param, bool nullable)
{
    if (param->type == PARAM_VARIANT) return describe_variant(describer, param);
    if (param->type == PARAM_OBJECT) return describe_table(describer, param->children, NULL);
    json_t *schema = json_object();
    if (schema != NULL && describe_plain(describer, param, nullable, schema)) return schema;
    json_decref(schema);
    return NULL;
}

static json_t *describe_param(struct describer *describer, const struct param *param)
{
    const bool apart = param->schema != NULL || param->type == PARAM_OBJECT || param->type == PARAM_VARIANT ||
                       param->type == PARAM_CHOICE || param->allowed != NULL;
    json_t *schema = named(describer, param->schema, describe_value(describer, param, param->nullable && !apart));
    if (apart && param->nullable) schema = or_null(schema);
    bool good = schema != NULL;
    if (good && param->fallback != NULL && !param->absent_differs && !param_optional_not_null(param))
        good = put(schema, "default", json_loads(param->fallback, JSON_DECODE_ANY, NULL));
    if (good && param->help != NULL) good = put(schema, "description", json_string(param->help));
    if (good) return schema;
    json_decref(schema);
    return NULL;
}

/* `name`: name of the variant that the table belongs to, or NULL. */
static json_t *describe_table(struct describer *describer, const struct param *table, const char *name)
{
    json_t *schema = json_object(), *properties = json_object(), *required = json_array();
    bool good = schema != NULL && properties != NULL && required != NULL &&
                put(schema, "type", json_string("object")) && put(schema, "additionalProperties", json_false());
    if (good && name != NULL)
        good = put(properties, "name", json_pack("{ss ss}", "type", "string", "const", name)) &&
               json_array_append_new(required, json_string("name")) == 0;
    for (; good && table->type != PARAM_END; table++) {
        good = put(properties, table->name, describe_param(describer, table));
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

enum status schema_describe(json_t *document, const char *name, const struct param *table, struct error *error)
{
    struct describer describer = {.document = document};
    if (keep(&describer, name, describe_table(&describer, table, NULL))) return STATUS_OK;
    if (describer.twice[0] == '\0') return error_set(error, STATUS_NO_MEMORY, "no memory for schemas");
    return error_set(error, STATUS_CONFLICT, "two schemas have the name \"%s\"", describer.twice);
}
