#include "jobs/sharpness.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "curvature/hvp.h"
#include "curvature/power.h"
#include "eval/evaluate.h"
#include "jobs/quantize.h"
#include "jobs/sharpness_direction.h"
#include "jobs/sharpness_state.h"
#include "model/gradient.h"
#include "model/work.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

enum { CHUNK_TOKENS = 2048, SPARE_VECTORS = 4, ENDS_NUMBERS = 6, TRACE_NUMBERS = 4, SAVE_SECONDS = 60 };
#define SAVE_SHARE 20 /* between two savings at least so many times what the last one took */

/* Streams of random numbers, apart from each other: probe i of an estimator takes stream + i. */
enum { STREAM_ENDS = 1, STREAM_GROUPS = 16, STREAM_TRACE = 1 << 20, STREAM_SPECTRUM = 1 << 28 };

const char *const sharpness_methods[SHARPNESS_METHODS + 1] = {"lanczos", "power", NULL};

struct sharpness {
    const struct sharpness_request *request;
    struct sharpness_result *out;
    struct parameters_layout *layout;
    struct parameters parameters;
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix gradient;
    enum group *groups;
    struct vector_span *spans; /* of the group at work */
    struct sharpness_state state;
    struct keeper keeper;
    char path[PATH_MAX]; /* of the saved state; "": none is saved */
    int64_t read, task;  /* records read, task at work */
    bool saved_at_work;  /* the file has the task at work */
    double saved, took;  /* when the state was saved, and how long that took */
    enum hvp_mode mode;
};

/* What is estimated, in this order. */
struct task {
    bool (*wanted)(const struct sharpness *s, int number);
    enum status (*run)(struct sharpness *s, int number, struct error *error);
    enum status (*read)(struct sharpness *s, int number, struct error *error); /* the result out of the records */
    int64_t (*products)(const struct sharpness *s);                            /* at most */
    int number;
};

void sharpness_result_reset(struct sharpness_result *result)
{
    spectrum_reset(&result->spectrum);
    memory_free(result->direction.layers);
    memory_free(result->direction.blocks);
    *result = (struct sharpness_result){0};
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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
        return error_set_at(error, STATUS_INVALID, "/params/tolerance", "must lie between 0 and 1, found %g", settings->tolerance);
    return STATUS_OK;
}

/* ---- The estimators ---- */

static bool top_wanted(const struct sharpness *s, int number)
{
    (void)number;
    return s->request->settings.top_eigenvalue;
}

static bool trace_wanted(const struct sharpness *s, int number)
{
    (void)number;
    return s->request->settings.trace;
}

static bool spectrum_wanted(const struct sharpness *s, int number)
{
    (void)number;
    return s->request->settings.spectrum;
}

static bool group_wanted(const struct sharpness *s, int number)
{
    return s->request->settings.groups && s->out->groups[number].parameters > 0;
}

static int64_t top_products(const struct sharpness *s)
{
    return s->request->settings.max_iterations;
}

static int64_t trace_products(const struct sharpness *s)
{
    return s->request->settings.probes < s->layout->numbers ? s->request->settings.probes : s->layout->numbers;
}

static int64_t spectrum_steps(const struct sharpness *s)
{
    const int64_t steps = s->request->settings.spectrum_steps;
    return steps < s->out->most_vectors ? steps : s->out->most_vectors;
}

static int64_t spectrum_products(const struct sharpness *s)
{
    return s->request->settings.spectrum_probes * spectrum_steps(s);
}

static enum status ends_run(struct sharpness *s, const struct symmetric_operator *op, uint64_t stream, struct spectrum_ends *ends,
                            struct error *error)
{
    const struct sharpness_settings *given = &s->request->settings;
    const struct lanczos_settings settings = {.most_products = given->max_iterations,
                                              .most_vectors = s->out->most_vectors,
                                              .tolerance = given->tolerance,
                                              .seed = (uint64_t)given->seed,
                                              .stream = stream};
    const enum status status = given->method == SHARPNESS_POWER
                                   ? power_run(op, &settings, &s->keeper, ends, error)
                                   : lanczos_run(op, &settings, &s->keeper, (struct matrix){0}, ends, error);
    if (status != STATUS_OK) return status;
    const double record[ENDS_NUMBERS] = {ends->top,      ends->largest,          ends->smallest,
                                         ends->residual, (double)ends->products, ends->converged};
    return sharpness_state_record(&s->state, record, ENDS_NUMBERS, error);
}

