/* Which methods packed formats take: every quantizer of uniform grids, and no other, which is told so. */
#include "quant/export_format.h"
#include "quant/quantizer.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_param(const struct quantizer *quantizer, const char *name)
{
    for (const struct param *param = quantizer->params; param->type != PARAM_END; param++)
        if (strcmp(param->name, name) == 0) return true;
    return false;
}

/* Codes of chosen widths in groups of chosen sizes are what packed formats store. */
static void test_every_grid_of_bits_and_groups_can_be_packed(void **state)
{
    (void)state;
    int grids = 0;
    for (int id = 0; id < QUANTIZER_COUNT; id++) {
        const struct quantize_method method = {.quantizer = id};
        const struct quantizer *quantizer = quantizer_by_id(id);
        struct export_grid grid;
        struct error error;
        const bool expected = has_param(quantizer, "bits") && has_param(quantizer, "group_size");
        const enum status status = export_format_grid(&method, &grid, &error);
        if (expected && status != STATUS_OK)
            fail_msg("%s has bits and group_size: give its row a grid (quantizer.h)", quantizer->name);
        grids += expected;
        if (expected) continue;
        assert_int_equal(status, STATUS_UNSUPPORTED);
        assert_string_equal(error.pointer, "/export");
        assert_non_null(strstr(error.detail, quantizer->name));
    }
    assert_true(grids >= 3);
}

/* A module whose g_idx is permuted must be told of, also where the grid of the others has a single group. */
static void test_gptq_names_the_order_of_columns_of_any_module(void **state)
{
    (void)state;
    const struct {
        int64_t group_size, own;
        bool desc_act, told;
    } rows[] = {{-1, 128, true, true}, {-1, -1, true, false}, {-1, 128, false, false}, {128, -1, true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct quantize_method method = {.quantizer = QUANTIZER_GPTQ,
                                         .gptq = {.bits = 4, .group_size = rows[i].group_size, .sym = true}};
        struct export_grid grid, own;
        struct error error;
        char *text = NULL;
        size_t size = 0;
        method.gptq.desc_act = rows[i].desc_act;
        assert_int_equal(export_format_grid(&method, &grid, &error), STATUS_OK);
        method.gptq.group_size = rows[i].own;
        assert_int_equal(export_format_grid(&method, &own, &error), STATUS_OK);
        const struct export_module list[] = {{"skipped", NULL}, {"plain", &grid}, {"down_proj", &own}};
        const struct export_modules modules = {.list = list, .count = 3, .output = "lm_head"};
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        export_gptq.configure(&grid, &modules, out);
        assert_int_equal(fclose(out), 0);
        assert_non_null(strstr(text, rows[i].told ? "\"desc_act\": true" : "\"desc_act\": false"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_grid_of_bits_and_groups_can_be_packed),
        cmocka_unit_test(test_gptq_names_the_order_of_columns_of_any_module),
    };
    return cmocka_run_group_tests_name("export_format", tests, NULL, NULL);
}
