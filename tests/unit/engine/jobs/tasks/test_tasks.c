/* Runs of tasks on tiny models: every choice against the loss of its text alone, whatever the groups; a run stopped in
 * the middle goes on where it stood; quantized models of every kind of weights file; scores, their errors and intervals
 * by hand. */
#include "engine/jobs/tiny_model.h"

#include "base/random.h"
#include "eval/bootstrap.h"
#include "eval/evaluate.h"
#include "jobs/tasks/tasks.h"
#include "jobs/tasks/tasks_score.h"
#include "tasks/encode.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 120}";
static const char *const others[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 260, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2,"
    " \"n_positions\": 120}",
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 64, \"hidden_act\": \"gelu\", \"max_position_embeddings\": 120}",
    "{\"model_type\": \"olmoe\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 16, \"max_position_embeddings\": 120, \"num_experts\": 5, \"num_experts_per_tok\": 2}",
    "{\"model_type\": \"mamba\", \"vocab_size\": 260, \"hidden_size\": 16, \"num_hidden_layers\": 2,"
    " \"state_size\": 4}",
    "{\"model_type\": \"opt\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"ffn_dim\": 48, \"max_position_embeddings\": 120, \"word_embed_proj_dim\": 16,"
    " \"do_layer_norm_before\": false}",
};

static const char records[] =
    "{\"goal\": \"boil\", \"sol1\": \"with fire\", \"sol2\": \"with ice\", \"label\": 0}\n"
    "{\"goal\": \"freeze\", \"sol1\": \"with fire and a pot\", \"sol2\": \"with ice\", \"label\": 1}\n"
    "{\"goal\": \"open\", \"sol1\": \"key\", \"sol2\": \"keys\", \"label\": 1}\n"
    "{\"goal\": \"shut\", \"sol1\": \"push\", \"sol2\": \"pull\", \"label\": 0}\n";
static const char examples[] = "{\"goal\": \"cut\", \"sol1\": \"knife\", \"sol2\": \"spoon\", \"label\": 0}\n"
                               "{\"goal\": \"eat\", \"sol1\": \"saw\", \"sol2\": \"spoon\", \"label\": 1}\n"
                               "{\"goal\": \"see\", \"sol1\": \"lamp\", \"sol2\": \"sack\", \"label\": 0}\n";

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

struct bench {
    struct scratch scratch, work;
    struct team *team;
    struct backend *backend;
    struct model *model;
    struct tokenizer *tokenizer;
    struct task_set *set;
    const struct task_set *sets[1];
};

static void bench_open(struct bench *bench, const char *config, int shots)
{
    char path[512], fewshot[512];
    *bench = (struct bench){0};
    tiny_write(&bench->scratch, config, (struct tiny_change){0});
    scratch_open(&bench->work);
    scratch_write(&bench->scratch, "tests.jsonl", records, strlen(records));
    (void)snprintf(path, sizeof path, "%s", scratch_path(&bench->scratch, "tests.jsonl"));
    scratch_write(&bench->scratch, "pool.jsonl", examples, strlen(examples));
    (void)snprintf(fewshot, sizeof fewshot, "%s", scratch_path(&bench->scratch, "pool.jsonl"));
    ok(team_new(2, &bench->team, &error));
    ok(backend_cpu_new(bench->team, &bench->backend, &error));
    ok(model_open(bench->scratch.directory, &bench->model, &error));
    ok(tokenizer_open_bytes(&bench->tokenizer, &error));
    ok(task_set_open(&(struct task_set_source){task_find("piqa"), path, fewshot, shots, 0}, &bench->set, &error));
    bench->sets[0] = bench->set;
}

static void bench_close(struct bench *bench)
{
    task_set_close(bench->set);
    tokenizer_close(bench->tokenizer);
    model_close(bench->model);
    backend_free(bench->backend);
    team_free(bench->team);
    static const char *const copies[] = {"quantized/model.safetensors", "quantized/config.json"};
    for (int i = 0; i < 2; i++) (void)unlink(scratch_path(&bench->work, copies[i]));
    (void)rmdir(scratch_path(&bench->work, "quantized"));
    scratch_close(&bench->work);
    scratch_close(&bench->scratch);
}

