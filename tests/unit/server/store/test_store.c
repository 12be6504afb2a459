/* The questions of server/store, asked of a real database: an embedded cluster in a temporary directory, made once for
 * all tests. */
#include "database.h"
#include "store/checkpoints.h"
#include "store/datasets.h"
#include "store/idempotency.h"
#include "store/sweeps.h"
#include "store/tokens.h"
#include "store/trajectories.h"

#include <math.h>

static struct store_id add_run(struct connection *connection, const char *key, bool force, enum store_outcome expected,
                               const struct store_id *checkpoint)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *params = json_pack("{s:i}", "x", 1);
    const struct run_new new = {.kind = "test",
                                .params = params,
                                .dedupe_key = key,
                                .force = force,
                                .checkpoints = checkpoint,
                                .checkpoint_count = checkpoint != NULL};
    OK(run_insert(connection, &new, &outcome, &document, &error));
    assert_int_equal(outcome, expected);
    const struct store_id id = id_of(document);
    json_decref(document);
    json_decref(params);
    return id;
}

/* ---- tests ---- */

static void test_migrations_are_applied_once(void **state)
{
    struct error error;
    int applied = -1;
    OK(migrations_apply(connection_of(state), &applied, &error));
    assert_int_equal(applied, 0);
    OK(migrations_check(connection_of(state), &error));
}

static void test_a_schema_newer_than_the_binary_is_refused(void **state)
{
    struct error error;
    OK(connection_execute(connection_of(state),
                          "insert into schema_migrations (number, name, sha256) values (9999, 'x', 'x')", NO_VALUES,
                          NULL, &error));
    GIVES(STATUS_CONFLICT, migrations_check(connection_of(state), &error));
    assert_non_null(strstr(error.detail, "9999"));
    GIVES(STATUS_CONFLICT, migrations_apply(connection_of(state), NULL, &error));
    OK(connection_execute(connection_of(state), "delete from schema_migrations where number = 9999", NO_VALUES, NULL,
                          &error));
}

static void test_another_engine_revision_is_told_apart_and_takes_no_work(void **state)
{
    struct error error;
    enum migrations_age age;
    struct connection *connection = connection_of(state);
    OK(migrations_compare(connection, &age, &error));
    assert_int_equal(age, MIGRATIONS_EQUAL);
    OK(connection_execute(connection, "update engine_revision set revision = revision + 1", NO_VALUES, NULL, &error));
    GIVES(STATUS_CONFLICT, migrations_compare(connection, &age, &error));
    assert_int_equal(age, MIGRATIONS_OLDER);
    assert_non_null(strstr(error.detail, "use a newer deltaq"));
    GIVES(STATUS_CONFLICT, migrations_apply(connection, NULL, &error));
    OK(connection_execute(connection, "update engine_revision set revision = revision - 2", NO_VALUES, NULL, &error));
    GIVES(STATUS_CONFLICT, migrations_compare(connection, &age, &error));
    assert_int_equal(age, MIGRATIONS_NEWER);
    OK(migrations_apply(connection, NULL, &error));
    OK(migrations_compare(connection, &age, &error));
}

static void test_values_come_back_as_they_went(void **state)
{
    struct error error;
    struct rows *rows;
    void *bytes;
    size_t length;
    OK(connection_query_one(
        connection_of(state),
        "select $1::bigint, $2::double precision, $3::boolean, $4::text, $5::bytea, $6::text, $7::double precision",
        VALUES(value_integer(INT64_MIN), value_double(0.1), value_boolean(true), value_text("it's \\ \""),
               value_bytes("a\0b", 3), value_text(NULL), value_double(NAN)),
        &rows, &error));
    assert_true(rows_integer(rows, 0, 0) == INT64_MIN);
    assert_true(rows_double(rows, 0, 1) == 0.1);
    assert_true(rows_boolean(rows, 0, 2));
    assert_string_equal(rows_text(rows, 0, 3), "it's \\ \"");
    OK(rows_bytes(rows, 0, 4, &bytes, &length, &error));
    assert_int_equal(length, 3);
    assert_memory_equal(bytes, "a\0b", 3);
    assert_true(rows_null(rows, 0, 5) && rows_null(rows, 0, 6));
    free(bytes);
    rows_free(rows);
}