/* The next `count` numbers of the records, NULL when there are not so many. */
static const double *records_take(struct sharpness *s, int64_t count)
{
    if (count < 0 || s->state.record_count - s->read < count) return NULL;
    s->read += count;
    return s->state.records + s->read - count;
}

static enum status records_damaged(struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "the saved state of the run ends early");
}

static enum status ends_read(struct sharpness *s, struct spectrum_ends *ends, struct error *error)
{
    const double *from = records_take(s, ENDS_NUMBERS);
    if (from == NULL) return records_damaged(error);
    *ends = (struct spectrum_ends){from[0], from[1], from[2], from[3], (int64_t)from[4], from[5] != 0};
    return STATUS_OK;
}

static enum status top_run(struct sharpness *s, int number, struct error *error)
{
    (void)number;
    return ends_run(s, hvp_operator(s->hvp), STREAM_ENDS, &s->out->ends, error);
}

static enum status top_read(struct sharpness *s, int number, struct error *error)
{
    (void)number;
    return ends_read(s, &s->out->ends, error);
}

static enum status group_run(struct sharpness *s, int number, struct error *error)
{
    struct symmetric_operator op = *hvp_operator(s->hvp);
    op.space = groups_space(&op.space, s->groups, (enum group)number, s->spans);
    return ends_run(s, &op, STREAM_GROUPS + (uint64_t)number, &s->out->groups[number].ends, error);
}

static enum status group_read(struct sharpness *s, int number, struct error *error)
{
    return ends_read(s, &s->out->groups[number].ends, error);
}

static enum status run_trace(struct sharpness *s, int number, struct error *error)
{
    const struct sharpness_settings *given = &s->request->settings;
    const struct trace_settings settings = {.method = given->trace_method,
                                            .probes = given->probes,
                                            .most_vectors = s->out->most_vectors,
                                            .seed = (uint64_t)given->seed,
                                            .stream = STREAM_TRACE};
    struct trace_estimate *trace = &s->out->trace;
    (void)number;
    const enum status status = trace_run(hvp_operator(s->hvp), &settings, &s->keeper, trace, error);
    if (status != STATUS_OK) return status;
    const double record[TRACE_NUMBERS] = {trace->trace, trace->standard_error, (double)trace->probes, trace->exact};
    return sharpness_state_record(&s->state, record, TRACE_NUMBERS, error);
}

static enum status read_trace(struct sharpness *s, int number, struct error *error)
{
    const double *from = records_take(s, TRACE_NUMBERS);
    (void)number;
    if (from == NULL) return records_damaged(error);
    s->out->trace = (struct trace_estimate){from[0], from[1], (int64_t)from[2], from[3] != 0};
    return STATUS_OK;
}

static enum status run_spectrum(struct sharpness *s, int number, struct error *error)
{
    const struct spectrum_settings settings = {.probes = s->request->settings.spectrum_probes,
                                               .steps = spectrum_steps(s),
                                               .seed = (uint64_t)s->request->settings.seed,
                                               .stream = STREAM_SPECTRUM};
    struct spectrum *spectrum = &s->out->spectrum;
    (void)number;
    enum status status = spectrum_run(hvp_operator(s->hvp), &settings, &s->keeper, spectrum, error);
    const double count = (double)spectrum->count;
    if (status == STATUS_OK) status = sharpness_state_record(&s->state, &count, 1, error);
    if (status == STATUS_OK) status = sharpness_state_record(&s->state, spectrum->nodes, spectrum->count, error);
    if (status == STATUS_OK) status = sharpness_state_record(&s->state, spectrum->weights, spectrum->count, error);
    return status;
}

static enum status read_spectrum(struct sharpness *s, int number, struct error *error)
{
    const double *count = records_take(s, 1);
    struct spectrum *spectrum = &s->out->spectrum;
    enum status status;
    (void)number;
    if (count == NULL || !(*count >= 0 && *count <= (double)s->state.record_count)) return records_damaged(error);
    const int64_t n = (int64_t)*count;
    const double *nodes = records_take(s, n), *weights = records_take(s, n);
    if (nodes == NULL || weights == NULL) return records_damaged(error);
    if ((status = memory_new(n, sizeof(double), "spectrum", &spectrum->nodes, error)) != STATUS_OK) return status;
    if ((status = memory_new(n, sizeof(double), "spectrum", &spectrum->weights, error)) != STATUS_OK) return status;
    spectrum->count = n;
    for (int64_t i = 0; i < n; i++) {
        spectrum->nodes[i] = nodes[i];
        spectrum->weights[i] = weights[i];
    }
    return STATUS_OK;
}

