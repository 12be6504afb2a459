/* Curvature of whole models against values computed in double by other programs. Tolerances as the reference states
 * them: a product to 1e-9 of its norm in double (1e-6 where the file holds it in float), 1e-3 in float; eigenvalues
 * 1e-3. */
#include "curvature/groups.h"
#include "curvature/lanczos.h"
#include "curvature/spectrum.h"
#include "curvature/trace.h"
#include "engine/curvature/reference.h"
#include "engine/model/references.h"

static struct error error;

static double *product_of(const struct reference *r, struct hvp *hvp, const double *direction)
{
    const struct symmetric_operator *op = hvp_operator(hvp);
    struct matrix v, out;
    double *found = calloc((size_t)r->layout->elements, sizeof *found);
    reference_ok(vector_new(&op->space, "v", &v, &error), &error);
    reference_ok(vector_new(&op->space, "Hv", &out, &error), &error);
    r->backend->ops->upload(r->backend, vector_part(v, 0, r->layout->elements), direction, DTYPE_F64);
    reference_ok(operator_apply(op, v, out, &error), &error);
    r->backend->ops->download(r->backend, vector_part(out, 0, r->layout->elements), found, DTYPE_F64);
    matrix_release(r->backend, &v);
    matrix_release(r->backend, &out);
    return found;
}

static void check_product(const char *relative, bool micro, bool use_double)
{
    struct reference r;
    double *first = NULL;
    reference_open(&r, relative, use_double, 30); /* several chunks */
    double *direction = reference_flat(&r, "hvp.v", false), *expected = reference_flat(&r, "hvp.hv", micro);
    const double tolerance = !use_double ? 1e-3 : micro ? 1e-9 : 1e-6;
    for (int mode = 0; mode < HVP_MODES; mode++) {
        struct hvp *hvp = NULL;
        reference_ok(hvp_new(&r.parameters, &r.chunks, (enum hvp_mode)mode, NULL, &hvp, &error), &error);
        for (int again = 0; again < 2; again++) { /* the second walks over what the first kept */
            double *found = product_of(&r, hvp, direction), apart = 0, size = 0;
            for (int64_t i = 0; i < r.layout->elements; i++) {
                apart = hypot(apart, found[i] - expected[i]);
                size = hypot(size, expected[i]);
            }
            if (!(apart <= tolerance * size)) fail_msg("%s: Hv is off by %.3g of %.3g", relative, apart, size);
            if (getenv("DELTAQ_SHOW_ERRORS") != NULL && first == NULL)
                print_message("%s: Hv off by %.3g\n", relative, apart / size);
            if (first != NULL) assert_memory_equal(found, first, (size_t)r.layout->elements * sizeof *found);
            if (first == NULL)
                first = found;
            else
                free(found);
        }
        hvp_free(hvp);
    }
    free(first);
    free(direction);
    free(expected);
    reference_close(&r);
}

static void check_ends(const char *relative)
{
    struct reference r;
    struct hvp *hvp = NULL;
    struct matrix gradient;
    struct spectrum_ends ends;
    double loss;
    reference_open(&r, relative, false, 2048);
    reference_ok(hvp_new(&r.parameters, &r.chunks, HVP_KEEP_VALUES, NULL, &hvp, &error), &error);
    const struct symmetric_operator *op = hvp_operator(hvp);
    reference_ok(vector_new(&op->space, "gradient", &gradient, &error), &error);
    reference_ok(hvp_gradient(hvp, gradient, &loss, &error), &error);
    assert_true(fabs(loss - r.loss) < 1e-5 * r.loss);
    const double norm = sqrt(r.backend->ops->dot(r.backend, gradient, gradient));
    assert_true(fabs(norm - r.gradient_norm) < 1e-4 * r.gradient_norm);
    matrix_release(r.backend, &gradient);
    const struct lanczos_settings settings = {.most_products = 400, .tolerance = 1e-5, .seed = 1};
    reference_ok(lanczos_run(op, &settings, NULL, (struct matrix){0}, &ends, &error), &error);
    if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
        print_message("%s: top %.9g of %.9g, residual %.2g after %lld\n", relative, ends.top, r.max_magnitude,
                      ends.residual, (long long)ends.products);
    if (!(ends.converged && fabs(ends.top - r.max_magnitude) <= 1e-4 * fabs(r.max_magnitude)))
        fail_msg("%s: top eigenvalue %.9g, expected %.9g", relative, ends.top, r.max_magnitude);
    assert_true(fabs(ends.largest - r.max_algebraic) <= 1e-4 * fabs(r.max_magnitude));
    assert_true(fabs(ends.smallest - r.min_algebraic) <= 1e-4 * fabs(r.max_magnitude));
    hvp_free(hvp);
    reference_close(&r);
}

