/* Lanczos, power iteration, traces and spectral densities of operators whose spectrum is known, and that each of them
 * stopped after any product and taken up again ends with the same bits. */
#include "curvature/critical.h"
#include "curvature/lanczos.h"
#include "curvature/power.h"
#include "curvature/spectrum.h"
#include "curvature/trace.h"
#include "engine/curvature/explicit.h"

static struct error error;

enum { N = 120 };

/* A bulk near zero, a few outliers above, one below: what Hessians look like. */
static void hessian_like(double *values)
{
    for (int i = 0; i < N; i++) values[i] = 0.3 * cos(i);
    values[3] = 9;
    values[50] = 7.5;
    values[90] = 4;
    values[17] = -3;
}

static void open_hessian_like(struct explicit *e, bool use_double)
{
    double values[N];
    hessian_like(values);
    explicit_open(e, values, N, use_double);
}

static void test_lanczos_finds_both_ends(void **state)
{
    (void)state;
    for (int use_double = 0; use_double < 2; use_double++) {
        struct explicit e;
        struct spectrum_ends ends;
        const struct lanczos_settings settings = {.most_products = 100, .tolerance = 1e-5, .seed = 4};
        open_hessian_like(&e, use_double);
        assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
        const double bound = use_double ? 1e-9 : 1e-5; /* quadratic in the residual; float roundoff */
        assert_true(ends.converged && ends.products < 60 && ends.top == ends.largest);
        assert_true(fabs(ends.largest - 9) < bound && fabs(ends.smallest + 3) < bound);
        assert_true(ends.residual <= 2e-5);
        assert_int_equal(e.products, ends.products + 1);
        explicit_close(&e);
    }
}

static void test_top_is_negative_when_that_end_is_larger(void **state)
{
    (void)state;
    double values[N];
    struct explicit e;
    struct spectrum_ends ends;
    const struct lanczos_settings settings = {.most_products = 100, .tolerance = 1e-6, .seed = 4};
    hessian_like(values);
    values[5] = -11;
    explicit_open(&e, values, N, true);
    struct backend *backend = e.op.space.backend;
    struct matrix u, product; /* the vector is that of the other end, the largest */
    assert_int_equal(vector_new(&e.op.space, "u", &u, &error), STATUS_OK);
    assert_int_equal(vector_new(&e.op.space, "a product", &product, &error), STATUS_OK);
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, u, &ends, &error), STATUS_OK);
    assert_true(fabs(ends.top + 11) < 1e-9 && fabs(ends.largest - 9) < 1e-9);
    assert_int_equal(operator_apply(&e.op, u, product, &error), STATUS_OK);
    assert_true(fabs(backend->ops->dot(backend, u, product) - ends.largest) < 1e-9);
    matrix_release(backend, &u);
    matrix_release(backend, &product);
    assert_int_equal(power_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
    assert_true(ends.converged && fabs(ends.top + 11) < 1e-3 && isnan(ends.largest) && ends.smallest == ends.top);
    explicit_close(&e);
}

static void test_lanczos_restarts_in_little_memory(void **state)
{
    (void)state;
    for (int64_t vectors = LANCZOS_LEAST_VECTORS; vectors <= 12; vectors += 3) {
        double values[N];
        struct explicit e;
        struct spectrum_ends ends;
        const struct lanczos_settings settings = {
            .most_products = 400, .most_vectors = vectors, .tolerance = 1e-6, .seed = 4};
        for (int i = 0; i < N; i++) values[i] = (double)i / N; /* no gap anywhere: many restarts */
        values[7] = -0.5;
        explicit_open(&e, values, N, true);
        assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
        assert_true(ends.converged && ends.products > 2 * vectors);
        assert_true(fabs(ends.largest - 119.0 / N) < 1e-8 && fabs(ends.smallest + 0.5) < 1e-8);
        assert_true(ends.residual < 2e-6);
        explicit_close(&e);
    }
}

static void test_lanczos_says_when_it_has_not_converged(void **state)
{
    (void)state;
    struct explicit e;
    struct spectrum_ends ends;
    const struct lanczos_settings settings = {.most_products = 4, .tolerance = 1e-6, .seed = 4};
    open_hessian_like(&e, true);
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
    assert_true(!ends.converged && ends.products == 4 && ends.residual > 1e-6);
    explicit_close(&e);
}

