/* Plugins that are not of this build: each is refused with what is wrong with it, before anything of it is called. */
#include "backend/cuda/open.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* What is said of the plugin `name`, and that it should have worked. */
static void check_refused(const char *name, const char *says)
{
    char text[DEVICE_TEXT] = "";
    bool sound = true;
    struct device *device = NULL;
    struct error error;
    setenv("DELTAQ_CUDA_PLUGIN", name, 1);
    assert_int_equal(cuda_look(text, sizeof text, &sound), 0);
    assert_false(sound);
    if (strstr(text, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", text, says);
    assert_int_equal(cuda_find_device(0, NULL, &device, &error), STATUS_UNSUPPORTED);
    assert_null(device);
    if (strstr(error.detail, says) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.detail, says);
    unsetenv("DELTAQ_CUDA_PLUGIN");
}

static void test_a_plugin_of_another_build_is_refused(void **state)
{
    (void)state;
    check_refused(RECORDED "/version/libdeltaq-cuda.so", "another build than this binary (its version is 9, and 10");
    check_refused(RECORDED "/sources/libdeltaq-cuda.so",
                  "its sources have the sum 0123456789ab, and this binary's " CUDA_SOURCES);
    check_refused(RECORDED "/sizes/libdeltaq-cuda.so", "its compiler has other sizes of structs");
}

static void test_what_is_no_plugin_is_refused(void **state)
{
    (void)state;
    check_refused(RECORDED "/absent.so", "does not load: " RECORDED "/absent.so");
    check_refused("libm.so.6", "lacks the symbol deltaq_cuda_plugin");
}

/* Nothing is wrong with a machine without one. */
static void test_no_plugin_is_no_fault(void **state)
{
    (void)state;
    char text[DEVICE_TEXT] = "";
    bool sound = false;
    assert_int_equal(cuda_look(text, sizeof text, &sound), 0);
    assert_true(sound);
    assert_non_null(strstr(text, "no libdeltaq-cuda.so beside the binary"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plugin_of_another_build_is_refused),
        cmocka_unit_test(test_what_is_no_plugin_is_refused),
        cmocka_unit_test(test_no_plugin_is_no_fault),
    };
    unsetenv("DELTAQ_CUDA_PLUGIN");
    return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
