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

static void keep(struct connection *connection, const char *scope, int http_status, const char *body)
{
    struct error error;
    struct idempotency_answer answer = {.http_status = http_status, .body = strdup(body)};
    OK(idempotency_store(connection, scope, "key", &answer, &error));
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
    keep(connection, "a", 202, "{\"whose\": \"a\"}");
    claim(connection, "b", "request", STATUS_CONFLICT, 0); /* still being answered */
    keep(connection, "b", 201, "{}");
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

/* PostgreSQL notices within moments that a client is gone. */
static void claim_when_gone(struct connection *connection)
{
    struct error error;
    struct idempotency_answer answer;
    enum status status = STATUS_CONFLICT;
    for (int i = 0; i < 200 && status == STATUS_CONFLICT; i++) {
        if (i > 0) (void)usleep(50000);
        status = idempotency_claim(connection, "", "key", "request", &answer, &error);
    }
    GIVES(STATUS_OK, status);
    assert_int_equal(answer.http_status, 0);
}

/* Another session, as of another server. */
static struct connection *another(void **state)
{
    struct error error;
    struct connection *connection;
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), "another", &connection, &error));
    return connection;
}

static void test_a_claim_ends_with_its_session(void **state)
{
    struct connection *connection = connection_of(state), *killed = another(state);
    struct error error;
    claim(killed, "", "request", STATUS_OK, 0);
    claim(connection, "", "request", STATUS_CONFLICT, 0);
    connection_free(killed);
    claim_when_gone(connection);
    claim(connection, "", "request", STATUS_CONFLICT, 0); /* it is this session's now */
    OK(idempotency_forget(connection, "", "key", &error));
    clear(connection);
}

static char *rendered(const json_t *answer)
{
    return json_dumps(answer, JSON_COMPACT);
}

static enum status make_something(struct connection *connection, void *context, struct error *error)
{
    const struct idempotency_record record = {
        .scope = "", .key = "key", .prefix = "/v1/things/", .created = 202, .existed = 200, .render = rendered};
    const enum status status =
        connection_execute(connection, "insert into trajectories (name) values ('made')", NO_VALUES, NULL, error);
    if (status != STATUS_OK) return status;
    return idempotency_record_within(connection, &record, STORE_CREATED, context, error);
}

/* The answer is there as soon as what was made is; whoever lost the claim makes nothing. */
static void test_an_answer_is_kept_with_what_was_made(void **state)
{
    struct connection *connection = connection_of(state), *other = another(state);
    struct error error;
    struct idempotency_answer answer;
    const struct store_id nobody = {"x"};
    json_t *made = json_pack("{ss}", "id", "17");
    claim(other, "", "request", STATUS_OK, 0);
    GIVES(STATUS_UNAVAILABLE, connection_transaction(connection, make_something, made, NULL, &error));
    assert_true(
        ask(connection, "select count(*)::double precision from trajectories where $1::text is not null", &nobody) < 1);
    OK(connection_transaction(other, make_something, made, NULL, &error));
    connection_free(other); /* killed before it kept its answer */
    OK(idempotency_claim(connection, "", "key", "request", &answer, &error));
    assert_int_equal(answer.http_status, 202);
    assert_string_equal(answer.body, "{\"id\":\"17\"}");
    assert_string_equal(answer.location, "/v1/things/17");
    idempotency_answer_reset(&answer);
    json_decref(made);
    OK(connection_execute(connection, "delete from trajectories", NO_VALUES, NULL, &error));
    clear(connection);
}

static void test_an_answer_lasts_a_day(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    claim(connection, "", "request", STATUS_OK, 0);
    keep(connection, "", 202, "{}");
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
        cmocka_unit_test(test_a_claim_ends_with_its_session),
        cmocka_unit_test(test_an_answer_is_kept_with_what_was_made),
        cmocka_unit_test(test_an_answer_lasts_a_day),
    };
    return cmocka_run_group_tests_name("idempotency", tests, set_up, tear_down);
}
