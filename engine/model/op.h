/* op.h: an operation of a decoder block and its four passes. A block is a short list of steps. Each step is an op with
 * the slots (activations) that it reads and writes and the parameters that it uses; every pass over a model goes
 * through such a list (walk.h).
 *
 *   forward           values of inputs and parameters to the value of the output
 *   backward          gradient of the output to gradients of inputs and parameters
 *   tangent           derivative of forward along a direction given for inputs and parameters (after forward)
 *   backward_tangent  backward and its derivative along that direction at once: gradients of inputs, their tangents,
 *                     and the tangents of the gradients of parameters (which are the Hessian times the direction).
 *                     Gradients of parameters are not computed.
 *
 * An op computes through the backend's primitives alone, so its passes work in float, in double and on a GPU. Gradients
 * of slots follow one rule: the first writer overwrites, later ones add; pass_accumulates tells which. */
#ifndef MODEL_OP_H
#define MODEL_OP_H

#include "backend/backend.h"
#include "model/config.h"

#include <stdint.h>

struct cache;

enum { STEP_INPUTS = 3, STEP_PARAMETERS = 4, NO_SLOT = -1, NO_PARAMETER = -1 };

struct norm_attributes {
    enum norm_kind kind;
    double epsilon;
    int64_t groups;
};

struct rope_attributes {
    int64_t offset, head_stride, heads, rotary;
};

struct attention_attributes {
    int64_t heads, kv_heads, head_dim, window;
    int64_t offset[3], head_stride[3]; /* of q, k, v in their slots, which may be one */
};

struct activation_attributes {
    enum activation_kind kind;
};

struct convolution_attributes {
    int64_t columns, taps;
};

struct clip_attributes {
    double bound;
};

/* The plan sees routed activations as [T, K C], the ops as [T K, C] sorted by expert (backend/routes.h). */
struct experts_attributes {
    int64_t count, per_token; /* E, K */
    bool normalise;
};

struct scan_attributes {
    int64_t channels, heads, groups, states;
    double step_least, step_most;
};

struct op;

struct step {
    const struct op *op;
    int input[STEP_INPUTS];         /* slots, NO_SLOT where unused */
    int output;                     /* slot; equals input[0] for an op that works in place (rope) */
    int saved;                      /* slot the forward pass leaves for the backward pass, or NO_SLOT */
    int parameter[STEP_PARAMETERS]; /* NO_PARAMETER where unused */
    union {
        struct norm_attributes norm;
        struct rope_attributes rope;
        struct attention_attributes attention;
        struct activation_attributes activation;
        struct convolution_attributes convolution;
        struct scan_attributes scan;
        struct experts_attributes experts;
        struct clip_attributes clip;
    } attributes;
};

/* First row of each expert. The host needs this to launch the experts' products, and the routes may lie in a device's
 * memory. It is read once for each layer and pass, at the first product, and waits for all queued work. The device then
 * idles for the copy of a few hundred bytes and the next launches: some tens of microseconds, compared with
 * milliseconds of the layer's products (estimated, not measured). */
struct experts_starts {
    const void *of; /* the routes that were read; NULL: none */
    double first[CONFIG_EXPERTS_MAX + 1];
};

struct pass;

/* Replaces y = x Wᵀ of linear steps in forward passes: for quantized activations and rotated inputs. W is parameter
 * number parameter[0] + expert of the step; `expert` is 0 of a linear step. */
struct linear_product {
    void *owner;
    void (*run)(void *owner, const struct pass *pass, const struct step *step, int64_t expert, struct matrix x,
                struct matrix y);
};

/* The data of a pass: matrices by slot and by parameter number. */
struct pass {
    struct backend *backend;
    const struct batch *batch;
    struct matrix cosine, sine;           /* [positions, rotary / 2] */
    struct matrix *values;                /* by slot */
    const struct cache *cache;            /* values of earlier batches (model/cache.h); forward, with batch->branches */
    struct matrix *gradients;             /* by slot; backward */
    struct experts_starts *starts;        /* forgotten whenever routes change; not used on a host */
    bool *written;                        /* by slot: its gradient holds something; backward */
    const struct matrix *parameters;      /* by parameter; data NULL if the model lacks it */
    const struct linear_product *product; /* NULL: the ordinary product */
    bool to_product;                      /* forward: the next step multiplies what this one puts out */
    struct matrix *parameter_gradients;   /* by parameter; NULL: not computed; backward */
    /* Tangents of all of these, for the tangent passes. */
    struct matrix *value_tangents, *gradient_tangents;
    const struct matrix *parameter_tangents;
    struct matrix *parameter_gradient_tangents;
};

struct op {
    const char *name;
    void (*forward)(const struct pass *pass, const struct step *step);
    void (*backward)(const struct pass *pass, const struct step *step);
    void (*tangent)(const struct pass *pass, const struct step *step);
    void (*backward_tangent)(const struct pass *pass, const struct step *step);
    bool may_reuse_input; /* the output may take the memory of input[0] if no later step reads that */
    bool across_tokens;   /* tokens of a sequence see each other: batches with branches need one of the next two */
    /* Number of columns that the op keeps for later tokens of the text (model/cache.h): per token of a path, and of a
     * state at its end. NULL: nothing. */
    int64_t (*cached_token_columns)(const struct step *step);
    int64_t (*cached_state_columns)(const struct step *step);
};

/* Marks the slot's gradient as written; true when it was already, so that the caller must add to it. */
static inline bool pass_accumulates(const struct pass *pass, int slot)
{
    const bool before = pass->written[slot];
    pass->written[slot] = true;
    return before;
}

/* The matrix of a step's parameter in an array by parameter; absent when the step has none or the array is NULL. */
static inline struct matrix pass_parameter(const struct matrix *by_parameter, int parameter)
{
    return parameter == NO_PARAMETER || by_parameter == NULL ? (struct matrix){0} : by_parameter[parameter];
}

/* A routed slot [T, K C] as rows [T K, C]. */
static inline struct matrix experts_rows(struct matrix slot, const struct step *step)
{
    const int64_t k = step->attributes.experts.per_token;
    return matrix_of(slot.data, slot.rows * k, slot.columns / k, slot.element);
}

/* The rows of one expert in a routed slot of an experts step. */
struct matrix experts_part(const struct pass *pass, const struct step *step, struct matrix slot, int64_t expert);
/* How many of them are of tokens before `token` of the batch: they come first. */
int64_t experts_rows_before(const struct pass *pass, const struct step *step, int64_t expert, int64_t token);

/* y = x Wᵀ with parameter number parameter[0] + expert of the step, or pass->product in its place. Every op with
 * weights of linears calls it. */
void linear_forward_product(const struct pass *pass, const struct step *step, int64_t expert, struct matrix x,
                            struct matrix y);

extern const struct op op_norm, op_linear, op_rope, op_attention, op_activation, op_add, op_xielu, op_convolution,
    op_scan, op_route, op_dispatch, op_experts, op_combine, op_clip;

#endif
