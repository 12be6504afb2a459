/* permits.h: half for one client, the rest for others; what is given back can be taken again. */
#include "http/permits.h"
#include "unit.h"

#include <string.h>

static struct permits *make(unsigned limit)
{
    struct permits *permits = NULL;
    struct error error;
    assert_int_equal(permits_new(limit, "things", &permits, &error), STATUS_OK);
    return permits;
}

static enum status take(struct permits *permits, const char *client)
{
    struct error error = {0};
    const enum status status = permits_take(permits, client, &error);
    if (status == STATUS_TOO_MANY) assert_non_null(strstr(error.detail, "has 2 things, half of all 4"));
    if (status == STATUS_UNAVAILABLE) assert_non_null(strstr(error.detail, "there are 4 things"));
    return status;
}

static void test_one_client_has_half_at_most(void **state)
{
    struct permits *permits = make(4);
    (void)state;
    assert_int_equal(take(permits, "a"), STATUS_OK);
    assert_int_equal(take(permits, "a"), STATUS_OK);
    assert_int_equal(take(permits, "a"), STATUS_TOO_MANY);
    assert_int_equal(take(permits, "b"), STATUS_OK);
    assert_int_equal(take(permits, "c"), STATUS_OK);
    assert_int_equal(take(permits, "d"), STATUS_UNAVAILABLE);
    assert_int_equal(take(permits, "a"), STATUS_TOO_MANY);
    assert_int_equal(take(permits, "b"), STATUS_UNAVAILABLE);
    permits_free(permits);
}

static void test_what_is_given_back_can_be_taken(void **state)
{
    struct permits *permits = make(4);
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(take(permits, "a"), STATUS_OK);
        assert_int_equal(take(permits, "a"), STATUS_OK);
        assert_int_equal(take(permits, "a"), STATUS_TOO_MANY);
        assert_int_equal(take(permits, "b"), STATUS_OK);
        permits_give(permits, "a");
        permits_give(permits, "b");
        permits_give(permits, "a");
    }
    permits_give(permits, "a"); /* it has none */
    assert_int_equal(take(permits, "c"), STATUS_OK);
    permits_free(permits);
}

static void test_one_place_can_be_had(void **state)
{
    struct permits *permits = make(1);
    struct error error;
    (void)state;
    assert_int_equal(permits_take(permits, "a", &error), STATUS_OK);
    assert_int_equal(permits_take(permits, "b", &error), STATUS_UNAVAILABLE);
    permits_free(permits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_client_has_half_at_most),
        cmocka_unit_test(test_what_is_given_back_can_be_taken),
        cmocka_unit_test(test_one_place_can_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