static void test_a_single_value_comes_alone(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    bool truth = false;
    int64_t number = 7;
    OK(connection_query_boolean(connection, "select $1::integer > 1", VALUES(value_integer(2)), &truth, &error));
    assert_true(truth);
    OK(connection_query_boolean(connection, "select null::boolean", NO_VALUES, &truth, &error));
    assert_false(truth);
    OK(connection_query_integer(connection, "select null::bigint", NO_VALUES, &number, &error));
    assert_int_equal(number, 0);
    OK(connection_query_integer(connection, "select 9007199254740993", NO_VALUES, &number, &error));
    assert_true(number == INT64_C(9007199254740993));
    truth = true;
    GIVES(STATUS_NOT_FOUND, connection_query_boolean(connection, "select true where false", NO_VALUES, &truth, &error));
    GIVES(STATUS_INTERNAL,
          connection_query_integer(connection, "select * from generate_series(1, 2)", NO_VALUES, &number, &error));
    assert_true(!truth && number == 0);
}

static void test_a_lost_session_opens_again(void **state)
{
    struct error error;
    struct connection *other;
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), "victim", &other, &error));
    OK(connection_execute(other, "select 1", NO_VALUES, NULL, &error));
    OK(connection_execute(connection_of(state),
                          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim'",
                          NO_VALUES, NULL, &error));
    OK(connection_execute(connection_of(state), "select pg_sleep(0.1)", NO_VALUES, NULL, &error));
    OK(connection_execute(other, "select 1", NO_VALUES, NULL, &error));
    connection_free(other);
}

/* The private database has it off anyway; others have it on. */
static void test_no_session_has_its_statements_compiled(void **state)
{
    struct error error;
    struct connection *other;
    struct rows *rows;
    OK(connection_execute(connection_of(state), "alter role current_user set jit = on", NO_VALUES, NULL, &error));
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), "compiles", &other, &error));
    OK(connection_query_one(other, "show jit", NO_VALUES, &rows, &error));
    assert_string_equal(rows_text(rows, 0, 0), "off");
    rows_free(rows);
    OK(connection_execute(connection_of(state), "alter role current_user reset jit", NO_VALUES, NULL, &error));
    connection_free(other);
}

static void test_a_statement_past_its_deadline_gives_up(void **state)
{
    struct error error;
    struct connection *other;
    OK(connection_new(embedded_conninfo(((struct fixture *)*state)->embedded), "slow", &other, &error));
    connection_set_deadline(other, 200);
    GIVES(STATUS_UNAVAILABLE, connection_execute(other, "select pg_sleep(30)", NO_VALUES, NULL, &error));
    connection_free(other);
}

static void test_the_same_checkpoint_again_is_no_conflict_and_another_is(void **state)
{
    struct error error;
    enum store_outcome outcome;
    json_t *document, *source = json_pack("{s:s}", "path", "c1"), *elsewhere = json_pack("{s:s}", "path", "c2");
    struct checkpoint_new new = {.trajectory = "same", .name = "c1", .source = source, .fingerprint = "f"};
    const int64_t step = 7;
    (void)add_checkpoint(connection_of(state), "same", "c1", 5);
    OK(checkpoint_insert(connection_of(state), &new, &outcome, &document, &error));
    assert_int_equal(outcome, STORE_EXISTED);
    json_decref(document);
    new.step = &step;
    GIVES(STATUS_CONFLICT, checkpoint_insert(connection_of(state), &new, &outcome, &document, &error));
    assert_string_equal(error.pointer, "/step");
    new.step = NULL;
    new.source = elsewhere;
    GIVES(STATUS_CONFLICT, checkpoint_insert(connection_of(state), &new, &outcome, &document, &error));
    assert_string_equal(error.pointer, "/source/path");
    json_decref(source);
    json_decref(elsewhere);
}

