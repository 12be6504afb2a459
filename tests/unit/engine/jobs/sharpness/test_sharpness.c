/* Sharpness runs as a whole: what they find, that they go on with the same bits after being stopped anywhere, and what
 * they refuse. */
#include "engine/curvature/reference.h"
#include "engine/files/scratch.h"
#include "engine/jobs/sharpness/watch.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/sharpness/sharpness.h"
#include "jobs/sharpness/sharpness_state.h"
#include "model/gradient.h"

static struct error error;

static struct sharpness_settings everything(void)
{
    return (struct sharpness_settings){.top_eigenvalue = true,
                                       .trace = true,
                                       .spectrum = true,
                                       .critical = true,
                                       .groups = true,
                                       .max_iterations = 60,
                                       .tolerance = 1e-4,
                                       .probes = 6,
                                       .spectrum_probes = 2,
                                       .spectrum_steps = 5,
                                       .seed = 3};
}

static struct sharpness_request request_of(const struct reference *r)
{
    return (struct sharpness_request){.model = r->model,
                                      .backend = r->backend,
                                      .sequences = &r->sequences,
                                      .settings = everything(),
                                      .save_seconds = 1e-9};
}

static void ok(enum status status)
{
    reference_ok(status, &error);
}

/* Every number of a result but the products' count, in bits. */
static void assert_same(const struct sharpness_result *a, const struct sharpness_result *b)
{
    assert_memory_equal(&a->loss, &b->loss, 3 * sizeof(double));
    assert_memory_equal(&a->ends, &b->ends, offsetof(struct spectrum_ends, converged));
    assert_memory_equal(&a->trace.trace, &b->trace.trace, 2 * sizeof(double));
    assert_int_equal(a->critical.found, b->critical.found);
    assert_memory_equal(&a->critical.low, &b->critical.low, 2 * sizeof(double));
    assert_int_equal(a->critical.losses, b->critical.losses);
    assert_int_equal(a->spectrum.count, b->spectrum.count);
    assert_memory_equal(a->spectrum.nodes, b->spectrum.nodes, (size_t)a->spectrum.count * sizeof(double));
    assert_memory_equal(a->spectrum.weights, b->spectrum.weights, (size_t)a->spectrum.count * sizeof(double));
    for (int i = 0; i < GROUPS; i++) {
        assert_int_equal(a->groups[i].parameters, b->groups[i].parameters);
        assert_memory_equal(&a->groups[i].ends, &b->groups[i].ends, offsetof(struct spectrum_ends, converged));
    }
}

static void test_run_finds_what_the_reference_says(void **state)
{
    (void)state;
    struct reference r;
    struct sharpness_result found;
    struct watch watch;
    reference_open(&r, "reference/micro/gpt_neox", false, 2048);
    struct sharpness_request request = request_of(&r);
    watch_init(&watch, -1);
    request.monitor = &watch.monitor;
    request.settings.probes = r.layout->numbers;
    ok(sharpness_run(&request, &found, &error));
    assert_true(fabs(found.loss - r.loss) < 1e-5 * r.loss);
    assert_true(fabs(found.gradient_norm - r.gradient_norm) < 1e-4 * r.gradient_norm);
    assert_true(found.ends.converged && fabs(found.ends.top - r.max_magnitude) < 1e-4 * fabs(r.max_magnitude));
    assert_true(found.trace.exact && fabs(found.trace.trace - r.trace) < 1e-4 * fabs(r.max_magnitude));
    assert_int_equal(found.spectrum.count, 10);
    for (int i = 0; i < GROUPS; i++) { /* eigenvalues of a diagonal block lie inside */
        assert_true(found.groups[i].parameters > 0 && found.groups[i].ends.converged);
        assert_true(found.groups[i].ends.largest <= found.ends.largest * 1.0001 &&
                    found.groups[i].ends.smallest >= found.ends.smallest * 1.0001);
    }
    assert_int_equal(watch.done, watch.total);
    assert_int_equal(watch.done, found.products);
    sharpness_result_reset(&found);
    reference_close(&r);
}

static double mean_loss(const struct reference *r, struct gradient *gradient, struct parameters *into)
{
    double *losses = calloc((size_t)r->chunks.tokens, sizeof *losses), sum = 0;
    for (int64_t i = 0; i < r->chunks.count; i++) {
        const struct chunk *chunk = &r->chunks.chunks[i];
        if (into != NULL)
            gradient_add(gradient, &chunk->batch, 1 / (double)r->chunks.predictions, losses + chunk->first_token, into);
        else
            gradient_losses(gradient, &chunk->batch, losses + chunk->first_token);
    }
    for (int64_t t = 0; t < r->chunks.tokens; t++) sum += losses[t];
    free(losses);
    return sum / (double)r->chunks.predictions;
}

