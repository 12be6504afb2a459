/* What work that walks a model many times says that it needs, beside what it takes: attributions. */
#include "jobs/attribution.h"
#include "planned.h"
#include "tiny_fixture.h"

static const char deep[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 128, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 320, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0,"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_attribution_takes_what_its_plan_says),
    };
    return cmocka_run_group_tests_name("plans of walks", tests, NULL, NULL);
}