static void test_checkpoints_are_found_by_id_path_and_unique_name(void **state)
{
    struct error error;
    struct checkpoint found;
    const struct store_id id = add_checkpoint(connection_of(state), "one", "shared", 1);
    (void)add_checkpoint(connection_of(state), "two", "shared", 1);
    (void)add_checkpoint(connection_of(state), "two", "alone", 2);
    OK(checkpoint_find(connection_of(state), id.text, &found, &error));
    OK(checkpoint_find(connection_of(state), "one/shared", &found, &error));
    assert_string_equal(found.id.text, id.text);
    OK(checkpoint_find(connection_of(state), "alone", &found, &error));
    assert_int_equal(found.step, 2);
    GIVES(STATUS_CONFLICT, checkpoint_find(connection_of(state), "shared", &found, &error));
    GIVES(STATUS_NOT_FOUND, checkpoint_find(connection_of(state), "three/shared", &found, &error));
}

static void test_lists_page_newest_first(void **state)
{
    struct error error;
    json_t *document;
    char cursor[32];
    struct page page = {.limit = 2};
    for (int i = 0; i < 3; i++)
        (void)add_checkpoint(connection_of(state), "paged", (const char *[]){"a", "b", "c"}[i], i);
    OK(checkpoint_list(connection_of(state), "paged", &LIST_FILTER_ANY, &page, &document, &error));
    json_t *items = json_object_get(document, "items");
    assert_int_equal(json_array_size(items), 2);
    assert_string_equal(text_at(json_array_get(items, 0), "name"), "c");
    (void)snprintf(cursor, sizeof cursor, "%s", text_at(document, "next"));
    json_decref(document);
    page.cursor = cursor;
    OK(checkpoint_list(connection_of(state), "paged", &LIST_FILTER_ANY, &page, &document, &error));
    assert_int_equal(json_array_size(json_object_get(document, "items")), 1);
    assert_true(json_is_null(json_object_get(document, "next")));
    json_decref(document);
    page.cursor = "1 or 1=1";
    GIVES(STATUS_INVALID, checkpoint_list(connection_of(state), "paged", &LIST_FILTER_ANY, &page, &document, &error));
}

static void test_patch_changes_only_what_it_names(void **state)
{
    struct error error;
    json_t *document, *changes = json_pack("{s:n, s:{s:s}}", "step", "tags", "phase", "decay");
    (void)add_checkpoint(connection_of(state), "patched", "p", 3);
    OK(checkpoint_patch(connection_of(state), "patched/p", changes, &document, &error));
    assert_true(json_is_null(json_object_get(document, "step")));
    assert_int_equal(json_integer_value(json_object_get(document, "tokens")), 3000);
    assert_string_equal(text_at(json_object_get(document, "tags"), "phase"), "decay");
    json_decref(document);
    json_decref(changes);
}

static void test_a_checkpoint_in_use_is_not_deleted(void **state)
{
    struct error error;
    json_t *document;
    const struct store_id id = add_checkpoint(connection_of(state), "used", "u", 1);
    const struct store_id run = add_run(connection_of(state), NULL, false, STORE_CREATED, &id);
    GIVES(STATUS_CONFLICT, checkpoint_delete(connection_of(state), id.text, &error));
    OK(run_cancel(connection_of(state), run.text, &document, &error));
    json_decref(document);
    OK(checkpoint_delete(connection_of(state), id.text, &error));
    expect_state(connection_of(state), &run, "cancelled");
}

static void test_content_once_known_stays(void **state)
{
    struct error error;
    const struct store_id id = add_checkpoint(connection_of(state), "content", "c", 1);
    char a[65], b[65];
    memset(a, 'a', 64), memset(b, 'b', 64);
    a[64] = b[64] = '\0';
    OK(checkpoint_set_content(connection_of(state), &id, a, &error));
    OK(checkpoint_set_content(connection_of(state), &id, a, &error));
    GIVES(STATUS_INPUT_CHANGED, checkpoint_set_content(connection_of(state), &id, b, &error));
}