/* However early it stops, an eigenvalue lies as near to each end as the end's bound says; bounds shrink in the end. */
static void test_an_eigenvalue_lies_within_each_bound(void **state)
{
    (void)state;
    double values[N];
    hessian_like(values);
    for (int64_t products = 3; products <= 27; products += 6) {
        struct explicit e;
        struct spectrum_ends ends;
        const struct lanczos_settings settings = {.most_products = products, .tolerance = 1e-12, .seed = 4};
        open_hessian_like(&e, true);
        assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
        double largest = INFINITY, smallest = INFINITY;
        for (int i = 0; i < N; i++) {
            largest = fmin(largest, fabs(values[i] - ends.largest));
            smallest = fmin(smallest, fabs(values[i] - ends.smallest));
        }
        assert_true(largest <= ends.largest_bound * (1 + 1e-9) + 1e-12);
        assert_true(smallest <= ends.smallest_bound * (1 + 1e-9) + 1e-12);
        assert_true(products > 3 || ends.largest_bound > 0.1);
        assert_true(products < 27 || ends.largest_bound < 1e-4);
        assert_true(fabs(ends.largest_bound - ends.residual * ends.top) <=
                    1e-12 * ends.top); /* the top is the upper end */
        assert_int_equal(power_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
        assert_true(isnan(ends.smallest_bound) && fabs(ends.largest_bound - ends.residual * ends.top) < 1e-12);
        explicit_close(&e);
    }
}

/* The residual that is told is that of the vector that is given back, in units of the value. */
static void test_the_residual_is_that_of_the_vector(void **state)
{
    (void)state;
    struct explicit e;
    struct spectrum_ends ends;
    struct matrix u, product;
    const struct lanczos_settings settings = {.most_products = 5, .tolerance = 1e-6, .seed = 4};
    open_hessian_like(&e, true);
    struct backend *backend = e.op.space.backend;
    assert_int_equal(vector_new(&e.op.space, "u", &u, &error), STATUS_OK);
    assert_int_equal(vector_new(&e.op.space, "a product", &product, &error), STATUS_OK);
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, u, &ends, &error), STATUS_OK);
    assert_int_equal(operator_apply(&e.op, u, product, &error), STATUS_OK);
    assert_true(fabs(backend->ops->dot(backend, u, u) - 1) < 1e-12);
    assert_true(fabs(backend->ops->dot(backend, u, product) - ends.top) < 1e-12 * fabs(ends.top));
    backend->ops->add(backend, product, u, -ends.top, 1);
    const double residual = sqrt(backend->ops->dot(backend, product, product)) / fabs(ends.top);
    assert_true(ends.residual > 1e-4 && fabs(ends.residual - residual) < 1e-9 * residual);
    matrix_release(backend, &u);
    matrix_release(backend, &product);
    explicit_close(&e);
}

/* Of a vector that nearly lies in the space, rounding leaves as much in the space as beside it; that is taken out,
 * too. */
static void test_what_is_left_is_orthogonal_when_little_is(void **state)
{
    (void)state;
    struct explicit e;
    struct basis basis;
    struct matrix v;
    open_hessian_like(&e, false);
    struct backend *backend = e.op.space.backend;
    assert_int_equal(basis_init(&basis, &e.op.space, 1, &error), STATUS_OK);
    assert_int_equal(basis_append(&basis, &error), STATUS_OK);
    assert_int_equal(vector_new(&e.op.space, "v", &v, &error), STATUS_OK);
    vector_normal(&e.op.space, 3, 0, basis.vectors[0]);
    vector_normalise(&e.op.space, basis.vectors[0]);
    vector_normal(&e.op.space, 3, 1, v);
    vector_normalise(&e.op.space, v);
    backend->ops->add(backend, v, basis.vectors[0], 1, 3e-7);
    const double left = basis_orthogonalise(&basis, 1, v, NULL);
    assert_true(left > 1e-8 && left < 1e-6);
    assert_true(fabs(backend->ops->dot(backend, v, basis.vectors[0])) < 1e-5 * left);
    matrix_release(backend, &v);
    basis_reset(&basis);
    explicit_close(&e);
}

