#include "jobs/sharpness/sharpness_plan.h"

#include "base/memory.h"
#include "eval/evaluate.h"
#include "jobs/quantize/quantize.h"
#include "jobs/sharpness/sharpness_critical.h"
#include "jobs/sharpness/sharpness_precondition.h"
#include "model/gradient.h"
#include "model/work.h"

#include <inttypes.h>
#include <stdio.h>

enum { SPARE_VECTORS = 5, SCALED_VECTORS = 2 /* D^-1/2, and a vector that it scales */ };

static int64_t memory_limit(const struct sharpness_request *request)
{
    if (request->memory_limit > 0) return request->memory_limit;
    return request->backend->ops->memory(request->backend);
}

static int64_t basis_wanted(const struct sharpness *s)
{
    const struct sharpness_settings *g = &s->request->settings;
    int64_t most = 0;
    if ((g->top_eigenvalue || g->preconditioned || g->groups) && g->method == SHARPNESS_LANCZOS)
        most = g->max_iterations;
    if (g->spectrum && g->spectrum_steps > most) most = g->spectrum_steps;
    if (g->trace && g->trace_method == TRACE_HUTCHPP && g->probes / 3 > most) most = g->probes / 3;
    return most > 0 && most < LANCZOS_LEAST_VECTORS ? LANCZOS_LEAST_VECTORS : most;
}

enum status sharpness_plan_layout(struct sharpness *s, struct error *error)
{
    const struct sharpness_request *request = s->request;
    enum status status;
    if ((status = sharpness_check(&request->settings, error)) != STATUS_OK) return status;
    if ((status = evaluate_check(&request->model->config, request->sequences, "sharpness", error)) != STATUS_OK)
        return status;
    if ((status = sharpness_precondition_fit(request, error)) != STATUS_OK) return status;
    if ((status = parameters_layout_new(&request->model->config, &s->layout, error)) != STATUS_OK) return status;
    return chunks_init(request->sequences, request->backend->ops->sizes->micro, &s->chunks, error);
}

enum status sharpness_plan_groups(struct sharpness *s, struct error *error)
{
    const enum status status =
        memory_new(s->layout->tensor_count, sizeof *s->spans, "parameter groups", &s->spans, error);
    return status == STATUS_OK ? groups_of_tensors(s->layout, &s->groups, error) : status;
}

/* Counts each group's parameters: groups without any have no task. */
static enum status groups_count(struct sharpness *s, struct error *error)
{
    const enum status status = sharpness_plan_groups(s, error);
    for (int64_t i = 0; status == STATUS_OK && i < s->layout->tensor_count; i++) {
        const struct parameter *parameter = &s->layout->tensors[i].parameter;
        if (!parameter->constant) s->out->groups[s->groups[i]].parameters += parameter->rows * parameter->columns;
    }
    return status;
}

bool sharpness_plan_samples(const struct sharpness_request *request)
{
    return request->sequences->count > 1;
}

enum hvp_mode sharpness_plan_sample_mode(const struct sharpness *s)
{
    return s->mode < HVP_KEEP_CHUNK ? s->mode : HVP_KEEP_CHUNK;
}

/* In units of the blocks' products: hvp.h. */
static void fill_work(const struct sharpness *s, struct run_plan *out)
{
    static const double units[HVP_MODES] = {[HVP_RECOMPUTE] = 11, [HVP_KEEP_CHUNK] = 8, [HVP_KEEP_VALUES] = 7};
    const struct model_config *config = &s->layout->config;
    const double blocks = work_blocks(config, s->layout->programs, &s->chunks),
                 head = work_head(config, s->chunks.tokens);
    const int64_t products = sharpness_tasks_after(s, -1);
    out->read_bytes = weights_bytes(s->request->model->weights);
    out->tokens = (1 + products) * s->chunks.tokens;
    out->flops = 4 * blocks + 3 * head + (double)products * (units[s->mode] * blocks + 7 * head);
    if (s->request->settings.critical) {
        out->tokens += SHARPNESS_CRITICAL_LOSSES * s->chunks.tokens;
        out->flops += SHARPNESS_CRITICAL_LOSSES * (blocks + head);
    }
    if (s->request->direction != NULL) {
        out->tokens += 2 * s->request->random_directions * s->chunks.tokens;
        out->flops += 2 * (double)s->request->random_directions * (blocks + head);
    }
    if (sharpness_precondition_batches(s->request) > 0) {
        out->tokens += s->chunks.tokens;
        out->flops += 4 * blocks + 3 * head;
    }
    if (sharpness_plan_samples(s->request)) {
        const double sample = units[sharpness_plan_sample_mode(s)] * blocks + 7 * head;
        const int sampled = s->request->settings.top_eigenvalue + s->request->settings.preconditioned;
        out->tokens += sampled * s->chunks.tokens;
        out->flops += sampled * sample;
        if (s->request->direction != NULL) {
            out->tokens += 2 * s->chunks.tokens;
            out->flops += sample + 4 * blocks + 3 * head;
        }
    }
    out->at_most = products > 0;
}