/* Two sequences; token number i is i squared. */
enum { LONG_TOKENS = 300000 };

static enum status read_squares(const void *owner, enum dataset_part part, int64_t first, int64_t count, int32_t *out,
                                struct error *error)
{
    const int32_t *lengths = owner;
    (void)error;
    for (int64_t i = 0; i < count; i++)
        out[i] = part == DATASET_PART_LENGTHS ? lengths[first + i] : (int32_t)((first + i) * (first + i) % 65536);
    return STATUS_OK;
}

/* More tokens than a chunk holds. */
static void test_inline_datasets_come_back_token_by_token(void **state)
{
    struct error error;
    enum store_outcome outcome;
    const int32_t lengths[] = {2, LONG_TOKENS - 2};
    const struct dataset_sequences sequences = {{2, LONG_TOKENS}, lengths, read_squares};
    struct dataset found;
    char sha256[65] = "";
    int32_t got[2], *tokens = calloc(LONG_TOKENS, sizeof *tokens);
    json_t *document, *definition = json_object();
    struct dataset_new new = {
        .name = "inline", .format = "sequences", .definition = definition, .sequences = &sequences, .sha256 = sha256};
    memset(sha256, 'a', sizeof sha256 - 1);
    OK(dataset_insert(connection_of(state), &new, &outcome, &document, &error));
    assert_int_equal(json_integer_value(json_object_get(document, "tokens")), LONG_TOKENS);
    json_decref(document);
    OK(dataset_find(connection_of(state), "inline", &found, &error));
    OK(dataset_numbers(connection_of(state), &found, DATASET_PART_TOKENS, tokens, &error));
    for (int64_t i = 0; i < LONG_TOKENS; i++) assert_int_equal(tokens[i], i * i % 65536);
    OK(dataset_numbers(connection_of(state), &found, DATASET_PART_LENGTHS, got, &error));
    assert_memory_equal(got, lengths, sizeof lengths);
    OK(connection_execute(connection_of(state),
                          "delete from dataset_chunks where dataset = $1 and part = 'tokens' and number = 1",
                          VALUES(value_text(found.id.text)), NULL, &error));
    GIVES(STATUS_CORRUPT, dataset_numbers(connection_of(state), &found, DATASET_PART_TOKENS, tokens, &error));
    dataset_reset(&found);
    free(tokens);
    OK(dataset_insert(connection_of(state), &new, &outcome, &document, &error));
    assert_int_equal(outcome, STORE_EXISTED);
    json_decref(document);
    sha256[0] = 'b';
    GIVES(STATUS_CONFLICT, dataset_insert(connection_of(state), &new, &outcome, &document, &error));
    json_decref(definition);
}

/* By an older deltaq, which kept the id and the name in what the run had read, but not what the data was. */
static void test_datasets_that_were_deleted_before_are_known_by_what_was_measured_on_them(void **state)
{
    struct connection *connection = connection_of(state);
    struct error error;
    enum store_outcome outcome;
    int applied = 0;
    char name[STORE_NAME];
    json_t *document, *definition = json_pack("{ss}", "path", "/text");
    const struct dataset_new new = {.name = "old text", .format = "text", .definition = definition};
    OK(connection_script(connection,
                         "drop table datasets_gone; drop index run_inputs_by_gone;"
                         "delete from schema_migrations where number = 43;"
                         "insert into runs (id, kind, state, epoch, result_epoch, finished_at)"
                         " values ('had read', 'evaluate', 'succeeded', 1, 1, now());"
                         "insert into run_inputs (run, gone, gone_name) values ('had read', 'old', 'old text'),"
                         " ('had read', 'trajectory', 'another kind');"
                         "insert into measurements (run, epoch, metric, value, dataset)"
                         " values ('had read', 1, 'loss', 1, 'old text')",
                         &error));
    OK(migrations_apply(connection, &applied, &error));
    assert_int_equal(applied, 1);
    OK(dataset_name_measured(connection, "old", name, &error));
    assert_string_equal(name, "old text");
    OK(dataset_name_measured(connection, "trajectory", name, &error));
    assert_string_equal(name, "");
    GIVES(STATUS_CONFLICT, dataset_insert(connection, &new, &outcome, &document, &error));
    assert_string_equal(error.pointer, "/name");
    OK(connection_script(connection, "delete from runs where id = 'had read'", &error));
    OK(dataset_insert(connection, &new, &outcome, &document, &error));
    assert_int_equal(outcome, STORE_CREATED);
    json_decref(document);
    json_decref(definition);
}

