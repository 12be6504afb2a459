/* Staging: what a call puts there begins where kernels can read it, in both halves, however large they are. */
#include "engine/backend/cuda/emulated.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/open.h"
#include "unit.h"

#include <stdlib.h>

enum { EIGHT_MIB = 8 << 20, GRAIN = 512, NUMBERS = 37 };

static struct backend *open_backend(void)
{
    struct device *device = emulated_device(false);
    struct backend *backend = NULL;
    struct error error;
    assert_non_null(device);
    assert_int_equal(cuda_open_device(device, device->memory_free, NULL, &backend, &error), STATUS_OK);
    return backend;
}

/* A call that stages `bytes`, and then calls of doubles until each half was in use: all of them begin at 16 bytes,
 * inside the half, and keep their values. */
static void check_halves(size_t bytes)
{
    struct backend *backend = open_backend();
    struct cuda *cuda = cuda_enter(backend);
    char *array = calloc(1, bytes);
    double numbers[NUMBERS], found[NUMBERS];
    bool used[2] = {false, false};
    for (int i = 0; i < NUMBERS; i++) numbers[i] = 1.5 * i;
    for (int call = 0; call < 4; call++) {
        cuda_announce(cuda, bytes + sizeof numbers);
        used[cuda->stage.which] = true;
        const void *first = cuda_staged(cuda, array, bytes), *second = cuda_staged(cuda, numbers, sizeof numbers);
        assert_int_equal(cuda->status, STATUS_OK);
        assert_int_equal((uintptr_t)first % 16, 0);
        assert_int_equal((uintptr_t)second % 16, 0);
        const char *half = cuda->stage.device + (size_t)cuda->stage.which * cuda->stage.half;
        assert_true((const char *)second + sizeof numbers <= half + cuda->stage.half);
        cuda_take(cuda, found, second, sizeof found);
        assert_memory_equal(found, numbers, sizeof found);
    }
    assert_true(used[0] && used[1]);
    free(array);
    cuda_leave(cuda);
    backend_free(backend);
}

static void test_halves_begin_at_round_addresses(void **state)
{
    (void)state;
    check_halves(EIGHT_MIB / 2);
    check_halves(EIGHT_MIB + 4);
    check_halves(EIGHT_MIB + 4 * GRAIN + 1);
    check_halves(2 * EIGHT_MIB - 3);
}

/* Arrays with the same bytes share a copy in their half, results that were fetched too; one that changed, in whatever
 * byte or length, is copied again, and so is everything in the next half. */
static void test_equal_arrays_are_copied_once(void **state)
{
    struct backend *backend = open_backend();
    struct cuda *cuda = cuda_enter(backend);
    int32_t array[NUMBERS], found[NUMBERS];
    (void)state;
    for (int i = 0; i < NUMBERS; i++) array[i] = i;
    cuda_announce(cuda, EIGHT_MIB / 4);
    const void *first = cuda_staged(cuda, array, sizeof array);
    assert_ptr_equal(cuda_staged(cuda, array, sizeof array), first);
    assert_ptr_not_equal(cuda_staged(cuda, array, sizeof array - 1), first);
    array[NUMBERS - 1] = -1; /* the same place, other content */
    const void *second = cuda_staged(cuda, array, sizeof array);
    assert_ptr_not_equal(second, first);
    cuda_take(cuda, found, second, sizeof found);
    assert_memory_equal(found, array, sizeof found);
    cuda_take(cuda, found, first, sizeof found);
    assert_int_equal(found[NUMBERS - 1], NUMBERS - 1);
    void *result = cuda_result(cuda, sizeof array);
    array[0] = 99;
    cuda_put(cuda, result, array, sizeof array);
    cuda_fetch(cuda, found, result, sizeof found);
    assert_memory_equal(found, array, sizeof found);
    assert_ptr_equal(cuda_staged(cuda, found, sizeof found), result);
    const int half = cuda->stage.which;
    for (int i = 0; i < STAGE_ARRAYS; i++) { /* as many others: forgotten */
        const int32_t other = i;
        (void)cuda_staged(cuda, &other, sizeof other);
    }
    assert_ptr_not_equal(cuda_staged(cuda, found, sizeof found), result);
    assert_int_equal(cuda->stage.which, half);
    const void *last = cuda_staged(cuda, array, sizeof array);
    cuda_announce(cuda, EIGHT_MIB - 16 * GRAIN);
    assert_int_not_equal(cuda->stage.which, half);
    assert_ptr_not_equal(cuda_staged(cuda, array, sizeof array), last);
    assert_int_equal(cuda->status, STATUS_OK);
    cuda_leave(cuda);
    backend_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves_begin_at_round_addresses),
                                       cmocka_unit_test(test_equal_arrays_are_copied_once)};
    return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
