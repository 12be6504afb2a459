/* What the terms of a prediction vary between sequences: against runs of single sequences, and how often the intervals
 * that are made of it hold the mean of a population. */
#include "curvature/sampling.h"
#include "engine/jobs/tiny_fixture.h"
#include "eval/student.h"
#include "jobs/sharpness/sharpness.h"
#include "unit.h"

enum { LENGTH = 12, FEW = 5, MANY = 40, COPIES = 40 };

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static const struct quantize_method rtn = {.quantizer = QUANTIZER_RTN, .rtn = {.bits = 4, .group_size = 16}};

/* A prediction of these sequences. */
static struct sharpness_result run(const struct fixture *f, const struct sequences *sequences)
{
    const struct sharpness_request request = {
        .model = f->model,
        .backend = f->backend,
        .sequences = sequences,
        .settings = {.max_iterations = 1, .tolerance = 1e-3, .probes = 1, .spectrum_probes = 1, .spectrum_steps = 1},
        .direction = &rtn};
    struct sharpness_result found;
    ok(sharpness_run(&request, &found, &error));
    return found;
}

/* The jackknife's error of sum(w x) / sum(w y) over sequences of unlike lengths, written out: each residual over what
 * the ratio leaves of its sequence, 1 - w / W. */
static double error_of(const double *x, const double *y, const int64_t *w, int n)
{
    double over = 0, under = 0, whole = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        over += (double)w[i] * x[i];
        under += (double)w[i] * y[i];
        whole += (double)w[i];
    }
    for (int i = 0; i < n; i++)
        squares += pow((double)w[i] * (x[i] - over / under * y[i]) / (1 - (double)w[i] / whole), 2);
    return sqrt((double)(n - 1) / n * squares) / under;
}

/* Rounding to nearest does not look at tokens, so that the direction is the same for each sequence alone. A term of one
 * sequence is summed in float in another order than here: 1e-4 of the largest. */
static void test_errors_are_those_of_runs_of_single_sequences(void **state)
{
    static const int64_t lengths[FEW] = {5, 12, 9, 2, 11};
    struct fixture f;
    double slopes[FEW], bends[FEW], sums[FEW], losses[FEW], ones[FEW];
    int64_t weights[FEW];
    (void)state;
    open_fixture(&f, tiny_llama, FEW, LENGTH);
    for (int i = 0; i < FEW; i++) f.starts[i + 1] = f.starts[i] + lengths[i];
    for (int i = 0; i < FEW; i++) {
        int64_t starts[] = {0, lengths[i]};
        struct sharpness_result alone = run(&f, &(struct sequences){1, starts, f.tokens + f.starts[i]});
        assert_true(isnan(alone.direction.gradient_error) && isnan(alone.direction.predicted_error));
        assert_int_equal(alone.direction.units, 1);
        slopes[i] = alone.direction.gradient_term;
        bends[i] = alone.direction.curvature_term;
        sums[i] = slopes[i] + bends[i];
        losses[i] = alone.loss;
        ones[i] = 1;
        weights[i] = lengths[i] - 1;
        sharpness_result_reset(&alone);
    }
    struct sharpness_result all = run(&f, &f.evaluation);
    const struct sharpness_direction *d = &all.direction;
    const double expected[] = {error_of(slopes, ones, weights, FEW), error_of(bends, ones, weights, FEW),
                               error_of(sums, losses, weights, FEW)};
    const double found[] = {d->gradient_error, d->curvature_error, d->predicted_error};
    for (int i = 0; i < 3; i++)
        if (!(expected[i] > 0 && fabs(found[i] - expected[i]) < 1e-4 * expected[i]))
            fail_msg("%d: %.10g instead of %.10g", i, found[i], expected[i]);
    double weight = 0, weight_squares = 0;
    for (int i = 0; i < FEW; i++) {
        weight += (double)weights[i];
        weight_squares += (double)(weights[i] * weights[i]);
    }
    assert_int_equal(d->units, FEW);
    assert_true(fabs(d->degrees - (weight * weight / weight_squares - 1)) < 1e-12);
    assert_true(all.degrees == d->degrees);
    sharpness_result_reset(&all);
    close_fixture(&f);
}

/* What measures along a vector `v`; `scratch` is another one. */
struct along {
    struct parameters_layout *layout;
    struct parameters parameters;
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix v, scratch;
};