static void test_lanczos_stops_when_the_space_is_exhausted(void **state)
{
    (void)state;
    double values[N] = {0};
    struct explicit e;
    struct spectrum_ends ends;
    const struct lanczos_settings settings = {.most_products = 50, .tolerance = 1e-12, .seed = 4};
    explicit_open(&e, values, N, true); /* zero */
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
    assert_true(ends.converged && ends.top == 0 && ends.residual == 0 && ends.products == 1);
    for (int i = 0; i < N; i++) e.values[i] = i % 3 - 1.5; /* three values: three steps */
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
    assert_true(ends.converged && ends.products <= 4 && fabs(ends.top + 1.5) < 1e-12 &&
                fabs(ends.largest - 0.5) < 1e-12);
    explicit_close(&e);
    explicit_open(&e, (const double[]){2, -7}, 2, true); /* fewer dimensions than iterations */
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &ends, &error), STATUS_OK);
    assert_true(ends.converged && fabs(ends.top + 7) < 1e-12 && fabs(ends.largest - 2) < 1e-12);
    explicit_close(&e);
}

static void test_part_of_the_space_has_the_spectrum_of_its_block(void **state)
{
    (void)state;
    struct explicit e;
    struct spectrum_ends whole, part;
    struct trace_estimate trace, rest;
    const struct lanczos_settings settings = {.most_products = 100, .tolerance = 1e-8, .seed = 4};
    const struct trace_settings exact = {.probes = N};
    open_hessian_like(&e, true);
    struct symmetric_operator block = e.op;
    assert_int_equal(lanczos_run(&e.op, &settings, NULL, (struct matrix){0}, &whole, &error), STATUS_OK);
    block.space.span_count = 1;
    block.space.numbers = e.spans[0].count;
    assert_int_equal(lanczos_run(&block, &settings, NULL, (struct matrix){0}, &part, &error), STATUS_OK);
    assert_int_equal(trace_run(&block, &exact, NULL, &trace, &error), STATUS_OK);
    assert_true(part.converged && part.largest < whole.largest && part.smallest > whole.smallest); /* interlacing */
    block.space.spans = e.spans + 1;
    block.space.numbers = e.spans[1].count;
    assert_int_equal(trace_run(&block, &exact, NULL, &rest, &error), STATUS_OK);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += e.values[i];
    assert_true(trace.exact && trace.standard_error == 0 && fabs(trace.trace + rest.trace - sum) < 1e-11);
    explicit_close(&e);
}

static void test_trace_lies_within_its_error(void **state)
{
    (void)state;
    struct explicit e;
    struct trace_estimate plain, better;
    double sum = 0, squares = 0;
    const struct trace_settings few = {.method = TRACE_HUTCHINSON, .probes = 90, .seed = 6};
    const struct trace_settings plus = {.method = TRACE_HUTCHPP, .probes = 90, .seed = 6};
    open_hessian_like(&e, true);
    for (int i = 0; i < N; i++) {
        sum += e.values[i];
        squares += e.values[i] * e.values[i];
    }
    assert_int_equal(trace_run(&e.op, &few, NULL, &plain, &error), STATUS_OK);
    assert_int_equal(e.products, 90);
    assert_true(!plain.exact && fabs(plain.trace - sum) < 4 * plain.standard_error);
    assert_true(plain.standard_error < 1.5 * sqrt(2 * squares / 90) &&
                plain.standard_error > 0.4 * sqrt(2 * squares / 90));
    assert_int_equal(trace_run(&e.op, &plus, NULL, &better, &error), STATUS_OK);
    assert_int_equal(e.products, 180);
    assert_true(fabs(better.trace - sum) < 4 * better.standard_error);
    assert_true(better.standard_error < 0.3 * plain.standard_error); /* the outliers are taken exactly */
    const struct trace_settings one = {.probes = 1};
    assert_int_equal(trace_run(&e.op, &one, NULL, &plain, &error), STATUS_OK);
    assert_true(isnan(plain.standard_error));
    explicit_close(&e);
}