static const struct task tasks[] = {
    {top_wanted, top_run, top_read, top_products, 0},
    {trace_wanted, run_trace, read_trace, trace_products, 0},
    {spectrum_wanted, run_spectrum, read_spectrum, spectrum_products, 0},
    {group_wanted, group_run, group_read, top_products, GROUP_EMBEDDING},
    {group_wanted, group_run, group_read, top_products, GROUP_ATTENTION},
    {group_wanted, group_run, group_read, top_products, GROUP_MLP},
    {group_wanted, group_run, group_read, top_products, GROUP_NORMS},
    {group_wanted, group_run, group_read, top_products, GROUP_OUTPUT},
};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

/* ---- Progress and the saved state ---- */

/* Products of the tasks after `task`, at most. */
static int64_t products_after(const struct sharpness *s, int64_t task)
{
    int64_t products = s->request->direction != NULL ? 1 : 0;
    for (int64_t i = task + 1; i < TASKS; i++)
        if (tasks[i].wanted(s, tasks[i].number)) products += tasks[i].products(s);
    return products;
}

static void show(const struct sharpness *s, int64_t remaining)
{
    monitor_progress(s->request->monitor, s->state.products, s->state.products + remaining, "product");
}

/* A state that cannot be saved costs a later attempt time, and nothing else. */
static void save(struct sharpness *s, const struct kept *kept)
{
    struct error error;
    const double began = seconds_now();
    if (s->path[0] == '\0') return;
    if (sharpness_state_write(s->path, &s->state, kept, &error) != STATUS_OK)
        monitor_log(s->request->monitor, "the state to resume from is not saved: %s", error.detail);
    s->saved = seconds_now();
    s->took = s->saved - began;
}

static enum status keeper_of_run_step(void *owner, const struct kept *kept, int64_t remaining, struct error *error)
{
    struct sharpness *s = owner;
    const double pause = s->request->save_seconds > 0 ? s->request->save_seconds : SAVE_SECONDS;
    s->state.products++;
    show(s, remaining + products_after(s, s->task));
    const double since = seconds_now() - s->saved;
    if (since >= pause && (s->request->save_seconds > 0 || since >= SAVE_SHARE * s->took)) save(s, kept);
    return monitor_check(s->request->monitor, error);
}

static enum status keeper_of_run_restore(void *owner, struct kept *kept, bool *found, struct error *error)
{
    struct sharpness *s = owner;
    *found = false;
    if (!s->saved_at_work) return STATUS_OK;
    s->saved_at_work = false;
    return sharpness_state_restore(s->path, kept, found, error);
}

