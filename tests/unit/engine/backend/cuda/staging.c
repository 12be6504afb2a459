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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves_begin_at_round_addresses)};
    return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
