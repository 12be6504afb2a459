/* The type of weights that a config.json names: changed only where it is there and another one. */
#include "model/config_dtype.h"
#include "unit.h"

#include <string.h>

static void test_only_what_names_another_type_is_changed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum dtype stored;
        const char *members;
    } rows[] = {
        {"{\"torch_dtype\": \"bfloat16\", \"hidden_size\": 8}", DTYPE_F32, "{\"torch_dtype\": \"float32\"}"},
        {"{\"dtype\": \"float16\"}", DTYPE_BF16, "{\"dtype\": \"bfloat16\"}"},
        {"{\"dtype\": \"float32\", \"torch_dtype\": \"bfloat16\"}", DTYPE_F16,
         "{\"torch_dtype\": \"float16\", \"dtype\": \"float16\"}"},
        {"{\"dtype\": \"float32\", \"torch_dtype\": \"bfloat16\"}", DTYPE_F32, "{\"torch_dtype\": \"float32\"}"},
        {"{\"torch_dtype\": \"bfloat16\", \"dtype\": \"bfloat16\"}", DTYPE_BF16, ""},
        {"{\"torch_dtype\": null, \"text_config\": {\"dtype\": \"float16\"}}", DTYPE_F32, ""},
        {"{}", DTYPE_F32, ""},
        {"{\"dtype\": \"float32\"}", DTYPE_Q8_0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char members[CONFIG_DTYPE_SIZE];
        struct error error;
        assert_int_equal(config_dtype_members("c", rows[i].text, strlen(rows[i].text), rows[i].stored, members, &error),
                         STATUS_OK);
        assert_string_equal(members, rows[i].members);
    }
}

static void test_a_broken_text_is_told(void **state)
{
    (void)state;
    char members[CONFIG_DTYPE_SIZE];
    struct error error;
    assert_int_equal(config_dtype_members("c", "{\"dtype\": ", 10, DTYPE_F32, members, &error), STATUS_MALFORMED);
    assert_string_equal(members, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_names_another_type_is_changed),
        cmocka_unit_test(test_a_broken_text_is_told),
    };
    return cmocka_run_group_tests_name("config_dtype", tests, NULL, NULL);
}