/* Each probe alone gives its sample; the mean and its error follow from them. */
static void test_trace_and_error_are_those_of_the_samples(void **state)
{
    (void)state;
    enum { PROBES = 5 };
    struct explicit e;
    struct trace_estimate found, alone;
    double samples[PROBES], mean = 0, squares = 0;
    open_hessian_like(&e, true);
    for (int i = 0; i < PROBES; i++) {
        const struct trace_settings one = {
            .method = TRACE_HUTCHINSON, .probes = 1, .seed = 6, .stream = 20 + (uint64_t)i};
        assert_int_equal(trace_run(&e.op, &one, NULL, &alone, &error), STATUS_OK);
        samples[i] = alone.trace;
        mean += alone.trace / PROBES;
    }
    for (int i = 0; i < PROBES; i++) squares += (samples[i] - mean) * (samples[i] - mean);
    const struct trace_settings all = {.method = TRACE_HUTCHINSON, .probes = PROBES, .seed = 6, .stream = 20};
    assert_int_equal(trace_run(&e.op, &all, NULL, &found, &error), STATUS_OK);
    assert_true(fabs(found.trace - mean) < 1e-11 * fabs(mean));
    assert_true(fabs(found.standard_error - sqrt(squares / (PROBES * (PROBES - 1)))) < 1e-11 * found.standard_error);
    explicit_close(&e);
}

/* As many probes as dimensions: the diagonal itself. */
static void test_a_probe_for_every_dimension_is_exact(void **state)
{
    (void)state;
    struct explicit e;
    struct trace_estimate found;
    double sum = 0;
    open_hessian_like(&e, true);
    for (int i = 0; i < N; i++) sum += e.values[i];
    for (int probes = N - 1; probes <= N + 1; probes++) {
        const struct trace_settings settings = {.method = TRACE_HUTCHINSON, .probes = probes, .seed = 6};
        e.products = 0;
        assert_int_equal(trace_run(&e.op, &settings, NULL, &found, &error), STATUS_OK);
        assert_true(found.exact == (probes >= N) && found.probes == (probes < N ? probes : N) &&
                    e.products == found.probes);
        if (found.exact) /* no samples: no interval, and none of no width */
            assert_true(found.standard_error == 0 && found.samples == 0 && fabs(found.trace - sum) < 1e-11);
    }
    explicit_close(&e);
}

static void test_spectrum_has_the_moments_of_the_operator(void **state)
{
    (void)state;
    struct explicit e;
    struct spectrum spectrum;
    const struct spectrum_settings settings = {.probes = 30, .steps = 12, .seed = 3};
    double expected[3] = {0}, found[3] = {0};
    open_hessian_like(&e, true);
    assert_int_equal(spectrum_run(&e.op, &settings, NULL, &spectrum, &error), STATUS_OK);
    assert_int_equal(e.products, 360);
    assert_int_equal(spectrum.count, 360);
    for (int power = 0; power < 3; power++) {
        for (int i = 0; i < N; i++) expected[power] += pow(e.values[i], power) / N;
        for (int64_t i = 0; i < spectrum.count; i++)
            found[power] += spectrum.weights[i] * pow(spectrum.nodes[i], power);
    }
    /* one probe's moment of A has variance 2 |A|² / n², of A² likewise */
    assert_true(fabs(found[0] - 1) < 1e-12);
    assert_true(fabs(found[1] - expected[1]) < 4 * sqrt(2 * expected[2] / N / 30));
    assert_true(fabs(found[2] - expected[2]) < 0.5 * expected[2]);
    for (int64_t i = 1; i < spectrum.count; i++) assert_true(spectrum.nodes[i] >= spectrum.nodes[i - 1]);
    assert_true(fabs(spectrum.nodes[0] + 3) < 1e-6 && fabs(spectrum.nodes[spectrum.count - 1] - 9) < 1e-6);
    spectrum_reset(&spectrum);
    const struct spectrum_settings all = {.probes = 2, .steps = 500, .seed = 3};
    assert_int_equal(spectrum_run(&e.op, &all, NULL, &spectrum, &error), STATUS_OK); /* cut to the dimension */
    assert_true(spectrum.count <= 2 * N);
    spectrum_reset(&spectrum);
    explicit_close(&e);
}

/* Every number of an estimator's result in a row. */
typedef enum status (*estimator)(const struct symmetric_operator *op, const struct saver *saver, double *out);

static enum status by_lanczos(const struct symmetric_operator *op, const struct saver *saver, double *out)
{
    const struct lanczos_settings settings = {.most_products = 60, .most_vectors = 9, .tolerance = 1e-7, .seed = 4};
    struct spectrum_ends ends;
    const enum status status = lanczos_run(op, &settings, saver, (struct matrix){0}, &ends, &error);
    const double numbers[] = {ends.top,      ends.largest,          ends.smallest,
                              ends.residual, (double)ends.products, ends.converged};
    memcpy(out, numbers, sizeof numbers);
    return status;
}

