/* optimizer_params.c: the settings of each optimizer. AdamW's defaults are those of language models (Touvron et al.,
 * arXiv 2302.13971, 2.3), the others' are those of their papers. */
#include "train/optimizer.h"

#define AT(member) offsetof(struct optimizer_settings, member)
#define BELOW_ONE  0.9999999 /* a decay rate of 1 would never forget, and its bias correction divides by 0 */

/* Settings of all optimizers. */
#define COMMON(beta1_help) COMMON_FROM("0.9", "0.95", "0.1", beta1_help)
#define COMMON_FROM(beta1_fallback, beta2_fallback, decay_fallback, beta1_help)                                   \
    {.name = "beta1",                                                                                             \
     .type = PARAM_NUMBER,                                                                                        \
     .offset = AT(beta1),                                                                                         \
     .fallback = beta1_fallback,                                                                                  \
     .minimum = 0,                                                                                                \
     .maximum = BELOW_ONE,                                                                                        \
     .help = beta1_help},                                                                                         \
        {.name = "beta2",                                                                                         \
         .type = PARAM_NUMBER,                                                                                    \
         .offset = AT(beta2),                                                                                     \
         .fallback = beta2_fallback,                                                                              \
         .minimum = 0,                                                                                            \
         .maximum = BELOW_ONE,                                                                                    \
         .help = "decay of the mean square"},                                                                     \
        {.name = "epsilon",                                                                                       \
         .type = PARAM_NUMBER,                                                                                    \
         .offset = AT(epsilon),                                                                                   \
         .fallback = "1e-8",                                                                                      \
         .minimum = 1e-30,                                                                                        \
         .maximum = 1,                                                                                            \
         .help = "added to the square root"},                                                                     \
        {.name = "weight_decay",                                                                                  \
         .type = PARAM_NUMBER,                                                                                    \
         .offset = AT(weight_decay),                                                                              \
         .fallback = decay_fallback,                                                                              \
         .minimum = 0,                                                                                            \
         .maximum = 100,                                                                                          \
         .help = "decoupled decay of all matrices, the embedding included; norms and biases do not decay"},       \
    {                                                                                                             \
        .name = "clip", .type = PARAM_NUMBER, .offset = AT(clip), .fallback = "1", .minimum = 0, .maximum = 1e30, \
        .help = "largest L2 norm; 0: not clipped"                                                                 \
    }

#define MEAN_HELP "decay of the mean gradient"

const struct param optimizer_adamw_params[] = {COMMON(MEAN_HELP), {0}};

const struct param optimizer_sam_params[] = {
    COMMON(MEAN_HELP),
    {.name = "rho",
     .type = PARAM_NUMBER,
     .offset = AT(rho),
     .fallback = "0.05",
     .minimum = 1e-12,
     .maximum = 1e3,
     .help = "radius of the ball in which the worst loss is lowered: L2 distance over all parameters"},
    {0},
};

const struct param optimizer_asam_params[] = {
    COMMON(MEAN_HELP),
    {.name = "rho",
     .type = PARAM_NUMBER,
     .offset = AT(rho),
     .fallback = "0.5",
     .minimum = 1e-12,
     .maximum = 1e3,
     .help = "radius of the ball, in units of each weight's own magnitude"},
    {.name = "eta",
     .type = PARAM_NUMBER,
     .offset = AT(eta),
     .fallback = "0.01",
     .minimum = 0,
     .maximum = 1e3,
     .help = "added to the magnitudes, so that weights at zero move too"},
    {0},
};

static const char *const muon_adjusts[] = {"match_rms_adamw", "original", NULL};

const struct param optimizer_muon_params[] = {
    COMMON(MEAN_HELP),
    {.name = "momentum",
     .type = PARAM_NUMBER,
     .offset = AT(momentum),
     .fallback = "0.95",
     .minimum = 0,
     .maximum = BELOW_ONE,
     .help = "of the matrices of linear layers, whose update is made orthogonal; the betas are of all else"},
    {.name = "adjust",
     .type = PARAM_CHOICE,
     .offset = AT(adjust),
     .fallback = "\"match_rms_adamw\"",
     .choices = muon_adjusts,
     .help = "an orthogonal update is multiplied by 0.2 sqrt(max(rows, columns)), which fits AdamW's rates, or by "
             "sqrt(max(1, rows / columns))"},
    {.name = "adamw_rate",
     .type = PARAM_NUMBER,
     .offset = AT(adamw_rate),
     .fallback = "1",
     .minimum = 0,
     .maximum = 1e3,
     .help = "learning rate of embeddings, output, norms and biases, as a multiple of the schedule's"},
    {0},
};

/* The betas and the decay of the authors' own code. */
const struct param optimizer_soap_params[] = {
    COMMON_FROM("0.95", "0.95", "0.01", MEAN_HELP),
    {.name = "precondition_frequency",
     .type = PARAM_INTEGER,
     .offset = AT(precondition_frequency),
     .fallback = "10",
     .minimum = 1,
     .maximum = 1000000,
     .help = "steps per basis"},
    {.name = "max_precond_dim",
     .type = PARAM_INTEGER,
     .offset = AT(max_precond_dim),
     .fallback = "10000",
     .minimum = 1,
     .maximum = 32768,
     .help = "longest rotated side"},
    {0},
};

const struct param optimizer_schedule_free_params[] = {
    COMMON("share of the average in the point where the gradient is taken; the rest is the sequence that steps"),
    {0},
};
