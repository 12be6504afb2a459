/* sharpness.h: the curvature of a checkpoint's mean next-token loss: both ends of the Hessian's spectrum, also in the
 * scale of Adam's steps, its trace, its spectral density, the step along the gradient from which on the loss rises, and
 * the second-order prediction of what a quantization costs. The whole model lies in memory: its parameters, a few
 * vectors of the same size, those of a Krylov basis (SHARPNESS_BASIS_BYTES at most: fewer are kept, and Lanczos
 * restarts), and the activations of a chunk of tokens, or of all if memory allows, which changes the time and not the
 * numbers.
 *
 * A killed run goes on from the state in its work directory, and its result is bit-for-bit identical. */
#ifndef SHARPNESS_SHARPNESS_H
#define SHARPNESS_SHARPNESS_H

#include "base/monitor.h"
#include "curvature/critical.h"
#include "curvature/groups.h"
#include "curvature/lanczos.h"
#include "curvature/spectrum.h"
#include "curvature/trace.h"
#include "quant/quantizer.h"

#define SHARPNESS_BASIS_BYTES (6LL << 30)

enum sharpness_method { SHARPNESS_LANCZOS, SHARPNESS_POWER, SHARPNESS_METHODS };
extern const char *const sharpness_methods[SHARPNESS_METHODS + 1]; /* ends with NULL */

/* Where the second moments v of the preconditioner D come from (curvature/preconditioned.h). */
enum sharpness_moments {
    /* AdamW's own, out of the training state beside the checkpoint: D is that of the step that led to it */
    SHARPNESS_MOMENTS_OF_STATE,
    /* the mean, over batches of the run's own sequences, of the squared gradients of a batch's mean loss; without
     * corrections */
    SHARPNESS_MOMENTS_OF_GRADIENTS
};

struct sharpness_preconditioner {
    int moments;         /* enum sharpness_moments */
    double beta1, beta2; /* of a state's optimizer, for its corrections */
    double epsilon;      /* > 0 */
    int64_t batches;     /* of gradients: consecutive sequences, in number as equal as can be */
};

struct sharpness_settings {
    bool top_eigenvalue, trace, spectrum, critical; /* estimates to make beside loss and norms */
    bool preconditioned;                            /* likewise: the ends of D^-1/2 H D^-1/2 */
    bool groups;            /* also the ends of each kind of parameters alone (curvature/groups.h) */
    int method;             /* enum sharpness_method, of eigenvalues */
    int64_t max_iterations; /* products for one pair of ends */
    double tolerance;       /* relative residual (Lanczos), relative change (power) */
    int64_t probes;         /* products for the trace */
    int trace_method;       /* enum trace_method */
    int64_t spectrum_probes, spectrum_steps;
    struct sharpness_preconditioner preconditioner;
    int64_t seed;
};

/* All lent for the call. */
struct sharpness_request {
    const struct model *model;
    struct backend *backend; /* of floats for a direction: quantizers work on those */
    const struct sequences *sequences;
    struct sharpness_settings settings;
    const struct quantize_method *direction; /* complete; NULL: none */
    const struct sequences *calibration;     /* for the direction's method; may be NULL */
    int64_t random_directions;               /* random changes as large as the direction, to compare with; 0: none */
    const char *training_state;    /* path of that beside the checkpoint, for SHARPNESS_MOMENTS_OF_STATE; may be NULL */
    const char *work_directory;    /* existing, the run's own, kept between its attempts; NULL: nothing is saved */
    int64_t memory_limit;          /* bytes; 0: the backend's memory for a run */
    double save_seconds;           /* the state is saved this often; 0: every 60 s, less often when that takes long */
    const struct monitor *monitor; /* progress by "product"; by "loss" where only losses are taken; may be NULL */
};

/* Per part p of the parameters: g_p·d_p and d_p·(H d)_p / 2, with d the quantization error; H d uses the whole error
 * d. */
