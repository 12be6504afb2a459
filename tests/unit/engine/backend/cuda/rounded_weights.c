/* Rounded copies of all weights, on an emulated device whose products round their factors to bfloat16: the bits are
 * those without a copy, no weight is read as it was before it changed, and a trainer has a copy where its plan has room
 * for one. */
#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "base/random.h"
#include "engine/jobs/tiny_fixture.h"
#include "model/gradient.h"
#include "train/trainer.h"

static struct backend *open_device(bool rounds)
{
    struct device *device = emulated_device(false);
    struct backend *backend = NULL;
    struct error error;
    assert_non_null(device);
    if (rounds) emulated_round(device);
    assert_int_equal(cuda_open_device(device, device->memory_free, NULL, &backend, &error), STATUS_OK);
    return backend;
}

static void ok(enum status status, const struct error *error)
{
    if (status != STATUS_OK) fail_msg("%s", error->detail);
}

struct found {
    float *gradient;
    double losses[3][8 * 24];
    int64_t launches;
};

/* The sum of the gradients at the model's weights and at others, then the losses at a third place. */
static struct found found_on(const struct fixture *f, const struct parameters_layout *layout, bool round)
{
    struct backend *backend = open_device(true);
    struct parameters parameters, sums;
    struct gradient *gradient = NULL;
    struct chunks chunks;
    struct error error;
    struct found found = {.gradient = calloc((size_t)layout->elements, sizeof(float))};
    ok(parameters_init(&parameters, layout, backend, "parameters", &error), &error);
    ok(parameters_init(&sums, layout, backend, "gradients", &error), &error);
    ok(parameters_read(&parameters, f->model, &error), &error);
    ok(chunks_init(&f->evaluation, 8 * 24, &chunks, &error), &error);
    ok(gradient_new(&parameters, GRADIENT_KEEP, chunks.largest, chunks.longest, &gradient, &error), &error);
    if (round) ok(gradient_round(gradient, &error), &error);
    const struct matrix all = parameters_all(&parameters);
    const int64_t before = cuda_of(backend)->launches;
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            gradient_add(gradient, &chunks.chunks[0].batch, 0.01, found.losses[i], &sums);
        else
            gradient_losses(gradient, &chunks.chunks[0].batch, found.losses[i]);
        backend->ops->add(backend, all, all, 0.25, 1);
    }
    found.launches = cuda_of(backend)->launches - before;
    backend->ops->download(backend, parameters_all(&sums), found.gradient, DTYPE_F32);
    gradient_free(gradient);
    chunks_reset(&chunks);
    parameters_reset(&sums);
    parameters_reset(&parameters);
    backend_free(backend);
    return found;
}

static void test_a_copy_changes_no_bits_and_is_never_stale(void **state)
{
    static const char *const models[] = {tiny_llama, tiny_gpt_neox, tiny_gpt2, tiny_opt, tiny_olmoe};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct fixture f;
        struct parameters_layout *layout = NULL;
        struct error error;
        open_fixture(&f, models[i], 8, 24);
        ok(parameters_layout_new(&f.model->config, &layout, &error), &error);
        struct found without = found_on(&f, layout, false), with = found_on(&f, layout, true);
        assert_memory_equal(with.losses, without.losses, sizeof with.losses);
        assert_memory_equal(with.gradient, without.gradient, (size_t)layout->elements * sizeof(float));
        if (with.launches >= without.launches)
            fail_msg("%s: %lld launches, %lld without a copy", models[i], (long long)with.launches,
                     (long long)without.launches);
        free(without.gradient);
        free(with.gradient);
        parameters_layout_free(layout);
        close_fixture(&f);
    }
}

enum { NUMBERS = 1024 };

static int64_t launches_of(struct backend *backend, struct matrix a, struct matrix b, struct matrix c, float *out)
{
    const int64_t before = cuda_of(backend)->launches;
    backend->ops->gemm(backend, &(struct gemm_args){.a = a, .b = b, .c = c, .transpose_b = true, .alpha = 1});
    const int64_t launches = cuda_of(backend)->launches - before;
    backend->ops->download(backend, c, out, DTYPE_F32);
    return launches;
}

