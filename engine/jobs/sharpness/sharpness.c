#include "jobs/sharpness/sharpness.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "curvature/sampling.h"
#include "jobs/sharpness/sharpness_direction.h"
#include "jobs/sharpness/sharpness_plan.h"
#include "jobs/sharpness/sharpness_precondition.h"
#include "jobs/sharpness/sharpness_random.h"

#include <math.h>
#include <stdio.h>

enum { SAVE_SECONDS = 60, STATE_VERSION = 3 };
#define SAVE_SHARE 20 /* between two savings at least so many times what the last one took */

const char *const sharpness_methods[SHARPNESS_METHODS + 1] = {"lanczos", "power", NULL};

void sharpness_result_reset(struct sharpness_result *result)
{
    spectrum_reset(&result->spectrum);
    memory_free(result->direction.layers);
    memory_free(result->direction.blocks);
    *result = (struct sharpness_result){0};
}

enum status sharpness_check(const struct sharpness_settings *settings, struct error *error)
{
    const struct {
        const char *pointer;
        int64_t value;
    } counts[] = {{"/params/max_iterations", settings->max_iterations},
                  {"/params/probes", settings->probes},
                  {"/params/spectrum_probes", settings->spectrum_probes},
                  {"/params/spectrum_steps", settings->spectrum_steps}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value < 1)
            return error_set_at(error, STATUS_INVALID, counts[i].pointer, "must be at least 1, found %lld",
                                (long long)counts[i].value);
    if (!(settings->tolerance > 0 && settings->tolerance < 1))
        return error_set_at(error, STATUS_INVALID, "/params/tolerance", "must lie between 0 and 1, found %g",
                            settings->tolerance);
    return settings->preconditioned ? sharpness_precondition_check(&settings->preconditioner, error) : STATUS_OK;
}

/* ---- Progress and the saved state ---- */

/* A state that cannot be saved costs a later attempt time, and nothing else. */
static void save(struct sharpness *s, const struct saver_state *kept)
{
    struct error error;
    const double began = clock_seconds();
    if (s->path[0] == '\0') return;
    if (sharpness_state_write(s->path, &s->state, kept, &error) != STATUS_OK)
        monitor_log(s->request->monitor, "the state to resume from is not saved: %s", error.detail);
    s->saved = clock_seconds();
    s->took = s->saved - began;
}

static enum status saver_of_run_step(void *owner, const struct saver_state *kept, int64_t remaining,
                                     struct error *error)
{
    struct sharpness *s = owner;
    const double pause = s->request->save_seconds > 0 ? s->request->save_seconds : SAVE_SECONDS;
    s->state.products++;
    sharpness_tasks_show(s, remaining + sharpness_tasks_after(s, s->task));
    const double since = clock_seconds() - s->saved;
    if (since >= pause && (s->request->save_seconds > 0 || since >= SAVE_SHARE * s->took)) save(s, kept);
    return monitor_check(s->request->monitor, error);
}

static enum status saver_of_run_restore(void *owner, struct saver_state *kept, bool *found, struct error *error)
{
    struct sharpness *s = owner;
    *found = false;
    if (!s->saved_at_work) return STATUS_OK;
    s->saved_at_work = false;
    return sharpness_state_restore(s->path, kept, found, error);
}

/* Fingerprint of everything that decides the run's numbers. Other code checks the checkpoint's content; names and
 * shapes are included here. */
static uint64_t fingerprint(const struct sharpness *s)
{
    const struct sharpness_settings *g = &s->request->settings;
    const struct sequences *sequences = s->request->sequences;
    const int64_t numbers[] = {STATE_VERSION,
                               s->layout->elements,
                               s->layout->tensor_count,
                               g->top_eigenvalue,
                               g->trace,
                               g->spectrum,
                               g->critical,
                               g->groups,
                               g->method,
                               g->max_iterations,
                               g->probes,
                               g->trace_method,
                               g->spectrum_probes,
                               g->spectrum_steps,
                               g->seed,
                               sequences->count,
                               (int64_t)s->request->backend->ops->element};
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, numbers, sizeof numbers);
    checksum_add(&sum, &g->tolerance, sizeof g->tolerance);
    /* only where it is used, so that states of older runs stay valid */
    if (g->preconditioned) sharpness_precondition_sign(s, &sum);
    checksum_add(&sum, sequences->starts, (size_t)(sequences->count + 1) * sizeof *sequences->starts);
    checksum_add(&sum, sequences->tokens, (size_t)sequences->starts[sequences->count] * sizeof *sequences->tokens);
    return checksum_value(&sum);
}

