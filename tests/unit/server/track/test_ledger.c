/* The ledger of a tracker: whose it is, and what it makes of names. */
#include "base/directory.h"
#include "track/ledger.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place[40];
static char path[80];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof place, "/tmp/deltaq-ledger-XXXXXX");
    if (mkdtemp(place) == NULL) return -1;
    (void)snprintf(path, sizeof path, "%s/ledger", place);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    directory_remove(AT_FDCWD, place);
    return access(place, F_OK) == 0;
}

/* `id`: of its trajectory; or NULL. */
static enum status open_of(const char *where, const char *of, const char *id, struct ledger **out)
{
    struct error error;
    json_t *trajectories = id != NULL ? json_pack("[s]", id) : json_array();
    const struct ledger_owner found = {.place = where, .of = of, .trajectories = trajectories};
    const enum status status = ledger_open(path, &found, out, &error);
    json_decref(trajectories);
    return status;
}

static void test_a_ledger_is_that_of_its_destination_however_long_its_name(void **state)
{
    struct ledger *ledger;
    char about[3000];
    (void)state;
    memset(about, 'a', sizeof about);
    about[sizeof about - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_of("file", about, NULL, &ledger), STATUS_OK);
        ledger_close(ledger);
    }
    about[sizeof about - 2] = 'b';
    assert_int_equal(open_of("file", about, NULL, &ledger), STATUS_CONFLICT);
    assert_null(ledger);
}

static void take(struct ledger *ledger, const char *id, const char *trajectory, const char *series, const char *label);

static void test_a_ledger_knows_its_trajectory_under_another_name(void **state)
{
    static const struct {
        const char *place, *of, *id;
        enum status status;
    } calls[] = {
        {"file", "run", "a", STATUS_OK},
        {"file", "renamed", "a", STATUS_OK},
        {"file", "run", "b", STATUS_CONFLICT},
        {"other", "renamed", "a", STATUS_CONFLICT},
        {"file", "renamed", "a", STATUS_OK},
        {"file", "all trajectories", NULL, STATUS_CONFLICT},
        {"file", "run renamed", "b", STATUS_CONFLICT},
    };
    struct ledger *ledger;
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(open_of(calls[i].place, calls[i].of, calls[i].id, &ledger), calls[i].status);
        if (i == 0) take(ledger, "a", "run", "s", "fp");
        ledger_close(ledger);
    }
}

/* What "b" had before it took the name of "a" is behind the cursor. */
static void test_a_trajectory_that_took_the_name_of_another_is_read_from_the_beginning(void **state)
{
    static const struct {
        const char *id, *cursor;
    } calls[] = {{"a", "0"}, {"a", "1"}, {"b", "0"}, {"b", "1"}};
    struct ledger *ledger;
    struct error error;
    char cursor[LEDGER_CURSOR];
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(open_of("file", "run", calls[i].id, &ledger), STATUS_OK);
        assert_int_equal(ledger_cursor(ledger, cursor, &error), STATUS_OK);
        assert_string_equal(cursor, calls[i].cursor);
        take(ledger, calls[i].id, "run", "s", "fp");
        ledger_close(ledger);
    }
}

/* The stream that has something to send, all of which is sent then. */
static struct ledger_stream next_stream(struct ledger *ledger)
{
    struct ledger_stream stream;
    struct ledger_batch batch;
    struct error error;
    bool found;
    assert_int_equal(ledger_next(ledger, LEDGER_PENDING, &stream, &found, &error), STATUS_OK);
    assert_true(found);
    assert_int_equal(ledger_points(ledger, &stream, LEDGER_PENDING, 0, &batch, &error), STATUS_OK);
    assert_int_equal(ledger_mark(ledger, &batch, NULL, LEDGER_SENT, &stream, &error), STATUS_OK);
    ledger_batch_reset(&batch);
    return stream;
}

static void take_number(struct ledger *ledger, json_t *row, const char *checkpoint, const char *time, double loss)
{
    struct error error;
    int64_t left_out = 0;
    json_t *rows = json_pack("[o]", row);
    assert_non_null(rows);
    assert_int_equal(json_object_update_new(row, json_pack("{ss ss si ss sf}", "checkpoint", "c", "checkpoint_name",
                                                           checkpoint, "step", 1, "measured_at", time, "loss", loss)),
                     0);
    assert_int_equal(ledger_take(ledger, rows, "1", &left_out, &error), STATUS_OK);
    json_decref(rows);
}

static void take(struct ledger *ledger, const char *id, const char *trajectory, const char *series, const char *label)
{
    take_number(
        ledger,
        json_pack("{ss ss ss ss}", "trajectory_id", id, "trajectory", trajectory, "series", series, "label", label),
        "one", "2026-11-22T15:04:26Z", 2.5);
}

