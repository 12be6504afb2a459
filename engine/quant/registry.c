/* registry.c: the quantizers there are. */
#include "quant/overrides.h"
#include "quant/quantizer.h"

#include <assert.h>

static const struct quantizer *const quantizers[] = {
#define ROW(id, name) [QUANTIZER_##id] = &quantizer_##name,
    QUANTIZERS(ROW)
#undef ROW
};

const struct param_variant quantize_method_variants[] = {
#define ROW(id, name) [QUANTIZER_##id] = {#name, name##_params, 0},
    QUANTIZERS(ROW)
#undef ROW
        [QUANTIZER_COUNT] = {0},
};
static_assert(offsetof(struct quantize_method, quantizer) == 0, "the rows of a method count from its quantizer");

const struct quantizer *quantizer_by_id(int id)
{
    assert(id >= 0 && id < QUANTIZER_COUNT);
    return quantizers[id];
}

const int64_t quantize_method_bits[] = {2, 3, 4, 8, 0};
const int64_t quantize_method_activation_bits[] = {4, 8, 0};
const char *const quantize_method_rotations[] = {"none", "hadamard", NULL};

static const struct param override_fields[] = {
    {.name = "pattern",
     .type = PARAM_STRING,
     .offset = offsetof(struct quantize_override, pattern),
     .maximum = 512,
     .help = "Regular expression (PCRE2), found anywhere in the module's name"},
    {.name = "bits",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct quantize_override, bits),
     .fallback = "null",
     .nullable = true,
     .schema = "Bits",
     .allowed = quantize_method_bits,
     .help = "Bits of a code; null: as elsewhere"},
    {.name = "group_size",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct quantize_override, group_size),
     .fallback = "null",
     .nullable = true,
     .minimum = -1,
     .maximum = GROUP_SIZE_MAXIMUM,
     .not_zero = true,
     .help = "Columns that share a scale, -1 for a whole row, never 0; null: as elsewhere"},
    {.name = "skip",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct quantize_override, skip),
     .fallback = "false",
     .help = "Leave the module as it is"},
    {0},
};
const struct param quantize_method_override = {.type = PARAM_OBJECT,
                                               .schema = "MethodOverride",
                                               .children = override_fields,
                                               .size = sizeof(struct quantize_override),
                                               .help = "One pattern and what it changes"};

bool quantize_method_treats_inputs(const struct quantize_method *method)
{
    return quantizer_by_id(method->quantizer)->treats_inputs || method->options.activation_bits > 0 ||
           method->options.rotation != ROTATION_NONE;
}

bool quantize_method_reads_calibration(const struct quantize_method *method)
{
    return quantizer_by_id(method->quantizer)->needs != 0 || method->options.keep_outliers > 0;
}

enum status quantize_method_complete(struct quantize_method *method, struct error *error)
{
    struct overrides *overrides = NULL;
    enum status status = quantizer_by_id(method->quantizer)->complete(method, error);
    if (status == STATUS_OK) status = overrides_new(method, &overrides, error);
    overrides_free(overrides);
    return status;
}
