/* quantize_method.h: a quantization method: the quantizer, its parameters, and the options that all quantizers have.
 * Tables of parameters have offsets from the start of struct quantize_method, so that one table can hold a quantizer's
 * own rows and those of the options. */
#ifndef QUANT_QUANTIZE_METHOD_H
#define QUANT_QUANTIZE_METHOD_H

#include "base/error.h"
#include "base/param.h"

enum { GROUP_SIZE_MAXIMUM = 1 << 20 };

/* Each is filled by the table in its quantizer's file; see the help lines there. */
struct rtn_params {
    int64_t bits, group_size;
    bool sym;
};

struct gptq_params {
    int64_t bits, group_size;
    bool sym, desc_act, act_group_aware;
    double damp_percent;
};

struct gptq_fp4_params {
    int format;
    bool act_group_aware;
    double damp_percent;
};

struct codebook_params {
    int64_t block_size;
    bool double_quant;
    int values; /* fp4: index of the book */
};

struct awq_params {
    int64_t bits, group_size, grid_points;
    bool sym, clip, duo_scaling;
    int scale_o_proj; /* enum awq_scale_o_proj */
    int judge;        /* enum awq_judge */
};
enum awq_judge { AWQ_JUDGE_LINEAR, AWQ_JUDGE_BLOCK };
enum awq_scale_o_proj { AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE, AWQ_SCALE_O_PROJ_ALWAYS };

struct llm_int8_params {
    double threshold;
    int variant;
};

enum fp8_scales { FP8_SCALES_CHANNEL, FP8_SCALES_TENSOR, FP8_SCALES_BLOCK };
struct fp8_params {
    int scales; /* enum fp8_scales */
};

struct smoothquant_params {
    int64_t bits, activation_bits;
    double alpha;
    bool search;
};

/* Exceptions for the modules whose names match the pattern (overrides.h). */
struct quantize_override {
    const char *pattern;
    int64_t bits, group_size; /* 0: the method's */
    bool skip;
};

enum quantize_rotation { ROTATION_NONE, ROTATION_HADAMARD };

/* Options of every method. */
struct quantize_options {
    int64_t activation_bits; /* 0: inputs are not rounded */
    int rotation;            /* enum quantize_rotation */
    int64_t rotation_seed;
    int64_t keep_outliers;                /* columns; 0: none */
    int64_t embedding_bits, lm_head_bits; /* 0: not quantized */
    union {
        struct param_list list; /* as the table fills it */
        struct {
            int64_t override_count;
            const struct quantize_override *overrides; /* lent */
        };
    };
};

/* Every quantizer, once: its id, and the name of its row (quantizer_NAME), of its parameters (NAME_params) and in the
 * API. New ones go to the end: states of interrupted attributions know a quantizer by its number. */
/* clang-format off */
#define QUANTIZERS(X) \
    X(RTN, rtn) \
    X(GPTQ, gptq) \
    X(NF4, nf4) \
    X(FP4, fp4) \
    X(AWQ, awq) \
    X(LLM_INT8, llm_int8) \
    X(SMOOTHQUANT, smoothquant) \
    X(MXFP4, mxfp4) \
    X(NVFP4, nvfp4) \
    X(FP8, fp8) \
    X(GPTQ_FP4, gptq_fp4)
/* clang-format on */

enum quantizer_id {
#define QUANTIZER_ID(id, name) QUANTIZER_##id,
    QUANTIZERS(QUANTIZER_ID)
#undef QUANTIZER_ID
        QUANTIZER_COUNT
};

/* A quantizer with its parameters. Only the struct of that quantizer is read; a quantizer without parameters has
 * none. */
struct quantize_method {
    int quantizer; /* enum quantizer_id */
    struct rtn_params rtn;
    struct gptq_params gptq;
    struct codebook_params nf4, fp4;
    struct awq_params awq;
    struct llm_int8_params llm_int8;
    struct smoothquant_params smoothquant;
    struct fp8_params fp8;
    struct gptq_fp4_params gptq_fp4;
    struct quantize_options options;
};

#define QUANTIZE_AT(field) offsetof(struct quantize_method, field)

/* Rows that several quantizers share: bits of a code, columns of a group, the kind of grid; the damping. */
/* clang-format off */
#define QUANTIZE_DAMP_PARAM(method) \
    {.name = "damp_percent", .type = PARAM_NUMBER, .offset = QUANTIZE_AT(method.damp_percent), .fallback = "0.05", \
     .minimum = 0, .maximum = 1, \
     .help = "Part of the Hessian's mean diagonal that is added to it, between 0 and 1, both excluded"}
