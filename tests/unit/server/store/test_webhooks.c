/* Webhooks: what is kept of their tries, and for how long. */
#include "database.h"
#include "store/webhooks.h"

enum { OLD = 10003, YOUNG = 4 };

static struct store_id make(struct connection *connection)
{
    struct error error;
    json_t *document, *events = json_array();
    const struct webhook_new new = {.url = "http://example.org/", .secret = "secret", .events = events};
    OK(webhook_insert(connection, &new, &document, &error));
    const struct store_id made = id_of(document);
    json_decref(document);
    json_decref(events);
    return made;
}

static void clear(struct connection *connection)
{
    struct error error;
    OK(connection_execute(connection, "delete from webhooks", NO_VALUES, NULL, &error));
}

/* A deleted one makes space. */
static void test_there_is_a_most_of_them(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document, *events = json_array();
    const struct webhook_new new = {.url = "http://example.org/", .secret = "secret", .events = events};
    clear(connection);
    for (int i = 0; i < WEBHOOKS_MOST; i++) (void)make(connection);
    GIVES(STATUS_CONFLICT, webhook_insert(connection, &new, &document, &error));
    assert_null(document);
    assert_non_null(strstr(error.detail, "there are 100 webhooks"));
    OK(connection_execute(connection, "delete from webhooks where number = (select min(number) from webhooks)",
                          NO_VALUES, NULL, &error));
    (void)make(connection);
    GIVES(STATUS_CONFLICT, webhook_insert(connection, &new, &document, &error));
    json_decref(events);
    clear(connection);
}

/* The webhook that is taken, and "" for none. */
static struct store_id taken(struct connection *connection, enum webhook_share share)
{
    struct error error;
    struct webhook_job job;
    bool found;
    OK(webhook_take(connection, share, 60, &found, &job, &error));
    const struct store_id id = job.id;
    webhook_job_reset(&job);
    return found ? id : (struct store_id){""};
}

static void let_go(struct connection *connection)
{
    struct error error;
    OK(connection_execute(connection, "update webhooks set leased_until = null", NO_VALUES, NULL, &error));
}

static void outcome(struct connection *connection, const char *sql_outcome, const struct store_id *webhook)
{
    struct error error;
    OK(connection_execute(connection,
                          "insert into webhook_deliveries (webhook, event, kind, try, outcome)"
                          " values ($1, 1, 'run', 1, $2)",
                          VALUES(value_text(webhook->text), value_text(sql_outcome)), NULL, &error));
}

/* Of four that are due in the order of their making. A failure counts until a try is taken, also when its event was
 * given up. */
static void test_who_failed_last_time_is_left_to_one_sender(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    clear(connection);
    const struct store_id fresh = make(connection), retried = make(connection), given_up = make(connection),
                          good = make(connection);
    OK(connection_execute(connection, "update change_log set last = last + 1", NO_VALUES, NULL, &error));
    outcome(connection, "delivered", &retried);
    outcome(connection, "retry", &retried);
    outcome(connection, "given_up", &given_up);
    outcome(connection, "lost", &given_up);
    outcome(connection, "retry", &good);
    outcome(connection, "delivered", &good);
    outcome(connection, "lost", &good);
    assert_string_equal(taken(connection, WEBHOOKS_HEALTHY).text, good.text);
    assert_string_equal(taken(connection, WEBHOOKS_HEALTHY).text, fresh.text);
    assert_string_equal(taken(connection, WEBHOOKS_HEALTHY).text, "");
    let_go(connection);
    assert_string_equal(taken(connection, WEBHOOKS_ALL).text, fresh.text);
    assert_string_equal(taken(connection, WEBHOOKS_ALL).text, retried.text);
    assert_string_equal(taken(connection, WEBHOOKS_ALL).text, given_up.text);
    assert_string_equal(taken(connection, WEBHOOKS_ALL).text, good.text);
    clear(connection);
}

/* Sets the moment `column` of a webhook, from now. */
static void put_off(struct connection *connection, const char *column, const char *by, const struct store_id *webhook)
{
    struct error error;
    char sql[120];
    (void)snprintf(sql, sizeof sql, "update webhooks set %s = clock_timestamp() + $2::text::interval where id = $1",
                   column);
    OK(connection_execute(connection, sql, VALUES(value_text(webhook->text), value_text(by)), NULL, &error));
}