/* Either factor is read from the copy where it lies in the numbers and has the pitch of a rounded factor; what begins
 * between or passes their end, or has gaps, is rounded on its own. After the end everything is. */
static void test_products_find_what_lies_in_the_copy(void **state)
{
    static const struct {
        int64_t first, rows, columns, stride;
        bool in;
    } places[] = {{64, 8, 8, 8, true},   {NUMBERS - 64, 8, 8, 8, true},  {63, 8, 8, 8, false}, {56, 8, 8, 8, false},
                  {64, 8, 7, 8, true},   {NUMBERS - 56, 8, 8, 8, false}, {64, 8, 7, 7, false}, {68, 8, 8, 8, false},
                  {64, 8, 8, 16, false}, {NUMBERS, 8, 8, 8, false}};
    struct backend *backend = open_device(true);
    struct matrix all, c;
    struct error error;
    void *copy = NULL;
    float values[2 * NUMBERS], wanted[64], found[64];
    (void)state;
    for (int i = 0; i < 2 * NUMBERS; i++) values[i] = (float)(random_uniform(7, 0, (uint64_t)i) - 0.5);
    ok(matrix_new(backend, 1, 2 * NUMBERS, "numbers", &all, &error), &error);
    ok(matrix_new(backend, 8, 8, "a product", &c, &error), &error);
    backend->ops->upload(backend, all, values, DTYPE_F32);
    const struct rounding_ops *rounding = backend->ops->rounding;
    assert_int_equal(rounding->bytes(backend, NUMBERS), 2 * NUMBERS);
    ok(backend->ops->allocate(backend, NUMBERS / 2, "a copy", &copy, &error), &error);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const struct matrix place = {(float *)all.data + places[i].first, places[i].rows, places[i].columns,
                                     places[i].stride, sizeof(float)};
        assert_int_equal(launches_of(backend, place, place, c, wanted), 2);
        rounding->begin(backend, (float *)all.data + 64, NUMBERS - 64, copy);
        const int64_t launches = launches_of(backend, place, place, c, found);
        assert_memory_equal(found, wanted, sizeof found);
        if (launches != (places[i].in ? 0 : 2)) fail_msg("place %zu: %lld launches", i, (long long)launches);
        backend->ops->fill(backend, c, 0);
        rounding->end(backend);
        assert_int_equal(launches_of(backend, place, place, c, found), 2);
        assert_memory_equal(found, wanted, sizeof found);
    }
    backend->ops->release(backend, copy);
    matrix_release(backend, &all);
    matrix_release(backend, &c);
    backend_free(backend);
}

/* A product whose first factor lies in the copy rounds its second one over what an earlier product kept; memory that
 * grows keeps nothing. */
static void test_what_was_kept_is_not_read_after_it_was_overwritten(void **state)
{
    struct backend *backend = open_device(true);
    struct cuda *cuda = cuda_of(backend);
    struct matrix weights, x, y, c;
    struct error error;
    void *copy = NULL;
    float values[NUMBERS], wanted[64], found[64];
    (void)state;
    for (int i = 0; i < NUMBERS; i++) values[i] = (float)(random_uniform(8, 0, (uint64_t)i) - 0.5);
    ok(matrix_new(backend, 8, 8, "weights", &weights, &error), &error);
    ok(matrix_new(backend, 32, 8, "a factor", &x, &error), &error);
    ok(matrix_new(backend, 8, 8, "a factor", &y, &error), &error);
    ok(matrix_new(backend, 32, 8, "a product", &c, &error), &error);
    ok(backend->ops->allocate(backend, 32, "a copy", &copy, &error), &error);
    backend->ops->upload(backend, weights, values, DTYPE_F32);
    backend->ops->upload(backend, x, values + 100, DTYPE_F32);
    backend->ops->upload(backend, y, values + 500, DTYPE_F32);
    const struct gemm_args first = {.a = x, .b = y, .c = c, .transpose_b = true, .alpha = 1};
    const struct gemm_args second = {.a = weights, .b = y, .c = matrix_rows(c, 0, 8), .transpose_b = true, .alpha = 1};
    const struct matrix last = matrix_rows(c, 8, 8);
    backend->ops->gemm(backend, &first);
    backend->ops->download(backend, last, wanted, DTYPE_F32);
    backend->ops->rounding->begin(backend, weights.data, 64, copy);
    backend->ops->gemm(backend, &first);
    backend->ops->gemm(backend, &second);
    backend->ops->gemm(backend, &first);
    backend->ops->download(backend, last, found, DTYPE_F32);
    assert_memory_equal(found, wanted, sizeof found);
    backend->ops->rounding->end(backend);
    backend->ops->gemm(backend, &first);
    assert_true(cuda->narrowed.data == x.data);
    assert_non_null(cuda_narrow_scratch(cuda, cuda->narrow.bytes + 1));
    assert_null(cuda->narrowed.data);
    backend->ops->release(backend, copy);
    struct matrix *const all[] = {&weights, &x, &y, &c};
    for (int i = 0; i < 4; i++) matrix_release(backend, all[i]);
    backend_free(backend);
}

