/* Requests byte for byte as lm-evaluation-harness builds them: all of the reference's, of twelve tasks with and without
 * examples. */
#include "tasks/task_set.h"

#include "files/json_reader.h"
#include "shared.h"

#include <string.h>
#include <zlib.h>

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

struct golden {
    const struct task_set *set;
    struct json_reader reader;
    int64_t item;
    struct phrase built;
};

static void same(struct golden *golden, struct json_reader_text expected, const char *what, int choice)
{
    if (expected.size == golden->built.size && memcmp(expected.bytes, golden->built.bytes, expected.size) == 0) return;
    fail_msg("%s, item %lld: %s %d is\n%.*s\ninstead of\n%.*s", golden->set->task->name, (long long)golden->item, what,
             choice, (int)golden->built.size, golden->built.bytes, (int)expected.size, expected.bytes);
}

static void check_text(struct golden *golden, bool context, int choice)
{
    struct json_reader_text expected;
    golden->built.size = 0;
    if (!json_reader_string(&golden->reader, &expected)) return;
    ok(context ? task_set_context(golden->set, golden->item, choice, &golden->built, &error)
               : task_set_continuation(golden->set, golden->item, choice, &golden->built, &error));
    same(golden, expected, context ? "context" : "continuation", choice);
}

static void check_list(struct golden *golden, bool context)
{
    const struct prompt *prompt = &golden->set->items[golden->item].prompt;
    int choice = 0;
    json_reader_array(&golden->reader);
    while (json_reader_next_item(&golden->reader)) check_text(golden, context, choice++);
    assert_int_equal(choice, prompt->choices);
}

static void check_line(struct golden *golden, const char *line)
{
    const struct task_set_item *item = &golden->set->items[golden->item];
    struct json_reader_text key;
    int64_t number = 0;
    char name[128], expected[128] = "";
    task_set_name(golden->set, item->subject, name, sizeof name);
    json_reader_init(&golden->reader, "requests", line, strlen(line), NULL, &error);
    json_reader_object(&golden->reader);
    while (json_reader_next_key(&golden->reader, &key)) {
        if (json_reader_is(key, "task")) {
            json_reader_string_copy(&golden->reader, expected, sizeof expected);
            assert_string_equal(name, expected);
        } else if (json_reader_is(key, "doc") || json_reader_is(key, "gold")) {
            const bool doc = json_reader_is(key, "doc");
            json_reader_int64(&golden->reader, 0, INT32_MAX, &number);
            assert_int_equal(doc ? item->doc : item->prompt.gold, number);
        } else if (json_reader_is(key, "context") || json_reader_is(key, "continuation")) {
            check_text(golden, json_reader_is(key, "context"), 0);
        } else if (json_reader_is(key, "contexts") || json_reader_is(key, "continuations")) {
            check_list(golden, json_reader_is(key, "contexts"));
        } else if (json_reader_is(key, "choice_chars")) {
            int choice = 0;
            json_reader_array(&golden->reader);
            while (json_reader_next_item(&golden->reader)) {
                json_reader_int64(&golden->reader, 0, INT32_MAX, &number);
                assert_int_equal(item->prompt.characters[choice++], number);
            }
        } else {
            fail_msg("unknown field %.*s", (int)key.size, key.bytes);
        }
    }
    ok(json_reader_finish(&golden->reader));
}

static void check_task(const struct task *task, int shots)
{
    char relative[128], eval[512], fewshot[512], requests[512];
    static char line[1 << 20];
    struct task_set *set = NULL;
    (void)snprintf(relative, sizeof relative, "data/tasks/%s.eval.jsonl", task->name);
    shared_require(relative, eval, sizeof eval);
    (void)snprintf(relative, sizeof relative, "data/tasks/%s.fewshot.jsonl", task->name);
    shared_require(relative, fewshot, sizeof fewshot);
    (void)snprintf(relative, sizeof relative, "data/tasks/requests/%s.%dshot.jsonl.gz", task->name, shots);
    shared_require(relative, requests, sizeof requests);
    ok(task_set_open(
        &(struct task_set_source){.task = task, .path = eval, .fewshot = shots > 0 ? fewshot : NULL, .shots = shots},
        &set, &error));
    gzFile file = gzopen(requests, "rb");
    assert_non_null(file);
    struct golden golden = {.set = set};
    for (; gzgets(file, line, sizeof line) != NULL; golden.item++) {
        assert_true(golden.item < set->item_count);
        check_line(&golden, line);
    }
    assert_int_equal(golden.item, set->item_count);
    phrase_reset(&golden.built);
    (void)gzclose(file);
    task_set_close(set);
}

static void test_requests_with_five_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < task_count; i++) check_task(&task_table[i], 5);
}

static void test_requests_without_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < task_count; i++) check_task(&task_table[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_without_examples),
        cmocka_unit_test(test_requests_with_five_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
