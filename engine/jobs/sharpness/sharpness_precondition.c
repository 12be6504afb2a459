#include "jobs/sharpness/sharpness_precondition.h"

#include "base/memory.h"
#include "curvature/sampling.h"
#include "model/gradient.h"

#include <math.h>
#include <stdio.h>

#define POINTER "/params/preconditioner"

static bool from_state(const struct sharpness_request *request)
{
    return request->settings.preconditioned && request->settings.preconditioner.moments == SHARPNESS_MOMENTS_OF_STATE;
}

enum status sharpness_precondition_check(const struct sharpness_preconditioner *preconditioner, struct error *error)
{
    const struct {
        const char *pointer;
        double value;
    } betas[] = {{POINTER "/beta1", preconditioner->beta1}, {POINTER "/beta2", preconditioner->beta2}};
    if (!(preconditioner->epsilon > 0 && isfinite(preconditioner->epsilon)))
        return error_set_at(error, STATUS_INVALID, POINTER "/epsilon", "must be above 0, found %g",
                            preconditioner->epsilon);
    if (preconditioner->moments == SHARPNESS_MOMENTS_OF_GRADIENTS)
        return preconditioner->batches >= 1
                   ? STATUS_OK
                   : error_set_at(error, STATUS_INVALID, POINTER "/batches", "must be at least 1, found %lld",
                                  (long long)preconditioner->batches);
    for (size_t i = 0; i < sizeof betas / sizeof betas[0]; i++)
        if (!(betas[i].value >= 0 && betas[i].value < 1))
            return error_set_at(error, STATUS_INVALID, betas[i].pointer, "must lie from 0 to below 1, found %g",
                                betas[i].value);
    return STATUS_OK;
}

int64_t sharpness_precondition_batches(const struct sharpness_request *request)
{
    return request->settings.preconditioned && !from_state(request) ? request->settings.preconditioner.batches : 0;
}

enum status sharpness_precondition_fit(const struct sharpness_request *request, struct error *error)
{
    const int64_t batches = sharpness_precondition_batches(request);
    if (batches <= request->sequences->count) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, POINTER "/batches",
                        "%lld batches need as many sequences, and there are %lld: give fewer batches or more sequences",
                        (long long)batches, (long long)request->sequences->count);
}

/* What is wrong with a state is wrong with the choice of it. */
static enum status blame(enum status status, struct error *error)
{
    if (status == STATUS_INVALID && error->pointer[0] == '\0')
        (void)snprintf(error->pointer, sizeof error->pointer, "%s", POINTER);
    return status;
}

enum status sharpness_precondition_find(struct sharpness *s, struct error *error)
{
    if (!from_state(s->request)) return STATUS_OK;
    enum status status = STATUS_NOT_FOUND;
    if (s->request->training_state != NULL) status = state_moments_mark(s->request->training_state, &s->mark, error);
    if (status == STATUS_NOT_FOUND)
        return error_set_at(error, STATUS_INVALID, POINTER,
                            "the checkpoint has no training state; only train runs with keep_state leave one, beside "
                            "checkpoints that are no averages: \"squared_gradients\" needs none");
    if (status == STATUS_OK && s->mark.step < 1)
        return error_set_at(error, STATUS_INVALID, POINTER, "the training state is from before the first update");
    return blame(status, error);
}

void sharpness_precondition_sign(const struct sharpness *s, struct checksum *sum)
{
    const struct sharpness_preconditioner *given = &s->request->settings.preconditioner;
    const double reals[] = {given->beta1, given->beta2, given->epsilon};
    const int64_t integers[] = {given->moments, given->batches, s->mark.step, (int64_t)s->mark.fingerprint,
                                (int64_t)s->mark.checksum};
    checksum_add(sum, reals, sizeof reals);
    checksum_add(sum, integers, sizeof integers);
}

/* The squared gradients of all batches into the vector of second moments. */
static enum status squares_sum(struct sharpness *s, struct gradient *gradient, double *losses, struct preconditioned *p,
                               struct error *error)
{
    struct backend *backend = s->request->backend;
    const int64_t batches = s->request->settings.preconditioner.batches;
    struct parameters into = {s->layout, backend, p->scaled.data};
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < batches && status == STATUS_OK; i++) {
        struct chunks chunks = {0};
        double mean;
        if ((status = sampling_unit(s->request->sequences, batches, i, s->chunks.largest, &chunks, error)) != STATUS_OK)
            break;
        backend->ops->fill(backend, p->scaled, 0);
        status = gradient_over(gradient, &chunks, s->request->monitor, &into, losses, &mean, error);
        if (status == STATUS_OK && !backend->ops->finite(backend, p->scaled))
            status = error_set(error, STATUS_NOT_FINITE, "the gradient of a batch of sequences is not finite");
        if (status == STATUS_OK) status = preconditioned_add_squares(p, error);
        chunks_reset(&chunks);
    }
    return status;
}

static enum status gradients_take(struct sharpness *s, struct preconditioned *p, struct error *error)
{
    struct gradient *gradient = NULL;
    double *losses = NULL;
    enum status status;
    hvp_free(s->hvp);
    s->hvp = NULL;
    if ((status = memory_new(s->chunks.tokens, sizeof *losses, "losses", &losses, error)) != STATUS_OK) goto done;
    status = gradient_new(&s->parameters, GRADIENT_RECOMPUTE, s->chunks.largest, s->chunks.longest, &gradient, error);
    if (status == STATUS_OK) status = squares_sum(s, gradient, losses, p, error);
done:
    gradient_free(gradient);
    memory_free(losses);
    if (status != STATUS_OK) return status;
    return hvp_new(&s->parameters, &s->chunks, s->mode, s->request->monitor, &s->hvp, error);
}

static enum status state_take(struct sharpness *s, struct preconditioned *p, struct error *error)
{
    struct parameters into = {s->layout, s->request->backend, p->scale.data};
    struct state_mark mark;
    const enum status status = state_moments_read(s->request->training_state, &into, &mark, error);
    if (status != STATUS_OK) return blame(status, error);
    if (mark.checksum == s->mark.checksum && mark.step == s->mark.step) return STATUS_OK;
    return error_set(error, STATUS_INPUT_CHANGED, "the training state is no longer the one that this run began with");
}

enum status sharpness_precondition_new(struct sharpness *s, struct preconditioned *out, struct error *error)
{
    const struct sharpness_preconditioner *given = &s->request->settings.preconditioner;
    double correction1 = 1, correction2 = (double)given->batches;
    enum status status = preconditioned_init(out, &hvp_operator(s->hvp)->space, error);
    if (status != STATUS_OK) return status;
    if (from_state(s->request)) {
        correction1 = 1 - pow(given->beta1, (double)s->mark.step);
        correction2 = 1 - pow(given->beta2, (double)s->mark.step);
        status = state_take(s, out, error);
    } else {
        status = gradients_take(s, out, error);
    }
    if (status == STATUS_OK) status = preconditioned_scale(out, correction1, correction2, given->epsilon, error);
    if (status == STATUS_OK) preconditioned_over(out, hvp_operator(s->hvp));
    return status;
}