/* A trainer on a device with so much memory for its plan: whether it rounds, and its loss after two steps. */
static double trained(const struct fixture *f, const struct parameters_layout *layout, bool rounds, int64_t limit,
                      struct run_plan *plan, bool *copies)
{
    struct backend *backend = open_device(rounds);
    struct trainer trainer;
    struct error error;
    const struct trainer_setup setup = {
        .optimizer = &optimizer_adamw,
        .settings = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8},
        .schedule = {.kind = SCHEDULE_CONSTANT, .peak = 1e-2, .total = 9},
        .batch_sequences = 2,
        .sequence_length = 24,
        .tokens = f->tokens,
        .token_count = 8 * 24,
        .memory_limit = limit,
    };
    (void)trainer_plan(layout, backend, &setup, plan);
    ok(trainer_init(&trainer, layout, backend, &setup, &error), &error);
    ok(parameters_initialise(&trainer.parameters, 3, &error), &error);
    for (int i = 0; i < 3; i++) ok(trainer_step(&trainer, &error), &error);
    *copies = trainer.rounds && gradient_round_bytes(layout, backend) > 0;
    const double loss = trainer.loss;
    trainer_reset(&trainer);
    backend_free(backend);
    return loss;
}

static void test_a_trainer_has_a_copy_where_there_is_room(void **state)
{
    struct fixture f;
    struct parameters_layout *layout = NULL;
    struct run_plan whole = {.flops = 0}, small = {.flops = 0}, exact = {.flops = 0};
    struct error error;
    bool copies;
    (void)state;
    open_fixture(&f, tiny_gpt_neox, 8, 24);
    ok(parameters_layout_new(&f.model->config, &layout, &error), &error);
    const double loss = trained(&f, layout, true, INT64_MAX, &whole, &copies);
    assert_true(copies);
    const int64_t weights = layout->elements - layout->tensors[1].offset;
    (void)trained(&f, layout, false, INT64_MAX, &exact, &copies);
    assert_false(copies);
    assert_int_equal(whole.peak[PLAN_DEVICE] - exact.peak[PLAN_DEVICE], 2 * weights);
    /* what is needed without a copy and one byte less than the copy */
    const int64_t needed = exact.peak[PLAN_DEVICE] + exact.peak[PLAN_HOST] + 2 * weights - 1;
    assert_true(trained(&f, layout, true, needed, &small, &copies) == loss);
    assert_false(copies);
    assert_int_equal(small.peak[PLAN_DEVICE], exact.peak[PLAN_DEVICE]);
    assert_true(trained(&f, layout, true, needed + 1, &small, &copies) == loss);
    assert_true(copies);
    parameters_layout_free(layout);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copy_changes_no_bits_and_is_never_stale),
        cmocka_unit_test(test_products_find_what_lies_in_the_copy),
        cmocka_unit_test(test_what_was_kept_is_not_read_after_it_was_overwritten),
        cmocka_unit_test(test_a_trainer_has_a_copy_where_there_is_room),
    };
    return cmocka_run_group_tests_name("rounded weights", tests, NULL, NULL);
}
