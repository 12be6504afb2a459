/* Webhooks: what is kept of their tries, and for how long. */
#include "database.h"
#include "store/webhooks.h"

enum { OLD = 10003, YOUNG = 4 };

static void test_old_tries_are_removed_ten_thousand_at_a_time(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    json_t *document, *events = json_array();
    bool more;
    OK(webhook_insert(connection, "http://example.org/", events, "secret", &document, &error));
    const struct store_id webhook = id_of(document);
    json_decref(document);
    json_decref(events);
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
        cmocka_unit_test(test_old_tries_are_removed_ten_thousand_at_a_time),
    };
    return cmocka_run_group_tests_name("webhooks", tests, set_up, tear_down);
}