/* What decides the run's numbers. Content of the checkpoint is checked by who opened it; its names and shapes are in here. */
static uint64_t fingerprint(const struct sharpness *s)
{
    const struct sharpness_settings *g = &s->request->settings;
    const struct sequences *sequences = s->request->sequences;
    const int64_t numbers[] = {s->layout->elements,
                               s->layout->tensor_count,
                               g->top_eigenvalue,
                               g->trace,
                               g->spectrum,
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
    checksum_add(&sum, sequences->starts, (size_t)(sequences->count + 1) * sizeof *sequences->starts);
    checksum_add(&sum, sequences->tokens, (size_t)sequences->starts[sequences->count] * sizeof *sequences->tokens);
    return checksum_value(&sum);
}

/* A state that is damaged is left alone: the run begins anew. */
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

/* ---- Memory ---- */

static int64_t memory_limit(const struct sharpness_request *request)
{
    if (request->memory_limit > 0) return request->memory_limit;
    return request->backend->ops->memory(request->backend);
}

static int64_t basis_wanted(const struct sharpness *s)
{
    const struct sharpness_settings *g = &s->request->settings;
    int64_t most = 0;
    if ((g->top_eigenvalue || g->groups) && g->method == SHARPNESS_LANCZOS) most = g->max_iterations;
    if (g->spectrum && g->spectrum_steps > most) most = g->spectrum_steps;
    if (g->trace && g->trace_method == TRACE_HUTCHPP && g->probes / 3 > most) most = g->probes / 3;
    return most > 0 && most < LANCZOS_LEAST_VECTORS ? LANCZOS_LEAST_VECTORS : most;
}

static enum status layout_make(struct sharpness *s, struct error *error)
{
    const struct sharpness_request *request = s->request;
    enum status status;
    if ((status = sharpness_check(&request->settings, error)) != STATUS_OK) return status;
    if ((status = evaluate_check(&request->model->config, request->sequences, "sharpness", error)) != STATUS_OK) return status;
    if ((status = parameters_layout_new(&request->model->config, &s->layout, error)) != STATUS_OK) return status;
    return chunks_init(request->sequences, CHUNK_TOKENS, &s->chunks, error);
}

static enum status groups_make(struct sharpness *s, struct error *error)
{
    const enum status status = memory_new(s->layout->tensor_count, sizeof *s->spans, "parameter groups", &s->spans, error);
    return status == STATUS_OK ? groups_of_tensors(s->layout, &s->groups, error) : status;
}

/* How many parameters each group has: those that have none are not asked for. */
static enum status groups_count(struct sharpness *s, struct error *error)
{
    const enum status status = groups_make(s, error);
    for (int64_t i = 0; status == STATUS_OK && i < s->layout->tensor_count; i++) {
        const struct parameter *parameter = &s->layout->tensors[i].parameter;
        if (!parameter->constant) s->out->groups[s->groups[i]].parameters += parameter->rows * parameter->columns;
    }
    return status;
}

/* In units of the blocks' products: hvp.h. */
static void plan_work(const struct sharpness *s, struct run_plan *out)
{
    static const double units[HVP_MODES] = {[HVP_RECOMPUTE] = 11, [HVP_KEEP_CHUNK] = 8, [HVP_KEEP_VALUES] = 7};
    const struct model_config *config = &s->layout->config;
    const double blocks = work_blocks(config, s->layout->programs, &s->chunks), head = work_head(config, s->chunks.tokens);
    const int64_t products = products_after(s, -1);
    out->read_bytes = weights_bytes(s->request->model->weights);
    out->tokens = (1 + products) * s->chunks.tokens;
    out->flops = 4 * blocks + 3 * head + (double)products * (units[s->mode] * blocks + 7 * head);
    out->at_most = products > 0;
}

/* The first product comes when the gradient, with recomputation, has given its memory back. */
static void plan_memory(const struct sharpness *s, struct run_plan *out)
{
    const struct model_config *config = &s->layout->config;
    struct backend *backend = s->request->backend;
    const enum plan_room room = backend_room(backend);
    const int64_t vector = (int64_t)backend->ops->element * s->layout->elements, tokens = s->chunks.largest;
    const int64_t gradient = gradient_bytes(s->layout, backend, GRADIENT_RECOMPUTE, tokens) +
                             head_bytes(config, backend, HEAD_GRADIENT, HEAD_LOADS_NONE) +
                             embed_bytes(config, backend, tokens, false);
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES + chunks_bytes(&s->chunks));
    plan_take(out, PLAN_HOST, backend->ops->scratch(s->chunks.longest, config->vocabulary_size));
    plan_take(out, room, 2 * model_rope_bytes(config, backend, s->chunks.longest) + 2 * vector);
    plan_take(out, room, hvp_bytes(s->layout, backend, s->mode, &s->chunks));
    plan_take(out, room, head_bytes(config, backend, HEAD_TANGENT, HEAD_LOADS_NONE) + embed_bytes(config, backend, tokens, false));
    plan_take(out, room, gradient);
    plan_give(out, room, gradient);
    plan_take(out, room, (SPARE_VECTORS - 2 + s->out->most_vectors) * vector);
}

/* In the room of the backend's matrices. */
static int64_t needed(struct sharpness *s, enum hvp_mode mode, int64_t vectors)
{
    struct run_plan plan = {.flops = 0};
    s->mode = mode;
    s->out->most_vectors = vectors;
    plan_memory(s, &plan);
    return plan.peak[backend_room(s->request->backend)];
}

/* How many basis vectors, and then how many activations, fit. The vectors do not depend on the machine unless it is too small for
 * SHARPNESS_BASIS_BYTES: same request, same bits. */
static enum status plan(struct sharpness *s, struct error *error)
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
    const int64_t bytes = needed(s, mode, vectors);
    s->out->most_vectors = s->state.most_vectors = vectors > 0 ? vectors : 1;
    if (bytes <= limit) return STATUS_OK;
    return error_set(error, STATUS_TOO_LARGE,
                     "%lld parameters need %lld bytes for their curvature, %lld are available: use method \"power\" without a "
                     "spectrum, shorter sequences, or more memory (--memory, DELTAQ_CUDA_MEMORY)",
                     (long long)s->layout->numbers, (long long)bytes, (long long)limit);
}

static enum status direction_memory(const struct sharpness_request *r, const struct plan_budget *budget, struct run_plan *out,
                                    struct error *error)
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