static void check_trace_and_spectrum(const char *relative)
{
    struct reference r;
    struct hvp *hvp = NULL;
    struct trace_estimate trace;
    struct spectrum spectrum;
    reference_open(&r, relative, false, 2048);
    reference_ok(hvp_new(&r.parameters, &r.chunks, HVP_KEEP_VALUES, NULL, &hvp, &error), &error);
    const struct symmetric_operator *op = hvp_operator(hvp);
    const struct trace_settings all = {.probes = op->space.numbers}, some = {.probes = 100, .seed = 2};
    const struct spectrum_settings density = {.probes = 12, .steps = 16, .seed = 5};
    reference_ok(trace_run(op, &all, NULL, &trace, &error), &error);
    if (!(trace.exact && fabs(trace.trace - r.trace) < 1e-5 * fabs(r.max_magnitude)))
        fail_msg("%s: exact trace %.9g, expected %.9g", relative, trace.trace, r.trace);
    reference_ok(trace_run(op, &some, NULL, &trace, &error), &error);
    assert_true(fabs(trace.trace - r.trace) < 4 * trace.standard_error);
    /* standard deviation of a probe's z'Hz / n and, for the second moment, z'H²z / n, by the exact spectrum */
    int64_t count = 0;
    double *values = shared_tensor(r.file, "hessian.eigenvalues", &count), sums[5] = {0}, found[3] = {0};
    for (int64_t i = 0; i < count; i++)
        for (int power = 0; power < 5; power++) sums[power] += pow(values[i], power);
    assert_int_equal(count, op->space.numbers);
    reference_ok(spectrum_run(op, &density, NULL, &spectrum, &error), &error);
    for (int64_t i = 0; i < spectrum.count; i++)
        for (int power = 0; power < 3; power++) found[power] += spectrum.weights[i] * pow(spectrum.nodes[i], power);
    const double n = (double)count;
    assert_true(fabs(found[0] - 1) < 1e-9);
    assert_true(fabs(found[1] - sums[1] / n) < 4 * sqrt(2 * sums[2] / 12) / n);
    assert_true(fabs(found[2] - sums[2] / n) < 4 * sqrt(2 * sums[4] / 12) / n);
    assert_true(spectrum.nodes[spectrum.count - 1] < values[0] * 1.0001 &&
                spectrum.nodes[0] > values[count - 1] * 1.0001);
    spectrum_reset(&spectrum);
    free(values);
    hvp_free(hvp);
    reference_close(&r);
}