/* Over parameters of their own, stepped from one end of the bracket to the other: the loss exceeds at the upper one
 * alone. And along the gradient the loss of these models is nearly a parabola: the sharpness lies near gᵀHg / gᵀg. */
static void test_critical_sharpness_is_where_the_loss_begins_to_exceed(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "gpt_neox", "gpt2", "olmoe"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct reference r;
        struct sharpness_result found;
        struct gradient *gradient = NULL;
        struct hvp *hvp = NULL;
        struct parameters slope;
        struct matrix g, product;
        char relative[64];
        (void)snprintf(relative, sizeof relative, "reference/models/%s", models[i]);
        reference_open(&r, relative, false, 2048);
        struct backend *backend = r.backend;
        struct sharpness_request request = request_of(&r);
        request.settings = (struct sharpness_settings){.critical = true,
                                                       .max_iterations = 1,
                                                       .tolerance = 0.1,
                                                       .probes = 1,
                                                       .spectrum_probes = 1,
                                                       .spectrum_steps = 1};
        ok(sharpness_run(&request, &found, &error));
        assert_true(found.critical.found && found.critical.high <= 1.01 * found.critical.low && found.products == 0);
        assert_true(found.critical.losses <= 40);
        ok(hvp_new(&r.parameters, &r.chunks, HVP_RECOMPUTE, NULL, &hvp, &error));
        ok(vector_new(&hvp_operator(hvp)->space, "g", &g, &error));
        ok(vector_new(&hvp_operator(hvp)->space, "Hg", &product, &error));
        slope = (struct parameters){r.layout, backend, g.data};
        ok(gradient_new(&r.parameters, GRADIENT_KEEP, r.chunks.largest, r.chunks.longest, &gradient, &error));
        (void)mean_loss(&r, gradient, &slope);
        ok(operator_apply(hvp_operator(hvp), g, product, &error));
        const double along = backend->ops->dot(backend, g, product) / backend->ops->dot(backend, g, g);
        if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
            print_message("%s: critical sharpness %.4g, gᵀHg / gᵀg %.4g, %lld losses\n", relative,
                          critical_sharpness(&found.critical), along, (long long)found.critical.losses);
        assert_true(critical_sharpness(&found.critical) > 0.2 * along &&
                    critical_sharpness(&found.critical) < 5 * along);
        hvp_free(hvp); /* it lends the parameters, which are moved now */
        const struct matrix all = parameters_all(&r.parameters), flat = vector_part(g, 0, r.layout->elements);
        const double still = mean_loss(&r, gradient, NULL);
        backend->ops->add(backend, all, flat, -found.critical.low * 0.999, 1);
        assert_true(mean_loss(&r, gradient, NULL) <= still);
        backend->ops->add(backend, all, flat, found.critical.low * 0.999 - found.critical.high * 1.001, 1);
        assert_true(mean_loss(&r, gradient, NULL) > still);
        gradient_free(gradient);
        matrix_release(backend, &g);
        matrix_release(backend, &product);
        sharpness_result_reset(&found);
        reference_close(&r);
    }
}

static void test_stopped_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    struct reference r;
    struct sharpness_result whole, found;
    struct watch watch;
    reference_open(&r, "reference/micro/llama_tied", false, 2048);
    struct sharpness_request request = request_of(&r);
    watch_init(&watch, -1);
    request.monitor = &watch.monitor;
    ok(sharpness_run(&request, &whole, &error));
    const int64_t checks = watch.checks;
    for (int64_t stop = 3; stop < checks; stop += 41) {
        struct scratch scratch;
        scratch_open(&scratch);
        request.work_directory = scratch.directory;
        watch_init(&watch, stop);
        assert_int_equal(sharpness_run(&request, &found, &error), STATUS_CANCELLED);
        const int64_t before = watch.done;
        watch_init(&watch, -1);
        ok(sharpness_run(&request, &found, &error));
        assert_same(&whole, &found);
        assert_int_equal(found.products, whole.products);
        assert_int_equal(watch.resumed, before > 0);
        assert_true(before < 10 || watch.checks < checks); /* less was left to do */
        sharpness_result_reset(&found);
        scratch_close(&scratch);
    }
    sharpness_result_reset(&whole);
    reference_close(&r);
}

