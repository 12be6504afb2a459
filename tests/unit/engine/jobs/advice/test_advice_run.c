/* An advice as a whole, over branches that are really trained: what lies on the disk while it works and when it is
 * done, and that stopping it changes no number. */
#include "engine/jobs/train_runs.h"
#include "jobs/advice/advice.h"

#include <fts.h>

enum { MEMBERS = 4, SEQUENCES = 8, LENGTH = 16 };

/* A run at a constant rate, with all its checkpoints open, and the directory in which an advice works. */
struct stable {
    struct place place;
    struct backend *backend;
    struct train_params params;
    struct model *models[MEMBERS];
    struct family family;
    char from[900], work[900];
};

static void stable_open(struct stable *stable)
{
    static const char *const labels[MEMBERS] = {"a", "b", "c", "d"};
    struct train_result trained;
    place_open(&stable->place);
    stable->backend = fast_backend(NULL);
    stable->params = plain();
    stable->params.schedule.name = SCHEDULE_CONSTANT;
    stable->params.schedule.decay = 0;
    ok(run(&stable->place, &stable->params, NULL, stable->backend, -1, 0, &trained));
    assert_int_equal(trained.checkpoint_count, MEMBERS);
    train_result_reset(&trained);
    for (int k = 0; k < MEMBERS; k++) {
        char name[32];
        train_checkpoint_name(10 * (k + 1), false, name, sizeof name);
        (void)snprintf(stable->from, sizeof stable->from, "%s/%s", stable->place.out, name);
        ok(model_open(stable->from, &stable->models[k], &error));
    }
    ok(family_init((const struct model *const *)stable->models, labels, MEMBERS, &stable->family, &error));
    (void)snprintf(stable->work, sizeof stable->work, "%s/advice", stable->place.scratch.directory);
    assert_int_equal(mkdir(stable->work, 0700), 0);
}

/* Bytes of all files below a directory; with `remove` they go, and the directory too. */
static int64_t bytes_below(const char *directory, bool remove)
{
    char path[900];
    char *paths[] = {path, NULL};
    int64_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s", directory);
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    assert_non_null(tree);
    for (const FTSENT *entry; (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_F) bytes += entry->fts_statp->st_size;
        if (remove && entry->fts_info == FTS_F) (void)unlink(entry->fts_accpath);
        if (remove && entry->fts_info == FTS_DP) (void)rmdir(entry->fts_accpath);
    }
    (void)fts_close(tree);
    return bytes;
}

static void stable_close(struct stable *stable)
{
    (void)bytes_below(stable->work, true);
    family_reset(&stable->family);
    for (int k = 0; k < MEMBERS; k++) model_close(stable->models[k]);
    backend_free(stable->backend);
    place_close(&stable->place);
}

/* Looks at the disk whenever it is asked, and stops the run at question number `every`. */
struct guard {
    const char *directory;
    int64_t most, asked, every;
};

static enum status guard_check(void *owner, struct error *e)
{
    struct guard *guard = owner;
    const int64_t bytes = bytes_below(guard->directory, false);
    if (bytes > guard->most) guard->most = bytes;
    if (++guard->asked == guard->every) return error_set(e, STATUS_CANCELLED, "stopped by the test");
    return STATUS_OK;
}

static const struct quantize_method rtn = {.quantizer = QUANTIZER_RTN, .rtn = {.bits = 3, .group_size = 16}};
static const struct advice_option options[] = {
    {.average = 2}, {.decay = 6 * STEP}, {.continue_ = 4 * STEP}, {.continue_ = 8 * STEP}, {.continue_ = 12 * STEP}};
enum { OPTIONS = sizeof options / sizeof options[0] };

/* `sequences` and `monitor` are lent until the request is done with. */
static struct advice_request request_of(const struct stable *stable, const struct sequences *sequences,
                                        const struct monitor *monitor)
{
    static const int64_t steps[MEMBERS] = {10, 20, 30, 40};
    return (struct advice_request){.train = &stable->params,
                                   .dataset = &stream_source,
                                   .family = &stable->family,
                                   .steps = steps,
                                   .from = stable->from,
                                   .steady = MEMBERS,
                                   .options = options,
                                   .option_count = OPTIONS,
                                   .budget = 18 * STEP,
                                   .backend = stable->backend,
                                   .method = &rtn,
                                   .evaluation = sequences,
                                   .work_directory = stable->work,
                                   .monitor = monitor};
}

static int64_t sequence_starts[SEQUENCES + 1];
static const struct sequences evaluation = {SEQUENCES, sequence_starts, stream};

/* The plan holds for the continuations too, where the branch before stands beside the one that goes on from it. It
 * counts the numbers of a checkpoint; header, configuration and notes of these two take 4 KiB each at most. */
