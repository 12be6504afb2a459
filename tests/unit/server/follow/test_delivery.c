/* How a delivery is signed. */
#include "follow/delivery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Computed with Python's hmac. */
static void test_the_signature_is_hmac_sha256_of_time_and_body(void **state)
{
    char out[DELIVERY_SIGNATURE];
    struct error error;
    (void)state;
    assert_int_equal(delivery_sign("key", 1700000000, "{\"id\":\"1\"}", out, &error), STATUS_OK);
    assert_string_equal(out, "t=1700000000,v1=9e040cb90cefc5a04ab9a9848a74e2ff0489b4d8837b38d54555cb67e4f8e76e");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_signature_is_hmac_sha256_of_time_and_body),
    };
    return cmocka_run_group_tests_name("delivery", tests, NULL, NULL);
}
