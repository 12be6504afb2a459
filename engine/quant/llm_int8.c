/* llm_int8.c: LLM.int8() (Dettmers et al., arXiv 2208.07339): rows of the weight are int8 codes of their own largest
 * magnitude, code = rint(127 w / max |w|); the inputs are rounded in the forward pass (activation.h). */
#include "base/memory.h"
#include "quant/quantize_each.h"

enum { VARIANT_BNB, VARIANT_PAPER };
static const char *const variants[] = {"bnb", "paper", NULL};

const struct param llm_int8_params[] = {
    {.name = "threshold",
     .type = PARAM_NUMBER,
     .offset = QUANTIZE_AT(llm_int8.threshold),
     .fallback = "6",
     .minimum = 0,
     .maximum = 1e6,
     .help = "Inputs with an entry of at least this magnitude leave the int8 product; 0: none does"},
    {.name = "variant",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(llm_int8.variant),
     .fallback = "\"bnb\"",
     .choices = variants,
     .help = "As the library does it (outliers multiply dequantized weights),"
             " or the paper (they multiply the original ones)"},
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status keep_original(struct backend *backend, struct matrix weight, struct quantized_layer *layer,
                                 struct error *error)
{
    const int64_t count = weight.rows * weight.columns;
    const enum status status = memory_new(count, sizeof(float), "original weights", &layer->original, error);
    if (status == STATUS_OK) backend->ops->download(backend, weight, layer->original, DTYPE_F32);
    return status;
}

static enum status llm_int8_encode(void *owner, struct backend *backend, const struct quantize_linear *linear,
                                   struct quantized_layer *layer, struct coded *coded, struct error *error)
{
    const struct llm_int8_params *params = owner;
    const struct coding coding = {
        .bits = 8, .sym = true, .rule = SCALE_ABSMAX, .type = SCALE_TYPE_F32, .group_size = -1};
    const enum status status = quantize_each_coding(backend, linear, coding, layer, coded, error);
    if (status != STATUS_OK) return status;
    layer->input_bits = 8;
    layer->input_threshold = params->threshold;
    return params->variant == VARIANT_PAPER ? keep_original(backend, linear->weight, layer, error) : STATUS_OK;
}

static enum status llm_int8_quantize(struct backend *backend, const struct quantize_method *method,
                                     const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct llm_int8_params params = method->llm_int8;
    return quantize_each(backend, task, &params, llm_int8_encode, out, error);
}

const struct quantizer quantizer_llm_int8 = {.name = "llm_int8",
                                             .params = llm_int8_params,
                                             .bits = 8,
                                             .treats_inputs = true,
                                             .complete = quantize_each_complete,
                                             .quantize = llm_int8_quantize};