static void test_the_disk_holds_what_the_plan_says(void **state)
{
    static const struct plan_budget unbounded = {.bytes = {INT64_MAX, INT64_MAX, INT64_MAX}};
    struct stable stable;
    struct advice_result found;
    struct run_plan plan;
    (void)state;
    stable_open(&stable);
    struct guard guard = {.directory = stable.work};
    const struct monitor monitor = {.owner = &guard, .check = guard_check};
    const struct advice_request request = request_of(&stable, &evaluation, &monitor);
    ok(advice_plan(&request, TOKENS, &unbounded, &plan, &error));
    ok(advice_run(&request, &found, &error));
    if (guard.most > plan.peak[PLAN_DISK] + 2 * 4096 || 2 * guard.most < plan.peak[PLAN_DISK])
        fail_msg("%lld bytes, planned %lld", (long long)guard.most, (long long)plan.peak[PLAN_DISK]);
    assert_int_equal(found.point_count, 1 + OPTIONS);
    assert_int_equal(found.trained, 18 * STEP);
    advice_result_reset(&found);
    stable_close(&stable);
}

static void test_stopped_anywhere_it_ends_with_the_same_bits(void **state)
{
    struct stable whole, again;
    struct advice_result expected, found;
    enum status status;
    int attempts = 0;
    (void)state;
    stable_open(&whole);
    stable_open(&again);
    const struct advice_request request = request_of(&whole, &evaluation, NULL);
    ok(advice_run(&request, &expected, &error));
    struct guard guard = {.directory = again.work, .every = 23};
    const struct monitor monitor = {.owner = &guard, .check = guard_check};
    const struct advice_request stopped = request_of(&again, &evaluation, &monitor);
    while ((status = advice_run(&stopped, &found, &error)) == STATUS_CANCELLED) {
        advice_result_reset(&found);
        guard.asked = 0;
        guard.every++; /* a row that was stopped begins again, since nothing of it is saved in so short a time */
        assert_true(++attempts < 100);
    }
    ok(status);
    assert_true(attempts > 3);
    assert_int_equal(found.point_count, expected.point_count);
    for (int64_t i = 0; i < found.point_count; i++)
        assert_memory_equal(&found.points[i].losses, &expected.points[i].losses, sizeof found.points[i].losses);
    assert_memory_equal(&found.forecasts[0], &expected.forecasts[0], OPTIONS * sizeof found.forecasts[0]);
    advice_result_reset(&expected);
    advice_result_reset(&found);
    stable_close(&whole);
    stable_close(&again);
}

/* A process may be killed when the numbers of a row are safe and its branch is not removed yet. */
static void test_a_branch_that_a_killed_attempt_left_is_removed(void **state)
{
    static const char *const left[] = {"continue-8", "continue-8-state"};
    struct stable stable;
    struct advice_result found;
    char path[1000];
    (void)state;
    stable_open(&stable);
    const struct advice_request request = request_of(&stable, &evaluation, NULL);
    ok(advice_run(&request, &found, &error));
    advice_result_reset(&found);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", stable.work, left[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    ok(advice_run(&request, &found, &error));
    advice_result_reset(&found);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", stable.work, left[i]);
        assert_int_equal(access(path, F_OK), -1);
    }
    stable_close(&stable);
}

static void note_line(void *owner, const char *line)
{
    int *diverged = owner;
    *diverged += strstr(line, "has no loss: training diverged") != NULL;
}

/* Branches at a rate at which they diverge cost the numbers of their own options alone, also after a kill. */
static void test_a_branch_that_diverges_leaves_the_other_options(void **state)
{
    static const struct advice_option some[] = {
        {.average = 2}, {.continue_ = 1 * STEP}, {.continue_ = 9 * STEP}, {.continue_ = 12 * STEP}};
    struct stable stable;
    struct advice_result found;
    int diverged = 0;
    const struct monitor monitor = {.owner = &diverged, .log = note_line};
    (void)state;
    stable_open(&stable);
    stable.params.schedule.peak = 1e3;
    stable.params.optimizer.settings.weight_decay = 100;
    struct advice_request request = request_of(&stable, &evaluation, &monitor);
    request.options = some;
    request.option_count = 4;
    for (int attempt = 0; attempt < 2; attempt++) {
        ok(advice_run(&request, &found, &error));
        assert_int_equal(diverged, 1); /* the last one would go on from the one that diverged */
        for (int i = 0; i < 4; i++) {
            assert_true(found.forecasts[i].measured);
            assert_int_equal(isfinite(found.forecasts[i].q.value), i < 2);
        }
        assert_int_equal(found.lowest, 0);
        assert_false(found.told_apart);
        advice_result_reset(&found);
    }
    stable_close(&stable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_disk_holds_what_the_plan_says),
        cmocka_unit_test(test_stopped_anywhere_it_ends_with_the_same_bits),
        cmocka_unit_test(test_a_branch_that_a_killed_attempt_left_is_removed),
        cmocka_unit_test(test_a_branch_that_diverges_leaves_the_other_options),
    };
    stream_fill();
    for (int i = 0; i <= SEQUENCES; i++) sequence_starts[i] = i * LENGTH;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
