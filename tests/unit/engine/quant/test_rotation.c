/* Hadamard transforms are orthogonal in every size, and a model's block turned with the reference's signs is the
 * reference's. */
#include "base/random.h"
#include "quant/rotation.h"
#include "quantizer_fixture.h"

static void check_size(struct backend *backend, int64_t size, int64_t blocks, int64_t order)
{
    struct hadamard hadamard;
    struct error error;
    struct matrix x, turned, back;
    void *data = NULL;
    float *sign = malloc((size_t)size * sizeof(float));
    assert_int_equal(hadamard_init(&hadamard, backend, size, &error), STATUS_OK);
    assert_int_equal(hadamard.blocks, blocks);
    assert_int_equal(hadamard.order, order);
    assert_int_equal(backend->ops->allocate(backend, 3 * size * size, "a test", &data, &error), STATUS_OK);
    x = matrix_of(data, size, size, 4);
    turned = matrix_of((float *)data + size * size, size, size, 4);
    back = matrix_of((float *)data + 2 * size * size, size, size, 4);
    for (int64_t i = 0; i < size; i++) {
        sign[i] = random_below(1, 0, (uint64_t)i, 2) ? 1 : -1;
        ((float *)x.data)[i * size + i] = 1;
    }
    /* the rows of the identity: Q itself, whose entries are all of one size (within a block), and QQᵀ = I */
    hadamard_rows(&hadamard, (struct hadamard_use){.sign = sign}, x, turned);
    for (int64_t i = 0; i < size * size; i++) {
        const double entry = fabs((double)((float *)turned.data)[i]), one = 1 / sqrt((double)(size / blocks));
        assert_true(fabs(entry - one) < 1e-6 || (blocks > 1 && entry == 0));
    }
    hadamard_rows(&hadamard, (struct hadamard_use){.sign = sign, .inverse = true}, turned, back);
    for (int64_t i = 0; i < size * size; i++)
        assert_true(fabsf(((float *)back.data)[i] - ((float *)x.data)[i]) < 1e-6f);
    /* columns of the identity: Qᵀ */
    hadamard_columns(&hadamard, (struct hadamard_use){.sign = sign}, x);
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++)
            assert_true(((float *)x.data)[i * size + j] == ((float *)turned.data)[j * size + i]);
    backend->ops->release(backend, data);
    hadamard_reset(&hadamard);
    free(sign);
}

/* Of 12: Paley's first construction, I + S with S from the squares modulo 11 (0 1 4 9 5 3). Powers of two: Sylvester's.
 * Of 24, the one in each place of the other. */
static double definition(int64_t order, int64_t i, int64_t j)
{
    static const bool square[11] = {false, true, false, true, true, true, false, false, false, true, false};
    if (order == 1) return __builtin_parityll((unsigned long long)(i & j)) ? -1 : 1;
    if (i == j || i == 0) return 1;
    return j != 0 && square[(j - i + 11) % 11] ? 1 : -1;
}

static void test_matrices_are_those_of_sylvester_and_paley(void **state)
{
    static const int64_t sizes[] = {2, 8, 12, 24};
    struct backend *backend = *state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const int64_t size = sizes[s], order = size % 12 == 0 ? 12 : 1, power = size / order;
        float x[24 * 24] = {0}, turned[24 * 24], ones[24];
        struct hadamard hadamard;
        struct error error;
        for (int64_t i = 0; i < size; i++) {
            x[i * size + i] = 1;
            ones[i] = 1;
        }
        assert_int_equal(hadamard_init(&hadamard, backend, size, &error), STATUS_OK);
        hadamard_rows(&hadamard, (struct hadamard_use){.sign = ones}, matrix_of(x, size, size, 4),
                      matrix_of(turned, size, size, 4));
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++) {
                double expected = definition(1, i % power, j % power) / sqrt((double)size);
                if (order > 1) expected *= definition(order, i / power, j / power);
                if (fabs((double)turned[i * size + j] - expected) > 1e-6)
                    fail_msg("%d: [%d, %d] is %g, expected %g", (int)size, (int)i, (int)j, (double)turned[i * size + j],
                             expected);
            }
        hadamard_reset(&hadamard);
    }
}

static void test_transforms_are_orthogonal_in_every_size(void **state)
{
    const int64_t cases[][3] = {{1, 1, 1},   {2, 1, 1},   {64, 1, 1},  {12, 1, 12}, {48, 1, 12},
                                {20, 1, 20}, {40, 1, 20}, {44, 1, 44}, {88, 1, 44}, {28, 7, 1},
                                {13, 13, 1}, {6, 3, 1},   {60, 1, 60}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_size(*state, cases[i][0], cases[i][1], cases[i][2]);
}

static void expect(const char *file, const char *name, struct matrix found)
{
    int64_t count;
    float *expected = shared_tensor(file, name, &count);
    assert_int_equal(count, found.rows * found.columns);
    for (int64_t i = 0; i < count; i++)
        if (fabsf(((float *)found.data)[i] - expected[i]) > 2e-6f)
            fail_msg("%s [%d]: %g, expected %g", name, (int)i, (double)((float *)found.data)[i], (double)expected[i]);
    free(expected);
}

static void set_signs(const char *file, const char *name, float *to)
{
    int64_t count;
    double *signs = shared_tensor(file, name, &count);
    for (int64_t i = 0; i < count; i++) to[i] = (float)signs[i];
    free(signs);
}

static void test_a_block_turns_into_the_reference_s(void **state)
{
    static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    struct backend *backend = *state;
    char values[512], before[512], after[512];
    struct model *model;
    struct loader *loader;
    struct block *block;
    struct rotation rotation;
    struct error error;
    (void)shared_require("reference/quant/rotation.safetensors", values, sizeof values);
    (void)shared_require("reference/quant/rotation_before", before, sizeof before);
    (void)shared_require("reference/quant/rotation_after/model.safetensors", after, sizeof after);
    assert_int_equal(model_open(before, &model, &error), STATUS_OK);
    assert_int_equal(rotation_init(&rotation, model, backend, 0, &error), STATUS_OK);
    assert_true(rotation.fused && !rotation.centred);
    set_signs(values, "sign", rotation.sign);
    set_signs(values, "head_sign", rotation.head_sign);
    assert_int_equal(loader_open(model, backend, &loader, &error), STATUS_OK);
    for (int layer = 0; layer < 2; layer++) {
        assert_int_equal(loader_next(loader, &block, &error), STATUS_OK);
        rotation_block(&rotation, block);
        for (int i = 0; i < block->program->parameter_count; i++)
            for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
                const char *name = block->program->parameters[i].name;
                if (strstr(name, names[n]) == NULL) continue;
                const struct matrix weight = block->parameters[i];
                const int online = rotation.online_of[i];
                assert_int_equal(online >= 0,
                                 strstr(name, "down_proj") != NULL); /* the reference leaves its inputs alone */
                if (online >= 0)
                    hadamard_rows(&rotation.online[online], (struct hadamard_use){.inverse = true}, weight, weight);
                expect(after, name, weight);
            }
    }
    loader_close(loader);
    rotation_reset(&rotation);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transforms_are_orthogonal_in_every_size),
        cmocka_unit_test(test_matrices_are_those_of_sylvester_and_paley),
        cmocka_unit_test(test_a_block_turns_into_the_reference_s),
    };
    return cmocka_run_group_tests_name("rotation", tests, fixture_setup, fixture_teardown);
}
