/* Edge values that the header promises, on every backend: what is overwritten is not read, NaN stays NaN, rows without
 * a target count for nothing, log sums and divergences against values worked out by hand. */
#include "engine/backend/cases.h"

#ifdef backend_cpu_new /* cuda/stand_in.h */
#define FAST "cuda"
#else
#define FAST "cpu"
#endif

struct backends {
    struct world worlds[3];
};

static int open_backends(void **state)
{
    struct backends *all = calloc(1, sizeof *all);
    struct error error;
    if (all == NULL || backend_reference_new(false, NULL, &all->worlds[0].backend, &error) != STATUS_OK ||
        backend_reference_new(true, NULL, &all->worlds[1].backend, &error) != STATUS_OK ||
        backend_cpu_new(NULL, &all->worlds[2].backend, &error) != STATUS_OK)
        return -1;
    *state = all;
    return 0;
}

static int close_backends(void **state)
{
    struct backends *all = *state;
    for (int i = 0; i < 3; i++) backend_free(all->worlds[i].backend);
    free(all);
    return 0;
}

#define FOR_EACH_WORLD(world)                                                                        \
    for (struct world *world = ((struct backends *)*state)->worlds, *end_ = world + 3; world < end_; \
         world_clear(world), world++)

static struct matrix from_values(struct world *world, int64_t rows, int64_t columns, const double *values)
{
    const struct matrix m = world_zeros(world, rows, columns, 0);
    world->backend->ops->upload(world->backend, m, values, DTYPE_F64);
    return m;
}

static void assert_values(const struct world *world, struct matrix m, const double *expected, double tolerance)
{
    double *values = world_read(world, m);
    for (int64_t i = 0; i < m.rows * m.columns; i++)
        if (!(fabs(values[i] - expected[i]) <= tolerance))
            fail_msg("%s [%lld]: %.9g expected %.9g", world->backend->ops->name, (long long)i, values[i], expected[i]);
    free(values);
}

static void test_names_and_elements(void **state)
{
    const char *names[] = {"reference", "reference64", FAST};
    const size_t elements[] = {4, 8, 4};
    int i = 0;
    FOR_EACH_WORLD(world)
    {
        char text[300];
        assert_string_equal(world->backend->ops->name, names[i]);
        assert_int_equal(world->backend->ops->element, elements[i++]);
        backend_describe(world->backend, text, sizeof text);
        assert_true(strlen(text) > 10);
        backend_describe(world->backend, text, 4);
        assert_int_equal(strlen(text), 3);
    }
}

static void test_upload_and_download_keep_values(void **state)
{
    const float floats[] = {1.5f, -2, 3, 4, 5, 6};
    const double doubles[] = {1.5, -2, 3, 4, 5, 6};
    FOR_EACH_WORLD(world)
    {
        float back[6];
        const struct matrix m = world_zeros(world, 2, 3, 5);
        world->backend->ops->upload(world->backend, m, floats, DTYPE_F32);
        assert_values(world, m, doubles, 0);
        world->backend->ops->download(world->backend, m, back, DTYPE_F32);
        assert_memory_equal(back, floats, sizeof back);
    }
}

static void test_gemm_by_hand(void **state)
{
    FOR_EACH_WORLD(world)
    {
        const struct matrix a = from_values(world, 2, 3, (const double[]){1, 2, 3, 4, 5, 6});
        const struct matrix b = from_values(world, 3, 2, (const double[]){1, 0, 2, 1, 0, 3});
        const struct matrix c =
            from_values(world, 2, 2, (const double[]){(double)NAN, (double)NAN, (double)NAN, (double)NAN});
        world->backend->ops->gemm(world->backend, &(struct gemm_args){a, b, c, false, false, 2, 0, true});
        assert_values(world, c, (const double[]){10, 22, 28, 46}, 0);
        world->backend->ops->gemm(world->backend, &(struct gemm_args){a, a, c, false, true, 1, -1, true});
        assert_values(world, c, (const double[]){4, 10, 4, 31}, 0);
    }
}

static void test_nan_in_an_operand_reaches_its_row(void **state)
{
    FOR_EACH_WORLD(world)
    {
        const struct matrix a = world_random(world, 40, 30, 0, 1), b = world_random(world, 20, 30, 0, 1),
                            c = world_zeros(world, 40, 20, 0);
        world->backend->ops->fill(world->backend, matrix_columns(matrix_rows(a, 7, 1), 3, 1), (double)NAN);
        world->backend->ops->gemm(world->backend, &(struct gemm_args){a, b, c, false, true, 1, 0, true});
        double *values = world_read(world, c);
        for (int64_t i = 0; i < 40; i++)
            for (int64_t j = 0; j < 20; j++) assert_int_equal(isnan(values[i * 20 + j]) != 0, i == 7);
        free(values);
    }
}

