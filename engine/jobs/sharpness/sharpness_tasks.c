#include "jobs/sharpness/sharpness_tasks.h"

#include "base/memory.h"
#include "curvature/power.h"
#include "curvature/sampling.h"
#include "jobs/sharpness/sharpness_critical.h"
#include "jobs/sharpness/sharpness_plan.h"
#include "jobs/sharpness/sharpness_precondition.h"

#include <math.h>

enum { CRITICAL_NUMBERS = 4, ENDS_NUMBERS = 8, SAMPLE_NUMBERS = 2, TRACE_NUMBERS = 5 };

static bool critical_wanted(const struct sharpness *s, int number)
{
    (void)number;
    return s->request->settings.critical;
}

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

static bool preconditioned_wanted(const struct sharpness *s, int number)
{
    (void)number;
    return s->request->settings.preconditioned;
}

static int64_t no_products(const struct sharpness *s)
{
    (void)s;
    return 0;
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

static enum status ends_run(struct sharpness *s, const struct symmetric_operator *op, uint64_t stream,
                            struct matrix vector, struct spectrum_ends *ends, struct error *error)
{
    const struct sharpness_settings *given = &s->request->settings;
    const struct lanczos_settings settings = {.most_products = given->max_iterations,
                                              .most_vectors = s->out->most_vectors,
                                              .tolerance = given->tolerance,
                                              .seed = (uint64_t)given->seed,
                                              .stream = stream};
    const enum status status = given->method == SHARPNESS_POWER
                                   ? power_run(op, &settings, &s->saver, vector, ends, error)
                                   : lanczos_run(op, &settings, &s->saver, vector, ends, error);
    if (status != STATUS_OK) return status;
    const double record[ENDS_NUMBERS] = {ends->top,           ends->largest,          ends->smallest,
                                         ends->residual,      (double)ends->products, ends->converged,
                                         ends->largest_bound, ends->smallest_bound};
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
    *ends = (struct spectrum_ends){.top = from[0],
                                   .largest = from[1],
                                   .smallest = from[2],
                                   .residual = from[3],
                                   .products = (int64_t)from[4],
                                   .converged = from[5] != 0,
                                   .largest_bound = from[6],
                                   .smallest_bound = from[7]};
    return STATUS_OK;
}

/* Losses need the memory of the products, which are set up again afterwards. */
static enum status critical_run(struct sharpness *s, int number, struct error *error)
{
    const struct critical *critical = &s->out->critical;
    enum status status;
    (void)number;
    hvp_free(s->hvp);
    s->hvp = NULL;
    if ((status = sharpness_critical_run(s, error)) != STATUS_OK) return status;
    const double record[CRITICAL_NUMBERS] = {critical->found, critical->low, critical->high, (double)critical->losses};
    if ((status = sharpness_state_record(&s->state, record, CRITICAL_NUMBERS, error)) != STATUS_OK) return status;
    return hvp_new(&s->parameters, &s->chunks, s->mode, s->request->monitor, &s->hvp, error);
}

static enum status critical_read(struct sharpness *s, int number, struct error *error)
{
    const double *from = records_take(s, CRITICAL_NUMBERS);
    (void)number;
    if (from == NULL) return records_damaged(error);
    s->out->critical = (struct critical){from[0] != 0, from[1], from[2], (int64_t)from[3]};
    return STATUS_OK;
}

/* The ends of a spectrum, and how its largest value varies between the sequences. */
struct sampled_ends {
    struct spectrum_ends *ends;
    double *error;
    int64_t *units;
};

/* The products of units need the memory of those over all sequences, which are set up again afterwards. */
static enum status largest_sample(struct sharpness *s, struct matrix vector, struct matrix scratch,
                                  const struct sampled_ends *out, struct error *error)
{
    const struct sharpness_request *request = s->request;
    struct sampling sampling;
    hvp_free(s->hvp);
    s->hvp = NULL;
    enum status status =
        sampling_along(&s->parameters, request->sequences, SAMPLING_CURVATURES, s->chunks.largest,
                       sharpness_plan_sample_mode(s), vector, scratch, request->monitor, &sampling, error);
    if (status != STATUS_OK) return status;
    *out->units = sampling.units;
    *out->error = sampling_error(&sampling, sampling.curvatures, NULL);
    return hvp_new(&s->parameters, &s->chunks, s->mode, request->monitor, &s->hvp, error);
}

/* Whether the value found is near an eigenvalue: otherwise it is a lower bound of the largest one, about which its
 * variation between sequences says nothing. Float products may stay above a very small tolerance. */
static bool found_largest(const struct sharpness *s, const struct spectrum_ends *ends)
{
    static const double near = 0.05; /* of the top eigenvalue */
    const double tolerance = s->request->settings.tolerance;
    if (isnan(ends->largest)) return false;
    return ends->converged || ends->largest_bound <= fmax(tolerance, near) * fabs(ends->top);
}

/* `scaled`: whose operator `op` is; NULL: it is the Hessian. */
static enum status sampled_run(struct sharpness *s, const struct symmetric_operator *op, uint64_t stream,
                               const struct preconditioned *scaled, const struct sampled_ends *out, struct error *error)
{
    struct backend *backend = s->request->backend;
    struct matrix vector = {0}, own = {0}, scratch = {0};
    enum status status;
    *out->units = 1;
    *out->error = NAN;
    if ((status = vector_new(&op->space, "an eigenvector", &vector, error)) != STATUS_OK) goto done;
    if ((status = ends_run(s, op, stream, vector, out->ends, error)) != STATUS_OK) goto done;
    if (sharpness_plan_samples(s->request) && found_largest(s, out->ends)) {
        if (scaled == NULL && (status = vector_new(&op->space, "a product", &own, error)) != STATUS_OK) goto done;
        scratch = scaled == NULL ? own : scaled->scaled;
        if (scaled != NULL) preconditioned_unscale(scaled, vector);
        if ((status = largest_sample(s, vector, scratch, out, error)) != STATUS_OK) goto done;
    }
    const double record[SAMPLE_NUMBERS] = {(double)*out->units, *out->units > 1 ? *out->error : 0};
    status = sharpness_state_record(&s->state, record, SAMPLE_NUMBERS, error);
done:
    matrix_release(backend, &vector);
    matrix_release(backend, &own);
    return status;
}

static enum status sampled_read(struct sharpness *s, const struct sampled_ends *out, struct error *error)
{
    const enum status status = ends_read(s, out->ends, error);
    if (status != STATUS_OK) return status;
    const double *from = records_take(s, SAMPLE_NUMBERS);
    if (from == NULL) return records_damaged(error);
    *out->units = (int64_t)from[0];
    *out->error = from[0] > 1 ? from[1] : (double)NAN;
    return STATUS_OK;
}

static struct sampled_ends top_of(struct sharpness *s)
{
    return (struct sampled_ends){&s->out->ends, &s->out->largest_error, &s->out->largest_units};
}

static enum status top_run(struct sharpness *s, int number, struct error *error)
{
    const struct sampled_ends out = top_of(s);
    (void)number;
    return sampled_run(s, hvp_operator(s->hvp), STREAM_ENDS, NULL, &out, error);
}

static enum status top_read(struct sharpness *s, int number, struct error *error)
{
    const struct sampled_ends out = top_of(s);
    (void)number;
    return sampled_read(s, &out, error);
}

static struct sampled_ends preconditioned_of(struct sharpness *s)
{
    struct sharpness_preconditioned *found = &s->out->preconditioned;
    return (struct sampled_ends){&found->ends, &found->largest_error, &found->largest_units};
}

static enum status preconditioned_run(struct sharpness *s, int number, struct error *error)
{
    const struct sampled_ends out = preconditioned_of(s);
    struct preconditioned scaled;
    (void)number;
    enum status status = sharpness_precondition_new(s, &scaled, error);
    if (status == STATUS_OK) status = sampled_run(s, &scaled.op, STREAM_PRECONDITIONED, &scaled, &out, error);
    preconditioned_reset(&scaled);
    return status;
}

static enum status preconditioned_read(struct sharpness *s, int number, struct error *error)
{
    const struct sampled_ends out = preconditioned_of(s);
    (void)number;
    return sampled_read(s, &out, error);
}

static enum status group_run(struct sharpness *s, int number, struct error *error)
{
    struct symmetric_operator op = *hvp_operator(s->hvp);
    op.space = groups_space(&op.space, s->groups, (enum group)number, s->spans);
    return ends_run(s, &op, STREAM_GROUPS + (uint64_t)number, (struct matrix){0}, &s->out->groups[number].ends, error);
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
    const enum status status = trace_run(hvp_operator(s->hvp), &settings, &s->saver, trace, error);
    if (status != STATUS_OK) return status;
    const double record[TRACE_NUMBERS] = {trace->trace, trace->standard_error, (double)trace->probes,
                                          (double)trace->samples, trace->exact};
    return sharpness_state_record(&s->state, record, TRACE_NUMBERS, error);
}

static enum status read_trace(struct sharpness *s, int number, struct error *error)
{
    const double *from = records_take(s, TRACE_NUMBERS);
    (void)number;
    if (from == NULL) return records_damaged(error);
    s->out->trace = (struct trace_estimate){from[0], from[1], (int64_t)from[2], (int64_t)from[3], from[4] != 0};
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
    enum status status = spectrum_run(hvp_operator(s->hvp), &settings, &s->saver, spectrum, error);
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

const struct sharpness_task sharpness_tasks[SHARPNESS_TASKS] = {
    {critical_wanted, critical_run, critical_read, no_products, 0},
    {top_wanted, top_run, top_read, top_products, 0},
    {trace_wanted, run_trace, read_trace, trace_products, 0},
    {spectrum_wanted, run_spectrum, read_spectrum, spectrum_products, 0},
    {group_wanted, group_run, group_read, top_products, GROUP_EMBEDDING},
    {group_wanted, group_run, group_read, top_products, GROUP_ATTENTION},
    {group_wanted, group_run, group_read, top_products, GROUP_MLP},
    {group_wanted, group_run, group_read, top_products, GROUP_NORMS},
    {group_wanted, group_run, group_read, top_products, GROUP_OUTPUT},
    {preconditioned_wanted, preconditioned_run, preconditioned_read, top_products, 0},
};

void sharpness_tasks_show(const struct sharpness *s, int64_t remaining)
{
    monitor_progress(s->request->monitor, s->state.products, s->state.products + remaining, "product");
}

int64_t sharpness_tasks_after(const struct sharpness *s, int64_t task)
{
    int64_t products = s->request->direction != NULL ? 1 + s->request->random_directions : 0;
    for (int64_t i = task + 1; i < SHARPNESS_TASKS; i++)
        if (sharpness_tasks[i].wanted(s, sharpness_tasks[i].number)) products += sharpness_tasks[i].products(s);
    return products;
}