static void test_finished_state_is_read_and_damaged_or_foreign_ones_begin_anew(void **state)
{
    (void)state;
    struct reference r;
    struct sharpness_result whole, found;
    struct watch watch;
    struct scratch scratch;
    char *text = NULL;
    size_t size = 0;
    reference_open(&r, "reference/micro/llama", false, 2048);
    scratch_open(&scratch);
    struct sharpness_request request = request_of(&r);
    request.work_directory = scratch.directory;
    request.monitor = &watch.monitor;
    watch_init(&watch, -1);
    ok(sharpness_run(&request, &whole, &error));
    const int64_t checks = watch.checks;
    watch_init(&watch, -1);
    ok(sharpness_run(&request, &found, &error));
    assert_same(&whole, &found);
    assert_true(watch.checks < checks / 10);
    sharpness_result_reset(&found);
    ok(file_read_all(AT_FDCWD, scratch_path(&scratch, "sharpness.state"), 1 << 30, &text, &size, &error));
    for (size_t cut = 0; cut <= size; cut += size / 7 + 1) { /* cut short, and a bit turned */
        for (int turn = 0; turn < 2; turn++) {
            if (turn && cut >= size) continue;
            text[turn ? cut : 0] ^= turn ? 4 : 0;
            scratch_write(&scratch, "sharpness.state", text, turn ? size : cut);
            text[turn ? cut : 0] ^= turn ? 4 : 0;
            watch_init(&watch, -1);
            ok(sharpness_run(&request, &found, &error));
            assert_same(&whole, &found);
            assert_int_equal(watch.anew, 1);
            sharpness_result_reset(&found);
        }
    }
    request.settings.seed++;
    watch_init(&watch, -1);
    ok(sharpness_run(&request, &found, &error));
    assert_int_equal(watch.anew, 1);
    assert_true(found.trace.trace != whole.trace.trace);
    sharpness_result_reset(&found);
    sharpness_result_reset(&whole);
    memory_free(text);
    scratch_close(&scratch);
    reference_close(&r);
}

static void test_little_memory_gives_the_same_ends_or_says_how_much_is_needed(void **state)
{
    (void)state;
    struct reference r;
    struct sharpness_result found;
    reference_open(&r, "reference/models/llama", false, 2048);
    struct sharpness_request request = request_of(&r);
    request.settings = (struct sharpness_settings){.top_eigenvalue = true,
                                                   .max_iterations = 400,
                                                   .tolerance = 1e-4,
                                                   .probes = 1,
                                                   .spectrum_probes = 1,
                                                   .spectrum_steps = 1};
    request.memory_limit = 1 << 20;
    assert_int_equal(sharpness_run(&request, &found, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.detail, "the curvature of "));
    assert_int_equal(error.of_device, backend_space(request.backend) == PLAN_DEVICE);
    int64_t limit = 1 << 20;
    while (request.memory_limit = limit, sharpness_run(&request, &found, &error) == STATUS_TOO_LARGE) limit += 1 << 18;
    assert_true(found.most_vectors < 12 && found.ends.products > found.most_vectors); /* restarts */
    assert_true(found.ends.converged && fabs(found.ends.top - r.max_magnitude) < 1e-4 * r.max_magnitude);
    sharpness_result_reset(&found);
    request.memory_limit = 0;
    request.settings.method = SHARPNESS_POWER;
    ok(sharpness_run(&request, &found, &error));
    assert_true(found.ends.converged && fabs(found.ends.top - r.max_magnitude) < 1e-2 * r.max_magnitude);
    sharpness_result_reset(&found);
    reference_close(&r);
}

static void test_settings_out_of_range_are_refused(void **state)
{
    (void)state;
    struct reference r;
    struct sharpness_result found;
    reference_open(&r, "reference/micro/llama", false, 2048);
    const struct {
        const char *pointer;
        size_t offset;
    } counts[] = {{"/params/max_iterations", offsetof(struct sharpness_settings, max_iterations)},
                  {"/params/probes", offsetof(struct sharpness_settings, probes)},
                  {"/params/spectrum_probes", offsetof(struct sharpness_settings, spectrum_probes)},
                  {"/params/spectrum_steps", offsetof(struct sharpness_settings, spectrum_steps)}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct sharpness_request request = request_of(&r);
        *(int64_t *)(void *)((char *)&request.settings + counts[i].offset) = 0;
        assert_int_equal(sharpness_run(&request, &found, &error), STATUS_INVALID);
        assert_string_equal(error.pointer, counts[i].pointer);
    }
    for (int i = 0; i < 4; i++) {
        struct sharpness_request request = request_of(&r);
        request.settings.tolerance = ((const double[]){0, -1e-3, NAN, 1})[i];
        assert_int_equal(sharpness_run(&request, &found, &error), STATUS_INVALID);
        assert_string_equal(error.pointer, "/params/tolerance");
    }
    struct sharpness_request request = request_of(&r);
    r.sequences.tokens[3] = 1000000;
    assert_int_equal(sharpness_run(&request, &found, &error), STATUS_INVALID);
    reference_close(&r);
}

/* At eight bits the third order is small beside the second: prediction and measurement agree to a few hundredths of the
 * change. */
