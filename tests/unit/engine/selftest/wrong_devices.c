/* The self-test over emulated devices that are made wrong on purpose: each fault is found, and said of the family that
 * it is in. And over one that is right: it passes, launches every kernel, and a crash or a hang stays in its child. Not
 * a unit test of its own: `make check` runs it over the emulated device. */
#include "engine/backend/cuda/stand_in.h"
#undef backend_cpu_new

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "engine/backend/cuda/emulated.h"
#include "selftest/rates.h"
#include "selftest/selftest.h"
#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum fault {
    FAULT_NONE,
    FAULT_KERNEL,  /* a kernel does nothing */
    FAULT_PRODUCT, /* products lose the last of their terms */
    FAULT_CUT,     /* exact products are made of factors of eight bits */
    FAULT_BATCHED, /* the last product of a batch is not made */
    FAULT_SQUARE,  /* what squares are added to is taken for 0 */
    FAULT_BITS,    /* every fifth product has another last bit */
    FAULT_STICKY,  /* from some launch on all fails */
    FAULT_CRASH,   /* a launch ends the process by a signal */
    FAULT_HANG,    /* a launch never returns */
    FAULT_COPY,    /* copies of rows to the host lose the last byte */
    FAULT_OUTSIDE, /* products write one element behind their last row */
    FAULT_COLD,    /* the first product of a size takes long */
};

/* The tests' own device: one at a time. */
static struct wrong {
    enum fault fault;
    enum kernel kernel;
    bool broken;
    uint64_t launched[KERNEL_COUNT]; /* bit i: by check i */
    int64_t products, asked[64];     /* asked: columns of the first ones, of which FAULT_COLD keeps account */
    struct device plain;
    struct trial_progress progress;
} wrong;

/* The number of the check that runs now; -1: none does. */
static int current_check(void)
{
    const char *name, *shape = strstr(wrong.progress.current, ", shape ");
    for (int i = 0; shape != NULL && (name = selftest_name(i)) != NULL; i++)
        if (strlen(name) == (size_t)(shape - wrong.progress.current) &&
            strncmp(name, wrong.progress.current, strlen(name)) == 0)
            return i;
    return -1;
}

static int wrong_launch(struct device *device, enum kernel kernel, int64_t blocks, const void *args)
{
    const bool due = kernel == wrong.kernel;
    if (current_check() >= 0) wrong.launched[kernel] |= UINT64_C(1) << current_check();
    if (wrong.fault == FAULT_STICKY && due) wrong.broken = true;
    if (wrong.broken) return 700;
    if (wrong.fault == FAULT_CRASH && due) (void)raise(SIGSEGV);
    while (wrong.fault == FAULT_HANG && due) (void)pause();
    if (wrong.fault == FAULT_KERNEL && due) return 0;
    return wrong.plain.launch(device, kernel, blocks, args);
}

static int wrong_synchronize(struct device *device)
{
    return wrong.broken ? 700 : wrong.plain.synchronize(device);
}

/* What a broken device was asked for is never done: it would be done late, in memory that who asked has given back. */
static int wrong_release(struct device *device, void *block)
{
    return wrong.broken ? 700 : wrong.plain.release(device, block);
}

static void wrong_close(struct device *device)
{
    if (!wrong.broken) wrong.plain.close(device);
}

static void wrong_error_text(int code, char *text, size_t size)
{
    if (code == 700)
        (void)snprintf(text, size, "an illegal memory access was encountered");
    else
        wrong.plain.error_text(code, text, size);
}

static enum device_failure wrong_failure(int code)
{
    return code == 700 ? DEVICE_FAULT : wrong.plain.failure(code);
}

/* A library that loads a kernel when it is first wanted. */
static void load_kernel(int64_t columns)
{
    static const struct timespec loading = {.tv_nsec = 15 * 1000 * 1000};
    bool known = false;
    for (int64_t i = 0; i < wrong.products && i < 64; i++) known = known || wrong.asked[i] == columns;
    if (!known) (void)nanosleep(&loading, NULL);
    if (wrong.products < 64) wrong.asked[wrong.products] = columns;
}

/* An element more or less by its last bit, when the stream is there. */
static int wrong_gemm(struct device *device, const struct device_gemm *g)
{
    struct device_gemm other = *g;
    int code;
    if (wrong.fault == FAULT_COLD) load_kernel(g->m);
    wrong.products++;
    if (wrong.broken) return 700;
    if (wrong.fault == FAULT_PRODUCT && g->k > 1) other.k--;
    if (wrong.fault == FAULT_CUT && g->exact) other.exact = false;
    if (wrong.fault == FAULT_SQUARE && g->a == g->b) other.beta = 0;
    code = wrong.plain.gemm(device, &other);
    if (code != 0 || (wrong.fault != FAULT_BITS && wrong.fault != FAULT_OUTSIDE)) return code;
    if (wrong.fault == FAULT_BITS && wrong.products % 5 != 0) return 0;
    if ((code = wrong.plain.synchronize(device)) != 0) return code;
    float *const last = &g->c[(g->n - 1) * g->ldc + g->m - 1];
    if (wrong.fault == FAULT_BITS) *last = nextafterf(*last, 1000);
    if (wrong.fault == FAULT_OUTSIDE && g->ldc > g->m) last[1] = 0;
    return 0;
}

