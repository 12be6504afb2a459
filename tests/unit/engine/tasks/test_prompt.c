/* Records that do not fit are refused by file, line and field; the odd corners of the harness's wording. */
#include "engine/files/scratch.h"
#include "tasks/task_set.h"

static struct error error;

static enum status read_one(const char *task, const char *json, struct prompt *out)
{
    const struct record record = {"records.jsonl", 7, {json, strlen(json)}};
    return prompt_read(task_find(task), &record, out, &error);
}

static void refuses(const char *task, const char *json, const char *words)
{
    struct prompt prompt;
    assert_int_equal(read_one(task, json, &prompt), STATUS_INVALID);
    if (strstr(error.detail, "records.jsonl: line 7") == NULL || strstr(error.detail, words) == NULL)
        fail_msg("%s", error.detail);
    prompt_reset(&prompt);
}

static void gives(const char *task, const char *json, const char *context, const char *last_choice, int gold)
{
    struct prompt prompt;
    if (read_one(task, json, &prompt) != STATUS_OK) fail_msg("%s", error.detail);
    const struct prompt_span before = prompt_context(&prompt, prompt.choices - 1);
    const struct prompt_span choice = prompt_continuation(&prompt, prompt.choices - 1);
    assert_int_equal(before.end - before.start, strlen(context));
    assert_memory_equal(prompt.text.bytes + before.start, context, strlen(context));
    assert_int_equal(choice.end - choice.start, strlen(last_choice));
    assert_memory_equal(prompt.text.bytes + choice.start, last_choice, strlen(last_choice));
    assert_int_equal(prompt.gold, gold);
    prompt_reset(&prompt);
}

static void test_unknown_tasks_have_no_row(void **state)
{
    (void)state;
    assert_null(task_find("arc_hard"));
    for (size_t i = 0; i < task_count; i++) assert_ptr_equal(task_find(task_names[i]), &task_table[i]);
}

static void test_missing_and_wrong_fields_are_named(void **state)
{
    (void)state;
    refuses("arc_easy", "{\"question\": \"q\", \"answerKey\": \"A\"}", "\"choices.text\" is missing");
    refuses("arc_easy", "{\"choices\": {\"text\": [\"x\", \"y\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"A\"}",
            "\"question\" is missing");
    refuses("piqa", "{\"goal\": null, \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 0}", "\"goal\" is not text");
    refuses("arc_easy",
            "{\"question\": \"q\", \"choices\": {\"text\": \"x\", \"label\": [\"A\"]}, \"answerKey\": \"A\"}",
            "is not a list");
    refuses("piqa", "[1, 2]", "is missing");
}

static void test_answers_outside_the_choices_are_refused(void **state)
{
    (void)state;
    const char *words = "is none of the";
    refuses("arc_easy",
            "{\"question\": \"q\", \"choices\": {\"text\": [\"x\", \"y\"], \"label\": [\"A\", \"B\"]},"
            " \"answerKey\": \"C\"}",
            words);
    refuses("piqa", "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": -1}", words);
    refuses("piqa", "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 2}", words);
    refuses("winogrande", "{\"sentence\": \"a _ b\", \"option1\": \"x\", \"option2\": \"y\", \"answer\": \"\"}",
            "is not an integer");
    refuses("mathqa", "{\"Problem\": \"p\", \"options\": \"a ) 1 , b ) 2\", \"correct\": \"a\"}",
            "fewer than two choices");
    refuses("mathqa",
            "{\"Problem\": \"p\", \"options\": \"a ) 1 , b ) 2 , c ) 3 , d ) 4 , e ) 5\", \"correct\": \"f\"}", words);
    refuses("pubmedqa", "{\"CONTEXTS\": [\"c\"], \"QUESTION\": \"q\", \"final_decision\": \"perhaps\"}", words);
}

