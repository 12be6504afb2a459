/* The preconditioned sharpness of a run: against the Hessian of a small model written out, with second moments out of a
 * training state and out of gradients; that it goes on with the same bits; what is refused. */
#include "base/eigen.h"
#include "base/random.h"
#include "engine/curvature/reference.h"
#include "engine/files/scratch.h"
#include "engine/jobs/sharpness/watch.h"
#include "jobs/sharpness/sharpness.h"
#include "model/gradient.h"
#include "train/state.h"

enum { SEQUENCES = 4, STEP = 3 };
static const int64_t cut[SEQUENCES + 1] = {0, 4, 9, 15, 18}; /* of the 18 tokens */
static const double BETA1 = 0.8, BETA2 = 0.9, EPSILON = 0.02;

static struct error error;

static void ok(enum status status)
{
    reference_ok(status, &error);
}

struct bench {
    struct reference r;
    struct scratch scratch;
    struct optimizer optimizer;
    struct ema ema; /* in the states, with the curve of a run, once it has updates */
    int64_t starts[SEQUENCES + 1];
    struct sequences sequences;
};

static void open_bench_of(struct bench *b, const struct optimizer_kind *kind)
{
    const struct optimizer_settings settings = {.max_precond_dim = 8, .precondition_frequency = 1};
    b->ema = (struct ema){0};
    reference_open(&b->r, "reference/micro/llama_tied", false, 2048);
    scratch_open(&b->scratch);
    ok(optimizer_init(&b->optimizer, kind, &settings, b->r.layout, b->r.backend, &error));
    memcpy(b->starts, cut, sizeof cut);
    b->sequences = (struct sequences){SEQUENCES, b->starts, b->r.sequences.tokens};
}

static void open_bench(struct bench *b)
{
    open_bench_of(b, &optimizer_adamw);
}

static void close_bench(struct bench *b)
{
    optimizer_reset(&b->optimizer);
    ema_reset(&b->ema);
    scratch_close(&b->scratch);
    reference_close(&b->r);
}

static const char *state_path(struct bench *b)
{
    return scratch_path(&b->scratch, "training.state");
}

static void save_state(struct bench *b, int64_t step)
{
    struct state_checkpoint reached = {1, 8, 1e-3, 2, 2, b->ema.updates > 0};
    struct state_point curve[] = {{1, 5, 1}, {2, 4, 1}};
    const struct state state = {.step = step,
                                .fingerprint = 5,
                                .batch_sequences = 1,
                                .sequence_length = 8,
                                .checkpoints = &reached,
                                .checkpoint_count = 1,
                                .curve = curve,
                                .curve_count = b->ema.updates > 0 ? 2 : 0};
    ok(state_write(state_path(b), &state, &b->r.parameters, &b->optimizer, &b->ema, &error));
}

/* Second moments over four orders of magnitude, and a state of them; the first ones are something else. */
static void write_state(struct bench *b, int64_t step, double *v)
{
    struct backend *backend = b->r.backend;
    for (int64_t i = 0; i < b->r.layout->elements; i++)
        v[i] = (double)(float)pow(10, -1 - 4 * random_uniform(5, 0, (uint64_t)i));
    backend->ops->fill(backend, parameters_all(&b->optimizer.state[0]), 0.5);
    if (b->optimizer.kind->buffers > 1)
        backend->ops->upload(backend, parameters_all(&b->optimizer.state[1]), v, DTYPE_F64);
    save_state(b, step);
}

static struct sharpness_request request_of(struct bench *b, enum sharpness_moments moments)
{
    return (struct sharpness_request){.model = b->r.model,
                                      .backend = b->r.backend,
                                      .sequences = &b->sequences,
                                      .settings = {.preconditioned = true,
                                                   .max_iterations = 200,
                                                   .tolerance = 1e-5,
                                                   .probes = 1,
                                                   .spectrum_probes = 1,
                                                   .spectrum_steps = 1,
                                                   .preconditioner = {moments, BETA1, BETA2, EPSILON, 3}},
                                      .training_state = state_path(b),
                                      .save_seconds = 1e-9};
}