static void test_activations_keep_nan(void **state)
{
    const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU};
    FOR_EACH_WORLD(world)
    for (int k = 0; k < 4; k++) {
        struct activation_args args = {.kind = kinds[k]};
        args.gate = world_random(world, 1, 40, 0, 1), args.dy = world_random(world, 1, 40, 0, 1);
        args.y = world_zeros(world, 1, 40, 0), args.dgate = world_zeros(world, 1, 40, 0);
        world->backend->ops->fill(world->backend, matrix_columns(args.gate, 20, 1), (double)NAN);
        world->backend->ops->activation_forward(world->backend, &args);
        world->backend->ops->activation_backward(world->backend, &args);
        double *y = world_read(world, args.y), *dgate = world_read(world, args.dgate);
        for (int i = 0; i < 40; i++) {
            assert_int_equal(isnan(y[i]) != 0, i == 20);
            assert_int_equal(isnan(dgate[i]) != 0, i == 20);
        }
        free(y);
        free(dgate);
    }
}

static void test_activations_at_the_ends(void **state)
{
    const enum activation_kind kinds[] = {ACTIVATION_SILU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_RELU};
    FOR_EACH_WORLD(world)
    for (int k = 0; k < 4; k++) {
        struct activation_args args = {.kind = kinds[k]};
        args.gate = from_values(world, 1, 6, (const double[]){-1e4, -100, 0, 100, 1e4, 1e30});
        args.dy = from_values(world, 1, 6, (const double[]){1, 1, 1, 1, 1, 1});
        args.y = world_zeros(world, 1, 6, 0), args.dgate = world_zeros(world, 1, 6, 0);
        world->backend->ops->activation_forward(world->backend, &args);
        world->backend->ops->activation_backward(world->backend, &args);
        assert_values(world, matrix_columns(args.y, 0, 5), (const double[]){0, 0, 0, 100, 1e4}, 1e-30);
        assert_values(world, matrix_columns(args.dgate, 0, 5),
                      (const double[]){0, 0, kinds[k] == ACTIVATION_RELU ? 0 : 0.5, 1, 1}, 2e-7);
    }
}

static void test_losses_by_hand(void **state)
{
    const uint32_t targets[] = {1, TARGET_NONE, 0};
    const double ln2 = log(2), nan = (double)NAN;
    FOR_EACH_WORLD(world)
    {
        double losses[3] = {9, 9, 9}, log_sum[3] = {9, 9, 9}, q_log_sum[3], q_losses[3], kl[3];
        uint8_t agree[3];
        /* rows: probabilities 1/2 1/4 1/4; not read; scores so large that exp would overflow */
        const struct matrix p = from_values(world, 3, 3, (const double[]){ln2, 0, 0, nan, nan, nan, 1000, 1000, -1000});
        const struct matrix q = from_values(world, 3, 3, (const double[]){0, ln2, 0, nan, nan, nan, 1000, 1000, -1000});
        struct cross_entropy_args args = {
            .logits = p, .targets = targets, .losses = losses, .log_sum = log_sum, .weight = 2};
        world->backend->ops->cross_entropy_forward(world->backend, &args);
        assert_true(fabs(losses[0] - log(4)) < 1e-6 && losses[1] == 0 && fabs(losses[2] - ln2) < 1e-6);
        assert_true(fabs(log_sum[0] - log(4)) < 1e-6 && log_sum[1] == 0 && fabs(log_sum[2] - 1000 - ln2) < 1e-6);
        world->backend->ops->compare(world->backend,
                                     &(struct compare_args){p, q, targets, log_sum, q_log_sum, q_losses, kl, agree});
        assert_true(fabs(q_log_sum[0] - log(4)) < 1e-6 && q_log_sum[1] == 0 && fabs(q_log_sum[2] - 1000 - ln2) < 1e-6);
        assert_true(fabs(q_losses[0] - ln2) < 1e-6 && q_losses[1] == 0 && fabs(q_losses[2] - ln2) < 1e-6);
        /* KL = 1/2 ln 2 + 1/4 (-ln 2) */
        assert_true(fabs(kl[0] - ln2 / 4) < 1e-6 && kl[1] == 0 && fabs(kl[2]) < 1e-6);
        assert_true(agree[0] == 0 && agree[1] == 0 && agree[2] == 1);
        world->backend->ops->cross_entropy_backward(world->backend, &args);
        assert_values(world, p, (const double[]){1, -1.5, 0.5, 0, 0, 0, -1, 1, 0}, 1e-6);
    }
}

/* The first of equals is the largest, wherever the others stand. */
static void test_models_agree_on_the_first_of_equal_logits(void **state)
{
    enum { WIDE = 700 };
    const int at[][4] = {
        {300, 1, 300, 1}, {256, 0, 512, 0}, {699, 443, 443, 10}, {5, 5, 6, 6}}; /* equals of p, equals of q */
    const uint8_t expected[] = {1, 1, 0, 0};
    const uint32_t target = 2;
    FOR_EACH_WORLD(world)
    {
        for (int i = 0; i < 4; i++) {
            double values[2][WIDE] = {0}, losses, q_losses, log_sum, q_log_sum, kl;
            uint8_t agree = 9;
            for (int k = 0; k < 4; k++) values[k / 2][at[i][k]] = 3;
            const struct matrix p = from_values(world, 1, WIDE, values[0]), q = from_values(world, 1, WIDE, values[1]);
            world->backend->ops->cross_entropy_forward(
                world->backend,
                &(struct cross_entropy_args){.logits = p, .targets = &target, .losses = &losses, .log_sum = &log_sum});
            world->backend->ops->compare(
                world->backend, &(struct compare_args){p, q, &target, &log_sum, &q_log_sum, &q_losses, &kl, &agree});
            assert_int_equal(agree, expected[i]);
        }
    }
}

