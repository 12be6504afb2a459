#include "unit.h"

#include "train/public_runs.h"

#include <math.h>
#include <string.h>

static void expect(const char *repository, const char *revision, int64_t step, double wanted)
{
    const struct public_run *run = public_runs_find(repository, revision);
    if (run == NULL) fail_msg("%s %s: no row", repository, revision);
    const double found = public_runs_rate(run, step);
    if (!(fabs(found - wanted) <= 1e-3 * wanted + 1e-12))
        fail_msg("%s %s: %.8g, wanted %.8g", repository, revision, found, wanted);
}

static void test_rates_are_those_of_the_published_configurations(void **state)
{
    (void)state;
    expect("EleutherAI/pythia-160m", "step143000", 143000, 6e-5);
    expect("EleutherAI/pythia-160m", "step1430", 1430, 6e-4);
    expect("EleutherAI/pythia-160m", "step143", 143, 6e-5);
    /* Computed with the trainer's own formula: max(peak / 2 (1 + cos(pi (step - 1430) / 143000)), peak / 10). */
    expect("EleutherAI/pythia-160m", "step36000", 36000, 5.1756e-4);
    expect("EleutherAI/pythia-160m", "step71000", 71000, 3.1272e-4);
    expect("EleutherAI/pythia-160m", "step100000", 100000, 1.3192e-4);
    expect("EleutherAI/pythia-160m", "step120000", 120000, 6e-5);
    expect("eleutherai/PYTHIA-12b", "step72930", 72930, 0.5 * 1.2e-4); /* half of the cosine */
    expect("pythia-14m", "step143000", 143000, 1e-4);
    /* Where stage 2 begins is where stage 1 ended, as the two configurations state independently. */
    expect("allenai/OLMo-2-0425-1B", "stage1-step1907359-tokens4001B", 1907359, 7.4487e-5);
    expect("allenai/OLMo-2-1124-13B", "stage1-step596057-tokens5001B", 596057, 9e-5);
    expect("allenai/OLMo-2-0425-1B", "stage2-ingredient1-step0-tokens0B", 0, 7.4487e-5);
    expect("allenai/OLMo-2-0425-1B", "stage2-ingredient1-step23852-tokens51B", 23852, 0);
    expect("allenai/OLMo-2-1124-13B", "stage2-ingredient4-step17882-tokens150B", 17882, 4.5e-5);
    expect("allenai/OLMo-2-1124-13B", "stage2-ingredient1-step5960-tokens50B", 5960, 4.5e-5);
    expect("allenai/OLMo-2-0325-32B", "stage1-step721901-tokens6056B", 721901, 6.62322e-5);
    expect("allenai/OLMo-2-0325-32B", "stage2-ingredient3-step17882-tokens151B", 17882, 3.3116e-5);
    expect("allenai/OLMo-2-0325-32B", "stage2-ingredient1-step5960-tokens50B", 5960, 3.3116e-5);
    expect("HuggingFaceTB/SmolLM3-3B-checkpoints", "stage1-step-40000", 40000, 2e-4);
    expect("HuggingFaceTB/SmolLM3-3B-checkpoints", "stage3-step-4459000", 4459000, 1e-4);
    expect("HuggingFaceTB/SmolLM3-3B-checkpoints", "stage3-step-4720000", 4720000, 0);
    expect("HuggingFaceTB/SmolLM3-3B-checkpoints", "lc-4k-to-32k-step-1000", 1000, 2e-5);
    expect("swiss-ai/Apertus-8B-2509", "step1678000-tokens7T", 1678000, 1.1e-4);
    expect("swiss-ai/Apertus-8B-2509", "step2627139-tokens15T", 2627139, 1.1e-5);
    expect("LLM360/Amber", "ckpt_359", 359, 3e-5);
}

/* 7B: the two configurations differ by 0.24 %; the run may have been restarted a little off. */
static void test_the_7b_model_begins_its_second_stage_near_the_end_of_the_first(void **state)
{
    (void)state;
    const double found = public_runs_rate(public_runs_find("allenai/OLMo-2-1124-7B", "stage1-x"), 928646);
    assert_true(fabs(found / 6.1499e-5 - 1) < 3e-3);
}

static void test_names_that_are_not_of_the_run_have_no_rate(void **state)
{
    (void)state;
    assert_null(public_runs_find("EleutherAI/pythia-160m", "main"));
    assert_null(public_runs_find("EleutherAI/pythia", "step1"));
    assert_null(public_runs_find("somebody/pythia-160m", "step1"));
    assert_null(public_runs_find("HuggingFaceTB/SmolLM3-3B-checkpoints", "it-SFT"));
    assert_null(public_runs_find("", "step1"));
}

static void test_every_row_is_sound_and_names_its_source(void **state)
{
    int64_t count;
    struct error error;
    const struct public_run *runs = public_runs_all(&count);
    (void)state;
    assert_true(count > 25);
    for (int64_t i = 0; i < count; i++) {
        if (schedule_check(&runs[i].schedule, &error) != STATUS_OK)
            fail_msg("%s: %s", runs[i].repository, error.detail);
        assert_true(runs[i].step_tokens > 0 && strlen(runs[i].source) > 20 && strchr(runs[i].repository, '/') != NULL);
        assert_ptr_equal(public_runs_find(runs[i].repository, runs[i].prefix), &runs[i]);
        for (int64_t step = 0; step < INT64_C(1) << 40; step = 3 * step + 1) {
            const double rate = public_runs_rate(&runs[i], step);
            assert_true(rate >= 0 && rate <= runs[i].schedule.peak * (1 + 1e-12));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_are_those_of_the_published_configurations),
        cmocka_unit_test(test_the_7b_model_begins_its_second_stage_near_the_end_of_the_first),
        cmocka_unit_test(test_names_that_are_not_of_the_run_have_no_rate),
        cmocka_unit_test(test_every_row_is_sound_and_names_its_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