/* Flat index of every number of the space. */
static void places(const struct vector_space *space, int64_t *out)
{
    for (int64_t s = 0; s < space->span_count; s++)
        for (int64_t i = 0; i < space->spans[s].count; i++) *out++ = space->spans[s].first + i;
}

/* The ends of D^-1/2 H D^-1/2, H by products with basis vectors, d [elements]. */
static void dense_ends(const struct bench *b, const double *d, double *largest, double *smallest)
{
    const struct reference *r = &b->r;
    struct backend *backend = r->backend;
    const int64_t n = r->layout->numbers, elements = r->layout->elements;
    double *a = calloc((size_t)(n * n), sizeof *a), *row = calloc((size_t)elements, sizeof *row),
           *values = calloc((size_t)n, sizeof *values);
    int64_t *place = calloc((size_t)n, sizeof *place);
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix v, product;
    ok(chunks_init(&b->sequences, 2048, &chunks, &error));
    ok(hvp_new(&r->parameters, &chunks, HVP_KEEP_VALUES, NULL, &hvp, &error));
    const struct symmetric_operator *op = hvp_operator(hvp);
    ok(vector_new(&op->space, "v", &v, &error));
    ok(vector_new(&op->space, "a product", &product, &error));
    places(&op->space, place);
    for (int64_t j = 0; j < n; j++) {
        vector_basis(&op->space, j, v);
        ok(operator_apply(op, v, product, &error));
        backend->ops->download(backend, vector_part(product, 0, elements), row, DTYPE_F64);
        for (int64_t i = 0; i < n; i++) { /* both triangles have the mean of what float made of them */
            const double entry = row[place[i]] / sqrt(d[place[i]] * d[place[j]]) / 2;
            a[j * n + i] += entry;
            a[i * n + j] += entry;
        }
    }
    ok(eigen_symmetric(n, a, values, &error));
    *largest = values[n - 1];
    *smallest = values[0];
    matrix_release(backend, &v);
    matrix_release(backend, &product);
    hvp_free(hvp);
    chunks_reset(&chunks);
    free(place);
    free(values);
    free(row);
    free(a);
}

/* Float products: 1e-4 of the largest. */
static void assert_ends(const struct bench *b, const struct sharpness_result *found, const double *d)
{
    const struct spectrum_ends *ends = &found->preconditioned.ends;
    double largest, smallest;
    dense_ends(b, d, &largest, &smallest);
    if (!(fabs(ends->largest - largest) < 1e-4 * largest && fabs(ends->smallest - smallest) < 1e-4 * largest))
        fail_msg("%.8g and %.8g instead of %.8g and %.8g", ends->largest, ends->smallest, largest, smallest);
    assert_true(ends->converged && ends->residual < 1e-4 && ends->products > 5);
    assert_true(ends->largest_bound > 0 && ends->largest_bound < 1e-4 * largest);
    assert_int_equal(found->products, ends->products);
}

static void test_moments_of_a_state_are_corrected_for_its_step(void **state)
{
    (void)state;
    struct bench b;
    struct sharpness_result found;
    open_bench(&b);
    double *v = calloc((size_t)b.r.layout->elements, sizeof *v);
    write_state(&b, STEP, v);
    const struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
    ok(sharpness_run(&request, &found, &error));
    ok(ema_init(&b.ema, 0.5, b.r.layout, b.r.backend, &error));
    ema_add(&b.ema, &b.r.parameters); /* the same beside an average and a curve */
    write_state(&b, STEP, v);
    const double largest = found.preconditioned.ends.largest;
    sharpness_result_reset(&found);
    ok(sharpness_run(&request, &found, &error));
    assert_memory_equal(&largest, &found.preconditioned.ends.largest, sizeof largest);
    for (int64_t i = 0; i < b.r.layout->elements; i++)
        v[i] = (1 - pow(BETA1, STEP)) * (sqrt(v[i] / (1 - pow(BETA2, STEP))) + EPSILON);
    assert_ends(&b, &found, v);
    assert_int_equal(found.preconditioned.largest_units, SEQUENCES);
    sharpness_result_reset(&found);
    free(v);
    close_bench(&b);
}