static void test_nan_logits_give_nan_losses(void **state)
{
    const uint32_t targets[] = {0, 0};
    FOR_EACH_WORLD(world)
    {
        double losses[2], log_sum[2];
        const struct matrix logits = world_random(world, 2, 700, 0, 1);
        world->backend->ops->fill(world->backend, matrix_columns(matrix_rows(logits, 1, 1), 600, 1), (double)NAN);
        world->backend->ops->cross_entropy_forward(
            world->backend,
            &(struct cross_entropy_args){.logits = logits, .targets = targets, .losses = losses, .log_sum = log_sum});
        assert_true(isfinite(losses[0]) && isnan(losses[1]) && isnan(log_sum[1]));
    }
}

static void test_nan_queries_give_nan_rows_in_their_sequence_alone(void **state)
{
    FOR_EACH_WORLD(world)
    {
        struct test_batch batch;
        test_batch_fill(&batch, (const int64_t[]){6, 5}, 2, 4);
        struct attention_args args = {.batch = &batch.batch, .heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 0.5};
        args.q = (struct head_view){world_random(world, 11, 4, 0, 1), 0, 4},
        args.k = (struct head_view){world_random(world, 11, 4, 0, 1), 0, 4};
        args.v = (struct head_view){world_random(world, 11, 4, 0, 1), 0, 4},
        args.out = (struct head_view){world_zeros(world, 11, 4, 0), 0, 4};
        world->backend->ops->fill(world->backend, matrix_rows(args.q.matrix, 2, 1), (double)NAN);
        world->backend->ops->attention_forward(world->backend, &args);
        double *out = world_read(world, args.out.matrix);
        assert_true(isnan(out[2 * 4]));
        for (int64_t t = 0; t < 11; t++)
            if (t != 2) assert_true(isfinite(out[t * 4]));
        free(out);
    }
}

/* One step by hand: m = 0.1 g, v = 0.05 g², both corrected to g and g²: the step is the sign of g, plus decay. */
static void test_adamw_by_hand(void **state)
{
    FOR_EACH_WORLD(world)
    {
        const struct matrix p = from_values(world, 1, 3, (const double[]){1, -2, 0.5}),
                            g = from_values(world, 1, 3, (const double[]){8, -4, 0});
        const struct matrix m = world_zeros(world, 1, 3, 0), v = world_zeros(world, 1, 3, 0);
        world->backend->ops->adamw(world->backend, &(struct adamw_args){p.data, m.data, v.data, g.data, 3, 0.1, 0.9,
                                                                        0.95, 0, 0.5, 0.1, 0.05, 0.5});
        assert_values(world, matrix_columns(p, 0, 2), (const double[]){1 - 0.1 * (1 + 0.5), -2 + 0.1 * (1 + 1)}, 1e-6);
        assert_values(world, m, (const double[]){0.4, -0.2, 0}, 1e-6);
        assert_values(world, v, (const double[]){0.8, 0.2, 0}, 1e-6);
    }
}

static void test_norm_of_zeros_and_of_a_constant(void **state)
{
    FOR_EACH_WORLD(world)
    {
        struct norm_args args = {.kind = NORM_LAYER, .epsilon = 1e-5, .groups = 1};
        args.x = from_values(world, 2, 4, (const double[]){0, 0, 0, 0, 7, 7, 7, 7});
        args.weight = from_values(world, 1, 4, (const double[]){1, 2, 3, 4}),
        args.bias = from_values(world, 1, 4, (const double[]){1, 1, 1, 1});
        args.y = world_zeros(world, 2, 4, 0);
        world->backend->ops->norm_forward(world->backend, &args);
        assert_values(world, args.y, (const double[]){1, 1, 1, 1, 1, 1, 1, 1}, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_elements),
        cmocka_unit_test(test_upload_and_download_keep_values),
        cmocka_unit_test(test_gemm_by_hand),
        cmocka_unit_test(test_nan_in_an_operand_reaches_its_row),
        cmocka_unit_test(test_activations_keep_nan),
        cmocka_unit_test(test_activations_at_the_ends),
        cmocka_unit_test(test_losses_by_hand),
        cmocka_unit_test(test_models_agree_on_the_first_of_equal_logits),
        cmocka_unit_test(test_nan_logits_give_nan_losses),
        cmocka_unit_test(test_nan_queries_give_nan_rows_in_their_sequence_alone),
        cmocka_unit_test(test_adamw_by_hand),
        cmocka_unit_test(test_norm_of_zeros_and_of_a_constant),
    };
    return RUN_ON_ALL_MACHINES("backend edges", tests, open_backends, close_backends);
}