static void open_along(const struct fixture *f, const struct sequences *sequences, struct along *a)
{
    ok(parameters_layout_new(&f->model->config, &a->layout, &error));
    ok(parameters_init(&a->parameters, a->layout, f->backend, "parameters", &error));
    ok(parameters_read(&a->parameters, f->model, &error));
    ok(chunks_init(sequences, 100, &a->chunks, &error));
    ok(hvp_new(&a->parameters, &a->chunks, HVP_KEEP_CHUNK, NULL, &a->hvp, &error));
    ok(vector_new(&hvp_operator(a->hvp)->space, "v", &a->v, &error));
    ok(vector_new(&hvp_operator(a->hvp)->space, "scratch", &a->scratch, &error));
}

static void close_along(const struct fixture *f, struct along *a)
{
    matrix_release(f->backend, &a->v);
    matrix_release(f->backend, &a->scratch);
    hvp_free(a->hvp);
    chunks_reset(&a->chunks);
    parameters_reset(&a->parameters);
    parameters_layout_free(a->layout);
}

/* Along a random vector. */
static struct sampling along_something(const struct fixture *f, double *slope, double *curvature, double *loss)
{
    struct along a;
    struct sampling found;
    open_along(f, &f->evaluation, &a);
    const struct symmetric_operator *op = hvp_operator(a.hvp);
    vector_rademacher(&op->space, 1, 2, a.v);
    ok(hvp_gradient(a.hvp, a.scratch, loss, &error));
    *slope = f->backend->ops->dot(f->backend, a.scratch, a.v);
    ok(operator_apply(op, a.v, a.scratch, &error));
    *curvature = f->backend->ops->dot(f->backend, a.scratch, a.v);
    ok(sampling_along(&a.parameters, &f->evaluation, SAMPLING_ALL, 20, HVP_KEEP_CHUNK, a.v, a.scratch, NULL, &found,
                      &error));
    close_along(f, &a);
    return found;
}

/* λ of these sequences, and v'Hv of each alone along its vector v. */
static double sharpest(const struct fixture *f, const struct sequences *sequences, double *each)
{
    const struct lanczos_settings settings = {.most_products = 80, .tolerance = 1e-7, .seed = 3};
    struct along a;
    struct spectrum_ends ends;
    open_along(f, sequences, &a);
    ok(lanczos_run(hvp_operator(a.hvp), &settings, NULL, a.v, &ends, &error));
    for (int64_t i = 0; each != NULL && i < sequences->count; i++) {
        int64_t starts[] = {0, sequences->starts[i + 1] - sequences->starts[i]};
        struct chunks alone;
        struct hvp *of_one;
        ok(chunks_init(&(struct sequences){1, starts, sequences->tokens + sequences->starts[i]}, 100, &alone, &error));
        ok(hvp_new(&a.parameters, &alone, HVP_KEEP_CHUNK, NULL, &of_one, &error));
        ok(operator_apply(hvp_operator(of_one), a.v, a.scratch, &error));
        each[i] = f->backend->ops->dot(f->backend, a.scratch, a.v);
        hvp_free(of_one);
        chunks_reset(&alone);
    }
    close_along(f, &a);
    return ends.largest;
}

/* λ when sequence `more` weighs by 1 / COPIES more than each of the others. */
static double weighed(const struct fixture *f, int64_t more)
{
    enum { ALL = FEW * COPIES + 1 };
    int64_t starts[ALL + 1];
    uint32_t tokens[ALL * LENGTH];
    starts[0] = 0;
    for (int64_t i = 0; i < ALL; i++) {
        memcpy(tokens + i * LENGTH, f->tokens + f->starts[i == ALL - 1 ? more : i % FEW], LENGTH * sizeof *tokens);
        starts[i + 1] = (i + 1) * LENGTH;
    }
    return sharpest(f, &(struct sequences){ALL, starts, tokens}, NULL);
}

/* The standard error of the largest eigenvalue is Student's of u'H u of the sequences, for to first order the value
 * follows them: with a sequence weighed more it moves by its share, as far as u does not turn (a tenth is left for
 * that, of the largest move). */
