/* The plugin's host code over a runtime and a cuBLAS that write down what they are asked for: what it says of a
 * machine, which calls it makes in which order and with what. */
#include "engine/backend/cuda/recorded_plugin.h"

#include <dlfcn.h>

/* --- Counting ---- */

static void check_count(int expected, bool expected_sound, const char *says)
{
    char text[DEVICE_TEXT] = "";
    bool sound = !expected_sound;
    assert_int_equal(deltaq_cuda_plugin.count(text, sizeof text, &sound), expected);
    assert_int_equal(sound, expected_sound);
    check_says(text, says);
    assert_int_equal(recorded.last, 0);
}

static void write_driver(const char *line)
{
    FILE *file = fopen(RECORDED "/driver", "w");
    assert_non_null(file);
    assert_true(fputs(line, file) >= 0 && fclose(file) == 0);
}

static void test_devices_are_counted_with_versions(void **state)
{
    (void)state;
    (void)remove(RECORDED "/driver");
    check_count(1, true, "1 CUDA device, driver for CUDA 13.0, runtime 13.0, built with the toolkit 13.0");
    write_driver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
    recorded.devices = 2;
    check_count(2, true, "2 CUDA devices, driver 580.95.05 for CUDA 13.0, runtime");
}

static void test_a_machine_without_devices_is_sound(void **state)
{
    (void)state;
    (void)remove(RECORDED "/driver");
    recorded.devices = 0;
    recorded.driver = 0;
    recorded.counting = 35; /* as the runtime says it without a driver */
    check_count(0, true, "no NVIDIA driver here");
    recorded.driver = 13000;
    recorded.counting = 100;
    check_count(0, true, "the driver shows no device");
    recorded.counting = 0;
    check_count(0, true, "the driver shows no device");
}

static void test_a_driver_that_cannot_be_used_is_not_sound(void **state)
{
    (void)state;
    (void)remove(RECORDED "/driver");
    recorded.devices = 0;
    recorded.driver = 12040;
    recorded.counting = 35;
    check_count(0, false,
                "the NVIDIA driver knows CUDA 12.4, and this plugin has the runtime of CUDA 13.0: it needs "
                "driver 580 or newer, or a plugin that was built with a toolkit of CUDA 12");
    recorded.runtime = 12080;
    recorded.driver = 11080;
    check_count(0, false, "needs driver 525 or newer, or a plugin that was built with a toolkit of CUDA 11");
    recorded.counting = 802;
    check_count(0, false, "counting devices: another error (cudaErrorSystemNotReady, 802)");
    recorded.driver = 0;
    write_driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.51.03  Fri\n");
    check_count(0, false, "the NVIDIA driver 575.51.03 is loaded, and its library libcuda.so.1 is not here");
}

