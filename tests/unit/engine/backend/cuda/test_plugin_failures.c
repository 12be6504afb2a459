/* The plugin's host code over a runtime and a cuBLAS that fail where they are told to: what it says of each call that
 * fails, that nothing it made is left, which cuBLAS it takes, and what the backend makes of it. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "engine/backend/cuda/recorded_plugin.h"

/* --- Failures ---- */

static void check_text(int code, enum device_failure failure, const char *says)
{
    char text[DEVICE_TEXT] = "";
    reset();
    struct device *device = open_as("f32");
    device->error_text(code, text, sizeof text);
    check_says(text, says);
    assert_int_equal(device->failure(code), failure);
    device->close(device);
}

static void test_every_failure_has_its_kind_and_its_name(void **state)
{
    (void)state;
    check_text(700, DEVICE_FAULT, "an illegal memory access was encountered (cudaErrorIllegalAddress, 700)");
    check_text(2, DEVICE_FULL, "out of memory (cudaErrorMemoryAllocation, 2)");
    check_text(1, DEVICE_REFUSED, "another error (cudaErrorInvalidValue, 1)");
    check_text(226, DEVICE_FAULT, "226)");
    for (int mps = 805; mps <= 810; mps++) check_text(mps, DEVICE_FAULT, "another error");
    check_text(804, DEVICE_REFUSED, "804)");
    check_text(GEMM_FAILED + 3, DEVICE_FULL, "CUBLAS_STATUS_ALLOC_FAILED");
    check_text(GEMM_FAILED + 13, DEVICE_FAULT, "CUBLAS_STATUS_EXECUTION_FAILED");
    check_text(GEMM_FAILED + 7, DEVICE_REFUSED, "CUBLAS_STATUS_INVALID_VALUE");
    check_text(GEMM_FAILED + 15, DEVICE_REFUSED, "CUBLAS_STATUS_NOT_SUPPORTED");
    check_text(GEMM_FAILED + 77, DEVICE_REFUSED, "a status that is not in its documentation");
    recorded.last = 719; /* what the runtime noticed behind cuBLAS's back */
    struct device *device = open_as("f32");
    char text[DEVICE_TEXT] = "";
    device->error_text(GEMM_FAILED + 13, text, sizeof text);
    check_says(text, "CUBLAS_STATUS_EXECUTION_FAILED, and CUDA another error (cudaErrorLaunchFailure, 719)");
    device->close(device);
}

