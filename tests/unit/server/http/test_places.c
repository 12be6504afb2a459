/* places.h: half for one client, the rest for others; what is given back can be taken again. */
#include "http/places.h"
#include "unit.h"

#include <string.h>

static struct places *make(unsigned limit)
{
    struct places *places = NULL;
    struct error error;
    assert_int_equal(places_new(limit, "things", &places, &error), STATUS_OK);
    return places;
}

static enum status take(struct places *places, const char *client)
{
    struct error error = {0};
    const enum status status = places_take(places, client, &error);
    if (status == STATUS_TOO_MANY) assert_non_null(strstr(error.detail, "has 2 things, half of all 4"));
    if (status == STATUS_UNAVAILABLE) assert_non_null(strstr(error.detail, "there are 4 things"));
    return status;
}

static void test_one_client_has_half_at_most(void **state)
{
    struct places *places = make(4);
    (void)state;
    assert_int_equal(take(places, "a"), STATUS_OK);
    assert_int_equal(take(places, "a"), STATUS_OK);
    assert_int_equal(take(places, "a"), STATUS_TOO_MANY);
    assert_int_equal(take(places, "b"), STATUS_OK);
    assert_int_equal(take(places, "c"), STATUS_OK);
    assert_int_equal(take(places, "d"), STATUS_UNAVAILABLE);
    assert_int_equal(take(places, "a"), STATUS_TOO_MANY);
    assert_int_equal(take(places, "b"), STATUS_UNAVAILABLE);
    places_free(places);
}

static void test_what_is_given_back_can_be_taken(void **state)
{
    struct places *places = make(4);
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(take(places, "a"), STATUS_OK);
        assert_int_equal(take(places, "a"), STATUS_OK);
        assert_int_equal(take(places, "a"), STATUS_TOO_MANY);
        assert_int_equal(take(places, "b"), STATUS_OK);
        places_give(places, "a");
        places_give(places, "b");
        places_give(places, "a");
    }
    places_give(places, "a"); /* it has none */
    assert_int_equal(take(places, "c"), STATUS_OK);
    places_free(places);
}

static void test_one_place_can_be_had(void **state)
{
    struct places *places = make(1);
    struct error error;
    (void)state;
    assert_int_equal(places_take(places, "a", &error), STATUS_OK);
    assert_int_equal(places_take(places, "b", &error), STATUS_UNAVAILABLE);
    places_free(places);
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