static void test_a_device_is_named_by_what_its_properties_say(void **state)
{
    (void)state;
    struct device_identity found;
    char text[DEVICE_TEXT] = "";
    assert_true(deltaq_cuda_plugin.identify(3, &found, text, sizeof text));
    assert_string_equal(found.name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(found.uuid, "GPU-70717273-7475-7677-7879-7a7b7c7d7e7f");
    assert_string_equal(found.bus, "0001:3b:00.0");
    assert_int_equal(recorded.count, 1); /* and nothing was made */
    check_call(1, "cudaGetDeviceProperties 3");
    recorded.fails_at = 2;
    recorded.code = 46;
    assert_false(deltaq_cuda_plugin.identify(3, &found, text, sizeof text));
    check_says(text, "reading the device's properties: another error (cudaErrorDevicesUnavailable, 46)");
}

/* --- The order of calls ---- */

static void test_a_device_is_opened_in_one_order_and_closed_in_the_other(void **state)
{
    (void)state;
    struct device *device = open_as("f32");
    assert_int_equal(recorded.count, OPENING);
    check_call(1, "cudaSetDevice 2");
    check_call(2, "cudaSetDeviceFlags 4");
    check_call(3, "cudaStreamCreate 1");
    check_call(4, "cudaEventCreate 3");
    check_call(6, "cudaStreamCreate 1");
    check_call(7, "cudaEventCreate 3");
    check_call(OPENING - 4, "cublasCreate cu13/libcublas.so.13");
    check_call(OPENING - 3, "cublasGetVersion cu13/libcublas.so.13");
    check_call(OPENING - 2, "cublasSetStream one");
    check_call(OPENING - 1, "cudaGetDeviceProperties 2");
    check_call(OPENING, "cudaMemGetInfo");
    assert_string_equal(device->text, "NVIDIA H100 80GB HBM3 (sm_90), 81920 MiB, cuBLAS 130102, products in f32");
    assert_string_equal(device->identity.bus, "0001:3b:00.0");
    assert_int_equal(device->memory_free, (int64_t)70 << 30);
    assert_int_equal(device->memory_total, (int64_t)80 << 30);
    assert_non_null(dlopen(RECORDED "/cu13/libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD));
    device->close(device);
    assert_int_equal(recorded.alive, 0);
    check_call(OPENING + 1, "cudaSetDevice 2");
    check_call(OPENING + 2, "cublasDestroy");
    check_call(recorded.count, "cudaStreamDestroy 1");
}

static void test_copies_and_waits_go_to_their_streams(void **state)
{
    (void)state;
    char host[64] = "what is copied";
    void *block = NULL, *pinned = NULL;
    int64_t available = 0, total = 0;
    const int argument = 77;
    struct device *device = open_as("f32");
    recorded.count = 0;
    assert_int_equal(device->allocate(device, 64, &block), 0);
    assert_int_equal(device->allocate_host(device, 64, &pinned), 0);
    assert_int_equal(device->clear(device, block, 64), 0);
    assert_int_equal(device->upload(device, block, 8, host, 8, 8, 8), 0);
    assert_int_equal(device->upload(device, block, 16, host, 8, 8, 2), 0);
    assert_int_equal(device->download(device, pinned, 32, block, 64, 32, 1), 0);
    assert_int_equal(device->mark(device, 1), 0);
    assert_int_equal(device->wait(device, 1), 0);
    assert_int_equal(device->synchronize(device), 0);
    assert_int_equal(device->carry(device, LANE_COUNT - 1, block, 8, host, 8, 8, 1, true), 0);
    assert_int_equal(device->carry(device, 0, pinned, 8, block, 16, 8, 2, false), 0);
    assert_int_equal(device->point(device, 0, 5), 0);
    assert_int_equal(device->follow(device, 0), 0);
    assert_int_equal(device->await(device, 0, 5), 0);
    assert_int_equal(device->arrive(device, 0, 5), 0);
    assert_int_equal(device->launch(device, KERNEL_add, 12, &argument), 0);
    assert_int_equal(device->memory(device, &available, &total), 0);
    assert_int_equal(device->release(device, block), 0);
    assert_int_equal(device->release_host(device, pinned), 0);
    static const char *const wanted[] = {
        "cudaMalloc 64",
        "cudaMallocHost 64",
        "cudaMemsetAsync 0 64 on 1",
        "cudaMemcpyAsync 64 in on 1",
        "cudaMemcpy2DAsync 16 from 8, 2 x 8 in on 1",
        "cudaMemcpyAsync 32 out on 1",
        "cudaEventRecord 2 on 1",
        "cudaEventSynchronize 2",
        "cudaStreamSynchronize 1",
        "cudaMemcpyAsync 8 in on 3",
        "cudaMemcpy2DAsync 8 from 16, 2 x 8 out on 2",
        "cudaEventRecord 9 on 2",
        "cudaEventRecord 3 on 1",
        "cudaStreamWaitEvent 2 for 3, 0",
        "cudaStreamWaitEvent 1 for 9, 0",
        "cudaEventSynchronize 9",
        "cudaLaunchKernel 1, 12 1 1 blocks of 256 1 1, 0, argument 77, on 1",
        "cudaMemGetInfo",
        "cudaFree",
        "cudaFreeHost",
    };
    int next = 0;
    for (int i = 0; i < recorded.count; i++) {
        if (strcmp(recorded.calls[i], "cudaSetDevice 2") == 0) continue; /* before each: the thread may be another */
        assert_true(next < (int)(sizeof wanted / sizeof wanted[0]));
        assert_string_equal(recorded.calls[i], wanted[next++]);
    }
    assert_int_equal(next, sizeof wanted / sizeof wanted[0]);
    assert_int_equal(available, (int64_t)70 << 30);
    device->close(device);
    assert_int_equal(recorded.alive, 0);
}

/* --- Products ---- */

static void check_product(const char *products, const struct device_gemm *g, const char *wanted)
{
    reset();
    struct device *device = open_as(products);
    assert_int_equal(device->gemm(device, g), 0);
    check_call(recorded.count, wanted);
    device->close(device);
}

static void check_batch(const char *products, const struct device_gemm_batched *args, const char *wanted)
{
    reset();
    struct device *device = open_as(products);
    assert_int_equal(device->gemm_batched(device, args), 0);
    check_call(recorded.count, wanted);
    device->close(device);
}

static void test_products_are_made_as_the_device_was_opened(void **state)
{
    (void)state;
    const struct device_gemm plain = {
        .transpose_a = true, .m = 3, .n = 4, .k = 5, .alpha = 2, .beta = 1, .lda = 6, .ldb = 7, .ldc = 8};
    struct device_gemm exact = plain, narrow = plain;
    exact.exact = true;
    narrow.bf16 = true;
    const char *start = "cublasGemmEx 1 0, 3 4 5, 2 1, ld 6 7 8, types";
    char wanted[RECORDED_TEXT];
#define CHECK(products, g, types, compute)                                                               \
    do {                                                                                                 \
        (void)snprintf(wanted, sizeof wanted, "%s %s, compute %d, algorithm -1", start, types, compute); \
        check_product(products, g, wanted);                                                              \
    } while (0)
    CHECK("f32", &plain, "0 0 0", 68);
    CHECK("tf32", &plain, "0 0 0", 77);
    CHECK("bf16", &plain, "0 0 0", 75);
    CHECK("bf16", &exact, "0 0 0", 68);
    CHECK("tf32", &narrow, "14 14 0", 68);
#undef CHECK
    struct device_gemm_batched batch = {.each = plain, .count = 9, .aligned = true};
    check_batch("bf16", &batch, "cublasGemmBatchedEx 1 0, 3 4 5, 2 1, ld 6 7 8, types 0 0 0, count 9, compute 75");
    batch.aligned = false;
    check_batch("bf16", &batch, "cublasGemmBatchedEx 1 0, 3 4 5, 2 1, ld 6 7 8, types 0 0 0, count 9, compute 68");
    batch.each.bf16 = true;
    check_batch("tf32", &batch, "cublasGemmBatchedEx 1 0, 3 4 5, 2 1, ld 6 7 8, types 14 14 0, count 9, compute 68");
}

static void test_dimensions_beyond_an_int_are_refused_by_name(void **state)
{
    (void)state;
    const int64_t beyond = (int64_t)1 << 31;
    char text[DEVICE_TEXT];
    struct device *device = open_as("f32");
    const int before = recorded_find("cublasGemm");
    struct device_gemm g = {.m = beyond, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
    const int code = device->gemm(device, &g);
    g.m = 1;
    const struct device_gemm_batched batch = {.each = g, .count = beyond};
    assert_int_equal(device->gemm_batched(device, &batch), code);
    assert_int_equal(device->failure(code), DEVICE_REFUSED);
    device->error_text(code, text, sizeof text);
    check_says(text, "a dimension is beyond 2147483647");
    assert_int_equal(recorded_find("cublasGemm"), before);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_devices_are_counted_with_versions, prepare),
        cmocka_unit_test_setup(test_a_machine_without_devices_is_sound, prepare),
        cmocka_unit_test_setup(test_a_driver_that_cannot_be_used_is_not_sound, prepare),
        cmocka_unit_test_setup(test_a_device_is_named_by_what_its_properties_say, prepare),
        cmocka_unit_test_setup(test_a_device_is_opened_in_one_order_and_closed_in_the_other, prepare),
        cmocka_unit_test_setup(test_copies_and_waits_go_to_their_streams, prepare),
        cmocka_unit_test_setup(test_products_are_made_as_the_device_was_opened, prepare),
        cmocka_unit_test_setup(test_dimensions_beyond_an_int_are_refused_by_name, prepare),
    };
    return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