/* The newest run was deleted: the number is that of an earlier one. */
static void test_a_number_that_changes_has_a_later_time_and_the_name_of_then(void **state)
{
    struct ledger *ledger;
    struct error error;
    struct ledger_batch batch;
    const char *const series = "{ss ss ss ss}";
    (void)state;
    assert_int_equal(open_of("test", "all", NULL, &ledger), STATUS_OK);
    take_number(ledger, json_pack(series, "trajectory_id", "t", "trajectory", "t", "series", "s", "label", "l"), "one",
                "2026-11-22T15:04:26.5Z", 2.5);
    const struct ledger_stream stream = next_stream(ledger);
    take_number(ledger, json_pack(series, "trajectory_id", "t", "trajectory", "t", "series", "s", "label", "l"), "two",
                "2026-11-22T15:04:20Z", 3.5);
    assert_int_equal(ledger_points(ledger, &stream, LEDGER_PENDING, 0, &batch, &error), STATUS_OK);
    ledger_close(ledger);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.points[0].time_ms, 1795359866501); /* a millisecond after the one before */
    assert_float_equal(batch.points[0].value, 3.5, 0);
    assert_string_equal(batch.points[0].checkpoint_name, "two");
    ledger_batch_reset(&batch);
}

/* Cut within a character it would be no text that a line of JSON can hold. */
static void test_the_longest_name_of_a_checkpoint_is_kept_whole(void **state)
{
    struct ledger *ledger;
    struct ledger_stream stream;
    struct ledger_batch batch;
    struct error error;
    bool found;
    char name[801] = "";
    (void)state;
    for (size_t i = 0; i < 200; i++) (void)strncat(name, "\xf0\x9f\x8e\xb2", sizeof name - strlen(name) - 1);
    assert_int_equal(open_of("test", "all", NULL, &ledger), STATUS_OK);
    take_number(ledger,
                json_pack("{ss ss ss ss}", "trajectory_id", "t", "trajectory", "t", "series", "s", "label", "l"), name,
                "2026-11-22T15:04:26Z", 2.5);
    assert_int_equal(ledger_next(ledger, LEDGER_PENDING, &stream, &found, &error), STATUS_OK);
    assert_int_equal(ledger_points(ledger, &stream, LEDGER_PENDING, 0, &batch, &error), STATUS_OK);
    ledger_close(ledger);
    assert_int_equal(batch.count, 1);
    assert_string_equal(batch.points[0].checkpoint_name, name);
    ledger_batch_reset(&batch);
}

static void test_long_labels_keep_their_beginning_and_stay_apart(void **state)
{
    struct ledger *ledger;
    char label[601] = "";
    (void)state;
    for (size_t i = 0; i < 300; i++) (void)strncat(label, "Δ", sizeof label - strlen(label) - 1);
    assert_int_equal(open_of("test", "all", NULL, &ledger), STATUS_OK);
    take(ledger, "t", "run", "0123456789ab", label);
    take(ledger, "t", "run", "ba9876543210", label);
    const struct ledger_stream one = next_stream(ledger), other = next_stream(ledger);
    ledger_close(ledger);
    assert_int_equal(strncmp(one.name, label, 100), 0);
    assert_string_equal(one.name + 100, " 0123456789ab");
    assert_string_equal(other.name + 100, " ba9876543210");
}

static void test_a_trajectory_keeps_its_first_name_and_shares_it_with_no_other(void **state)
{
    struct ledger *ledger;
    (void)state;
    assert_int_equal(open_of("test", "all", NULL, &ledger), STATUS_OK);
    take(ledger, "aaaaaaaa-1", "run", "s", "fp");
    assert_string_equal(next_stream(ledger).trajectory, "run");
    take(ledger, "aaaaaaaa-1", "renamed", "q", "gptq");
    assert_string_equal(next_stream(ledger).trajectory, "run");
    take(ledger, "bbbbbbbb-2", "run", "s", "fp");
    assert_string_equal(next_stream(ledger).trajectory, "run bbbbbbbb");
    take(ledger, "bbbbbbbb-2", "run", "q", "gptq");
    assert_string_equal(next_stream(ledger).trajectory, "run bbbbbbbb");
    ledger_close(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_ledger_is_that_of_its_destination_however_long_its_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_ledger_knows_its_trajectory_under_another_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_trajectory_that_took_the_name_of_another_is_read_from_the_beginning,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_longest_name_of_a_checkpoint_is_kept_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_labels_keep_their_beginning_and_stay_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_trajectory_keeps_its_first_name_and_shares_it_with_no_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_number_that_changes_has_a_later_time_and_the_name_of_then, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