static int wrong_gemm_batched(struct device *device, const struct device_gemm_batched *args)
{
    struct device_gemm_batched other = *args;
    if (wrong.fault == FAULT_BATCHED && other.count > 1) other.count--;
    return wrong.broken ? 700 : wrong.plain.gemm_batched(device, &other);
}

static int wrong_download(struct device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t rows)
{
    const bool short_of = wrong.fault == FAULT_COPY && width > 4;
    return wrong.plain.download(device, to, to_pitch, from, from_pitch, short_of ? width - 1 : width, rows);
}

static enum status wrong_open(void *context, const char *products, struct backend **out, struct error *error)
{
    struct device *device = emulated_device(false);
    (void)context;
    if (device == NULL || !emulated_trust(device)) return error_set(error, STATUS_NO_MEMORY, "no memory");
    if (strcmp(products, "bf16") == 0 || wrong.fault == FAULT_CUT) emulated_round(device);
    wrong.plain = *device;
    device->launch = wrong_launch;
    device->synchronize = wrong_synchronize;
    device->release = wrong_release;
    device->close = wrong_close;
    device->error_text = wrong_error_text;
    device->failure = wrong_failure;
    device->gemm = wrong_gemm;
    device->gemm_batched = wrong_gemm_batched;
    device->download = wrong_download;
    return cuda_open_device(device, device->memory_free, NULL, out, error);
}

static enum status run(enum fault fault, enum kernel kernel, const char *only, struct selftest_report *report,
                       struct error *error)
{
    const struct selftest how = {.open = wrong_open, .only = only, .progress = &wrong.progress};
    memset(&wrong, 0, sizeof wrong);
    wrong.fault = fault;
    wrong.kernel = kernel;
    return selftest_run(&how, report, error);
}

static const char *const kernel_names[] = {
#define X(name, type) #name,
    KERNEL_LIST(X)
#undef X
};

static void test_a_right_device_passes_and_every_kernel_was_launched(void **state)
{
    struct selftest_report report;
    struct error error;
    char text[400];
    (void)state;
    if (run(FAULT_NONE, KERNEL_COUNT, NULL, &report, &error) != STATUS_OK) fail_msg("%s", error.detail);
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (wrong.launched[i] == 0) fail_msg("no check launches the kernel %s", kernel_names[i]);
    for (int i = 0; i < report.row_count; i++) {
        assert_true(report.rows[i].shapes > 0 && report.rows[i].repetitions >= 2);
        if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
            print_message("%-32s %2d shapes %3d times, worst %.3g of its bound, %.1f ms\n", report.rows[i].name,
                          report.rows[i].shapes, report.rows[i].repetitions, report.rows[i].worst,
                          1e3 * report.rows[i].seconds);
    }
    selftest_describe_rates(&report, text, sizeof text);
    if (getenv("DELTAQ_SHOW_ERRORS") != NULL) print_message("%s; %.3f s\n", text, report.seconds);
    assert_int_equal(report.rate_count, 7);
    for (int i = 0; i < report.rate_count; i++) assert_true(report.rates[i].rate > 0);
    assert_non_null(strstr(text, "products bf16 "));
    assert_string_equal(report.device, "emulated device");
}

/* One check on a wrong device in a child process: what is wrong may crash. */
struct attempt {
    enum fault fault;
    enum kernel kernel;
    const char *only;
    double deadline_seconds;
};

struct attempt_report {
    struct trial_progress progress;
    enum status status;
    char detail[480];
};