static void test_an_equal_run_is_shared_unless_forced(void **state)
{
    struct connection *connection = connection_of(state);
    const struct store_id first = add_run(connection, "key-1", false, STORE_CREATED, NULL);
    const struct store_id second = add_run(connection, "key-1", false, STORE_EXISTED, NULL);
    assert_string_equal(first.text, second.text);
    const struct store_id forced = add_run(connection, "key-1", true, STORE_CREATED, NULL);
    assert_string_not_equal(first.text, forced.text);
    for (int i = 0; i < 2; i++) {
        const struct lease lease = take(connection);
        finish(connection, &lease, NULL);
    }
    const struct store_id third = add_run(connection, "key-1", false, STORE_EXISTED, NULL);
    expect_state(connection, &third, "succeeded");
}

static void test_a_stale_lease_changes_nothing(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    bool cancel;
    int released;
    const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
    const struct lease stale = take(connection);
    OK(queue_release_dead(connection, &stale.owner, QUEUE_CRASHED, "killed by signal 9", &released, &error));
    assert_int_equal(released, 1);
    const struct lease current = take(connection);
    assert_string_equal(current.run.text, run.text);
    assert_int_equal(current.epoch, stale.epoch + 1);
    json_t *answer = json_object();
    const struct queue_result result = {.result = answer};
    GIVES(STATUS_LEASE_LOST, queue_beat(connection, &stale, 30, NULL, &cancel, &error));
    GIVES(STATUS_LEASE_LOST, queue_finish(connection, &stale, &result, &error));
    GIVES(STATUS_LEASE_LOST, queue_release(connection, &stale, &error));
    expect_state(connection, &run, "running");
    finish(connection, &current, NULL);
    GIVES(STATUS_LEASE_LOST, queue_finish(connection, &current, &result, &error));
    json_decref(answer);
}

static void test_the_third_crash_fails_the_run_with_the_evidence(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    json_t *document;
    const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
    for (int i = 0; i < QUEUE_CRASH_BUDGET; i++) {
        OK(connection_execute(connection, "update runs set run_at = clock_timestamp() where id = $1",
                              VALUES(value_text(run.text)), NULL, &error));
        const struct lease lease = take(connection);
        OK(queue_release_dead(connection, &lease.owner, QUEUE_CRASHED, "killed by signal 11", NULL, &error));
    }
    OK(run_get(connection, run.text, &document, &error));
    assert_string_equal(text_at(document, "state"), "failed");
    assert_non_null(strstr(text_at(json_object_get(document, "error"), "detail"), "signal 11"));
    json_decref(document);
    OK(run_retry(connection, run.text, 0, &document, &error));
    assert_string_equal(text_at(document, "state"), "queued");
    json_decref(document);
    OK(run_cancel(connection, run.text, &document, &error));
    json_decref(document);
}