#define QUANTIZE_GRID_PARAMS(method, default_sym) \
    {.name = "bits", .type = PARAM_INTEGER, .schema = "Bits", .offset = QUANTIZE_AT(method.bits), .fallback = "4", \
     .allowed = quantize_method_bits, .help = "Bits of a code"}, \
    {.name = "group_size", .type = PARAM_INTEGER, .offset = QUANTIZE_AT(method.group_size), .fallback = "128", \
     .minimum = -1, \
     .maximum = GROUP_SIZE_MAXIMUM, .help = "Columns that share a scale; -1 for a whole row"}, \
    {.name = "sym", .type = PARAM_BOOLEAN, .offset = QUANTIZE_AT(method.sym), .fallback = default_sym, \
     .help = "Symmetric grid: the zero point is fixed in the middle"}

/* Rows of the options: those of every method, and the one of methods that do not treat inputs themselves. */
#define QUANTIZE_OPTION_PARAMS \
    {.name = "rotation", .type = PARAM_CHOICE, .schema = "Rotation", \
     .offset = QUANTIZE_AT(options.rotation), .fallback = "\"none\"", \
     .nullable = true, .choices = quantize_method_rotations, \
     .help = "A basis without outliers that the model is turned into first; null is none"}, \
    {.name = "rotation_seed", .type = PARAM_INTEGER, .offset = QUANTIZE_AT(options.rotation_seed), .fallback = "0", \
     .minimum = 0, \
     .maximum = 9007199254740992.0, .help = "Seed of the rotation's signs"}, \
    {.name = "keep_outliers", .type = PARAM_INTEGER, .offset = QUANTIZE_AT(options.keep_outliers), .fallback = "0", \
     .minimum = 0, \
     .maximum = 1 << 20, .help = "Input columns of every linear that are kept as they are: those" \
                                 " with the largest inputs; without calibration, those with the largest weights"}, \
    {.name = "embedding_bits", .type = PARAM_INTEGER, .schema = "Bits", \
     .offset = QUANTIZE_AT(options.embedding_bits), .fallback = "null", \
     .nullable = true, .allowed = quantize_method_bits, .help = "Round the embeddings to so many bits; null: leave" \
                                                                " them"}, \
    {.name = "lm_head_bits", .type = PARAM_INTEGER, .schema = "Bits", \
     .offset = QUANTIZE_AT(options.lm_head_bits), .fallback = "null", \
     .nullable = true, .allowed = quantize_method_bits, .help = "Round the output matrix to so many bits; null:" \
                                                                " leave it"}, \
    {.name = "overrides", .type = PARAM_LIST, .offset = QUANTIZE_AT(options.list), .fallback = "[]", .maximum = 64, \
     .item = &quantize_method_override, .help = "Exceptions for modules by name; the first pattern that matches" \
                                                " counts"}
#define QUANTIZE_ACTIVATION_PARAM \
    {.name = "activation_bits", .type = PARAM_INTEGER, .schema = "ActivationBits", \
     .offset = QUANTIZE_AT(options.activation_bits), .fallback = "null", \
     .nullable = true, .allowed = quantize_method_activation_bits, \
     .help = "Bits of the inputs of linears, rounded for each token in the forward pass; null: inputs as they are"}
/* clang-format on */

extern const int64_t quantize_method_bits[];            /* 2, 3, 4, 8; ends with 0 */
extern const int64_t quantize_method_activation_bits[]; /* 4, 8; ends with 0 */
extern const struct param quantize_method_override;     /* an item of overrides */
extern const char *const quantize_method_rotations[];   /* by enum quantize_rotation; ends with NULL */

#define QUANTIZER_PARAMS(id, name) extern const struct param name##_params[];
QUANTIZERS(QUANTIZER_PARAMS)
#undef QUANTIZER_PARAMS

/* For a PARAM_VARIANT whose offset is that of a struct quantize_method's quantizer; by enum quantizer_id. */
extern const struct param_variant quantize_method_variants[];

/* Whether the quantized model's forward pass changes the inputs of linears (walk->product is needed). */
bool quantize_method_treats_inputs(const struct quantize_method *method);

/* Whether the quantized weights depend on the calibration. */
bool quantize_method_reads_calibration(const struct quantize_method *method);

/* Makes the checks that a table cannot express and writes back the values in effect: desc_act, or a group of a whole
 * row, turns act_group_aware off. Call once after a method was filled. STATUS_INVALID with a pointer relative to the
 * method ("/group_size"). */
MUST_CHECK enum status quantize_method_complete(struct quantize_method *method, struct error *error);

#endif
