#include "inputs/recipes.h"

#include "inputs/hash.h"
#include "schema/schema.h"

#include <stddef.h>
#include <string.h>

/* gptqmodel-7: the defaults of GPTQModel 7. seed-compat: those of the builds of the time of "Training dynamics impact
 * post-training quantization robustness", which visited columns by activation; damp01: with the damping of the papers.
 * autogptq: what AutoGPTQ's README shows; its class would have whole rows for groups and visit columns by activation.
 * awq-paper, bnb-*, quarot-w4: the published settings; awq-duo: those of awq-paper with AutoAWQ's choice of scales;
 * awq-block: judged by the block's outputs. */
const struct param_recipe recipes_table[] = {
    {"gptqmodel-7", "{\"name\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": false,"
                    " \"act_group_aware\": true, \"damp_percent\": 0.05}"},
    {"seed-compat", "{\"name\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": true,"
                    " \"act_group_aware\": false, \"damp_percent\": 0.05}"},
    {"seed-compat-damp01", "{\"name\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": true,"
                           " \"act_group_aware\": false, \"damp_percent\": 0.01}"},
    {"autogptq", "{\"name\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": false,"
                 " \"act_group_aware\": false, \"damp_percent\": 0.01}"},
    {"awq-paper",
     "{\"name\": \"awq\", \"bits\": 4, \"group_size\": 128, \"sym\": false, \"grid_points\": 20, \"clip\": true}"},
    {"awq-duo", "{\"name\": \"awq\", \"bits\": 4, \"group_size\": 128, \"sym\": false, \"grid_points\": 20,"
                " \"clip\": true, \"duo_scaling\": true}"},
    {"awq-block", "{\"name\": \"awq\", \"bits\": 4, \"group_size\": 128, \"sym\": false, \"grid_points\": 20,"
                  " \"clip\": true, \"judge\": \"block\"}"},
    {"bnb-int8", "{\"name\": \"llm_int8\", \"threshold\": 6.0, \"variant\": \"bnb\"}"},
    {"bnb-nf4", "{\"name\": \"nf4\", \"block_size\": 64, \"double_quant\": true}"},
    {"quarot-w4",
     "{\"name\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": false,"
     " \"act_group_aware\": false, \"damp_percent\": 0.01, \"rotation\": \"hadamard\", \"rotation_seed\": 0}"},
    {NULL, NULL},
};

struct holder {
    struct quantize_method method;
};
static const struct param table[] = {{.name = "method",
                                      .type = PARAM_VARIANT,
                                      .schema = "Method",
                                      .offset = offsetof(struct holder, method.quantizer),
                                      .variants = quantize_method_variants,
                                      .recipes = recipes_table,
                                      .help = "A method"},
                                     {0}};

json_t *recipes_document(const struct quantize_method *method)
{
    const struct param_variant *variant = &quantize_method_variants[method->quantizer];
    json_t *document = schema_document(variant->params, (const char *)method + variant->offset);
    if (document != NULL && json_object_set_new(document, "name", json_string(variant->name)) == 0) return document;
    json_decref(document);
    return NULL;
}

enum status recipes_id(const struct quantize_method *method, char out[RECIPE_TEXT], struct error *error)
{
    char digits[HASH_TEXT];
    json_t *document = recipes_document(method);
    if (document == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a recipe");
    const enum status status = hash_json(document, digits, error);
    json_decref(document);
    if (status != STATUS_OK) return status;
    memcpy(out, digits, RECIPE_TEXT - 1);
    out[RECIPE_TEXT - 1] = '\0';
    return STATUS_OK;
}

/* Completes a named recipe as a method. */
static enum status named(const char *name, struct quantize_method *out, struct error *error)
{
    struct schema_filled filled = {0};
    json_t *params = json_pack("{s{ss}}", "method", "recipe", name);
    enum status status = params == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a recipe") : STATUS_OK;
    if (status == STATUS_OK) status = schema_fill(table, sizeof(struct holder), params, "", NULL, &filled, error);
    if (status == STATUS_OK) {
        *out = ((const struct holder *)filled.params)->method;
        out->options.override_count = 0; /* lent by the filled struct; no named recipe has overrides */
        status = quantize_method_complete(out, error);
        schema_filled_reset(&filled);
    }
    json_decref(params);
    return status;
}

const char *recipes_name(const char id[RECIPE_TEXT])
{
    for (const struct param_recipe *recipe = recipes_table; recipe->name != NULL; recipe++) {
        struct quantize_method method;
        char found[RECIPE_TEXT];
        struct error error;
        if (named(recipe->name, &method, &error) != STATUS_OK || recipes_id(&method, found, &error) != STATUS_OK)
            continue;
        if (strcmp(found, id) == 0) return recipe->name;
    }
    return NULL;
}

json_t *recipes_list(void)
{
    json_t *list = json_array();
    for (const struct param_recipe *recipe = recipes_table; recipe->name != NULL && list != NULL; recipe++) {
        struct quantize_method method;
        char id[RECIPE_TEXT];
        struct error error;
        if (named(recipe->name, &method, &error) == STATUS_OK && recipes_id(&method, id, &error) == STATUS_OK &&
            json_array_append_new(list, json_pack("{ss ss so}", "name", recipe->name, "recipe_id", id, "method",
                                                  recipes_document(&method))) == 0)
            continue;
        json_decref(list);
        return NULL;
    }
    return list;
}
