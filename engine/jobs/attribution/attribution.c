#include "jobs/attribution/attribution.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

void attribution_result_reset(struct attribution_result *result)
{
    memory_free(result->units);
    memory_free(result->alone);
    memory_free(result->left_out);
    memory_free(result->frontier);
    memory_free(result->picked);
    memory_free(result->overrides);
    *result = (struct attribution_result){0};
}

/* The method's own bits, 0 when they are not a parameter. */
static int64_t own_bits(const struct quantize_method *method)
{
    int64_t bits = 0;
    for (const struct param *param = quantizer_by_id(method->quantizer)->params; param->type != PARAM_END; param++)
        if (strcmp(param->name, "bits") == 0) memcpy(&bits, (const char *)method + param->offset, sizeof bits);
    return bits;
}

enum status attribution_widths(const struct attribution_request *request, struct attribution_result *out,
                               struct error *error)
{
    const int64_t own = own_bits(&request->method);
    if (own == 0 && request->width_count > 0)
        return error_set_at(error, STATUS_INVALID, "/bits", "%s has no bits to choose; leave them out",
                            quantizer_by_id(request->method.quantizer)->name);
    for (const int64_t *width = quantize_method_bits; *width > 0; width++) {
        bool asked = *width == own;
        for (int64_t i = 0; i < request->width_count; i++) asked = asked || request->widths[i] == *width;
        if (*width == own) out->own = out->width_count;
        if (asked) out->widths[out->width_count++] = *width;
    }
    if (own == 0) out->width_count = 1;
    if (request->budget > 0 && out->width_count < 2)
        return error_set_at(error, STATUS_INVALID, "/budget",
                            "needs two widths or more to choose from: give them as bits");
    return STATUS_OK;
}

static bool is_width(int64_t bits)
{
    const int64_t *width = quantize_method_bits;
    while (*width > 0 && *width != bits) width++;
    return *width > 0;
}

enum status attribution_check(const struct attribution_request *request, struct error *error)
{
    const struct quantize_options *options = &request->method.options;
    struct attribution_result widths = {0};
    if (options->override_count > 0)
        return error_set_at(error, STATUS_INVALID, "/method/overrides",
                            "must be empty: an attribution makes overrides of its own");
    if (options->embedding_bits > 0 || options->lm_head_bits > 0)
        return error_set_at(error, STATUS_INVALID,
                            options->embedding_bits > 0 ? "/method/embedding_bits" : "/method/lm_head_bits",
                            "must be null: an attribution is of the linears between embeddings and output");
    for (int64_t i = 0; i < request->width_count; i++)
        if (!is_width(request->widths[i]))
            return error_set_at(error, STATUS_INVALID, "/bits", "must be of 2, 3, 4 and 8, found %" PRId64,
                                request->widths[i]);
    const enum status status = attribution_widths(request, &widths, error);
    if (status == STATUS_OK && request->budget > 0 && request->budget < (double)widths.widths[0])
        return error_set_at(error, STATUS_INVALID, "/budget", "is below the least width, %" PRId64 " bits",
                            widths.widths[0]);
    return status;
}