static void test_words_as_the_harness_does(void **state)
{
    (void)state;
    gives("hellaswag",
          "{\"activity_label\": \"A [x] b\", \"ctx_a\": \" Go [title] on\", \"ctx_b\": \"\", \"endings\": [\"a\","
          " \" [step] B  [no\\n]  c\"],"
          " \"label\": \"1\"}",
          "A b: Go. on", " B [no\n] c", 1);
    gives("hellaswag",
          "{\"activity_label\": \"x\", \"ctx_a\": \"y\", \"ctx_b\": \"\xc3\xa9T\xc3\x80\", \"endings\": [\"a\", \"b\"],"
          " \"label\": 0}",
          "x: y \xc3\x89t\xc3\xa0", "b", 0);
    gives("mathqa",
          "{\"Problem\": \"p\", \"options\": \"a ) 1 , 000 , b ) 2 , c ) 3 , d ) 4 , e ) rs . 5 ,"
          " or 6\", \"correct\": \"e\"}",
          "Question: p\nAnswer:", "rs . 5 , or 6", 4);
    gives("winogrande",
          "{\"sentence\": \"The _ fits _ well .\", \"option1\": \"x\", \"option2\": \"y\", \"answer\": \"2\"}", "The y",
          "fits _ well .", 1);
    gives("sciq",
          "{\"support\": \"\", \"question\": \"q\", \"distractor1\": \"a\", \"distractor2\": \"b\","
          " \"distractor3\": \"c\", \"correct_answer\": \"d\"}",
          "\nQuestion: q\nAnswer:", "d", 3);
    gives("piqa", "{\"goal\": \"g\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 1}", "Question: g\nAnswer:", "b", 1);
    gives("openbookqa",
          "{\"question_stem\": \"s\", \"choices\": {\"text\": [\"x\", \"y\"], \"label\": [\"A\", \"B\"]},"
          " \"answerKey\": \" B\"}",
          "s", "y", 1);
}

/* What normalised scores are divided by: characters, not bytes; of the contexts where those differ. */
static void test_characters_of_choices_are_counted(void **state)
{
    (void)state;
    struct prompt prompt;
    const char *piqa =
        "{\"goal\": \"g\", \"sol1\": \"caf\xc3\xa9 \xe2\x82\xac\", \"sol2\": \"\xf0\x9f\x98\x80\", \"label\": 0}";
    const char *winogrande =
        "{\"sentence\": \"\xc3\xa9 _ fits .\", \"option1\": \"ab\", \"option2\": \"\xc3\xa9\", \"answer\": \"1\"}";
    assert_int_equal(read_one("piqa", piqa, &prompt), STATUS_OK);
    assert_true(prompt.characters[0] == 6 && prompt.characters[1] == 1);
    prompt_reset(&prompt);
    assert_int_equal(read_one("winogrande", winogrande, &prompt), STATUS_OK);
    assert_true(prompt.characters[0] == 4 && prompt.characters[1] == 3);
    prompt_reset(&prompt);
}

/* ---- files ---- */

#define PIQA(goal) "{\"goal\": \"" goal "\", \"sol1\": \"a\", \"sol2\": \"b\", \"label\": 0}\n"

static enum status open_with(struct scratch *scratch, const char *tests, const char *pool, int shots,
                             struct task_set **set)
{
    char path[512], fewshot[512];
    scratch_write(scratch, "tests.jsonl", tests, strlen(tests));
    (void)snprintf(path, sizeof path, "%s", scratch_path(scratch, "tests.jsonl"));
    scratch_write(scratch, "pool.jsonl", pool, strlen(pool));
    (void)snprintf(fewshot, sizeof fewshot, "%s", scratch_path(scratch, "pool.jsonl"));
    return task_set_open(&(struct task_set_source){task_find("piqa"), path, fewshot, shots, 0}, set, &error);
}

static void test_a_record_is_no_example_of_itself(void **state)
{
    (void)state;
    struct scratch scratch;
    struct task_set *set = NULL;
    struct phrase text = {0};
    scratch_open(&scratch);
    /* the same record with its keys in another order, escapes and blanks */
    const char *pool = PIQA("one") " { \"label\" : 0, \"goal\": \"tw\\u006f\", \"sol2\": \"b\", \"sol1\": \"a\" }\n";
    assert_int_equal(open_with(&scratch, PIQA("two"), pool, 1, &set), STATUS_OK);
    assert_int_equal(task_set_context(set, 0, 0, &text, &error), STATUS_OK);
    const char *expected = "Question: one\nAnswer: a\n\nQuestion: two\nAnswer:";
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.size);
    phrase_reset(&text);
    task_set_close(set);
    assert_int_equal(open_with(&scratch, PIQA("two"), PIQA("two") PIQA("two"), 1, &set), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "tests.jsonl: line 1 is in the examples"));
    assert_int_equal(open_with(&scratch, PIQA("two"), PIQA("one"), 1, &set), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "pool.jsonl holds 1 examples"));
    scratch_close(&scratch);
}

