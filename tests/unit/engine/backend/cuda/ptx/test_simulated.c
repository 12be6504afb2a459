/* The simulated device notices what it is there to notice: kernels with one fault each, written as translate.py would
 * write them, beside the same kernels without it; and instructions that are easily got wrong. */
#include "engine/backend/cuda/ptx/instructions.h"

#include "unit.h"

enum { WORDS = 2 * KERNEL_THREADS };

/* shared[thread] is written, and its neighbour's read after `barrier` into words of the device. */
static int neighbours(struct ptx_thread *t, bool barrier)
{
    const uint64_t to = ld_u64(t, PTX_PARAM, 0, 1), next = (t->thread + 1) % KERNEL_THREADS;
    switch (t->at) {
    case 0:
        st_u32(t, PTX_SHARED, 4 * t->thread, t->thread, 2);
        if (barrier) {
            t->at = 1;
            return 3;
        }
    }
    st_u32(t, PTX_GLOBAL, to + 4 * (t->block * KERNEL_THREADS + t->thread), ld_u32(t, PTX_SHARED, 4 * next, 4), 5);
    return 0;
}

static int ordered(struct ptx_thread *t)
{
    return neighbours(t, true);
}

static int unordered(struct ptx_thread *t)
{
    return neighbours(t, false);
}

static int last_thread_passes_by(struct ptx_thread *t)
{
    return t->at++ == 0 && t->thread < KERNEL_THREADS - 1 ? 1 : 0;
}

static int overtaken(struct ptx_thread *t) /* reads its neighbour's, and writes its own with no barrier between */
{
    if (t->at++ == 0) {
        st_u32(t, PTX_SHARED, 4 * t->thread, 0, 1);
        return 2;
    }
    st_u32(t, PTX_SHARED, 4 * t->thread, ld_u32(t, PTX_SHARED, 4 * ((t->thread + 1) % KERNEL_THREADS), 3), 4);
    return 0;
}

static int unwritten(struct ptx_thread *t)
{
    (void)ld_u32(t, PTX_SHARED, 4 * t->thread, 1);
    return 0;
}

static int beside(struct ptx_thread *t)
{
    st_u32(t, PTX_SHARED, 4 * (t->thread + 1), 0, 1);
    return 0;
}

static int bytes_of_words(struct ptx_thread *t)
{
    st_u8(t, PTX_GENERIC, cvta_shared_u64(t->thread), 0, 1);
    return 0;
}

static int same_word_in_all_blocks(struct ptx_thread *t)
{
    st_u32(t, PTX_GLOBAL, ld_u64(t, PTX_PARAM, 0, 1) + 4 * t->thread, t->block, 2);
    return 0;
}

static int same_flag_of_all(struct ptx_thread *t)
{
    st_u8(t, PTX_GLOBAL, ld_u64(t, PTX_PARAM, 0, 1), 1, 2);
    return 0;
}

static int other_block_reads(struct ptx_thread *t)
{
    const uint64_t to = ld_u64(t, PTX_PARAM, 0, 1);
    if (t->block == 0) (void)ld_u32(t, PTX_GLOBAL, to + 4 * t->thread, 2);
    if (t->block == 1 && t->thread == 7) st_u32(t, PTX_GLOBAL, to, 0, 3);
    return 0;
}

static int outside(struct ptx_thread *t)
{
    st_u32(t, PTX_GLOBAL, ld_u64(t, PTX_PARAM, 0, 1) + 4 * (t->thread + WORDS - KERNEL_THREADS + 1), 0, 2);
    return 0;
}

static int crooked(struct ptx_thread *t)
{
    st_f64(t, PTX_LOCAL, 4, 0, 1);
    return 0;
}

static int beyond_arguments(struct ptx_thread *t)
{
    (void)ld_u64(t, PTX_PARAM, sizeof(struct fill_args), 1);
    return 0;
}

static const struct {
    int (*run)(struct ptx_thread *t);
    const char *complaint; /* NULL: none */
} cases[] = {
    {ordered, NULL},
    {bytes_of_words, NULL},
    {same_flag_of_all, NULL},
    {unordered, "reads what"},
    {overtaken, "no barrier between"},
    {last_thread_passes_by, "comes to the barrier of line"},
    {unwritten, "nobody has written"},
    {beside, "outside every array of shared memory"},
    {same_word_in_all_blocks, "writes what another thread writes"},
    {other_block_reads, "no barrier between"},
    {outside, "outside the device's memory"},
    {crooked, "a crooked address"},
    {beyond_arguments, "outside the arguments"},
};

/* The value to be filled in is the number of the case. */
static int run_case(struct ptx_thread *t)
{
    return cases[(int)ld_f64(t, PTX_PARAM, offsetof(struct fill_args, value), 0)].run(t);
}

static const struct ptx_array arrays[] = {
    {"shared", 0, 4 * KERNEL_THREADS}, {"other", 8 * KERNEL_THREADS, 4}, {NULL, 0, 0}};
const struct ptx_kernel ptx_kernels[KERNEL_COUNT] = {
    [KERNEL_fill] = {"case", run_case, 1, sizeof(struct fill_args), 16, arrays},
    [KERNEL_add] = {"another build", run_case, 1, sizeof(struct add_args) - 8, 0, arrays},
};