/* The gradient of the mean loss of sequences [first, end), added into `into`. */
static void gradient_of(const struct bench *b, int64_t first, int64_t end, struct parameters *into)
{
    int64_t starts[SEQUENCES + 1];
    double losses[64], mean;
    struct chunks chunks;
    struct gradient *gradient;
    for (int64_t s = first; s <= end; s++) starts[s - first] = cut[s] - cut[first];
    const struct sequences some = {end - first, starts, b->sequences.tokens + cut[first]};
    ok(chunks_init(&some, 2048, &chunks, &error));
    ok(gradient_new(&b->r.parameters, GRADIENT_KEEP, chunks.largest, chunks.longest, &gradient, &error));
    ok(gradient_over(gradient, &chunks, NULL, into, losses, &mean, &error));
    gradient_free(gradient);
    chunks_reset(&chunks);
}

/* Three batches of four sequences: the first, the second, and the other two. */
static void test_moments_of_gradients_are_means_over_batches(void **state)
{
    (void)state;
    static const int64_t batches[] = {0, 1, 2, 4};
    struct bench b;
    struct sharpness_result found;
    open_bench(&b);
    const int64_t elements = b.r.layout->elements;
    double *d = calloc((size_t)elements, sizeof *d), *slope = calloc((size_t)elements, sizeof *slope);
    const struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_GRADIENTS);
    ok(sharpness_run(&request, &found, &error));
    for (int i = 0; i < 3; i++) {
        struct parameters into;
        ok(parameters_init(&into, b.r.layout, b.r.backend, "a gradient", &error));
        gradient_of(&b, batches[i], batches[i + 1], &into);
        b.r.backend->ops->download(b.r.backend, parameters_all(&into), slope, DTYPE_F64);
        for (int64_t k = 0; k < elements; k++) d[k] += slope[k] * slope[k] / 3;
        parameters_reset(&into);
    }
    for (int64_t k = 0; k < elements; k++) d[k] = sqrt(d[k]) + EPSILON;
    assert_ends(&b, &found, d);
    sharpness_result_reset(&found);
    free(slope);
    free(d);
    close_bench(&b);
}

/* Without moments D is the number correction1 * epsilon, here 1/4: all of the Hessian is four times as sharp, and so is
 * what it varies by. Nothing else of the run is touched by what is asked beside it. */
static void test_without_moments_all_is_divided_by_epsilon(void **state)
{
    (void)state;
    struct bench b;
    struct sharpness_result plain, both;
    open_bench(&b);
    save_state(&b, 1);
    struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
    request.settings.preconditioner.beta1 = request.settings.preconditioner.epsilon = 0.5;
    request.settings.top_eigenvalue = request.settings.trace = request.settings.groups = true;
    ok(sharpness_run(&request, &both, &error));
    request.settings.preconditioned = false;
    ok(sharpness_run(&request, &plain, &error));
    const struct sharpness_preconditioned *found = &both.preconditioned;
    assert_true(fabs(found->ends.largest - 4 * plain.ends.largest) < 1e-4 * found->ends.largest);
    assert_true(fabs(found->ends.smallest - 4 * plain.ends.smallest) < 1e-4 * found->ends.largest);
    assert_true(fabs(found->largest_error - 4 * plain.largest_error) < 1e-2 * found->largest_error);
    assert_memory_equal(&both.ends, &plain.ends, offsetof(struct spectrum_ends, converged));
    assert_memory_equal(&both.largest_error, &plain.largest_error, sizeof plain.largest_error);
    assert_memory_equal(&both.trace.trace, &plain.trace.trace, sizeof plain.trace.trace);
    for (int i = 0; i < GROUPS; i++)
        assert_memory_equal(&both.groups[i].ends, &plain.groups[i].ends, offsetof(struct spectrum_ends, converged));
    sharpness_result_reset(&plain);
    sharpness_result_reset(&both);
    close_bench(&b);
}