/* A damaged state is ignored: the run begins again. */
static enum status resume(struct sharpness *s, struct error *error)
{
    if (s->request->work_directory == NULL) return STATUS_OK;
    const int length = snprintf(s->path, sizeof s->path, "%s/sharpness.state", s->request->work_directory);
    if (length < 0 || (size_t)length >= sizeof s->path)
        return error_set(error, STATUS_INVALID, "the path of the work directory is too long");
    s->state.fingerprint = fingerprint(s);
    const enum status status = sharpness_state_read(s->path, &s->state, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (status == STATUS_CORRUPT || status == STATUS_INVALID) {
        monitor_log(s->request->monitor, "beginning anew: %s", error->detail);
        return STATUS_OK;
    }
    if (status != STATUS_OK) return status;
    monitor_log(s->request->monitor, "going on after %lld products", (long long)s->state.products);
    s->saved_at_work = true;
    return STATUS_OK;
}

/* ---- The run ---- */

static enum status prepare(struct sharpness *s, struct error *error)
{
    const struct sharpness_request *request = s->request;
    int64_t bytes;
    bool waited;
    enum status status;
    if ((status = sharpness_plan_layout(s, error)) != STATUS_OK) return status;
    if ((status = sharpness_precondition_find(s, error)) != STATUS_OK) return status;
    if ((status = resume(s, error)) != STATUS_OK) return status;
    if ((status = sharpness_plan_choose(s, &bytes, error)) != STATUS_OK) return status;
    if ((status = backend_claim(request->backend, bytes, request->monitor, &waited, error)) != STATUS_OK) return status;
    if ((status = sharpness_plan_groups(s, error)) != STATUS_OK) return status;
    if ((status = parameters_init(&s->parameters, s->layout, request->backend, "parameters", error)) != STATUS_OK)
        return status;
    if ((status = parameters_read(&s->parameters, request->model, error)) != STATUS_OK) return status;
    if ((status = hvp_new(&s->parameters, &s->chunks, s->mode, request->monitor, &s->hvp, error)) != STATUS_OK)
        return status;
    for (int group = 0; group < GROUPS; group++)
        s->out->groups[group].parameters =
            groups_space(&hvp_operator(s->hvp)->space, s->groups, (enum group)group, s->spans).numbers;
    return STATUS_OK;
}

/* The norm of the trainable numbers: constants lie among them, and no relative curvature is relative to one. A model
 * without constants is one run of tensors. */
static double weights_norm(const struct sharpness *s)
{
    struct backend *backend = s->request->backend;
    const struct matrix all = parameters_all(&s->parameters);
    const int64_t tensors = s->layout->tensor_count;
    double squares = 0;
    for (int64_t i = 0, first = 0; i <= tensors; i++) {
        if (i < tensors && !s->layout->tensors[i].parameter.constant) continue;
        const int64_t end = i < tensors ? s->layout->tensors[i].offset : s->layout->elements;
        const struct matrix run = vector_part(all, first, end - first);
        if (end > first) squares += backend->ops->dot(backend, run, run);
        first = i + 1 < tensors ? s->layout->tensors[i + 1].offset : s->layout->elements;
    }
    return sqrt(squares);
}

static enum status first_order(struct sharpness *s, struct error *error)
{
    const struct symmetric_operator *op = hvp_operator(s->hvp);
    struct backend *backend = s->request->backend;
    enum status status;
    if ((status = vector_new(&op->space, "the gradient", &s->gradient, error)) != STATUS_OK) return status;
    if ((status = hvp_gradient(s->hvp, s->gradient, &s->out->loss, error)) != STATUS_OK) return status;
    s->out->gradient_norm = sqrt(backend->ops->dot(backend, s->gradient, s->gradient));
    s->out->weight_norm = weights_norm(s);
    s->out->parameters = s->layout->numbers;
    s->out->sequences = s->chunks.sequences;
    s->out->tokens = s->chunks.tokens;
    if (s->request->direction == NULL && !s->request->settings.critical) matrix_release(backend, &s->gradient);
    return STATUS_OK;
}

static enum status estimate(struct sharpness *s, struct error *error)
{
    for (s->task = 0; s->task < SHARPNESS_TASKS; s->task++) {
        const struct sharpness_task *task = &sharpness_tasks[s->task];
        enum status status = STATUS_OK;
        const bool done = s->task < s->state.tasks, wanted = task->wanted(s, task->number);
        if (wanted) status = done ? task->read(s, task->number, error) : task->run(s, task->number, error);
        if (status != STATUS_OK) return status;
        if (done) continue;
        s->state.tasks = s->task + 1;
        s->saved_at_work = false;
        if (wanted) save(s, NULL);
        sharpness_tasks_show(s, sharpness_tasks_after(s, s->task));
    }
    return STATUS_OK;
}

static enum status direction(struct sharpness *s, struct error *error)
{
    struct sharpness_direction *out = &s->out->direction;
    if (s->request->direction == NULL) return STATUS_OK;
    struct matrix along = {0};
    out->random = (struct sharpness_random){0, NAN, NAN, NAN, NAN, NAN};
    enum status status =
        sharpness_direction_run(s->request, &s->parameters, hvp_operator(s->hvp), s->gradient, &along, out, error);
    if (status == STATUS_OK) {
        out->predicted_delta = (out->gradient_term + out->curvature_term) / s->out->loss;
        s->state.products++;
        if (s->request->random_directions > 0) status = sharpness_random_products(s, along, error);
        hvp_free(s->hvp); /* losses and the products of units need its memory */
        s->hvp = NULL;
    }
    if (status == STATUS_OK && s->request->random_directions > 0) status = sharpness_random_losses(s, along, error);
    if (status == STATUS_OK)
        status = sharpness_direction_sample(s->request, &s->parameters, s->chunks.largest,
                                            sharpness_plan_sample_mode(s), along, s->gradient, out, error);
    if (status == STATUS_OK) sharpness_tasks_show(s, 0);
    matrix_release(s->request->backend, &along);
    return status;
}

enum status sharpness_run(const struct sharpness_request *request, struct sharpness_result *out, struct error *error)
{
    struct sharpness *s = NULL;
    enum status status;
    *out = (struct sharpness_result){.degrees = sampling_degrees(request->sequences)};
    if ((status = memory_new(1, sizeof *s, "sharpness", &s, error)) != STATUS_OK) return status;
    *s = (struct sharpness){.request = request, .out = out, .saved = clock_seconds()};
    s->saver = (struct saver){s, saver_of_run_restore, saver_of_run_step};
    if ((status = prepare(s, error)) != STATUS_OK) goto done;
    if ((status = first_order(s, error)) != STATUS_OK) goto done;
    if ((status = estimate(s, error)) != STATUS_OK) goto done;
    if ((status = direction(s, error)) != STATUS_OK) goto done;
    status = weights_check_unchanged(request->model->weights, error);
    out->products = s->state.products;
done:
    hvp_free(s->hvp);
    matrix_release(request->backend, &s->gradient);
    if (s->parameters.backend != NULL) parameters_reset(&s->parameters);
    parameters_layout_free(s->layout);
    chunks_reset(&s->chunks);
    memory_free(s->groups);
    memory_free(s->spans);
    sharpness_state_reset(&s->state);
    memory_free(s);
    if (status != STATUS_OK) sharpness_result_reset(out);
    return status;
}