static enum status by_power(const struct symmetric_operator *op, const struct saver *saver, double *out)
{
    const struct lanczos_settings settings = {.most_products = 60, .tolerance = 1e-5, .seed = 4};
    struct spectrum_ends ends;
    const enum status status = power_run(op, &settings, saver, (struct matrix){0}, &ends, &error);
    const double numbers[] = {ends.top, ends.residual, (double)ends.products, ends.converged};
    memcpy(out, numbers, sizeof numbers);
    return status;
}

static enum status by_trace(const struct symmetric_operator *op, const struct saver *saver, double *out)
{
    struct trace_estimate trace;
    const struct trace_settings settings = {.method = TRACE_HUTCHPP, .probes = 20, .seed = 6};
    const enum status status = trace_run(op, &settings, saver, &trace, &error);
    out[0] = trace.trace;
    out[1] = trace.standard_error;
    return status;
}

static enum status by_spectrum(const struct symmetric_operator *op, const struct saver *saver, double *out)
{
    struct spectrum spectrum;
    const struct spectrum_settings settings = {.probes = 3, .steps = 7, .seed = 3};
    const enum status status = spectrum_run(op, &settings, saver, &spectrum, &error);
    for (int64_t i = 0; status == STATUS_OK && i < spectrum.count; i++)
        out[i] = spectrum.nodes[i] * (1 + spectrum.weights[i]);
    spectrum_reset(&spectrum);
    return status;
}

static void test_what_was_stopped_ends_with_the_same_bits(void **state)
{
    (void)state;
    const estimator estimators[] = {by_lanczos, by_power, by_trace, by_spectrum};
    struct explicit e;
    open_hessian_like(&e, false);
    for (size_t i = 0; i < sizeof estimators / sizeof estimators[0]; i++) {
        double expected[64] = {0};
        struct memory_saver whole;
        memory_saver_init(&whole, -1);
        assert_int_equal(estimators[i](&e.op, &whole.saver, expected), STATUS_OK);
        for (int64_t stop = 1; stop < whole.steps; stop++) {
            double found[64] = {0};
            struct memory_saver kept;
            memory_saver_init(&kept, stop);
            assert_int_equal(estimators[i](&e.op, &kept.saver, found), STATUS_CANCELLED);
            kept.stop = -1;
            memset(found, 0, sizeof found);
            assert_int_equal(estimators[i](&e.op, &kept.saver, found), STATUS_OK);
            assert_memory_equal(found, expected, sizeof expected);
            assert_int_equal(kept.steps, whole.steps);
            memory_saver_reset(&kept);
        }
        memory_saver_reset(&whole);
    }
    explicit_close(&e);
}

static void test_failures_of_a_product_come_through(void **state)
{
    (void)state;
    const estimator estimators[] = {by_lanczos, by_power, by_trace, by_spectrum};
    struct explicit e;
    double out[64];
    open_hessian_like(&e, true);
    for (size_t i = 0; i < sizeof estimators / sizeof estimators[0]; i++) {
        e.products = 0;
        e.fail_at = 5;
        assert_int_equal(estimators[i](&e.op, NULL, out), STATUS_CANCELLED);
        e.fail_at = -1;
        e.values[0] = INFINITY;
        assert_int_equal(estimators[i](&e.op, NULL, out), STATUS_NOT_FINITE);
        e.values[0] = 0;
    }
    explicit_close(&e);
}

/* L(η) = 3 − slope η + curvature η² / 2, which exceeds 3 beyond η = 2 slope / curvature. */
struct parabola {
    double slope, curvature, wall; /* beyond `wall` the loss is not a number */
    int64_t losses, fail_at;
};

static enum status parabola_loss(void *owner, double step, double *loss, struct error *out)
{
    struct parabola *p = owner;
    if (++p->losses == p->fail_at) return error_set(out, STATUS_CANCELLED, "stopped");
    *loss = step > p->wall ? (double)NAN : 3 - p->slope * step + p->curvature * step * step / 2;
    return STATUS_OK;
}

