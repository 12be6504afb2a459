/* Runs of tasks on tiny models: every choice against the loss of its text alone, whatever the groups; a run stopped in the middle
 * goes on where it stood; quantized models of every kind of weights file. */
#include "tiny_model.h"

#include "eval/evaluate.h"
#include "jobs/tasks.h"
#include "tasks/encode.h"

#include <stdio.h>

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 120}";
static const char *const others[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 260, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2, \"n_positions\": 120}",
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_attention_heads\": 4, \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 64, \"hidden_act\": \"gelu\", \"max_position_embeddings\": 120}",
    "{\"model_type\": \"olmoe\", \"vocab_size\": 260, \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
    " \"intermediate_size\": 16, \"max_position_embeddings\": 120, \"num_experts\": 5, \"num_experts_per_tok\": 2}",
    "{\"model_type\": \"mamba\", \"vocab_size\": 260, \"hidden_size\": 16, \"num_hidden_layers\": 2, \"state_size\": 4}",
};

static const char records[] = "{\"goal\": \"boil\", \"sol1\": \"with fire\", \"sol2\": \"with ice\", \"label\": 0}\n"
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

/* -(loss of the text's last tokens), by the evaluation that everything else is measured with: of the text, less that of its
 * context. */
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
};

static void note(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct stopper *stopper = owner;
    (void)total;
    if (strcmp(unit, "item") != 0) return;
    if (stopper->first_seen < 0) stopper->first_seen = done;
    stopper->done = done;
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
            const double full = result.outcomes[i].log_likelihoods[0], quantized = result.outcomes[i].log_likelihoods[TASK_CHOICES];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_and_numbers_that_are_none),    cmocka_unit_test(test_choices_score_as_their_texts_alone),
        cmocka_unit_test(test_a_text_too_long_loses_its_beginning), cmocka_unit_test(test_a_stopped_run_goes_on_where_it_stood),
        cmocka_unit_test(test_quantized_models_are_asked_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
