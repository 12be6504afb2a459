/* gptq_fp4.c: GPTQ with the codes of MXFP4 or NVFP4 (mxfp4.c, nvfp4.c): a block's scale is computed from the weights as
 * corrected by earlier blocks of columns, and the error of every code is distributed over later columns (gptq.c).
 * NVFP4's factor of the matrix is computed from the original weight. There is no desc_act, because the columns of a
 * block must stay neighbours. */
#include "quant/element.h"
#include "quant/gptq.h"

enum { MXFP4, NVFP4 };
static const char *const formats[] = {[MXFP4] = "mxfp4", [NVFP4] = "nvfp4", NULL};

const struct param gptq_fp4_params[] = {
    {.name = "format",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(gptq_fp4.format),
     .fallback = "\"mxfp4\"",
     .choices = formats,
     .help = "Blocks of 32 with scales that are powers of two, or of 16 with E4M3 scales and a float of the tensor"},
    {.name = "act_group_aware",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(gptq_fp4.act_group_aware),
     .fallback = "true",
     .help = "Visit columns by descending activation inside their blocks, and blocks by their largest"},
    QUANTIZE_DAMP_PARAM(gptq_fp4),
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status gptq_fp4_complete(struct quantize_method *method, struct error *error)
{
    return gptq_check_damping(method->gptq_fp4.damp_percent, error);
}

static void gptq_fp4_fallback(struct quantize_method *method)
{
    method->quantizer = method->gptq_fp4.format == NVFP4 ? QUANTIZER_NVFP4 : QUANTIZER_MXFP4;
}

static enum status gptq_fp4_quantize(struct backend *backend, const struct quantize_method *method,
                                     const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    const struct gptq_fp4_params *params = &method->gptq_fp4;
    struct gptq_setup setup = {
        .act_group_aware = params->act_group_aware, .damp_percent = params->damp_percent, .nearest = *method};
    gptq_fp4_fallback(&setup.nearest);
    setup.coding = params->format == NVFP4 ? element_nvfp4() : element_mxfp4();
    if (params->format == NVFP4) {
        setup.look = element_nvfp4_factor;
        setup.extra_bits = ELEMENT_NVFP4_BITS;
    }
    return gptq_solve(backend, &setup, task, out, error);
}

const struct quantizer quantizer_gptq_fp4 = {.name = "gptq_fp4",
                                             .params = gptq_fp4_params,
                                             .needs = NEED_INPUT_HESSIAN,
                                             .bits = 4,
                                             .fallback = gptq_fp4_fallback,
                                             .complete = gptq_fp4_complete,
                                             .quantize = gptq_fp4_quantize};
