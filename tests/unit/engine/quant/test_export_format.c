/* Which methods packed formats take: every quantizer of uniform grids, and no other, which is told so. */
#include "quant/export_format.h"
#include "quant/quantizer.h"
#include "unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_grid_of_bits_and_groups_can_be_packed),
    };
    return cmocka_run_group_tests_name("export_format", tests, NULL, NULL);
}