static void test_the_error_of_the_largest_eigenvalue(void **state)
{
    struct fixture f;
    double each[FEW], ones[FEW], most = 0;
    int64_t weights[FEW];
    (void)state;
    open_fixture(&f, tiny_llama, FEW, LENGTH);
    const double largest = sharpest(&f, &f.evaluation, each);
    for (int i = 0; i < FEW; i++) {
        ones[i] = 1;
        weights[i] = LENGTH - 1;
        most = fmax(most, fabs(each[i] - largest) / (FEW * COPIES + 1));
    }
    for (int i = 0; i < FEW; i++) {
        const double moved = weighed(&f, i) - largest, expected = (each[i] - largest) / (FEW * COPIES + 1);
        if (!(fabs(moved - expected) < most / 10)) fail_msg("%d: it moved %.6g instead of %.6g", i, moved, expected);
    }
    const struct sharpness_request request = {.model = f.model,
                                              .backend = f.backend,
                                              .sequences = &f.evaluation,
                                              .settings = {.top_eigenvalue = true,
                                                           .max_iterations = 80,
                                                           .tolerance = 1e-7,
                                                           .probes = 1,
                                                           .spectrum_probes = 1,
                                                           .spectrum_steps = 1}};
    struct sharpness_result found;
    ok(sharpness_run(&request, &found, &error));
    const double expected = error_of(each, ones, weights, FEW);
    assert_true(fabs(found.ends.largest - largest) < 1e-4 * largest);
    if (!(fabs(found.largest_error - expected) < 1e-3 * expected))
        fail_msg("%.10g instead of %.10g", found.largest_error, expected);
    assert_int_equal(found.largest_units, FEW);
    sharpness_result_reset(&found);
    /* After two products the value is far below λ_max, and no error is told of it. */
    struct sharpness_request hasty = request;
    hasty.settings.max_iterations = 2;
    ok(sharpness_run(&hasty, &found, &error));
    assert_true(found.ends.largest < 0.9 * largest && isnan(found.largest_error));
    sharpness_result_reset(&found);
    int64_t starts[] = {0, LENGTH};
    struct sharpness_request alone = request;
    alone.sequences = &(struct sequences){1, starts, f.tokens};
    ok(sharpness_run(&alone, &found, &error));
    assert_true(isnan(found.largest_error) && found.largest_units == 1);
    sharpness_result_reset(&found);
    close_fixture(&f);
}

static double mean(const double *values, const int64_t *weights, int64_t count)
{
    double sum = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)weights[i] * values[i];
        all += (double)weights[i];
    }
    return sum / all;
}

static void near(double found, double expected, double size)
{
    if (!(fabs(found - expected) < 1e-4 * size)) fail_msg("%.10g instead of %.10g", found, expected);
}

/* 40 sequences in 32 groups: their means are those of all. Then 32 groups as a population: 8 of them drawn again and
 * again, Student's interval of 7 degrees holds the population's mean in 95 of 100; a ratio's a few less often. Three
 * standard errors of a share of 1000 are 2 %. */
static void test_groups_have_the_mean_of_all_and_intervals_hold_it(void **state)
{
    enum { DRAWN = 8, SAMPLES = 1000 };
    struct fixture f;
    double slope, curvature, loss;
    int held = 0, held_ratio = 0;
    (void)state;
    open_fixture(&f, tiny_llama, MANY, LENGTH);
    const struct sampling all = along_something(&f, &slope, &curvature, &loss);
    assert_int_equal(all.units, SAMPLING_UNITS);
    double size = 0;
    int64_t predictions = 0;
    for (int i = 0; i < SAMPLING_UNITS; i++) {
        size = fmax(size, fabs(all.slopes[i]));
        predictions += all.predictions[i];
    }
    assert_int_equal(predictions, MANY * (LENGTH - 1));
    near(mean(all.slopes, all.predictions, all.units), slope, size);
    near(mean(all.curvatures, all.predictions, all.units), curvature, fabs(curvature) + size);
    near(mean(all.losses, all.predictions, all.units), loss, loss);
    for (int sample = 0; sample < SAMPLES; sample++) {
        struct sampling drawn = {.units = DRAWN};
        for (int i = 0; i < DRAWN; i++) {
            const int64_t pick = (int64_t)random_below(5, (uint64_t)sample, (uint64_t)i, SAMPLING_UNITS);
            drawn.slopes[i] = all.slopes[pick];
            drawn.losses[i] = all.losses[pick];
            drawn.predictions[i] = all.predictions[pick];
        }
        const double t = student_quantile(DRAWN - 1), found = mean(drawn.slopes, drawn.predictions, DRAWN);
        const double ratio = found / mean(drawn.losses, drawn.predictions, DRAWN);
        held += fabs(found - slope) <= t * sampling_error(&drawn, drawn.slopes, NULL);
        held_ratio += fabs(ratio - slope / loss) <= t * sampling_error(&drawn, drawn.slopes, drawn.losses);
    }
    assert_in_range(held, 915, 975);
    assert_in_range(held_ratio, 915, 975);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_those_of_runs_of_single_sequences),
        cmocka_unit_test(test_the_error_of_the_largest_eigenvalue),
        cmocka_unit_test(test_groups_have_the_mean_of_all_and_intervals_hold_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