enum status sharpness_plan(const struct sharpness_request *request, const struct plan_budget *budget, struct run_plan *out,
                           struct error *error)
{
    struct sharpness_result unused = {.loss = 0};
    struct sharpness s = {.request = request, .out = &unused};
    *out = (struct run_plan){.flops = 0};
    enum status status = layout_make(&s, error);
    if (status == STATUS_OK) status = groups_count(&s, error);
    if (status == STATUS_OK) status = plan(&s, error);
    if (status == STATUS_TOO_LARGE) status = STATUS_OK; /* the smallest stands */
    if (status == STATUS_OK) plan_memory(&s, out);
    if (status == STATUS_OK) plan_work(&s, out);
    if (status == STATUS_OK && request->direction != NULL) status = direction_memory(request, budget, out, error);
    memory_free(s.groups);
    memory_free(s.spans);
    parameters_layout_free(s.layout);
    chunks_reset(&s.chunks);
    return status;
}

/* ---- The run ---- */

static enum status prepare(struct sharpness *s, struct error *error)
{
    const struct sharpness_request *request = s->request;
    enum status status;
    if ((status = layout_make(s, error)) != STATUS_OK) return status;
    if ((status = resume(s, error)) != STATUS_OK) return status;
    if ((status = plan(s, error)) != STATUS_OK) return status;
    if ((status = groups_make(s, error)) != STATUS_OK) return status;
    if ((status = parameters_init(&s->parameters, s->layout, request->backend, "parameters", error)) != STATUS_OK) return status;
    if ((status = parameters_read(&s->parameters, request->model, error)) != STATUS_OK) return status;
    if ((status = hvp_new(&s->parameters, &s->chunks, s->mode, request->monitor, &s->hvp, error)) != STATUS_OK) return status;
    for (int group = 0; group < GROUPS; group++)
        s->out->groups[group].parameters =
            groups_space(&hvp_operator(s->hvp)->space, s->groups, (enum group)group, s->spans).numbers;
    return STATUS_OK;
}

static enum status first_order(struct sharpness *s, struct error *error)
{
    const struct symmetric_operator *op = hvp_operator(s->hvp);
    struct backend *backend = s->request->backend;
    const struct matrix all = parameters_all(&s->parameters);
    enum status status;
    if ((status = vector_new(&op->space, "the gradient", &s->gradient, error)) != STATUS_OK) return status;
    if ((status = hvp_gradient(s->hvp, s->gradient, &s->out->loss, error)) != STATUS_OK) return status;
    s->out->gradient_norm = sqrt(backend->ops->dot(backend, s->gradient, s->gradient));
    s->out->weight_norm = sqrt(backend->ops->dot(backend, all, all));
    s->out->parameters = s->layout->numbers;
    s->out->sequences = s->chunks.sequences;
    s->out->tokens = s->chunks.tokens;
    if (s->request->direction == NULL) matrix_release(backend, &s->gradient);
    return STATUS_OK;
}

static enum status estimate(struct sharpness *s, struct error *error)
{
    for (s->task = 0; s->task < TASKS; s->task++) {
        const struct task *task = &tasks[s->task];
        enum status status = STATUS_OK;
        const bool done = s->task < s->state.tasks, wanted = task->wanted(s, task->number);
        if (wanted) status = done ? task->read(s, task->number, error) : task->run(s, task->number, error);
        if (status != STATUS_OK) return status;
        if (done) continue;
        s->state.tasks = s->task + 1;
        s->saved_at_work = false;
        if (wanted) save(s, NULL);
        show(s, products_after(s, s->task));
    }
    return STATUS_OK;
}

static enum status direction(struct sharpness *s, struct error *error)
{
    struct sharpness_direction *out = &s->out->direction;
    if (s->request->direction == NULL) return STATUS_OK;
    const enum status status = sharpness_direction_run(s->request, &s->parameters, hvp_operator(s->hvp), s->gradient, out, error);
    if (status != STATUS_OK) return status;
    out->predicted_delta = (out->gradient_term + out->curvature_term) / s->out->loss;
    s->state.products++;
    show(s, 0);
    return STATUS_OK;
}

enum status sharpness_run(const struct sharpness_request *request, struct sharpness_result *out, struct error *error)
{
    struct sharpness *s = NULL;
    enum status status;
    *out = (struct sharpness_result){0};
    if ((status = memory_new(1, sizeof *s, "sharpness", &s, error)) != STATUS_OK) return status;
    *s = (struct sharpness){.request = request, .out = out, .saved = seconds_now()};
    s->keeper = (struct keeper){s, keeper_of_run_restore, keeper_of_run_step};
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