/* ---- Stopped runs ---- */

static void assert_same(const struct sharpness_result *a, const struct sharpness_result *b)
{
    assert_memory_equal(&a->preconditioned.ends, &b->preconditioned.ends, offsetof(struct spectrum_ends, converged));
    assert_memory_equal(&a->preconditioned.largest_error, &b->preconditioned.largest_error, sizeof(double));
    assert_int_equal(a->preconditioned.largest_units, b->preconditioned.largest_units);
    assert_memory_equal(&a->trace.trace, &b->trace.trace, sizeof(double));
}

static void check_stops(struct bench *b, enum sharpness_moments moments, int method)
{
    struct sharpness_request request = request_of(b, moments);
    struct sharpness_result whole, found;
    struct watch watch;
    request.settings.trace = true;
    request.settings.probes = 3;
    request.settings.method = method;
    watch_init(&watch, -1);
    request.monitor = &watch.monitor;
    ok(sharpness_run(&request, &whole, &error));
    const int64_t checks = watch.checks;
    for (int64_t stop = 2; stop < checks; stop += 29) {
        struct scratch work;
        scratch_open(&work);
        request.work_directory = work.directory;
        watch_init(&watch, stop);
        assert_int_equal(sharpness_run(&request, &found, &error), STATUS_CANCELLED);
        for (int again = 0; again < 2; again++) { /* the second reads what is finished */
            watch_init(&watch, -1);
            ok(sharpness_run(&request, &found, &error));
            assert_same(&whole, &found);
            assert_int_equal(found.products, whole.products);
            assert_true(again == 0 || (watch.resumed == 1 && watch.checks < checks / 4));
            sharpness_result_reset(&found);
        }
        scratch_close(&work);
        request.work_directory = NULL;
    }
    sharpness_result_reset(&whole);
}

static void test_stopped_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    double *v = calloc((size_t)b.r.layout->elements, sizeof *v);
    write_state(&b, STEP, v);
    check_stops(&b, SHARPNESS_MOMENTS_OF_STATE, SHARPNESS_LANCZOS);
    check_stops(&b, SHARPNESS_MOMENTS_OF_GRADIENTS, SHARPNESS_LANCZOS);
    check_stops(&b, SHARPNESS_MOMENTS_OF_GRADIENTS, SHARPNESS_POWER);
    free(v);
    close_bench(&b);
}

/* What was saved with other settings, or with another state beside the checkpoint, is not gone on with. */
static void test_what_decides_the_preconditioner_begins_anew(void **state)
{
    (void)state;
    struct bench b;
    struct watch watch;
    open_bench(&b);
    double *v = calloc((size_t)b.r.layout->elements, sizeof *v);
    for (int change = 0; change < 6; change++) {
        struct scratch work;
        struct sharpness_result found;
        write_state(&b, STEP, v);
        struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
        scratch_open(&work);
        request.work_directory = work.directory;
        request.settings.max_iterations = 3;
        request.monitor = &watch.monitor;
        watch_init(&watch, -1);
        ok(sharpness_run(&request, &found, &error));
        sharpness_result_reset(&found);
        struct sharpness_preconditioner *p = &request.settings.preconditioner;
        if (change == 1) p->epsilon *= 2;
        if (change == 2) p->beta2 = 0.95;
        if (change == 3) p->moments = SHARPNESS_MOMENTS_OF_GRADIENTS;
        if (change == 4) write_state(&b, STEP + 1, v);
        if (change == 5) {
            b.r.backend->ops->fill(b.r.backend, parameters_all(&b.optimizer.state[1]), 0.25);
            save_state(&b, STEP);
        }
        watch_init(&watch, -1);
        ok(sharpness_run(&request, &found, &error));
        assert_int_equal(watch.anew, change > 0);
        sharpness_result_reset(&found);
        scratch_close(&work);
    }
    free(v);
    close_bench(&b);
}