static void make_attempt(void *memory, const void *context)
{
    static const int caught_by_cmocka[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct attempt_report *report = memory;
    const struct attempt *attempt = context;
    const struct selftest how = {.open = wrong_open, .only = attempt->only, .progress = &report->progress};
    struct selftest_report found;
    struct error error = {.detail = ""};
    for (int i = 0; i < 5; i++) (void)signal(caught_by_cmocka[i], SIG_DFL);
    memset(&wrong, 0, sizeof wrong);
    wrong.fault = attempt->fault;
    wrong.kernel = attempt->kernel;
    report->status = selftest_run(&how, &found, &error);
    (void)snprintf(report->detail, sizeof report->detail, "%s", error.detail);
}

/* What was wrong; "": nothing. */
static void try_in_child(const struct attempt *attempt, char said[480])
{
    struct attempt_report *report = NULL;
    struct error error;
    char failure[TRIAL_FAILURE];
    assert_int_equal(trial_memory_new(sizeof *report, "a test", &report, &error), STATUS_OK);
    const struct trial trial = {.body = make_attempt,
                                .context = attempt,
                                .progress = &report->progress,
                                .bytes = sizeof *report,
                                .deadline_seconds = attempt->deadline_seconds,
                                .first = "a test"};
    assert_int_equal(trial_run(&trial, failure, &error), STATUS_OK);
    (void)snprintf(said, 480, "%s", failure[0] != '\0' ? failure : report->detail);
    trial_memory_free(report, sizeof *report);
}

/* Whether one of the checks that launch the kernel finds that it does nothing, and says so of itself. */
static bool is_found(enum kernel kernel, uint64_t checks)
{
    const char *name;
    for (int i = 0; (name = selftest_name(i)) != NULL; i++) {
        const struct attempt attempt = {FAULT_KERNEL, kernel, name, 60};
        char said[480];
        if ((checks >> i & 1) == 0) continue;
        try_in_child(&attempt, said);
        if (said[0] == '\0') continue;
        if (strncmp(said, name, strlen(name)) != 0) fail_msg("%s: %s", name, said);
        return true;
    }
    return false;
}

static void test_a_kernel_that_does_nothing_is_found_whichever_it_is(void **state)
{
    uint64_t launched[KERNEL_COUNT];
    struct selftest_report report;
    struct error error;
    (void)state;
    if (run(FAULT_NONE, KERNEL_COUNT, NULL, &report, &error) != STATUS_OK) fail_msg("%s", error.detail);
    memcpy(launched, wrong.launched, sizeof launched);
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (!is_found((enum kernel)i, launched[i]))
            fail_msg("nothing notices that the kernel %s does nothing", kernel_names[i]);
}

static void test_wrong_products_copies_and_bits_are_found_and_named(void **state)
{
    static const struct {
        enum fault fault;
        const char *only, *words;
    } rows[] = {
        {FAULT_PRODUCT, NULL, "products, shape 2: a b ["},
        {FAULT_CUT, NULL, "products, shape "},
        {FAULT_CUT, "factors", "factors, shape "},
        {FAULT_BATCHED, "attention", "attention, shape "},
        {FAULT_SQUARE, NULL, "squares, shape 1: xT x ["},
        {FAULT_OUTSIDE, NULL, "products, shape 1: a b: wrote outside of it"},
        {FAULT_BITS, "products", "products, shape 1: run 2 has other bits than the first"},
        {FAULT_COPY, NULL, "products, shape 1: a b: wrote outside of it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct selftest_report report;
        struct error error = {.detail = "nothing"};
        const enum status status = run(rows[i].fault, KERNEL_COUNT, rows[i].only, &report, &error);
        if (status != STATUS_INTERNAL || strncmp(error.detail, rows[i].words, strlen(rows[i].words)) != 0)
            fail_msg("fault %d: %s", (int)rows[i].fault, error.detail);
    }
}

/* The time of a kernel's loading is nobody's rate: each size is asked for twice, however long the first one took. */
static void test_rates_are_of_products_whose_kernels_are_loaded(void **state)
{
    struct selftest_report report = {.device = ""};
    struct backend *backend = NULL;
    struct error error;
    (void)state;
    memset(&wrong, 0, sizeof wrong);
    wrong.fault = FAULT_COLD;
    wrong.kernel = KERNEL_COUNT;
    assert_int_equal(wrong_open(NULL, "f32", &backend, &error), STATUS_OK);
    if (rates_measure(backend, "f32", &report, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_true(wrong.products >= 4 && wrong.products < 64 && wrong.products % 2 == 0);
    for (int64_t i = 0; i < wrong.products; i += 2) assert_int_equal(wrong.asked[i], wrong.asked[i + 1]);
    backend_free(backend);
}

static void test_a_crash_a_hang_and_a_fault_that_sticks_stay_in_the_child(void **state)
{
    static const struct {
        struct attempt attempt;
        const char *words;
    } rows[] = {
        {{FAULT_CRASH, KERNEL_norm_backward, "norms", 60}, "norms, shape 1: crash by signal 11"},
        {{FAULT_HANG, KERNEL_norm_backward, "norms", 10}, "norms, shape 1: no end within 10 s"},
        {{FAULT_STICKY, KERNEL_norm_forward, "norms", 60}, "norms, shape 1: the CUDA device failed: "},
        {{FAULT_NONE, KERNEL_COUNT, "norms", 60}, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[480];
        try_in_child(&rows[i].attempt, said);
        if (rows[i].words[0] == '\0') assert_string_equal(said, "");
        if (rows[i].attempt.fault == FAULT_STICKY) assert_non_null(strstr(said, "an illegal memory access"));
        if (strncmp(said, rows[i].words, strlen(rows[i].words)) != 0) fail_msg("%s", said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_device_passes_and_every_kernel_was_launched),
        cmocka_unit_test(test_a_kernel_that_does_nothing_is_found_whichever_it_is),
        cmocka_unit_test(test_wrong_products_copies_and_bits_are_found_and_named),
        cmocka_unit_test(test_rates_are_of_products_whose_kernels_are_loaded),
        cmocka_unit_test(test_a_crash_a_hang_and_a_fault_that_sticks_stay_in_the_child),
    };
    return cmocka_run_group_tests_name("wrong devices", tests, NULL, NULL);
}