#define MMLU(subject, question)                                \
    "{\"subject\": \"" subject "\", \"question\": \"" question \
    "\", \"choices\": [\"p\", \"q\", \"r\", \"s\"], \"answer\": 2}\n"

/* Subjects in the order in which they first stand; of each the first records up to the limit, with its own first
 * examples. */
static void test_subjects_have_examples_and_limits_of_their_own(void **state)
{
    (void)state;
    static const struct {
        int64_t subject, doc;
        const char *question, *example;
    } expected[] = {
        {0, 0, "\n\na1", "\n\nax"}, {0, 1, "\n\na2", "\n\nax"}, {1, 0, "\n\nb1", "\n\nbx"}, {1, 1, "\n\nb2", "\n\nbx"}};
    struct scratch scratch;
    struct task_set *set = NULL;
    char path[512], fewshot[512];
    scratch_open(&scratch);
    const char *tests = MMLU("a", "a1") MMLU("b", "b1") MMLU("a", "a2") MMLU("b", "b2") MMLU("a", "a3") MMLU("b", "b3");
    const char *pool = MMLU("b", "bx") MMLU("c", "cx") MMLU("a", "ax") MMLU("b", "by") MMLU("a", "ay");
    scratch_write(&scratch, "tests.jsonl", tests, strlen(tests));
    (void)snprintf(path, sizeof path, "%s", scratch_path(&scratch, "tests.jsonl"));
    scratch_write(&scratch, "pool.jsonl", pool, strlen(pool));
    (void)snprintf(fewshot, sizeof fewshot, "%s", scratch_path(&scratch, "pool.jsonl"));
    const struct task_set_source source = {task_find("mmlu"), path, fewshot, 1, 2};
    assert_int_equal(task_set_open(&source, &set, &error), STATUS_OK);
    assert_int_equal(set->item_count, 4);
    for (int i = 0; i < 4; i++) {
        struct phrase text = {0};
        assert_true(set->items[i].subject == expected[i].subject && set->items[i].doc == expected[i].doc);
        assert_int_equal(task_set_context(set, i, 0, &text, &error), STATUS_OK);
        assert_int_equal(phrase_add(&text, "", 1, &error), STATUS_OK);
        if (strstr(text.bytes, expected[i].question) == NULL || strstr(text.bytes, expected[i].example) == NULL)
            fail_msg("item %d: %s", i, text.bytes);
        phrase_reset(&text);
    }
    task_set_close(set);
    const struct task_set_source more = {task_find("mmlu"), path, fewshot, 3, 0};
    assert_int_equal(task_set_open(&more, &set, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "has 2 examples of the subject \"a\"; 3 are needed"));
    scratch_close(&scratch);
}

static void test_files_of_other_kinds_are_refused(void **state)
{
    (void)state;
    struct scratch scratch;
    struct task_set *set = NULL;
    scratch_open(&scratch);
    assert_int_equal(open_with(&scratch, "PAR1\x15\x04", "", 0, &set), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "Parquet"));
    assert_int_equal(open_with(&scratch, "\n \n", "", 0, &set), STATUS_INVALID);
    assert_int_equal(open_with(&scratch, PIQA("x") "{\"goal\": \n", "", 0, &set), STATUS_MALFORMED);
    assert_non_null(strstr(error.detail, "tests.jsonl: line 2"));
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_tasks_have_no_row),
        cmocka_unit_test(test_missing_and_wrong_fields_are_named),
        cmocka_unit_test(test_answers_outside_the_choices_are_refused),
        cmocka_unit_test(test_words_as_the_harness_does),
        cmocka_unit_test(test_a_record_is_no_example_of_itself),
        cmocka_unit_test(test_characters_of_choices_are_counted),
        cmocka_unit_test(test_subjects_have_examples_and_limits_of_their_own),
        cmocka_unit_test(test_files_of_other_kinds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