/* ---- What is refused ---- */

static void refused(const struct sharpness_request *request, enum status status, const char *pointer, const char *part)
{
    struct sharpness_result found;
    assert_int_equal(sharpness_run(request, &found, &error), status);
    assert_string_equal(error.pointer, pointer);
    if (strstr(error.detail, part) == NULL) fail_msg("%s", error.detail);
}

static void test_states_that_have_no_such_moments_are_refused(void **state)
{
    (void)state;
    static const char pointer[] = "/params/preconditioner";
    struct bench b;
    char *text = NULL;
    size_t size = 0;
    open_bench(&b);
    double *v = calloc((size_t)b.r.layout->elements, sizeof *v);
    struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
    refused(&request, STATUS_INVALID, pointer, "has no training state");
    request.training_state = NULL;
    refused(&request, STATUS_INVALID, pointer, "has no training state");
    request.training_state = state_path(&b);
    write_state(&b, 0, v);
    refused(&request, STATUS_INVALID, pointer, "before the first update");
    write_state(&b, STEP, v);
    ok(file_read_all(AT_FDCWD, state_path(&b), 1 << 30, &text, &size, &error));
    text[size / 2] ^= 1;
    scratch_write(&b.scratch, "training.state", text, size);
    refused(&request, STATUS_CORRUPT, "", "checksum");
    scratch_write(&b.scratch, "training.state", text, size / 2);
    refused(&request, STATUS_CORRUPT, "", "do not match its header");
    memory_free(text);
    free(v);
    close_bench(&b);
    static const struct optimizer_kind *const others[] = {&optimizer_muon, &optimizer_soap, &optimizer_schedule_free};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        open_bench_of(&b, others[i]);
        v = calloc((size_t)b.r.layout->elements, sizeof *v);
        write_state(&b, STEP, v);
        request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
        refused(&request, STATUS_INVALID, pointer, others[i]->state);
        free(v);
        close_bench(&b);
    }
}

static void test_settings_out_of_range_are_refused(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b);
    for (int i = 0; i < 4; i++) {
        struct sharpness_request request = request_of(&b, i % 2);
        request.settings.preconditioner.epsilon = ((const double[]){0, -1e-8, NAN, INFINITY})[i];
        refused(&request, STATUS_INVALID, "/params/preconditioner/epsilon", "above 0");
    }
    for (int i = 0; i < 3; i++) {
        struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_STATE);
        const double beta = ((const double[]){1, -0.1, NAN})[i];
        request.settings.preconditioner.beta1 = beta;
        refused(&request, STATUS_INVALID, "/params/preconditioner/beta1", "below 1");
        request.settings.preconditioner.beta1 = 0;
        request.settings.preconditioner.beta2 = beta;
        refused(&request, STATUS_INVALID, "/params/preconditioner/beta2", "below 1");
    }
    struct sharpness_request request = request_of(&b, SHARPNESS_MOMENTS_OF_GRADIENTS);
    request.settings.preconditioner.batches = 0;
    refused(&request, STATUS_INVALID, "/params/preconditioner/batches", "at least 1");
    request.settings.preconditioner.batches = SEQUENCES + 1;
    refused(&request, STATUS_INVALID, "/params/preconditioner/batches", "5 batches need as many sequences");
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments_of_a_state_are_corrected_for_its_step),
        cmocka_unit_test(test_moments_of_gradients_are_means_over_batches),
        cmocka_unit_test(test_without_moments_all_is_divided_by_epsilon),
        cmocka_unit_test(test_stopped_run_goes_on_with_the_same_bits),
        cmocka_unit_test(test_what_decides_the_preconditioner_begins_anew),
        cmocka_unit_test(test_states_that_have_no_such_moments_are_refused),
        cmocka_unit_test(test_settings_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("precondition", tests, NULL, NULL);
}
