#include "http/rate_limit.h"
#include "unit.h"

#include <string.h>

enum { ROWS = 1024 };

static struct rate_limit *make(int rate)
{
    struct rate_limit *limit = NULL;
    struct error error;
    assert_int_equal(rate_limit_new(rate, &limit, &error), STATUS_OK);
    return limit;
}

static int take(struct rate_limit *limit, uint32_t client, int64_t now)
{
    unsigned char key[RATE_LIMIT_KEY] = {0};
    memcpy(key, &client, sizeof client);
    return rate_limit_take(limit, key, now);
}

static void test_a_burst_passes_and_then_the_rate(void **state)
{
    (void)state;
    struct rate_limit *limit = make(2);
    int64_t now = 1000000;
    for (int i = 0; i < 2 * RATE_LIMIT_BURST_SECONDS; i++) assert_int_equal(take(limit, 1, now), 0);
    for (int i = 0; i < 100; i++) assert_int_equal(take(limit, 1, now), 1); /* what is refused is not counted */
    assert_int_equal(take(limit, 2, now), 0);
    now += 499;
    assert_int_equal(take(limit, 1, now), 1);
    now += 1;
    assert_int_equal(take(limit, 1, now), 0);
    assert_int_equal(take(limit, 1, now), 1);
    now += 1000000; /* no more than one burst gathers */
    for (int i = 0; i < 2 * RATE_LIMIT_BURST_SECONDS; i++) assert_int_equal(take(limit, 1, now), 0);
    assert_int_equal(take(limit, 1, now), 1);
    rate_limit_free(limit);
}

/* 100,000 clients, each with one request: who was refused stays refused, and nothing grows. */
static void test_many_clients_do_not_free_the_one_that_is_refused(void **state)
{
    (void)state;
    struct rate_limit *limit = make(1);
    const int64_t now = 5000;
    for (int i = 0; i < RATE_LIMIT_BURST_SECONDS; i++) assert_int_equal(take(limit, 1, now), 0);
    for (uint32_t client = 2; client < 100000; client++) assert_int_equal(take(limit, client, now), 0);
    assert_int_equal(take(limit, 1, now), 1);
    rate_limit_free(limit);
}

static void test_the_bucket_that_is_full_soonest_is_forgotten(void **state)
{
    (void)state;
    struct rate_limit *limit = make(1);
    for (uint32_t client = 0; client < ROWS; client++)
        for (uint32_t i = 0; i < (client == 7 ? 1 : RATE_LIMIT_BURST_SECONDS); i++)
            assert_int_equal(take(limit, client + 1, 0), 0);
    assert_int_equal(take(limit, ROWS + 1, 0), 0); /* takes the place of number 8 */
    for (uint32_t client = 0; client < ROWS; client++)
        if (client != 7) assert_int_equal(take(limit, client + 1, 0), 1);
    rate_limit_free(limit);
}

static void test_once_in_a_while(void **state)
{
    (void)state;
    struct rate_limit *limit = NULL;
    struct error error;
    assert_int_equal(rate_limit_new_rare(60, &limit, &error), STATUS_OK);
    for (int64_t minute = 1; minute < 4; minute++) {
        assert_int_equal(take(limit, 1, minute * 60000), 0);
        assert_int_equal(take(limit, 1, minute * 60000), 60);
        assert_int_equal(take(limit, 1, minute * 60000 + 59999), 1);
    }
    assert_int_equal(take(limit, 2, 60000), 0);
    rate_limit_free(limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_passes_and_then_the_rate),
        cmocka_unit_test(test_many_clients_do_not_free_the_one_that_is_refused),
        cmocka_unit_test(test_the_bucket_that_is_full_soonest_is_forgotten),
        cmocka_unit_test(test_once_in_a_while),
    };
    return cmocka_run_group_tests_name("rate_limit", tests, NULL, NULL);
}