/* Each parameter is in one group, the one that its name tells. */
static void check_groups(const char *relative)
{
    struct reference r;
    struct hvp *hvp = NULL;
    enum group *groups = NULL;
    int64_t numbers = 0, by_group[GROUPS];
    reference_open(&r, relative, true, 2048);
    reference_ok(hvp_new(&r.parameters, &r.chunks, HVP_RECOMPUTE, NULL, &hvp, &error), &error);
    reference_ok(groups_of_tensors(r.layout, &groups, &error), &error);
    struct vector_span *spans = calloc((size_t)r.layout->tensor_count, sizeof *spans);
    for (int g = 0; g < GROUPS; g++) {
        const struct vector_space space = groups_space(&hvp_operator(hvp)->space, groups, (enum group)g, spans);
        by_group[g] = space.numbers;
        numbers += space.numbers;
    }
    assert_int_equal(numbers, r.layout->numbers);
    assert_true(r.model->config.tied ? by_group[GROUP_OUTPUT] == 0 : by_group[GROUP_OUTPUT] > 0);
    for (int64_t t = 0; t < r.layout->tensor_count; t++) { /* names tell too */
        const char *name = r.layout->tensors[t].parameter.name;
        const bool norm = strstr(name, "norm") != NULL || strstr(name, "ln_") != NULL;
        if (norm != (groups[t] == GROUP_NORMS)) fail_msg("%s is in %s", name, groups_names[groups[t]]);
        if (!norm &&
            (strstr(name, "attn") != NULL || strstr(name, "attention.") != NULL) != (groups[t] == GROUP_ATTENTION))
            fail_msg("%s is in %s", name, groups_names[groups[t]]);
        if (strstr(name, "mlp") != NULL && groups[t] != GROUP_MLP)
            fail_msg("%s is in %s", name, groups_names[groups[t]]);
    }
    free(spans);
    memory_free(groups);
    hvp_free(hvp);
    reference_close(&r);
}

/* Only the micro models from beside the repository have the whole spectrum. */
static bool has_spectrum(const char *relative)
{
    char directory[512], file[600];
    struct safetensors *tensors = NULL;
    shared_require(relative, directory, sizeof directory);
    (void)snprintf(file, sizeof file, "%s/reference.safetensors", directory);
    reference_ok(safetensors_open(AT_FDCWD, file, &tensors, &error), &error);
    const bool has = safetensors_find(tensors, "hessian.eigenvalues") >= 0;
    safetensors_close(tensors);
    return has;
}

#define REFERENCE_TESTS(group, name)                                                                          \
    static void test_products_of_##group##_##name(void **state)                                               \
    {                                                                                                         \
        (void)state;                                                                                          \
        for (int use_double = 0; use_double < 2; use_double++)                                                \
            check_product(REFERENCE_PATH(group, name), strcmp(#group, "micro") == 0, use_double);             \
    }                                                                                                         \
    static void test_spectrum_of_##group##_##name(void **state)                                               \
    {                                                                                                         \
        (void)state;                                                                                          \
        check_ends(REFERENCE_PATH(group, name));                                                              \
        if (has_spectrum(REFERENCE_PATH(group, name))) check_trace_and_spectrum(REFERENCE_PATH(group, name)); \
    }                                                                                                         \
    static void test_groups_of_##group##_##name(void **state)                                                 \
    {                                                                                                         \
        (void)state;                                                                                          \
        check_groups(REFERENCE_PATH(group, name));                                                            \
    }
REFERENCES(REFERENCE_TESTS)

static void test_a_loss_that_is_not_finite_is_refused(void **state)
{
    (void)state;
    struct reference r;
    struct hvp *hvp = NULL;
    struct matrix gradient;
    double loss;
    reference_open(&r, "reference/micro/llama", false, 2048);
    r.backend->ops->fill(r.backend, parameters_view(&r.parameters, r.layout->norm_weight), 3e38);
    reference_ok(hvp_new(&r.parameters, &r.chunks, HVP_RECOMPUTE, NULL, &hvp, &error), &error);
    reference_ok(vector_new(&hvp_operator(hvp)->space, "gradient", &gradient, &error), &error);
    assert_int_equal(hvp_gradient(hvp, gradient, &loss, &error), STATUS_NOT_FINITE);
    matrix_release(r.backend, &gradient);
    hvp_free(hvp);
    reference_close(&r);
}

int main(void)
{
#define REFERENCE_ROWS(group, name)                                                                           \
    cmocka_unit_test(test_products_of_##group##_##name), cmocka_unit_test(test_spectrum_of_##group##_##name), \
        cmocka_unit_test(test_groups_of_##group##_##name),
    const struct CMUnitTest tests[] = {REFERENCES(REFERENCE_ROWS)
                                           cmocka_unit_test(test_a_loss_that_is_not_finite_is_refused)};
#undef REFERENCE_ROWS
    return cmocka_run_group_tests_name("hvp", tests, NULL, NULL);
}