static struct tasks_request request_of(const struct bench *bench)
{
    return (struct tasks_request){
        .model = bench->model,
        .backend = bench->backend,
        .tokenizer = bench->tokenizer,
        .sets = bench->sets,
        .set_count = 1,
        .special_tokens = true,
        .work_directory = bench->work.directory,
        .fingerprint = 1,
    };
}

/* -(loss of the text's last tokens), by the evaluation that everything else is measured with: of the text, less that of
 * its context. */
static double alone(const struct bench *bench, int64_t item, int choice)
{
    struct phrase context = {0}, continuation = {0};
    struct encode encode;
    struct token_list tokens = {0};
    struct encoded encoded;
    double sums[2];
    ok(encode_init(&encode, bench->tokenizer, true, bench->model->config.maximum_positions, 260, &error));
    ok(task_set_context(bench->set, item, choice, &context, &error));
    ok(task_set_continuation(bench->set, item, choice, &continuation, &error));
    ok(encode_pair(&encode, &context, &continuation, &tokens, &encoded, &error));
    for (int part = 0; part < 2; part++) {
        int64_t starts[2] = {0, encoded.tokens - (part == 0 ? 0 : encoded.targets)};
        const struct sequences one = {1, starts, tokens.ids};
        struct evaluate_result found;
        ok(evaluate_run(bench->model, bench->backend, &one, NULL, &found, &error));
        sums[part] = found.loss * (double)found.predictions;
        evaluate_result_reset(&found);
    }
    encode_reset(&encode);
    tokenizer_list_free(&tokens);
    phrase_reset(&context);
    phrase_reset(&continuation);
    return sums[1] - sums[0];
}

static void check_alone(const struct bench *bench, const struct tasks_result *result)
{
    for (int64_t i = 0; i < result->item_count; i++)
        for (int choice = 0; choice < 2; choice++) {
            const double expected = alone(bench, i, choice), got = result->outcomes[i].log_likelihoods[choice];
            if (!(fabs(got - expected) <= 1e-5 * (1 + fabs(expected)) * 4))
                fail_msg("item %lld, choice %d: %.9g instead of %.9g", (long long)i, choice, got, expected);
        }
}

static void test_choices_score_as_their_texts_alone(void **state)
{
    (void)state;
    static const int64_t groups[] = {1, 100, 100000};
    for (size_t m = 0; m < 1 + sizeof others / sizeof others[0]; m++) {
        struct bench bench;
        struct tasks_result result;
        bench_open(&bench, m == 0 ? llama : others[m - 1], 2);
        struct tasks_request request = request_of(&bench);
        for (size_t g = 0; g < 3; g++) {
            request.group_tokens = groups[g];
            request.fingerprint = g + 1; /* another run: nothing is taken up */
            ok(tasks_run(&request, &result, &error));
            check_alone(&bench, &result);
            assert_true(result.tokens_computed < result.tokens_alone);
            tasks_result_reset(&result);
        }
        bench_close(&bench);
    }
}

static void test_a_text_too_long_loses_its_beginning(void **state)
{
    (void)state;
    struct bench bench;
    struct tasks_result result, single;
    char config[400];
    (void)snprintf(config, sizeof config, "%.*s40}", (int)(strstr(llama, "120}") - llama), llama);
    bench_open(&bench, config, 2);
    struct tasks_request request = request_of(&bench);
    ok(tasks_run(&request, &result, &error));
    assert_true(result.cut > 0);
    request.group_tokens = 1;
    request.fingerprint = 2;
    ok(tasks_run(&request, &single, &error));
    for (int64_t i = 0; i < result.item_count; i++)
        for (int choice = 0; choice < 2; choice++) {
            const double a = result.outcomes[i].log_likelihoods[choice], b = single.outcomes[i].log_likelihoods[choice];
            assert_true(isfinite(a) && fabs(a - b) <= 1e-5 * (1 + fabs(a)));
        }
    tasks_result_reset(&single);
    tasks_result_reset(&result);
    bench_close(&bench);
    (void)snprintf(config, sizeof config, "%.*s8}", (int)(strstr(llama, "120}") - llama), llama);
    bench_open(&bench, config, 2);
    request = request_of(&bench);
    assert_int_equal(tasks_run(&request, &result, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "piqa, item 0: a choice has"));
    bench_close(&bench);
}