/* The first product begins after the gradient, with recomputation, has released its memory. */
static void plan_memory(const struct sharpness *s, struct run_plan *out)
{
    const struct model_config *config = &s->layout->config;
    struct backend *backend = s->request->backend;
    const enum plan_space space = backend_space(backend);
    const int64_t vector = (int64_t)backend->ops->element * s->layout->elements, tokens = s->chunks.largest;
    const int64_t gradient = gradient_bytes(s->layout, backend, GRADIENT_RECOMPUTE, tokens) +
                             head_bytes(config, backend, HEAD_GRADIENT, HEAD_LOADS_NONE) +
                             embed_bytes(config, backend, tokens, false);
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES + chunks_bytes(&s->chunks));
    plan_take(out, PLAN_HOST, backend->ops->scratch(s->chunks.longest, config->vocabulary_size));
    plan_take(out, space, 2 * model_rope_bytes(config, backend, s->chunks.longest) + 2 * vector);
    plan_take(out, space, hvp_bytes(s->layout, backend, s->mode, &s->chunks));
    plan_take(out, space,
              head_bytes(config, backend, HEAD_TANGENT, HEAD_LOADS_NONE) + embed_bytes(config, backend, tokens, false));
    plan_take(out, space, gradient);
    plan_give(out, space, gradient);
    plan_take(out, space, (SPARE_VECTORS - 2 + s->out->most_vectors) * vector);
    if (s->request->settings.preconditioned) plan_take(out, space, SCALED_VECTORS * vector);
}

/* Bytes needed in the space of the backend's matrices. */
static int64_t needed(struct sharpness *s, enum hvp_mode mode, int64_t vectors)
{
    struct run_plan plan = {.flops = 0};
    s->mode = mode;
    s->out->most_vectors = vectors;
    plan_memory(s, &plan);
    return plan.peak[backend_space(s->request->backend)];
}

enum status sharpness_plan_choose(struct sharpness *s, int64_t *bytes, struct error *error)
{
    const int64_t limit = memory_limit(s->request), least = needed(s, HVP_RECOMPUTE, 0);
    const int64_t vector = (int64_t)s->request->backend->ops->element * s->layout->elements;
    const int64_t wanted = basis_wanted(s), fewest = wanted > 0 ? LANCZOS_LEAST_VECTORS : 0;
    enum hvp_mode mode = HVP_MODES - 1;
    int64_t vectors = wanted;
    if (vectors > SHARPNESS_BASIS_BYTES / vector) vectors = SHARPNESS_BASIS_BYTES / vector;
    if (vectors > (limit - least) / vector) vectors = (limit - least) / vector;
    if (vectors < fewest) vectors = fewest;
    if (s->state.most_vectors > 0) vectors = s->state.most_vectors;
    while (mode > HVP_RECOMPUTE && needed(s, mode, vectors) > limit) mode--;
    *bytes = needed(s, mode, vectors);
    s->out->most_vectors = s->state.most_vectors = vectors > 0 ? vectors : 1;
    if (*bytes <= limit) return STATUS_OK;
    char what[80];
    (void)snprintf(what, sizeof what, "the curvature of %" PRId64 " parameters needs", s->layout->numbers);
    return backend_refuse(s->request->backend, what, *bytes, limit,
                          "use method \"power\" without a spectrum, shorter sequences", error);
}

static enum status direction_memory(const struct sharpness_request *r, const struct plan_budget *budget,
                                    struct run_plan *out, struct error *error)
{
    const struct quantize_request asked = {.model = r->model,
                                           .backend = r->backend,
                                           .method = *r->direction,
                                           .calibration = r->calibration,
                                           .evaluation = r->sequences};
    struct run_plan quantization;
    const enum status status = quantize_plan(&asked, 1, budget, &quantization, error);
    plan_add(out, &quantization, 1);
    return status;
}

enum status sharpness_plan(const struct sharpness_request *request, const struct plan_budget *budget,
                           struct run_plan *out, struct error *error)
{
    struct sharpness_result unused = {.loss = 0};
    struct sharpness s = {.request = request, .out = &unused};
    int64_t bytes = 0;
    *out = (struct run_plan){.flops = 0};
    enum status status = sharpness_plan_layout(&s, error);
    if (status == STATUS_OK) status = groups_count(&s, error);
    if (status == STATUS_OK) status = sharpness_plan_choose(&s, &bytes, error);
    if (status == STATUS_TOO_LARGE) status = STATUS_OK; /* the smallest plan is in `s` */
    if (status == STATUS_OK) plan_memory(&s, out);
    if (status == STATUS_OK) fill_work(&s, out);
    if (status == STATUS_OK && request->direction != NULL) status = direction_memory(request, budget, out, error);
    memory_free(s.groups);
    memory_free(s.spans);
    parameters_layout_free(s.layout);
    chunks_reset(&s.chunks);
    return status;
}