static void test_expired_leases_are_rescued_and_so_are_those_of_a_clock_set_back(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    static const char *const moves[] = {"- interval '1 second'", "+ interval '1 hour'"};
    for (int i = 0; i < 2; i++) {
        int rescued;
        const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
        (void)take(connection);
        OK(queue_rescue(connection, 30, &rescued, &error));
        assert_int_equal(rescued, 0);
        OK(connection_execute(
            connection,
            i == 0 ? "update runs set lease_until = clock_timestamp() - interval '1 second' where id = $1"
                   : "update runs set lease_until = clock_timestamp() + interval '1 hour' where id = $1",
            VALUES(value_text(run.text)), NULL, &error));
        OK(queue_rescue(connection, 30, &rescued, &error));
        print_message("lease_until %s\n", moves[i]);
        assert_int_equal(rescued, 1);
        const struct lease again = take(connection);
        finish(connection, &again, NULL);
    }
}

static void test_cancelling_a_running_run_reaches_its_worker(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    bool cancel;
    json_t *document;
    const struct queue_result none = {.usage = {.peak_host_bytes = -1, .peak_device_bytes = -1}};
    const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
    const struct lease lease = take(connection);
    OK(run_cancel(connection, run.text, &document, &error));
    assert_string_equal(text_at(document, "state"), "running");
    json_decref(document);
    OK(queue_peek(connection, &lease, &cancel, &error));
    assert_true(cancel);
    OK(queue_cancelled(connection, &lease, &none, &error));
    expect_state(connection, &run, "cancelled");
    OK(run_cancel(connection, run.text, &document, &error));
    json_decref(document);
}

static void test_errors_worth_a_retry_are_tried_three_times(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    struct error cause;
    const struct queue_result none = {.usage = {.peak_host_bytes = -1, .peak_device_bytes = -1}};
    (void)error_set(&cause, STATUS_IO, "a disk coughed");
    const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
    for (int i = 0; i < 3; i++) {
        OK(connection_execute(connection, "update runs set run_at = clock_timestamp() where id = $1",
                              VALUES(value_text(run.text)), NULL, &error));
        const struct lease lease = take(connection);
        OK(queue_fail(connection, &lease, &cause, &none, &error));
        expect_state(connection, &run, i < 2 ? "queued" : "failed");
    }
}

static void test_progress_log_and_states_can_be_followed(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    bool cancel;
    json_t *document, *lines = json_pack("[s, s]", "first", "second");
    const struct queue_progress progress = {.done = 2, .total = 5, .unit = "step", .eta_seconds = 1.5};
    const struct store_id run = add_run(connection, NULL, false, STORE_CREATED, NULL);
    const struct lease lease = take(connection);
    OK(queue_beat(connection, &lease, 30, &progress, &cancel, &error));
    OK(queue_log(connection, &lease, lines, &error));
    OK(run_watch(connection, run.text, 0, &document, &error));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "progress"), "done")), 2);
    assert_int_equal(json_array_size(json_object_get(document, "events")), 4);
    json_decref(document);
    json_decref(lines);
    finish(connection, &lease, NULL);
}

static void test_tokens_open_and_only_their_hash_is_kept(void **state)
{
    struct error error;
    char text[TOKEN_TEXT];
    json_t *document = NULL;
    struct token_known known;
    bool any;
    OK(token_create(connection_of(state), TOKEN_WRITE, "laptop", 0, text, &document, &error));
    assert_int_equal(strlen(text), 46);
    assert_string_equal(json_string_value(json_object_get(document, "name")), "laptop");
    json_decref(document);
    OK(token_check(connection_of(state), text, &known, &error));
    assert_int_equal(known.scope, TOKEN_WRITE);
    assert_string_equal(known.name, "laptop");
    text[10] = text[10] == 'x' ? 'y' : 'x';
    GIVES(STATUS_UNAUTHORIZED, token_check(connection_of(state), text, &known, &error));
    GIVES(STATUS_CONFLICT, token_create(connection_of(state), TOKEN_READ, "laptop", 0, text, &document, &error));
    OK(token_any(connection_of(state), &any, &error));
    assert_true(any);
}

