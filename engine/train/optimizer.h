/* optimizer.h: optimizers, which turn gradients into updates. An optimizer is its file with a row, its parameters in
 * optimizer_params.c, and a line in OPTIMIZERS. Its state between steps is a number of buffers laid out like the
 * parameters, one more of its own length and one number, so that code that saves a run need not know the optimizer.
 *
 * A step: [gradient; optimizer_depart;] gradient; optimizer_step. An optimizer that departs takes its gradient at
 * another point than the parameters: SAM where the loss nearby is worst, schedule-free AdamW between its two sequences.
 * Until optimizer_step (or optimizer_return, without a step) the parameters hold that point, and one more buffer holds
 * the parameters. Between steps the parameters are always those of a checkpoint. */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

#include "base/param.h"
#include "model/parameters.h"

enum { OPTIMIZER_BUFFERS = 2 };

enum muon_adjust { MUON_MATCH_RMS_ADAMW, MUON_ORIGINAL };

struct optimizer_settings {
    double beta1, beta2, epsilon, weight_decay;
    double clip;                    /* largest L2 norm of the whole gradient; 0: not clipped */
    double rho;                     /* sam, asam: how far up */
    double eta;                     /* asam: added to the magnitudes */
    double momentum;                /* muon */
    double adamw_rate;              /* muon: rate of what AdamW updates, over the schedule's */
    int adjust;                     /* muon: enum muon_adjust */
    int64_t precondition_frequency; /* soap: steps from one basis to the next */
    int64_t max_precond_dim;        /* soap: longer sides are not rotated */
};

struct optimizer;

/* Memory of an optimizer beside its buffers. */
struct optimizer_memory {
    int64_t kept;    /* elements of the backend that are state, too */
    int64_t scratch; /* elements of the backend to work in */
    int64_t host;    /* doubles in the host's memory to work in */
};

struct optimizer_update {
    double rate;
    int64_t step;          /* updates done before this one, of the whole training run */
    double gradient_scale; /* gradients are multiplied by this: clipping */
};

struct optimizer_kind {
    const char *name;  /* as in the API */
    const char *state; /* what its buffers hold: kinds that agree in it go on from each other's states */
    int buffers;       /* of state, at most OPTIMIZER_BUFFERS */
    int gradients;     /* per step: 2 if the first one determines the point at which the second is taken */
    /* NULL: nothing */
    void (*memory)(const struct optimizer_settings *settings, const struct parameters_layout *layout,
                   struct optimizer_memory *memory);
    /* multiplications and additions of the first `steps` updates' matrix products; NULL: it has none */
    double (*work)(const struct optimizer_settings *settings, const struct parameters_layout *layout, int64_t steps);
    bool keeps_rate; /* averages instead of lowering the rate: a schedule that falls is refused */
    /* NULL: the gradient is taken at the parameters. Otherwise moves `parameters`, whose old value optimizer->home
     * keeps; `gradients` is the first of two, at home, and may be overwritten. False when it is not finite: nothing has
     * moved. */
    bool (*depart)(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients);
    /* If the kind departs, `parameters` are away at the call, and at their new home afterwards. May overwrite
     * `gradients`. */
    void (*update)(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                   const struct optimizer_update *update);
};

/* Every optimizer: its name in the API and in symbols. New ones go to the end, because saved states of interrupted runs
 * contain the number. */
#define OPTIMIZERS(X)               \
    X(ADAMW, adamw)                 \
    X(SAM, sam)                     \
    X(ASAM, asam)                   \
    X(SCHEDULE_FREE, schedule_free) \
    X(MUON, muon)                   \
    X(SOAP, soap)

enum optimizer_id {
#define OPTIMIZER_ID(id, name) OPTIMIZER_##id,
    OPTIMIZERS(OPTIMIZER_ID)
#undef OPTIMIZER_ID
        OPTIMIZER_COUNT
};

/* optimizer_NAME: its row. optimizer_NAME_params: the table that fills its struct optimizer_settings. */
#define OPTIMIZER_ROW(id, name)                          \
    extern const struct optimizer_kind optimizer_##name; \
    extern const struct param optimizer_##name##_params[];
OPTIMIZERS(OPTIMIZER_ROW)
#undef OPTIMIZER_ROW

extern const struct optimizer_kind *const optimizer_kinds[]; /* by enum optimizer_id; ends with NULL */

struct optimizer {
    const struct optimizer_kind *kind;
    struct optimizer_settings settings;
    struct parameters state[OPTIMIZER_BUFFERS]; /* owned, zeroed at first */
    double weight;          /* saved with the state: schedule_free: the sum of the weights in its average */
    struct parameters home; /* owned; while away, the parameters; absent when the kind never departs */
    bool away;
    struct matrix kept; /* owned, zeroed at first, saved with the state: [1, memory.kept]; absent when that is none */
    void *scratch;      /* owned, of the backend; NULL when the kind needs none */
    double *host;       /* owned; NULL when the kind needs none */
};

/* Number of parameter-sized buffers of an optimizer, its memory beside them, and the cost of its products. */
int optimizer_buffers(const struct optimizer_kind *kind);
struct optimizer_memory optimizer_memory(const struct optimizer_kind *kind, const struct optimizer_settings *settings,
                                         const struct parameters_layout *layout);
double optimizer_work(const struct optimizer_kind *kind, const struct optimizer_settings *settings,
                      const struct parameters_layout *layout, int64_t steps);

/* The caller owns it (optimizer_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind,
                                      const struct optimizer_settings *settings, const struct parameters_layout *layout,
                                      struct backend *backend, struct error *error);
void optimizer_reset(struct optimizer *optimizer); /* {0} is fine */

/* Moves `parameters` to the point of the step's gradient. If the kind takes two gradients, `gradients` holds the one at
 * the parameters; it is undefined afterwards. False when that gradient is not finite: the parameters are unchanged. */
bool optimizer_depart(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients);

/* Restores the parameters exactly, without a step. Does nothing when not away. */
void optimizer_return(struct optimizer *optimizer, struct parameters *parameters);

/* Clips (Pascanu et al., arXiv 1211.5063: scaled by clip / norm when the norm is larger) and updates `parameters`;
 * `gradients` is undefined afterwards. *norm gets the gradient's norm before clipping; when it is not finite nothing is
 * updated and the result is false. */
bool optimizer_step(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                    double rate, int64_t step, double *norm);

#endif