/* ---- stopped and taken up ---- */

struct stopper {
    int64_t after, done, first_seen;
    struct saved_table *table; /* NULL, or one whose last write is made to lie long ago */
};

static void note(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct stopper *stopper = owner;
    (void)total;
    if (strcmp(unit, "item") != 0) return;
    if (stopper->first_seen < 0) stopper->first_seen = done;
    stopper->done = done;
    if (stopper->table != NULL) stopper->table->saved_at = -10;
}

static enum status stop(void *owner, struct error *cause)
{
    const struct stopper *stopper = owner;
    return stopper->done < stopper->after ? STATUS_OK : error_set(cause, STATUS_CANCELLED, "stopped");
}

static void test_a_stopped_run_goes_on_where_it_stood(void **state)
{
    (void)state;
    struct bench bench;
    struct tasks_result whole, result;
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, 16, true}};
    struct stopper stopper = {.after = 2, .first_seen = -1};
    bench_open(&bench, llama, 1);
    struct tasks_request request = request_of(&bench);
    request.method = &method;
    request.group_tokens = 1; /* an item a group */
    ok(tasks_run(&request, &whole, &error));
    request.fingerprint = 2;
    request.monitor = &(const struct monitor){&stopper, note, NULL, stop};
    assert_int_equal(tasks_run(&request, &result, &error), STATUS_CANCELLED);
    assert_int_equal(stopper.done, 2);
    stopper = (struct stopper){.after = 100, .first_seen = -1};
    ok(tasks_run(&request, &result, &error));
    assert_int_equal(stopper.first_seen, 2);
    for (int64_t i = 0; i < whole.item_count; i++)
        for (int m = 0; m < 2; m++)
            assert_memory_equal(whole.outcomes[i].log_likelihoods + m * TASK_CHOICES,
                                result.outcomes[i].log_likelihoods + m * TASK_CHOICES, 2 * sizeof(double));
    assert_int_equal(whole.tokens_computed, result.tokens_computed);
    tasks_result_reset(&whole);
    tasks_result_reset(&result);
    bench_close(&bench);
}

/* Files of at most so many bytes can be written from now on; gives the limit before. */
static rlim_t limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

/* Two groups of two items. The second attempt to write fails: the file has the rows that were written before, as if the
 * run had been killed there. Rows of half a group would make the next attempt compute other groups, with other bits. */
static void test_a_run_that_ends_between_writes_goes_on_with_a_whole_group(void **state)
{
    (void)state;
    enum { HEADER = 48, GROUP = 2 };
    struct bench bench;
    struct tasks_result whole, result;
    struct stopper stopper = {.after = 100, .first_seen = -1};
    void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);
    bench_open(&bench, llama, 2);
    struct tasks_request request = request_of(&bench);
    request.group_tokens = 160;
    request.monitor = &(const struct monitor){&stopper, note, NULL, stop};
    ok(tasks_run(&request, &whole, &error));
    stopper.table = &result.table;
    request.fingerprint = 2;
    const rlim_t most = limit_files(HEADER + (GROUP + 1) * (rlim_t)whole.table.width * sizeof(double));
    const enum status status = tasks_run(&request, &result, &error);
    (void)limit_files(most);
    assert_true(status != STATUS_OK && stopper.done == GROUP);
    stopper = (struct stopper){.after = 100, .first_seen = -1};
    ok(tasks_run(&request, &result, &error));
    assert_int_equal(stopper.first_seen, GROUP);
    for (int64_t i = 0; i < whole.item_count; i++)
        assert_memory_equal(whole.outcomes[i].log_likelihoods, result.outcomes[i].log_likelihoods, 2 * sizeof(double));
    assert_int_equal(whole.tokens_computed, result.tokens_computed);
    tasks_result_reset(&whole);
    tasks_result_reset(&result);
    bench_close(&bench);
    (void)signal(SIGXFSZ, before);
}

