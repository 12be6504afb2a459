/* trainer_state.json: what is read, and that anything else says nothing. */
#include "engine/files/scratch.h"
#include "inputs/trainer_state.h"

#include <math.h>

static void expect(const char *text, int64_t step, int64_t tokens, double rate)
{
    struct scratch scratch;
    struct trainer_state found;
    scratch_open(&scratch);
    if (text != NULL) scratch_write(&scratch, "trainer_state.json", text, strlen(text));
    trainer_state_read(scratch.directory, &found);
    scratch_close(&scratch);
    if (found.step == step && found.tokens == tokens &&
        (found.learning_rate == rate || (isnan(found.learning_rate) && isnan(rate))))
        return;
    fail_msg("%s: %lld, %lld, %g", text != NULL ? text : "no file", (long long)found.step, (long long)found.tokens,
             found.learning_rate);
}

static void test_what_transformers_writes(void **state)
{
    (void)state;
    expect("{\"best_metric\": null, \"epoch\": 0.5, \"global_step\": 77, \"is_local_process_zero\": true,\n"
           " \"log_history\": [{\"loss\": 1.5, \"learning_rate\": 0.5, \"step\": 1}, {\"eval_loss\": 2, \"step\": 1},\n"
           "  {\"learning_rate\": 2.5e-05, \"step\": 2}, {\"train_runtime\": 3.5}],\n"
           " \"num_input_tokens_seen\": 9007199254740993, \"stateful_callbacks\": {\"a\": {\"args\": {}}}}\n",
           77, 9007199254740993, 2.5e-5);
    expect("{\"global_step\": 0, \"log_history\": [{\"learning_rate\": 0}]}", 0, -1, 0);
    expect("{\"log_history\": [{\"learning_rate\": 1E-3}, {\"learning_rate\": -1}, 7, [], null]}", -1, -1, 1e-3);
    expect("{\"\\u0067lobal_step\": 5}", 5, -1, NAN);
    expect("{\"x\": [{}, {}, [[]]], \"global_step\": 9223372036854775807}", INT64_MAX, -1, NAN);
    expect("{\"global_step\": -0, \"x\": {\"global_step\": 3}}", 0, -1, NAN);
}

static void test_values_of_other_types_are_not_said(void **state)
{
    (void)state;
    expect("{\"global_step\": 7.0, \"num_input_tokens_seen\": 1e3}", -1, -1, NAN);
    expect("{\"global_step\": 7.5, \"num_input_tokens_seen\": 5}", -1, 5, NAN);
    expect("{\"global_step\": \"7\", \"num_input_tokens_seen\": true, \"log_history\": {\"learning_rate\": 1}}", -1, -1,
           NAN);
    expect("{\"global_step\": -7, \"num_input_tokens_seen\": 0, \"log_history\": [{\"learning_rate\": \"1\"}]}", -1, -1,
           NAN);
    expect("{\"global_step\": null, \"num_input_tokens_seen\": 5, \"log_history\": null}", -1, 5, NAN);
    expect("{\"global_step\": {\"global_step\": 7}, \"log_history\": [[{\"learning_rate\": 1}]]}", -1, -1, NAN);
}

/* Python's json writes them as they are. */
static void test_a_training_that_diverged_has_its_step(void **state)
{
    (void)state;
    expect("{\"best_metric\": NaN, \"global_step\": 7, \"log_history\": [{\"grad_norm\": NaN, \"learning_rate\": 0.5,"
           " \"loss\": -Infinity}, {\"learning_rate\": NaN}, {\"learning_rate\": Infinity}]}",
           7, -1, 0.5);
    expect("{\"global_step\": NaN, \"num_input_tokens_seen\": Infinity, \"log_history\": NaN}", -1, -1, NAN);
    expect("{\"global_step\": 3, \"num_input_tokens_seen\": -Infinity, \"log_history\": [NaN]}", 3, -1, NAN);
}

static void test_the_later_of_two_keys_counts(void **state)
{
    (void)state;
    expect("{\"global_step\": 1, \"global_step\": 2}", 2, -1, NAN);
    expect("{\"global_step\": 1, \"global_step\": \"2\"}", -1, -1, NAN);
    expect("{\"log_history\": [{\"learning_rate\": 1}], \"log_history\": []}", -1, -1, NAN);
    expect("{\"log_history\": [{\"learning_rate\": 3}, {\"learning_rate\": 1, \"learning_rate\": 2}]}", -1, -1, 2);
    expect("{\"log_history\": [{\"learning_rate\": 3}, {\"learning_rate\": 1, \"learning_rate\": -2}]}", -1, -1, 3);
    expect("{\"log_history\": [{\"learning_rate\": 3}, {\"learning_rate\": 1, \"learning_rate\": null}]}", -1, -1, 3);
}

/* Nothing is taken from what precedes the fault either. */
static void test_files_of_another_form_say_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        NULL,
        "",
        "7",
        "[{\"global_step\": 7}]",
        "{\"global_step\": 7",
        "{\"global_step\": 7} x",
        "{\"global_step\": 7, \"x\": nan}",
        "{\"global_step\": 7, \"x\": \"\xff\"}",
        "{\"global_step\": 7, \"x\": \"\\ud800\"}",
        "{\"num_input_tokens_seen\": 5, \"global_step\": 9223372036854775808}",
        "{\"global_step\": 7, \"log_history\": [{\"learning_rate\": 1e999}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) expect(texts[i], -1, -1, NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_transformers_writes),
        cmocka_unit_test(test_values_of_other_types_are_not_said),
        cmocka_unit_test(test_a_training_that_diverged_has_its_step),
        cmocka_unit_test(test_the_later_of_two_keys_counts),
        cmocka_unit_test(test_files_of_another_form_say_nothing),
    };
    return cmocka_run_group_tests_name("trainer_state", tests, NULL, NULL);
}