/* Opens, asks for one of each, closes. What the first failure was, or 0. */
static int one_of_each(char *text, size_t size, enum device_failure *failure)
{
    char host[64] = "";
    void *block = NULL, *pinned = NULL;
    int64_t available = 0, total = 0;
    const int argument = 1;
    const struct device_gemm g = {.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    const struct device_gemm_batched batch = {.each = g, .count = 1};
    int code = 0;
    struct device *device = deltaq_cuda_plugin.open(0, "bf16", text, size, failure);
    if (device == NULL) return -1;
#define TRY(call) \
    if (code == 0) code = device->call
    TRY(memory(device, &available, &total));
    TRY(allocate(device, 64, &block));
    TRY(allocate_host(device, 64, &pinned));
    TRY(clear(device, block, 64));
    TRY(upload(device, block, 16, host, 8, 8, 2));
    TRY(launch(device, KERNEL_fill, 1, &argument));
    TRY(gemm(device, &g));
    TRY(gemm_batched(device, &batch));
    TRY(mark(device, 0));
    TRY(carry(device, 1, pinned, 8, block, 8, 8, 1, false));
    TRY(point(device, 1, 3));
    TRY(follow(device, 1));
    TRY(await(device, 1, 3));
    TRY(arrive(device, 1, 3));
    TRY(download(device, host, 8, block, 8, 8, 1));
    TRY(wait(device, 0));
    TRY(synchronize(device));
#undef TRY
    if (code != 0) {
        *failure = device->failure(code);
        device->error_text(code, text, size);
    }
    /* as the backend does it, whatever came before; what fails from here on is not asked after */
    if (block != NULL) (void)device->release(device, block);
    if (pinned != NULL) (void)device->release_host(device, pinned);
    device->close(device);
    return code;
}

/* Each call in turn, once alone and once with all that come after it. */
static void fail_each(int code, int status, enum device_failure expected, const char *name, const char *status_name)
{
    char text[DEVICE_TEXT] = "";
    enum device_failure failure = DEVICE_REFUSED;
    reset();
    libraries(RECORDED "/cu13/libcublas.so.13", NULL);
    assert_int_equal(one_of_each(text, sizeof text, &failure), 0);
    const int calls = recorded.count;
    assert_int_equal(recorded.alive, 0);
    assert_true(calls > OPENING + 40);
    int closing = 0;
    for (int i = 0; i < calls; i++)
        if (strcmp(recorded.calls[i], "cudaStreamSynchronize 1") == 0) closing = i + 1;
    for (int at = 1; at <= 2 * calls; at++) {
        reset();
        libraries(RECORDED "/cu13/libcublas.so.13", NULL); /* no other one is tried */
        recorded.fails_at = (at + 1) / 2;
        recorded.sticky = at % 2 == 0;
        recorded.code = code;
        recorded.status = status;
        text[0] = '\0';
        const int found = one_of_each(text, sizeof text, &failure);
        const char *failed = recorded.calls[recorded.fails_at - 1];
        const bool blas = strncmp(failed, "cublas", 6) == 0;
        if (recorded.alive != 0) fail_msg("%d left when %s fails", recorded.alive, failed);
        if (recorded.fails_at > closing) continue; /* what fails in the end fails alone */
        if (found == 0) fail_msg("nobody notices that %s fails", failed);
        if (failure != expected) fail_msg("%d, not %d, when %s fails", (int)failure, (int)expected, failed);
        if (strstr(text, blas ? status_name : name) == NULL) fail_msg("%s fails, and \"%s\"", failed, text);
    }
}

static void test_each_call_that_fails_is_noticed_and_nothing_is_left(void **state)
{
    (void)state;
    fail_each(700, 13, DEVICE_FAULT, "cudaErrorIllegalAddress, 700", "CUBLAS_STATUS_EXECUTION_FAILED");
    fail_each(2, 3, DEVICE_FULL, "cudaErrorMemoryAllocation, 2", "CUBLAS_STATUS_ALLOC_FAILED");
    fail_each(1, 7, DEVICE_REFUSED, "cudaErrorInvalidValue, 1", "CUBLAS_STATUS_INVALID_VALUE");
}

static void check_refused(const char *products, enum device_failure expected, const char *says)
{
    char text[DEVICE_TEXT] = "";
    enum device_failure failure = DEVICE_FAULT;
    if (deltaq_cuda_plugin.open(0, products, text, sizeof text, &failure) != NULL) fail_msg("it was opened");
    assert_int_equal(failure, expected);
    check_says(text, says);
    assert_int_equal(recorded.alive, 0);
    assert_int_equal(recorded.last, 0);
}

/* Older runtimes refuse flags once a context is there: those of an earlier run hold. */
static void test_flags_that_are_set_already_are_no_failure(void **state)
{
    (void)state;
    recorded.fails_at = 2;
    recorded.code = 708;
    struct device *device = open_as("f32");
    check_call(2, "cudaSetDeviceFlags 4");
    assert_int_equal(recorded.last, 0);
    device->close(device);
}

static void test_an_old_card_and_unknown_products_are_refused(void **state)
{
    (void)state;
    check_refused("f64", DEVICE_REFUSED, "products in \"f64\": expected f32, tf32 or bf16");
    recorded.major = 7;
    recorded.minor = 5;
    check_refused("f32", DEVICE_REFUSED, "has compute capability 7.5; deltaq's kernels need 8.0");
    recorded.major = 8;
    recorded.minor = 0;
    struct device *device = open_as("f32");
    device->close(device);
}

/* --- Which cuBLAS ---- */

static void check_library(const char *named, const char *directories, const char *expected)
{
    reset();
    libraries(named, directories);
    struct device *device = open_as("f32");
    char wanted[RECORDED_TEXT];
    (void)snprintf(wanted, sizeof wanted, "cublasGetVersion %s", expected);
    assert_true(recorded_find(wanted) != 0);
    device->close(device);
    assert_int_equal(recorded.alive, 0);
}

/* The first test of a library in that folder: what was loaded once is found again by its name. */
static void test_no_cublas_is_said_with_what_to_do(void **state)
{
    (void)state;
    const char *library = RECORDED "/usual/libcublas.so.11", *hidden = RECORDED "/usual/hidden";
    libraries(NULL, RECORDED "/nothing");
    assert_int_equal(rename(library, hidden), 0);
    check_refused("f32", DEVICE_REFUSED,
                  "found no cuBLAS (libcublas.so.13 to .11): name its directory in DELTAQ_CUDA_LIBRARIES");
    assert_int_equal(rename(hidden, library), 0);
}

/* Neither a path of 500 characters nor one of 600 is cut: it is no directory of ours. */
static void test_directories_that_are_too_long_are_passed_over(void **state)
{
    (void)state;
    for (size_t length = 500; length <= 600; length += 100) {
        char directories[700];
        memset(directories, 'd', length);
        (void)snprintf(directories + length, sizeof directories - length, ":%s/cu12", RECORDED);
        check_library(NULL, directories, "cu12/libcublas.so.12");
    }
}

static void test_the_users_directory_comes_before_a_newer_version(void **state)
{
    (void)state;
    check_library(NULL, RECORDED "/cu12:" RECORDED "/cu13", "cu12/libcublas.so.12");
    check_library(NULL, ":" RECORDED "/nothing:" RECORDED "/cu13", "cu13/libcublas.so.13");
    check_library(RECORDED "/cu12/libcublas.so.12", RECORDED "/cu13", "cu12/libcublas.so.12");
    check_library(NULL, NULL, "usual/libcublas.so.11");
    check_library(NULL, RECORDED "/nothing", "usual/libcublas.so.11");
}

static void test_a_cublas_that_does_not_start_is_passed_over(void **state)
{
    (void)state;
    check_library(NULL, RECORDED "/lacks:" RECORDED "/cu12", "cu12/libcublas.so.12");
    reset();
    recorded.refusing = "cu13/";
    libraries(NULL, RECORDED "/cu13:" RECORDED "/cu12");
    struct device *device = open_as("f32");
    const int first = recorded_find("cublasCreate cu13/libcublas.so.13");
    assert_true(first != 0 && recorded_find("cublasCreate cu12/libcublas.so.12") > first);
    check_says(device->text, "cuBLAS 120102");
    device->close(device);
    assert_int_equal(recorded.alive, 0);
}

static void test_what_was_tried_is_said(void **state)
{
    (void)state;
    recorded.refusing = "libcublas";
    check_refused("f32", DEVICE_REFUSED, "cu13/libcublas.so.13: cublasCreate: CUBLAS_STATUS_NOT_INITIALIZED; ");
    reset();
    recorded.refusing = "libcublas"; /* and so it says where memory is short */
    recorded.free_mib = 100;
    check_refused("f32", DEVICE_FULL, "CUBLAS_STATUS_NOT_INITIALIZED; the device has 100 MiB left");
    reset();
    libraries(RECORDED "/lacks/libcublas.so.13", NULL);
    check_refused("f32", DEVICE_REFUSED, "lacks/libcublas.so.13 lacks cublasGemmBatchedEx");
    libraries(RECORDED "/nothing.so", NULL);
    check_refused("f32", DEVICE_REFUSED, "DELTAQ_CUBLAS: " RECORDED "/nothing.so");
}

static void test_versions_out_of_range_are_refused(void **state)
{
    (void)state;
    recorded.version = 140000;
    check_refused("f32", DEVICE_REFUSED, "cu13/libcublas.so.13 has version 14, 11 to 13 are known");
    recorded.version = 10203;
    check_refused("f32", DEVICE_REFUSED, "has version 10, 11 to 13 are known");
    recorded.version = 11000; /* as the first of its versions has it */
    struct device *device = open_as("f32");
    device->close(device);
}

/* --- The backend above it ---- */

static struct backend *open_backend(struct device *device)
{
    struct backend *backend = NULL;
    struct error error;
    if (cuda_open_device(device, (int64_t)1 << 30, NULL, &backend, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return backend;
}

/* A matrix that is filled, multiplied, and waited for. */
static enum status work(struct backend *backend, struct error *error)
{
    void *data = NULL;
    assert_int_equal(backend->ops->allocate(backend, 6, "a matrix", &data, error), STATUS_OK);
    const struct matrix m = matrix_of(data, 2, 3, sizeof(float));
    backend->ops->fill(backend, m, 1);
    const struct matrix c = matrix_of(data, 2, 2, sizeof(float));
    backend->ops->gemm(backend, &(struct gemm_args){.a = m, .b = m, .c = c, .transpose_b = true, .alpha = 1});
    const enum status status = backend->ops->sync(backend, error);
    backend->ops->release(backend, data);
    return status;
}

static void check_work(const char *sync, const char *says)
{
    struct error error;
    if (sync != NULL) setenv("DELTAQ_CUDA_SYNC", sync, 1);
    struct device *device = open_as("f32");
    struct backend *backend = open_backend(device);
    assert_int_equal(work(backend, &error), STATUS_DEVICE);
    check_says(error.detail, says);
    backend_free(backend);
    assert_int_equal(recorded.alive, 0);
}

static void test_a_failure_names_the_kernel_or_the_product(void **state)
{
    (void)state;
    recorded.late = 700;
    check_work(NULL,
               "the CUDA device failed: waiting, after 1 kernels, the last of them fill (DELTAQ_CUDA_SYNC=1 names "
               "what failed): an illegal memory access was encountered (cudaErrorIllegalAddress, 700)");
    reset();
    recorded.late = 700;
    check_work("1", "the CUDA device failed: the kernel fill in 1 blocks: an illegal memory access");
    reset();
    struct device *device = open_as("f32");
    struct backend *backend = open_backend(device);
    struct error error;
    assert_int_equal(work(backend, &error), STATUS_OK);
    const int product = recorded_find("cublasGemmEx");
    backend_free(backend);
    reset();
    recorded.fails_at = product;
    recorded.status = 13;
    check_work(NULL, "the CUDA device failed: the product [2, 2] = [2, 3] [2, 3]ᵀ: CUBLAS_STATUS_EXECUTION_FAILED");
}

static void test_waiting_after_each_call_is_asked_for_in_one_way(void **state)
{
    (void)state;
    struct backend *backend = NULL;
    struct error error;
    setenv("DELTAQ_CUDA_SYNC", "yes", 1);
    struct device *device = open_as("f32");
    assert_int_equal(cuda_open_device(device, 1 << 30, NULL, &backend, &error), STATUS_INVALID);
    check_says(error.detail, "DELTAQ_CUDA_SYNC: expected 0 or 1, found \"yes\"");
    assert_null(backend);
    assert_int_equal(recorded.alive, 0);
    setenv("DELTAQ_CUDA_SYNC", "0", 1);
    backend = open_backend(open_as("f32"));
    recorded.count = 0;
    assert_int_equal(work(backend, &error), STATUS_OK);
    int waits = 0;
    for (int i = 0; i < recorded.count; i++) waits += strncmp(recorded.calls[i], "cudaStreamSynchronize", 21) == 0;
    assert_int_equal(waits, 1);
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_failure_has_its_kind_and_its_name, prepare),
        cmocka_unit_test_setup(test_each_call_that_fails_is_noticed_and_nothing_is_left, prepare),
        cmocka_unit_test_setup(test_flags_that_are_set_already_are_no_failure, prepare),
        cmocka_unit_test_setup(test_an_old_card_and_unknown_products_are_refused, prepare),
        cmocka_unit_test_setup(test_no_cublas_is_said_with_what_to_do, prepare),
        cmocka_unit_test_setup(test_directories_that_are_too_long_are_passed_over, prepare),
        cmocka_unit_test_setup(test_the_users_directory_comes_before_a_newer_version, prepare),
        cmocka_unit_test_setup(test_a_cublas_that_does_not_start_is_passed_over, prepare),
        cmocka_unit_test_setup(test_what_was_tried_is_said, prepare),
        cmocka_unit_test_setup(test_versions_out_of_range_are_refused, prepare),
        cmocka_unit_test_setup(test_a_failure_names_the_kernel_or_the_product, prepare),
        cmocka_unit_test_setup(test_waiting_after_each_call_is_asked_for_in_one_way, prepare),
    };
    return cmocka_run_group_tests_name("plugin failures", tests, NULL, NULL);
}