/* Eight bits without groups change little, and something: in every architecture's file. */
static void test_quantized_models_are_asked_too(void **state)
{
    (void)state;
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {8, 16, true}};
    for (size_t m = 0; m < 1 + sizeof others / sizeof others[0]; m++) {
        struct bench bench;
        struct tasks_result result;
        bench_open(&bench, m == 0 ? llama : others[m - 1], 1);
        struct tasks_request request = request_of(&bench);
        request.method = &method;
        ok(tasks_run(&request, &result, &error));
        check_alone(&bench, &result);
        for (int64_t i = 0; i < result.item_count; i++) {
            const double full = result.outcomes[i].log_likelihoods[0],
                         quantized = result.outcomes[i].log_likelihoods[TASK_CHOICES];
            assert_true(full != quantized && fabs(full - quantized) < 0.02 * fabs(full));
        }
        assert_true(result.bits_per_weight > 8 && result.bits_per_weight < 10);
        tasks_result_reset(&result);
        bench_close(&bench);
    }
}

static void test_equals_and_numbers_that_are_none(void **state)
{
    (void)state;
    const double equal[] = {-2, -1, -1}, none[] = {NAN, NAN}, some[] = {NAN, -INFINITY, -3};
    const int64_t characters[] = {4, 1, 2};
    assert_int_equal(tasks_score_choice(equal, NULL, 3), 1);
    assert_int_equal(tasks_score_choice(equal, characters, 3), 0);
    assert_int_equal(tasks_score_choice(none, NULL, 2), -1);
    assert_int_equal(tasks_score_choice(some, NULL, 3), 2);
    assert_int_equal(tasks_score_choice(some, NULL, 2), 1);
}

/* ---- scores ---- */

static void near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-14 * (1 + fabs(expected)))) fail_msg("%.17g instead of %.17g", found, expected);
}

/* Ten items: the answer of each model, plain and normalised, where 0 is right. Plain, the original is right in 6 and
 * the quantized one in 4; item 3 goes up, items 0, 1 and 8 go down. Normalised they are right in 9 and 10. */
static const int answers[10][4] = {
    /* plain full, plain quantized, normalised full, normalised quantized */
    {0, 1, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0},  {1, 1, 0, 0},
    {2, 1, 0, 0}, {0, 0, 1, 0}, {1, 2, 0, 0}, {0, -1, 0, 0}, {0, 0, 0, 0},
};

static void fill_outcomes(struct tasks_outcome *out, int first, int count)
{
    for (int i = 0; i < count; i++)
        out[i] = (struct tasks_outcome){.item = i,
                                        .choice = {answers[first + i][0], answers[first + i][1]},
                                        .choice_normalised = {answers[first + i][2], answers[first + i][3]}};
}

/* k of n right: deviations' squares sum to k (n - k) / n. */
static void check_accuracy(struct tasks_accuracy found, int right, int count)
{
    near(found.value, (double)right / count);
    near(found.error, sqrt((double)(right * (count - right)) / count / (count - 1) / count));
}

static void test_scores_are_those_counted_by_hand(void **state)
{
    (void)state;
    struct tasks_outcome outcomes[10];
    struct tasks_score score;
    fill_outcomes(outcomes, 0, 10);
    tasks_score_make(outcomes, 10, 2, true, &score);
    assert_int_equal(score.items, 10);
    check_accuracy(score.plain.accuracy[TASKS_FULL], 6, 10);
    check_accuracy(score.plain.accuracy[TASKS_QUANTIZED], 4, 10);
    check_accuracy(score.normalised.accuracy[TASKS_FULL], 9, 10);
    check_accuracy(score.normalised.accuracy[TASKS_QUANTIZED], 10, 10);
    /* differences: one of 1, three of -1, six of 0: their mean is -0.2, their squares sum to 4 - 10 * 0.04 */
    near(score.plain.difference.value, -0.2);
    near(score.plain.difference.error, sqrt(3.6 / 9 / 10));
    near(score.normalised.difference.value, 0.1);
    near(score.normalised.difference.error, sqrt(0.9 / 9 / 10));
    assert_true(score.plain.up == 1 && score.plain.down == 3 && score.normalised.up == 1 && score.normalised.down == 0);
    near(score.plain.mcnemar, 2 * (1 + 4) / 16.0);
    near(score.normalised.mcnemar, 1);
    /* Wilson's of 6 and of 10 of 10, and the change of 1 up and 3 down: statsmodels 0.15.0 (test_paired.c) */
    assert_true(fabs(score.plain.accuracy[TASKS_FULL].low - 0.312673769733658) < 1e-12);
    assert_true(fabs(score.normalised.accuracy[TASKS_QUANTIZED].low - 0.722467200137111) < 1e-12);
    assert_true(fabs(score.plain.difference.low + 0.678652911140474) < 1e-12);
    assert_true(fabs(score.plain.difference.high - 0.42047807646956) < 1e-12);
    tasks_score_make(outcomes, 10, 1, true, &score); /* of the original alone */
    check_accuracy(score.plain.accuracy[TASKS_FULL], 6, 10);
    assert_true(score.plain.up == 0 && score.plain.down == 0);
    tasks_score_make(outcomes, 1, 2, true, &score);
    assert_true(score.plain.accuracy[0].value == 1 && isnan(score.plain.accuracy[0].error));
}

