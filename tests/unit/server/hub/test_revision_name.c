#include "unit.h"

#include "hub/revision_name.h"

#include <string.h>

static const struct expectation {
    const char *text;
    int64_t step, tokens;
    const char *stage;
    int64_t ingredient;
} expectations[] = {
    {"stage1-step150000-tokens630B", 150000, INT64_C(630000000000), "stage1", -1},
    {"stage2-ingredient3-step11931-tokens50B", 11931, INT64_C(50000000000), "stage2", 3},
    {"stage3-step-4720000", 4720000, -1, "stage3", -1},
    {"lc-4k-to-32k-step-20000", 20000, -1, "lc-4k-to-32k", -1},
    {"lc-32k-to-64k-step-4000", 4000, -1, "lc-32k-to-64k", -1},
    {"it-mid-training", -1, -1, "it", -1},
    {"it-SFT", -1, -1, "it", -1},
    {"it-soup-APO", -1, -1, "it", -1},
    {"it-LC-expert", -1, -1, "it", -1},
    {"step2627139-tokens15T", 2627139, INT64_C(15000000000000), "", -1},
    {"step10-tokens2.2T", 10, INT64_C(2200000000000), "", -1},
    {"step0", 0, -1, "", -1},
    {"step143000", 143000, -1, "", -1},
    {"global_step1000", 1000, -1, "", -1},
    {"iter_0058000", 58000, -1, "", -1},
    {"ckpt_000", 0, -1, "", -1},
    {"ckpt_358", 358, -1, "", -1},
    {"checkpoint-500", 500, -1, "", -1},
    {"main", -1, -1, "final", -1},
};

static void test_names_of_public_runs_are_understood(void **state)
{
    struct revision_names *names;
    struct error error;
    (void)state;
    assert_int_equal(revision_names_new(&names, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++) {
        const struct expectation *expected = &expectations[i];
        struct revision_name name;
        revision_name_read(names, expected->text, &name);
        if (!name.known || name.step != expected->step || name.tokens != expected->tokens ||
            name.ingredient != expected->ingredient || strcmp(name.stage, expected->stage) != 0)
            fail_msg("%s: known %d, step %lld, tokens %lld, stage %s", expected->text, name.known, (long long)name.step,
                     (long long)name.tokens, name.stage);
    }
    revision_names_free(names);
}

static void test_other_names_are_not(void **state)
{
    static const char *const texts[] = {"",
                                        "v1.0",
                                        "mainly",
                                        "step",
                                        "step-",
                                        "step12x",
                                        "xstep12",
                                        "it",
                                        "it-",
                                        "stage-step1",
                                        "step1-tokens",
                                        "lc-step-1",
                                        "step1 ",
                                        "step1\n",
                                        "step9999999999999999999999"};
    char longest[4000];
    struct revision_names *names;
    struct revision_name name;
    struct error error;
    (void)state;
    assert_int_equal(revision_names_new(&names, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        revision_name_read(names, texts[i], &name);
        if (name.known) fail_msg("\"%s\" is understood", texts[i]);
        assert_int_equal(name.step, -1);
    }
    memset(longest, '1', sizeof longest - 1);
    memcpy(longest, "it-", 3);
    longest[sizeof longest - 1] = '\0';
    revision_name_read(names, longest, &name);
    assert_false(name.known);
    revision_names_free(names);
}

static void test_the_order_is_that_of_training(void **state)
{
    static const char *const ordered[] = {"step0",
                                          "step1000",
                                          "stage1-step1000",
                                          "stage2-ingredient1-step2",
                                          "stage2-ingredient2-step1",
                                          "stage10-step-1",
                                          "lc-4k-to-32k-step-1",
                                          "it-mid-training",
                                          "it-SFT",
                                          "it-soup-APO",
                                          "it-LC-expert",
                                          "main",
                                          "unknown"};
    struct revision_names *names;
    struct error error;
    (void)state;
    assert_int_equal(revision_names_new(&names, &error), STATUS_OK);
    for (size_t i = 0; i + 1 < sizeof ordered / sizeof ordered[0]; i++) {
        struct revision_name a, b;
        revision_name_read(names, ordered[i], &a);
        revision_name_read(names, ordered[i + 1], &b);
        if (revision_name_compare(&a, &b) >= 0 || revision_name_compare(&b, &a) <= 0)
            fail_msg("%s comes after %s", ordered[i], ordered[i + 1]);
    }
    revision_names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_public_runs_are_understood),
        cmocka_unit_test(test_other_names_are_not),
        cmocka_unit_test(test_the_order_is_that_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
