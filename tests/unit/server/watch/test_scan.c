#include "unit.h"

#include "inputs/roots.h"
#include "watch/scan.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    expect("step7-tokens4.1B", 7, 4100000000);
    expect("TinyLlama-1.1B-step-50K-105b", 50000, -1);
    expect("intermediate-step-1431k-3T", 1431000, -1);
    expect("ckpt-1.5M", 1500000, -1);
    expect("step12kept", 12, -1);
    expect("step12B", 12, -1);
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
    expect("ckpt-0x10", -1, -1);
}

struct walked {
    int found, most; /* so many may be found before the monitor says no */
};

static enum status note_found(void *context, const char *path, struct error *error)
{
    struct walked *walked = context;
    (void)path, (void)error;
    walked->found++;
    return STATUS_OK;
}

static enum status check(void *owner, struct error *error)
{
    const struct walked *walked = owner;
    if (walked->found < walked->most) return STATUS_OK;
    return error_set(error, STATUS_CANCELLED, "nobody waits for it");
}

static void make_file(const char *directory, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

/* Two checkpoints that are directories, and two that are files. */
static void test_a_walk_ends_when_nobody_waits_for_it(void **state)
{
    (void)state;
    char top[] = "/tmp/deltaq-scan-XXXXXX", path[64];
    struct error error;
    assert_non_null(mkdtemp(top));
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/step%d", top, i);
        assert_int_equal(mkdir(path, 0700), 0);
        make_file(path, "config.json");
        make_file(path, "model.safetensors");
        make_file(top, i == 0 ? "a.gguf" : "b.gguf");
    }
    const struct roots roots = {0};
    struct walked walked = {.most = 5};
    const struct monitor monitor = {.owner = &walked, .check = check};
    struct scan_visitor visitor = {.context = &walked, .found = note_found};
    assert_int_equal(scan_walk(&roots, top, &visitor, &error), STATUS_OK);
    assert_int_equal(walked.found, 4);
    visitor.monitor = &monitor;
    for (int most = 0; most <= 4; most++) {
        walked = (struct walked){.most = most};
        const enum status expected = most < 4 ? STATUS_CANCELLED : STATUS_OK;
        assert_int_equal(scan_walk(&roots, top, &visitor, &error), expected);
        assert_int_equal(walked.found, most);
    }
    assert_int_equal(nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_and_tokens_in_published_names),
        cmocka_unit_test(test_other_names_say_nothing),
        cmocka_unit_test(test_a_walk_ends_when_nobody_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