static struct device *open_device(bool reversed, void **block)
{
    struct device *device = simulated_device(reversed);
    assert_non_null(device);
    assert_int_equal(device->allocate(device, WORDS * sizeof(uint32_t), block), 0);
    assert_int_equal(device->clear(device, *block, WORDS * sizeof(uint32_t)), 0);
    return device;
}

static void close_device(struct device *device, void *block)
{
    assert_int_equal(device->release(device, block), 0);
    device->close(device);
}

static void hold(const struct device *device, int code, const char *complaint)
{
    if (complaint == NULL ? code != 0 : code == 0 || strstr(device->text, complaint) == NULL)
        fail_msg("code %d, \"%s\", expected \"%s\"", code, device->text, complaint != NULL ? complaint : "nothing");
}

static void test_each_fault_of_a_kernel_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        void *block;
        struct device *device = open_device(i % 2 == 1, &block);
        const struct fill_args args = {{.data = block}, (double)(i / 2)};
        hold(device, device->launch(device, KERNEL_fill, 2, &args), cases[i / 2].complaint);
        close_device(device, block);
    }
}

static void test_launches_without_a_fault_follow_each_other(void **state)
{
    (void)state;
    void *block;
    uint32_t words[WORDS];
    struct device *device = open_device(false, &block);
    const struct fill_args args = {.to = {.data = block}};
    for (int i = 0; i < 3; i++) assert_int_equal(device->launch(device, KERNEL_fill, 2, &args), 0);
    assert_int_equal(device->download(device, words, sizeof words, block, sizeof words, sizeof words, 1), 0);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], (i + 1) % KERNEL_THREADS);
    close_device(device, block);
}

static void test_what_cuda_would_refuse_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        void *block;
        struct device *device = open_device(false, &block);
        const struct fill_args fill = {.to = {.data = block}};
        const struct add_args add = {.to = {.data = block}};
        struct device_gemm product = {
            .m = 4, .n = 4, .k = 4, .a = block, .b = block, .c = block, .lda = 4, .ldb = 4, .ldc = 4};
        uint32_t word;
        if (i == 0) hold(device, device->launch(device, KERNEL_fill, 0, &fill), "0 blocks");
        if (i == 1) hold(device, device->launch(device, KERNEL_add, 1, &add), "bytes of arguments");
        product.ldb = 3;
        if (i == 2) hold(device, device->gemm(device, &product), "leading dimension 3");
        product.ldb = 4, product.n = WORDS;
        if (i == 3) hold(device, device->gemm(device, &product), "outside the device's memory");
        void *fresh;
        assert_int_equal(device->allocate(device, 4, &fresh), 0);
        if (i == 4) hold(device, device->download(device, &word, 4, fresh, 4, 4, 1), "nobody has written");
        close_device(device, block);
    }
}

static void test_instructions_mind_signs_widths_and_nan(void **state)
{
    (void)state;
    assert_true(copysign_f64(-1, 3) == -3.0);
    assert_false(setp_ne_f32(NAN, 1));
    assert_true(setp_neu_f32(NAN, 1) && setp_ltu_f32(NAN, 1) && setp_geu_f64(1, NAN) && !setp_lt_f32(NAN, 1));
    assert_true(max_f32(NAN, -2) == -2.0F && cvt_sat_f32_f32(NAN) == 0.0F && cvt_sat_f32_f32(7) == 1.0F);
    assert_true(fma_rm_f32(1, 1, 0x1p-30F) == 1.0F && fma_rm_f32(1, 1, -0x1p-30F) == 1 - 0x1p-24F);
    assert_true(fma_rm_f32(-1, 1, 0x1p-30F) == -1.0F && fma_rm_f32(-1, 1, -0x1p-30F) == -1 - 0x1p-23F);
    assert_int_equal(shl_b32(1, 32), 0);
    assert_int_equal(shr_s32(0x80000000U, 40), UINT32_MAX);
    assert_int_equal(div_s64(-7, 2), (uint64_t)-3);
    assert_int_equal(rem_s64(-7, 2), (uint64_t)-1);
    assert_int_equal(div_u32(7, 0), UINT32_MAX);
    assert_int_equal(setp_lt_s32(-1, 0), true);
    assert_int_equal(cvt_s64_s32(-5), (uint64_t)-5);
    assert_int_equal(mul_wide_u32(UINT32_MAX, 2), UINT64_C(0x1fffffffe));
    assert_int_equal(cvt_rzi_s32_f64(-2.9), (uint32_t)-2);
    assert_true(fabs(3 * rcp_approx_ftz_f64(3) - 1) < 0x1p-19 && low_fd(rcp_approx_ftz_f64(3)) == 0);
    assert_true(ex2_approx_ftz_f32(-1) == 0.5F && ex2_approx_ftz_f32(-140) == 0.0F);
    assert_true(halves_fd(low_fd(0.1), high_fd(0.1)) == 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fault_of_a_kernel_is_noticed),
        cmocka_unit_test(test_launches_without_a_fault_follow_each_other),
        cmocka_unit_test(test_what_cuda_would_refuse_is_refused),
        cmocka_unit_test(test_instructions_mind_signs_widths_and_nan),
    };
    return cmocka_run_group_tests_name("the simulation of PTX", tests, NULL, NULL);
}