static void test_critical_sharpness_of_a_parabola_is_its_curvature(void **state)
{
    (void)state;
    static const double firsts[] = {1e-9, 1e-4, 0.3, 1, 1e5, 1e9}, tolerances[] = {0.5, 0.01, 1e-6};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++)
        for (size_t k = 0; k < sizeof tolerances / sizeof tolerances[0]; k++) {
            struct parabola p = {.slope = 2, .curvature = 5, .wall = INFINITY};
            const struct critical_line line = {&p, parabola_loss};
            struct critical found;
            assert_int_equal(critical_find(&line, firsts[i], tolerances[k], &found, &error), STATUS_OK);
            assert_true(found.found && found.low < 0.8 && 0.8 < found.high);
            assert_true(found.high <= found.low * (1 + tolerances[k]));
            assert_true(fabs(critical_sharpness(&found) - 2.5) < 2.5 * tolerances[k]); /* 5 / 2: gᵀHg over gᵀg */
            assert_int_equal(found.losses, p.losses);
        }
}

static void test_critical_step_ends_where_the_loss_is_no_number(void **state)
{
    (void)state;
    struct parabola p = {.slope = 2, .curvature = 0, .wall = 7};
    const struct critical_line line = {&p, parabola_loss};
    struct critical found;
    assert_int_equal(critical_find(&line, 0.1, 0.01, &found, &error), STATUS_OK);
    assert_true(found.found && found.low <= 7 && 7 < found.high && found.high <= found.low * 1.01);
}

static void test_no_critical_step_is_found_where_there_is_none(void **state)
{
    (void)state;
    const struct parabola falling = {.slope = 2, .wall = INFINITY}, rising = {.slope = -2, .wall = INFINITY};
    static const double none[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        struct parabola p = i == 0 ? falling : rising;
        const struct critical_line line = {&p, parabola_loss};
        struct critical found;
        assert_int_equal(critical_find(&line, 1, 0.01, &found, &error), STATUS_OK);
        assert_true(!found.found && found.losses == p.losses && p.losses == 42);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct parabola p = falling;
        const struct critical_line line = {&p, parabola_loss};
        struct critical found;
        assert_int_equal(critical_find(&line, none[i], 0.01, &found, &error), STATUS_OK);
        assert_true(!found.found && found.losses == 0 && p.losses == 0);
    }
}

static void test_failures_of_a_loss_come_through(void **state)
{
    (void)state;
    struct parabola p = {.slope = 2, .curvature = 5, .wall = INFINITY};
    const struct critical_line line = {&p, parabola_loss};
    struct critical found;
    assert_int_equal(critical_find(&line, 0.1, 0.01, &found, &error), STATUS_OK);
    const int64_t losses = p.losses;
    assert_true(losses > 8 && losses < 20);
    for (int64_t at = 1; at <= losses; at++) {
        p.losses = 0;
        p.fail_at = at;
        assert_int_equal(critical_find(&line, 0.1, 0.01, &found, &error), STATUS_CANCELLED);
        assert_int_equal(p.losses, at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanczos_finds_both_ends),
        cmocka_unit_test(test_top_is_negative_when_that_end_is_larger),
        cmocka_unit_test(test_lanczos_restarts_in_little_memory),
        cmocka_unit_test(test_lanczos_says_when_it_has_not_converged),
        cmocka_unit_test(test_an_eigenvalue_lies_within_each_bound),
        cmocka_unit_test(test_the_residual_is_that_of_the_vector),
        cmocka_unit_test(test_what_is_left_is_orthogonal_when_little_is),
        cmocka_unit_test(test_lanczos_stops_when_the_space_is_exhausted),
        cmocka_unit_test(test_part_of_the_space_has_the_spectrum_of_its_block),
        cmocka_unit_test(test_trace_lies_within_its_error),
        cmocka_unit_test(test_trace_and_error_are_those_of_the_samples),
        cmocka_unit_test(test_a_probe_for_every_dimension_is_exact),
        cmocka_unit_test(test_spectrum_has_the_moments_of_the_operator),
        cmocka_unit_test(test_what_was_stopped_ends_with_the_same_bits),
        cmocka_unit_test(test_failures_of_a_product_come_through),
        cmocka_unit_test(test_critical_sharpness_of_a_parabola_is_its_curvature),
        cmocka_unit_test(test_critical_step_ends_where_the_loss_is_no_number),
        cmocka_unit_test(test_no_critical_step_is_found_where_there_is_none),
        cmocka_unit_test(test_failures_of_a_loss_come_through),
    };
    return cmocka_run_group_tests_name("estimators", tests, NULL, NULL);
}