struct sharpness_part {
    char name[PARAMETER_NAME]; /* of a linear without ".weight"; of a block its number */
    double gradient_term, curvature_term;
};

/* What random changes r of the weights cost, in each linear as large as the quantization error
 * (jobs/sharpness/sharpness_random.h): the mean of r'Hr / 2 in nats, that of (L(θ + r) + L(θ - r)) / 2L - 1, and their
 * standard errors over the changes (NAN for a single one). */
struct sharpness_random {
    int64_t directions; /* 0: none was asked for, and the rest is NAN */
    double curvature_term, curvature_error;
    double delta, delta_error;
    double ratio; /* the direction's curvature term over this one; NAN unless this one is positive */
};

struct sharpness_direction {
    double gradient_term, curvature_term; /* nats */
    double predicted_delta, measured_delta;
    double measured_loss; /* the loss with the quantized weights, on the same sequences */
    double kl, norm;      /* |d| */
    /* Over the sequences, with fixed d: standard errors of the two terms and of predicted_delta by the delta method,
     * from so many units (sequences, or groups of them: curvature/sampling.h). NAN for a single sequence. */
    double gradient_error, curvature_error, predicted_error;
    int64_t units;
    double degrees; /* of freedom, of these errors */
    struct sharpness_random random;
    int64_t layer_count, block_count;
    struct sharpness_part *layers, *blocks; /* owned */
};

struct sharpness_result {
    double loss, gradient_norm, weight_norm;
    int64_t parameters, sequences, tokens;
    double degrees; /* of freedom, of largest_error and of that of `preconditioned` */
    struct spectrum_ends ends;
    /* Standard error of ends.largest over the sequences: that of u'Hu with the eigenvector u, which equals the
     * eigenvalue's to first order. NAN for a single sequence, or if no largest eigenvalue was found: the top one is
     * negative (power method), or too few products left a residual above 5 % of the top one. */
    double largest_error;
    int64_t largest_units; /* sequences, or groups of them: curvature/sampling.h */
    struct trace_estimate trace;
    struct critical critical; /* along the gradient */
    struct spectrum spectrum; /* owned */
    struct sharpness_preconditioned {
        struct spectrum_ends ends;
        double largest_error; /* as that of `ends`, D being as it is */
        int64_t largest_units;
    } preconditioned;
    struct sharpness_group {
        int64_t parameters; /* 0: the model has none of this kind */
        struct spectrum_ends ends;
    } groups[GROUPS];
    struct sharpness_direction direction;
    int64_t products;     /* Hessian-vector products, including those of earlier attempts */
    int64_t most_vectors; /* limit of the basis */
};
void sharpness_result_reset(struct sharpness_result *result); /* {0} is fine */

/* The plan of sharpness_run, with as many products as it may make, for its own limit of memory. A direction's
 * quantization counts for the memory, not for the work. STATUS_INVALID, STATUS_NO_MEMORY. */
MUST_CHECK enum status sharpness_plan(const struct sharpness_request *request, const struct plan_budget *budget,
                                      struct run_plan *out, struct error *error);

/* Checks settings without a model: STATUS_INVALID with a pointer below "/params" for settings out of range. */
MUST_CHECK enum status sharpness_check(const struct sharpness_settings *settings, struct error *error);

/* STATUS_NOT_FINITE (weights, loss, gradient, a second moment, a product), STATUS_TOO_LARGE (says how much memory it
 * needs), STATUS_INVALID (settings; tokens outside the vocabulary, sequences longer than the model's positions; at
 * "/params/preconditioner" a training state that is not there, of another optimizer or model, or of no update yet;
 * fewer sequences than batches), STATUS_CORRUPT (the training state), statuses of quantize_run, STATUS_CANCELLED,
 * STATUS_LEASE_LOST, STATUS_INPUT_CHANGED, STATUS_IO, STATUS_NO_MEMORY. An estimate without convergence is no error. */
MUST_CHECK enum status sharpness_run(const struct sharpness_request *request, struct sharpness_result *out,
                                     struct error *error);

#endif