static void test_idempotency_keys_answer_again_and_refuse_other_bodies(void **state)
{
    struct error error;
    struct idempotency_answer answer;
    OK(idempotency_claim(connection_of(state), "", "k", "h1", &answer, &error));
    assert_int_equal(answer.http_status, 0);
    GIVES(STATUS_CONFLICT, idempotency_claim(connection_of(state), "", "k", "h1", &answer, &error));
    char body[] = "{}", location[] = "/v1/runs/1";
    const struct idempotency_answer kept = {.http_status = 202, .body = body, .location = location};
    OK(idempotency_store(connection_of(state), "", "k", &kept, &error));
    OK(idempotency_claim(connection_of(state), "", "k", "h1", &answer, &error));
    assert_int_equal(answer.http_status, 202);
    assert_string_equal(answer.location, "/v1/runs/1");
    idempotency_answer_reset(&answer);
    GIVES(STATUS_INVALID, idempotency_claim(connection_of(state), "", "k", "h2", &answer, &error));
    OK(idempotency_claim(connection_of(state), "token", "k", "h2", &answer, &error));
    OK(idempotency_forget(connection_of(state), "token", "k", &error));
    OK(idempotency_expire(connection_of(state), &error));
}

static void test_small_documents_are_well_formed(void **state)
{
    struct error error;
    struct connection *connection = connection_of(state);
    json_t *document;
    const struct page page = {0};
    OK(trajectory_list(connection, false, &LIST_FILTER_ANY, &page, &document, &error));
    json_decref(document);
    OK(dataset_list(connection, &LIST_FILTER_ANY, &page, &document, &error));
    json_decref(document);
    OK(sweep_list(connection, &LIST_FILTER_ANY, &page, &document, &error));
    json_decref(document);
    OK(worker_register(connection, &someone, &error));
    OK(worker_list(connection, &document, &error));
    assert_int_equal(json_array_size(json_object_get(document, "items")), 1);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_migrations_are_applied_once),
        cmocka_unit_test(test_a_schema_newer_than_the_binary_is_refused),
        cmocka_unit_test(test_another_engine_revision_is_told_apart_and_takes_no_work),
        cmocka_unit_test(test_values_come_back_as_they_went),
        cmocka_unit_test(test_a_single_value_comes_alone),
        cmocka_unit_test(test_a_lost_session_opens_again),
        cmocka_unit_test(test_a_statement_past_its_deadline_gives_up),
        cmocka_unit_test(test_no_session_has_its_statements_compiled),
        cmocka_unit_test(test_the_same_checkpoint_again_is_no_conflict_and_another_is),
        cmocka_unit_test(test_checkpoints_are_found_by_id_path_and_unique_name),
        cmocka_unit_test(test_lists_page_newest_first),
        cmocka_unit_test(test_patch_changes_only_what_it_names),
        cmocka_unit_test(test_a_checkpoint_in_use_is_not_deleted),
        cmocka_unit_test(test_content_once_known_stays),
        cmocka_unit_test(test_inline_datasets_come_back_token_by_token),
        cmocka_unit_test(test_an_equal_run_is_shared_unless_forced),
        cmocka_unit_test(test_a_stale_lease_changes_nothing),
        cmocka_unit_test(test_the_third_crash_fails_the_run_with_the_evidence),
        cmocka_unit_test(test_expired_leases_are_rescued_and_so_are_those_of_a_clock_set_back),
        cmocka_unit_test(test_cancelling_a_running_run_reaches_its_worker),
        cmocka_unit_test(test_errors_worth_a_retry_are_tried_three_times),
        cmocka_unit_test(test_progress_log_and_states_can_be_followed),
        cmocka_unit_test(test_tokens_open_and_only_their_hash_is_kept),
        cmocka_unit_test(test_idempotency_keys_answer_again_and_refuse_other_bodies),
        cmocka_unit_test(test_small_documents_are_well_formed),
        cmocka_unit_test(test_datasets_that_were_deleted_before_are_known_by_what_was_measured_on_them),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