/* A try is put off for an hour at most, and a lease here lasts a minute: what is further ahead comes from a clock that
 * was set back. It comes before what has been due since. */
static void test_a_clock_set_back_stops_no_webhook(void **state)
{
    static const struct {
        const char *column, *by;
        bool taken;
    } cases[] = {
        {"due_at", "119 minutes", false},       {"due_at", "121 minutes", true}, {"due_at", "1 day", true},
        {"leased_until", "119 seconds", false}, {"leased_until", "1 day", true}, {"leased_until", "-1 second", true},
    };
    struct connection *connection = connection_of(state);
    struct error error;
    clear(connection);
    const struct store_id due = make(connection), far = make(connection);
    OK(connection_execute(connection, "update change_log set last = last + 1", NO_VALUES, NULL, &error));
    put_off(connection, "due_at", "1 day", &far);
    assert_string_equal(taken(connection, WEBHOOKS_ALL).text, far.text);
    OK(connection_execute(connection, "delete from webhooks where id = $1", VALUES(value_text(far.text)), NULL,
                          &error));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_off(connection, "due_at", "-1 second", &due);
        let_go(connection);
        put_off(connection, cases[i].column, cases[i].by, &due);
        const struct store_id found = taken(connection, WEBHOOKS_ALL);
        if ((found.text[0] != '\0') != cases[i].taken)
            fail_msg("%s in %s: %s", cases[i].column, cases[i].by, cases[i].taken ? "not taken" : "taken");
    }
    clear(connection);
}

static char *rendered(const json_t *answer)
{
    return json_dumps(answer, JSON_COMPACT);
}

/* Who has lost the claim on the key makes none, and who has it finds the answer with what was made. */
static void test_the_answer_of_a_key_is_kept_with_the_webhook(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    struct idempotency_answer answer;
    json_t *document, *events = json_array();
    const struct store_id nobody = {"x"};
    const struct idempotency_record record = {
        .scope = "", .key = "key", .prefix = "/v1/webhooks/", .created = 201, .existed = 201, .render = rendered};
    const struct webhook_new new = {
        .url = "http://example.org/", .secret = "secret", .events = events, .record = &record};
    clear(connection);
    GIVES(STATUS_UNAVAILABLE, webhook_insert(connection, &new, &document, &error));
    assert_true(ask(connection, "select count(*) from webhooks where $1::text is not null", &nobody) < 1);
    OK(idempotency_claim(connection, "", "key", "request", &answer, &error));
    OK(webhook_insert(connection, &new, &document, &error));
    OK(idempotency_claim(connection, "", "key", "request", &answer, &error));
    assert_int_equal(answer.http_status, 201);
    char *text = rendered(document);
    assert_string_equal(answer.body, text);
    free(text);
    idempotency_answer_reset(&answer);
    json_decref(document);
    json_decref(events);
    clear(connection);
}

static void test_old_tries_are_removed_ten_thousand_at_a_time(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    bool more;
    const struct store_id webhook = make(connection);
    OK(connection_execute(
        connection,
        "insert into webhook_deliveries (webhook, event, kind, try, at, outcome) select $1, i, 'run', 1,"
        " clock_timestamp() - case when i <= $2 then interval '8 days' else interval '6 days' end,"
        " 'delivered' from generate_series(1, $2 + $3) i",
        VALUES(value_text(webhook.text), value_integer(OLD), value_integer(YOUNG)), NULL, &error));
    OK(webhook_prune(connection, 7, &more, &error));
    assert_true(more);
    assert_true(ask(connection, "select min(event) from webhook_deliveries where webhook = $1", &webhook) == 10001);
    OK(webhook_prune(connection, 7, &more, &error));
    assert_false(more);
    assert_true(ask(connection, "select min(event) from webhook_deliveries where webhook = $1", &webhook) == OLD + 1);
    assert_true(ask(connection, "select count(*) from webhook_deliveries where webhook = $1", &webhook) == YOUNG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_is_a_most_of_them),
        cmocka_unit_test(test_who_failed_last_time_is_left_to_one_sender),
        cmocka_unit_test(test_a_clock_set_back_stops_no_webhook),
        cmocka_unit_test(test_the_answer_of_a_key_is_kept_with_the_webhook),
        cmocka_unit_test(test_old_tries_are_removed_ten_thousand_at_a_time),
    };
    return cmocka_run_group_tests_name("webhooks", tests, set_up, tear_down);
}