/* Two tasks of 7 and of 3 items weigh the same in the mean: its error, and how far its interval reaches, is half the
 * root of the squares' sum, its flips the sum. The harness has no accuracy by
 * character of the second. */
static void test_the_mean_of_tasks_weighs_each_the_same(void **state)
{
    (void)state;
    struct tasks_outcome outcomes[7];
    struct tasks_score scores[2], mean;
    fill_outcomes(outcomes, 0, 7);
    tasks_score_make(outcomes, 7, 2, true, &scores[0]);
    fill_outcomes(outcomes, 7, 3);
    tasks_score_make(outcomes, 3, 2, false, &scores[1]);
    tasks_score_mean(scores, 2, &mean);
    assert_int_equal(mean.items, 10);
    near(mean.plain.accuracy[TASKS_FULL].value, (4.0 / 7 + 2.0 / 3) / 2);
    const double a = 4.0 * 3 / 7 / 6 / 7, b = 2.0 * 1 / 3 / 2 / 3; /* k (n - k) / n / (n - 1) / n */
    near(mean.plain.accuracy[TASKS_FULL].error, sqrt(a + b) / 2);
    assert_true(mean.plain.up == 1 && mean.plain.down == 3 && mean.normalised.up == scores[0].normalised.up);
    assert_true(isnan(mean.plain.mcnemar) && isnan(mean.normalised.mcnemar)); /* tasks weigh alike, items do not */
    const struct tasks_accuracy one = scores[0].plain.difference, other = scores[1].plain.difference;
    near(mean.plain.difference.low,
         (one.value + other.value) / 2 - hypot(one.value - one.low, other.value - other.low) / 2);
    near(mean.plain.difference.high,
         (one.value + other.value) / 2 + hypot(one.high - one.value, other.high - other.value) / 2);
    assert_true(mean.harness_normalises && !scores[1].harness_normalises);
    assert_true(!isnan(scores[1].normalised.accuracy[TASKS_FULL].value));
    near(mean.normalised.accuracy[TASKS_FULL].value, scores[0].normalised.accuracy[TASKS_FULL].value);
    near(mean.normalised.accuracy[TASKS_FULL].low, scores[0].normalised.accuracy[TASKS_FULL].low);
    tasks_score_mean(scores + 1, 1, &mean);
    assert_true(!mean.harness_normalises && isnan(mean.normalised.accuracy[TASKS_FULL].value));
    assert_true(mean.plain.difference.low == other.low || fabs(mean.plain.difference.low - other.low) < 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_are_those_counted_by_hand),
        cmocka_unit_test(test_the_mean_of_tasks_weighs_each_the_same),
        cmocka_unit_test(test_equals_and_numbers_that_are_none),
        cmocka_unit_test(test_choices_score_as_their_texts_alone),
        cmocka_unit_test(test_a_text_too_long_loses_its_beginning),
        cmocka_unit_test(test_a_stopped_run_goes_on_where_it_stood),
        cmocka_unit_test(test_a_run_that_ends_between_writes_goes_on_with_a_whole_group),
        cmocka_unit_test(test_quantized_models_are_asked_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
