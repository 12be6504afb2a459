#include "unit.h"

#include "watch/scan.h"

static void expect(const char *name, int64_t wanted_step, int64_t wanted_tokens)
{
    int64_t step, tokens;
    scan_read_name(name, &step, &tokens);
    if (step != wanted_step || tokens != wanted_tokens)
        fail_msg("%s: step %lld, tokens %lld", name, (long long)step, (long long)tokens);
}

static void test_steps_and_tokens_in_published_names(void **state)
{
    (void)state;
    expect("step143000", 143000, -1);
    expect("checkpoint-500", 500, -1);
    expect("ckpt_358", 358, -1);
    expect("iter_0058000", 58000, -1);
    expect("global_step12", 12, -1);
    expect("stage1-step10000-tokens21B", 10000, 21000000000);
    expect("stage2-ingredient3-step35000-tokens50B", 35000, 50000000000);
    expect("stage1-step-40000", 40000, -1);
    expect("lc-4k-to-32k-step-20000", 20000, -1);
    expect("step2627139-tokens15T", 2627139, 15000000000000);
    expect("step0", 0, -1);
    expect("step3-tokens5K", 3, 5000);
    expect("step4-tokens300m", 4, 300000000);
    expect("step5-tokens7G", 5, 7000000000);
    expect("step6-tokens1234", 6, 1234);
}

static void test_other_names_say_nothing(void **state)
{
    (void)state;
    expect("main", -1, -1);
    expect("it-SFT", -1, -1);
    expect("step", -1, -1);
    expect("misstep7", -1, -1);
    expect("", -1, -1);
    expect("step99999999999999999999", -1, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_and_tokens_in_published_names),
        cmocka_unit_test(test_other_names_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