static void test_direction_predicts_what_fine_quantization_costs(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "llama_tied", "gpt_neox", "olmo2"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (int gptq = 0; gptq < 2; gptq++) {
            struct reference r;
            struct sharpness_result found;
            char relative[64];
            (void)snprintf(relative, sizeof relative, "reference/models/%s", models[i]);
            reference_open(&r, relative, false, 2048);
            struct sharpness_request request = request_of(&r);
            struct quantize_method method = {.quantizer = gptq ? QUANTIZER_GPTQ : QUANTIZER_RTN,
                                             .rtn = {.bits = 8, .group_size = -1},
                                             .gptq = {.bits = 8, .group_size = -1, .damp_percent = 0.05}};
            request.settings.top_eigenvalue = request.settings.trace = false;
            request.settings.spectrum = request.settings.groups = false;
            request.direction = &method;
            request.calibration = gptq ? &r.sequences : NULL;
            ok(sharpness_run(&request, &found, &error));
            const struct sharpness_direction *d = &found.direction;
            const double size = (fabs(d->gradient_term) + fabs(d->curvature_term)) / found.loss;
            if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
                print_message("%s: predicted %.4g (gradient %.4g, curvature %.4g nats), measured %.4g\n", relative,
                              d->predicted_delta, d->gradient_term, d->curvature_term, d->measured_delta);
            if (!(fabs(d->predicted_delta - d->measured_delta) < 0.05 * size + 2e-6))
                fail_msg("%s: predicted %g, measured %g", relative, d->predicted_delta, d->measured_delta);
            assert_true(fabs(d->measured_loss / found.loss - 1 - d->measured_delta) < 1e-6 && d->norm > 0 && d->kl > 0);
            double sums[4] = {0};
            for (int64_t k = 0; k < d->layer_count; k++) {
                sums[0] += d->layers[k].gradient_term;
                sums[1] += d->layers[k].curvature_term;
                assert_null(strstr(d->layers[k].name, ".weight"));
            }
            for (int64_t k = 0; k < d->block_count; k++) {
                sums[2] += d->blocks[k].gradient_term;
                sums[3] += d->blocks[k].curvature_term;
            }
            assert_int_equal(d->block_count, r.model->config.layers);
            for (int k = 0; k < 4; k++) {
                const double expected = k % 2 == 0 ? d->gradient_term : d->curvature_term;
                assert_true(fabs(sums[k] - expected) < 1e-12 + 1e-9 * fabs(expected));
            }
            sharpness_result_reset(&found);
            reference_close(&r);
        }
}

/* xIELU's beta and eps lie among the parameters; relative curvatures are relative to what is trained. */
static void test_constants_are_not_in_the_weights_norm(void **state)
{
    (void)state;
    struct fixture f;
    struct sharpness_result found;
    struct parameters_layout *layout = NULL;
    struct parameters parameters;
    double squares = 0, constants = 0;
    open_fixture(&f, tiny_apertus, 2, 8);
    ok(parameters_layout_new(&f.model->config, &layout, &error));
    ok(parameters_init(&parameters, layout, f.backend, "parameters", &error));
    ok(parameters_read(&parameters, f.model, &error));
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameter *parameter = &layout->tensors[i].parameter;
        const float *values = (const float *)parameters.data + layout->tensors[i].offset;
        for (int64_t k = 0; k < parameter->rows * parameter->columns; k++)
            *(parameter->constant ? &constants : &squares) += (double)values[k] * (double)values[k];
    }
    const struct sharpness_request request = {.model = f.model,
                                              .backend = f.backend,
                                              .sequences = &f.evaluation,
                                              .settings = {.critical = true,
                                                           .max_iterations = 1,
                                                           .tolerance = 0.1,
                                                           .probes = 1,
                                                           .spectrum_probes = 1,
                                                           .spectrum_steps = 1},
                                              .save_seconds = 1e9};
    ok(sharpness_run(&request, &found, &error));
    assert_true(constants > 1e-4 * squares);
    assert_true(fabs(found.weight_norm - sqrt(squares)) < 1e-6 * sqrt(squares)); /* products and sums in float32 */
    sharpness_result_reset(&found);
    parameters_reset(&parameters);
    parameters_layout_free(layout);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_finds_what_the_reference_says),
        cmocka_unit_test(test_critical_sharpness_is_where_the_loss_begins_to_exceed),
        cmocka_unit_test(test_stopped_run_goes_on_with_the_same_bits),
        cmocka_unit_test(test_finished_state_is_read_and_damaged_or_foreign_ones_begin_anew),
        cmocka_unit_test(test_little_memory_gives_the_same_ends_or_says_how_much_is_needed),
        cmocka_unit_test(test_settings_out_of_range_are_refused),
        cmocka_unit_test(test_direction_predicts_what_fine_quantization_costs),
        cmocka_unit_test(test_constants_are_not_in_the_weights_norm),
    };
    return cmocka_run_group_tests_name("sharpness", tests, NULL, NULL);
}
