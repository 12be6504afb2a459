/* Answers kept under a key: whose they are, how long a claim lasts and how long an answer. */
#include "database.h"
#include "store/idempotency.h"

static void claim(struct connection *connection, const char *scope, const char *request, enum status expected,
                  int http_status)
{
    struct error error;
    struct idempotency_answer answer;
    GIVES(expected, idempotency_claim(connection, scope, "key", request, &answer, &error));
    assert_int_equal(answer.http_status, http_status);
    idempotency_answer_reset(&answer);
}

static void age(struct connection *connection, const char *interval)
{
    struct error error;
    OK(connection_execute(connection, "update idempotency_keys set claimed_at = clock_timestamp() - $1::interval",
                          VALUES(value_text(interval)), NULL, &error));
}

static void clear(struct connection *connection)
{
    struct error error;
    OK(connection_execute(connection, "delete from idempotency_keys", NO_VALUES, NULL, &error));
}

static double count(struct connection *connection)
{
    const struct store_id nobody = {"x"};
    return ask(connection, "select count(*)::double precision from idempotency_keys where $1::text is not null",
               &nobody);
}

static void test_a_key_belongs_to_its_token_and_request(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    claim(connection, "a", "request", STATUS_OK, 0);
    claim(connection, "b", "request", STATUS_OK, 0);
    OK(idempotency_store(connection, "a", "key", 202, "{\"whose\": \"a\"}", NULL, &error));
    claim(connection, "b", "request", STATUS_CONFLICT, 0); /* still being answered */
    OK(idempotency_store(connection, "b", "key", 201, "{}", NULL, &error));
    claim(connection, "a", "request", STATUS_OK, 202);
    claim(connection, "b", "request", STATUS_OK, 201);
    claim(connection, "a", "another", STATUS_INVALID, 0);
    OK(idempotency_forget(connection, "a", "key", &error)); /* only a claim without an answer */
    claim(connection, "a", "request", STATUS_OK, 202);
    clear(connection);
}

/* Its server may have been killed: after a minute the same request may have it, no other one. */
static void test_a_claim_without_an_answer_lasts_a_minute(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    claim(connection, "", "request", STATUS_OK, 0);
    claim(connection, "", "request", STATUS_CONFLICT, 0);
    age(connection, "50 seconds");
    claim(connection, "", "request", STATUS_CONFLICT, 0);
    age(connection, "70 seconds");
    claim(connection, "", "another", STATUS_INVALID, 0);
    claim(connection, "", "request", STATUS_OK, 0);
    claim(connection, "", "request", STATUS_CONFLICT, 0); /* claimed anew */
    OK(idempotency_forget(connection, "", "key", &error));
    claim(connection, "", "another", STATUS_OK, 0);
    clear(connection);
}

static void test_an_answer_lasts_a_day(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    claim(connection, "", "request", STATUS_OK, 0);
    OK(idempotency_store(connection, "", "key", 202, "{}", NULL, &error));
    age(connection, "23 hours");
    OK(idempotency_expire(connection, &error));
    claim(connection, "", "request", STATUS_OK, 202);
    claim(connection, "", "another", STATUS_INVALID, 0);
    age(connection, "25 hours");
    claim(connection, "", "another", STATUS_OK, 0); /* the key is free again */
    age(connection, "25 hours");
    assert_true(count(connection) == 1);
    OK(idempotency_expire(connection, &error));
    assert_true(count(connection) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_belongs_to_its_token_and_request),
        cmocka_unit_test(test_a_claim_without_an_answer_lasts_a_minute),
        cmocka_unit_test(test_an_answer_lasts_a_day),
    };
    return cmocka_run_group_tests_name("idempotency", tests, set_up, tear_down);
}
