/* What work that walks a model many times says that it needs, beside what it takes: attributions, tasks. */
#include "engine/jobs/planned.h"
#include "engine/jobs/tiny_fixture.h"
#include "jobs/attribution/attribution.h"
#include "jobs/tasks/tasks.h"

static const char deep[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 128, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 320, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";

enum { COUNT = 12, LENGTH = 64 };

static struct attribution_request attribution_of(const struct fixture *f, enum attribution_part part)
{
    static const int64_t widths[] = {2};
    return (struct attribution_request){
        .model = f->model,
        .backend = f->backend,
        .method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}},
        .calibration = &f->calibration,
        .evaluation = &f->evaluation,
        .part = part,
        .left_out = true,
        .width_count = 1,
        .widths = widths,
        .work_directory = f->work.directory,
    };
}

static void check_attribution(const char *config, enum attribution_part part)
{
    struct fixture f;
    struct attribution_result found;
    struct run_plan plan;
    struct error error;
    open_fixture(&f, config, COUNT, LENGTH);
    const struct attribution_request request = attribution_of(&f, part);
    if (attribution_plan(&request, &unbounded, &plan, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct watch watch = watch_begin();
    if (attribution_run(&request, &found, &error) != STATUS_OK) fail_msg("%s", error.detail);
    watch_end(&watch, "attribution", &plan);
    attribution_result_reset(&found);
    close_fixture(&f);
}

static void test_an_attribution_takes_what_its_plan_says(void **state)
{
    (void)state;
    check_attribution(deep, ATTRIBUTION_LINEAR);
    check_attribution(deep, ATTRIBUTION_BLOCK);
}

static const char piqa_config[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 260, \"hidden_size\": 256, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 1024, \"hidden_act\": \"gelu\", \"max_position_embeddings\": 256}";

enum { ITEMS = 40 };

static struct task_set *write_tasks(struct fixture *f)
{
    struct error error;
    struct task_set *set = NULL;
    char records[ITEMS * 128], path[PATH_MAX];
    int size = 0;
    for (int i = 0; i < ITEMS; i++)
        size += snprintf(
            records + size, sizeof records - (size_t)size,
            "{\"goal\": \"do %d things\", \"sol1\": \"with %d hands\", \"sol2\": \"with none\", \"label\": %d}\n", i, i,
            i % 2);
    scratch_write(&f->scratch, "tests.jsonl", records, (size_t)size);
    (void)snprintf(path, sizeof path, "%s", scratch_path(&f->scratch, "tests.jsonl"));
    if (task_set_open(&(struct task_set_source){task_find("piqa"), path, NULL, 0, 0}, &set, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    return set;
}

static void check_tasks(const struct quantize_method *method)
{
    struct fixture f;
    struct tasks_result found;
    struct tokenizer *tokenizer = NULL;
    struct run_plan plan;
    struct error error;
    open_fixture(&f, piqa_config, 4, LENGTH);
    struct task_set *const set = write_tasks(&f);
    const struct task_set *const sets[] = {set};
    if (tokenizer_open_bytes(&tokenizer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct tasks_request request = {
        .model = f.model,
        .backend = f.backend,
        .tokenizer = tokenizer,
        .sets = sets,
        .set_count = 1,
        .method = method,
        .calibration = method != NULL ? &f.calibration : NULL,
        .work_directory = f.work.directory,
        .group_tokens = 700,
    };
    if (tasks_plan(&request, &unbounded, &plan, &error) != STATUS_OK) fail_msg("%s", error.detail);
    const struct watch watch = watch_begin();
    if (tasks_run(&request, &found, &error) != STATUS_OK) fail_msg("%s", error.detail);
    watch_end(&watch, "tasks", &plan);
    assert_int_equal(found.tokens_computed, plan.tokens - (method != NULL ? 4 * LENGTH + 2 * 2 : 0));
    assert_true(found.flops == plan.flops);
    tasks_result_reset(&found);
    static const char *const copies[] = {"quantized/model.safetensors", "quantized/config.json"};
    for (int i = 0; i < 2; i++) (void)unlink(scratch_path(&f.work, copies[i]));
    (void)rmdir(scratch_path(&f.work, "quantized"));
    task_set_close(set);
    tokenizer_close(tokenizer);
    close_fixture(&f);
}

static void test_tasks_take_what_their_plan_says(void **state)
{
    const struct quantize_method gptq = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}};
    const struct quantize_method llm_int8 = {.quantizer = QUANTIZER_LLM_INT8,
                                             .llm_int8 = {.threshold = 2, .variant = 1}};
    (void)state;
    check_tasks(NULL);
    check_tasks(&gptq);
    check_tasks(&llm_int8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_attribution_takes_what_its_plan_says),
        cmocka_unit_test(test_tasks_take_what_their_plan_says),
    };
    return cmocka_run_group_tests_name("plans of walks", tests, NULL, NULL);
}
