/* Quantizations that share a walk, and quantizations that are killed and asked again: each has the bits that it has
 * alone and undisturbed. */
#include "engine/jobs/tiny_model.h"
#include "jobs/quantize/quantize.h"

#include <signal.h>
#include <sys/wait.h>

enum { CASES = 6 };

struct fixture {
    struct team *team;
    struct backend *backend;
    struct scratch scratch, kept;
    struct model *model;
    int64_t starts[7], calibration_starts[7];
    uint32_t tokens[6 * 24], calibration_tokens[6 * 24];
    struct sequences evaluation, calibration, other_calibration;
};

static void open_engine(struct fixture *f)
{
    struct error error;
    assert_int_equal(team_new(2, &f->team, &error), STATUS_OK);
    assert_int_equal(backend_cpu_new(f->team, &f->backend, &error), STATUS_OK);
    if (model_open(f->scratch.directory, &f->model, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static void close_engine(struct fixture *f)
{
    model_close(f->model);
    backend_free(f->backend);
    team_free(f->team);
}

static void open_fixture(struct fixture *f, const char *config)
{
    memset(f, 0, sizeof *f);
    tiny_write(&f->scratch, config, (struct tiny_change){0});
    scratch_open(&f->kept);
    for (int i = 0; i < 6; i++) {
        f->starts[i + 1] = f->starts[i] + 24;
        f->calibration_starts[i + 1] = f->calibration_starts[i] + 12 + 2 * i;
    }
    for (int i = 0; i < 6 * 24; i++) f->tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 50);
    for (int i = 0; i < 6 * 24; i++) f->calibration_tokens[i] = (uint32_t)random_below(1, 1, (uint64_t)i, 50);
    f->evaluation = (struct sequences){6, f->starts, f->tokens};
    f->calibration = (struct sequences){6, f->calibration_starts, f->calibration_tokens};
    f->other_calibration = (struct sequences){4, f->calibration_starts + 2, f->calibration_tokens};
}

static void close_fixture(struct fixture *f)
{
    scratch_close(&f->scratch);
    scratch_close(&f->kept);
}

/* Everything that is different from case to case: needs, rotation, treated inputs, ends, calibration. */
static struct quantize_request request_of(const struct fixture *f, int number)
{
    struct quantize_request request = {
        .model = f->model, .backend = f->backend, .evaluation = &f->evaluation, .content = 7};
    struct quantize_method *method = &request.method;
    request.calibration = number == 5 ? &f->other_calibration : &f->calibration;
    *method = (struct quantize_method){.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, true, false, true, 0.05}};
    if (number == 1) method->gptq.bits = 3;
    if (number == 2) method->options.rotation = ROTATION_HADAMARD;
    if (number == 3) *method = (struct quantize_method){.quantizer = QUANTIZER_LLM_INT8, .llm_int8 = {.threshold = 2}};
    if (number == 4) {
        *method =
            (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {.bits = 4, .group_size = 16, .sym = true}};
        method->options.embedding_bits = method->options.lm_head_bits = 8;
        request.calibration = NULL;
    }
    if (number == 5) method->options.activation_bits = 8;
    return request;
}

static struct quantize_result run(const struct quantize_request *request)
{
    struct error error;
    struct quantize_result result;
    if (quantize_run(request, &result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    return result;
}

static void assert_same(const struct quantize_result *a, const struct quantize_result *b)
{
    assert_int_equal(a->layer_count, b->layer_count);
    assert_memory_equal(a->layers, b->layers, (size_t)a->layer_count * sizeof *a->layers);
    assert_memory_equal(a->fp.sequence_losses, b->fp.sequence_losses, (size_t)a->fp.sequences * sizeof(double));
    assert_memory_equal(a->q.sequence_losses, b->q.sequence_losses, (size_t)a->q.sequences * sizeof(double));
    assert_true(a->delta == b->delta && a->delta_low == b->delta_low && a->delta_high == b->delta_high);
    assert_true(a->kl == b->kl && a->top1_agreement == b->top1_agreement && a->bits_per_weight == b->bits_per_weight);
    assert_int_equal(a->calibration_tokens, b->calibration_tokens);
}

static void check_together(const char *config)
{
    struct fixture f;
    struct quantize_member members[CASES] = {{.status = STATUS_OK}};
    open_fixture(&f, config);
    open_engine(&f);
    for (int i = 0; i < CASES; i++) members[i].request = request_of(&f, i);
    quantize_batch(members, CASES);
    for (int i = 0; i < CASES; i++) {
        struct quantize_result alone = run(&members[i].request);
        assert_int_equal(members[i].status, STATUS_OK);
        assert_same(&alone, &members[i].result);
        quantize_result_reset(&alone);
        quantize_result_reset(&members[i].result);
    }
    close_engine(&f);
    close_fixture(&f);
}

static void test_recipes_on_one_walk_have_the_bits_they_have_alone(void **state)
{
    (void)state;
    check_together(tiny_llama);
    check_together(tiny_gpt_neox);
    check_together(tiny_olmoe_wide);
}

/* A monitor that says stop at its nth question, and notes when its member was let go. */
struct stopper {
    int64_t checks, stop_at, ended_after;
    const struct stopper *others;
};

static enum status stop_check(void *owner, struct error *error)
{
    struct stopper *stopper = owner;
    return ++stopper->checks == stopper->stop_at ? error_set(error, STATUS_CANCELLED, "stopped") : STATUS_OK;
}

static void note_end(struct quantize_member *member)
{
    struct stopper *stopper = member->owner;
    stopper->ended_after = stopper->others->checks;
}

static void test_who_fails_or_is_stopped_leaves_the_others_alone(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, tiny_llama);
    open_engine(&f);
    struct quantize_result alone[2];
    for (int i = 0; i < 2; i++) {
        const struct quantize_request request = request_of(&f, i);
        alone[i] = run(&request);
    }
    for (int64_t stop_at = 1; stop_at < 40; stop_at += 6) {
        struct stopper stoppers[4] = {{.stop_at = stop_at}};
        struct monitor monitors[4];
        struct quantize_member members[4] = {{.status = STATUS_OK}};
        for (int i = 0; i < 4; i++) {
            stoppers[i].others = &stoppers[1];
            monitors[i] = (struct monitor){.owner = &stoppers[i], .check = stop_check};
            members[i].request = request_of(&f, i == 3 ? 1 : i % 2);
            members[i].request.monitor = &monitors[i];
            members[i].owner = &stoppers[i];
            members[i].ended = note_end;
        }
        members[2].request.calibration = NULL; /* GPTQ refuses */
        quantize_batch(members, 4);
        assert_int_equal(members[0].status, STATUS_CANCELLED);
        assert_int_equal(members[2].status, STATUS_INVALID);
        assert_null(members[0].result.layers);
        assert_non_null(strstr(members[2].error.detail, "needs calibration data"));
        assert_int_equal(stoppers[2].ended_after, 0);
        assert_true(stoppers[0].ended_after < stoppers[1].checks);
        for (int i = 1; i < 4; i += 2) {
            assert_int_equal(members[i].status, STATUS_OK);
            assert_same(&alone[1], &members[i].result);
            quantize_result_reset(&members[i].result);
        }
    }
    for (int i = 0; i < 2; i++) quantize_result_reset(&alone[i]);
    close_engine(&f);
    close_fixture(&f);
}

/* ---- Killed ------------------------------------------------------------------------------------------------------ */

/* A monitor that kills its process when `done` blocks are behind it, and counts lines of the log that say where it goes
 * on. */
struct killer {
    int64_t kill_at, went_on;
};

static void kill_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct killer *killer = owner;
    (void)total, (void)unit;
    if (done == killer->kill_at) (void)raise(SIGKILL);
}

static void kill_log(void *owner, const char *line)
{
    struct killer *killer = owner;
    long long layer;
    if (sscanf(line, "goes on behind block %lld", &layer) == 1) killer->went_on = layer;
}

static void keep_members(struct fixture *f, const int *numbers, int count, const struct monitor *monitor,
                         char paths[][256], struct quantize_member *members)
{
    for (int i = 0; i < count; i++) {
        (void)snprintf(paths[i], 256, "%s/%d", f->kept.directory, numbers[i]);
        members[i] = (struct quantize_member){.request = request_of(f, numbers[i])};
        members[i].request.save_path = paths[i];
        members[i].request.save_seconds = -1;
        members[i].request.monitor = monitor;
    }
}

/* In a process of its own, killed when `kill_at` blocks are behind it (0: never). Returns the block behind which it
 * went on. */
static int64_t run_child(struct fixture *f, const int *numbers, int count, int64_t kill_at)
{
    int pipes[2], how = 0;
    int64_t went_on = -1;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct quantize_member members[CASES];
        char paths[CASES][256];
        struct killer killer = {.kill_at = kill_at == 0 ? -1 : kill_at};
        const struct monitor monitor = {.owner = &killer, .progress = kill_progress, .log = kill_log};
        open_engine(f);
        keep_members(f, numbers, count, &monitor, paths, members);
        quantize_batch(members, count);
        for (int i = 0; i < count; i++)
            if (members[i].status != STATUS_OK) _exit(2);
        _exit(write(pipes[1], &killer.went_on, sizeof killer.went_on) == sizeof killer.went_on ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    (void)close(pipes[1]);
    if (kill_at > 0) assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    if (kill_at == 0) assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    if (kill_at == 0) assert_int_equal(read(pipes[0], &went_on, sizeof went_on), sizeof went_on);
    (void)close(pipes[0]);
    return went_on;
}

/* The last attempt, here, and alone: where it went on, and whether it has the bits of an undisturbed run. */
static int64_t finish(struct fixture *f, int number)
{
    struct quantize_member member;
    char path[1][256];
    struct killer killer = {.kill_at = -1};
    const struct monitor monitor = {.owner = &killer, .progress = kill_progress, .log = kill_log};
    open_engine(f);
    keep_members(f, &number, 1, &monitor, path, &member);
    const struct quantize_request fresh = request_of(f, number);
    struct quantize_result undisturbed = run(&fresh), result = run(&member.request);
    assert_same(&undisturbed, &result);
    quantize_result_reset(&undisturbed);
    quantize_result_reset(&result);
    close_engine(f);
    return killer.went_on;
}

static void check_killed_at_every_block(const char *config, int64_t layers, int number)
{
    struct fixture f;
    open_fixture(&f, config);
    for (int64_t block = 1; block <= layers + 1; block++) /* layers + 1: when all is done but for saying so */
        (void)run_child(&f, &number, 1, block);
    assert_int_equal(finish(&f, number), layers); /* what came first was not done again */
    (void)scratch_entries(&f.kept, 1);
    for (int64_t block = 1; block <= layers; block++) {
        (void)run_child(&f, &number, 1, block);
        assert_int_equal(finish(&f, number), block - 1); /* killed before its last block was kept */
        (void)scratch_entries(&f.kept, 1);
    }
    close_fixture(&f);
}

static void test_killed_at_every_block_a_run_ends_with_the_same_bits(void **state)
{
    (void)state;
    check_killed_at_every_block(tiny_llama, 3, 0);
    check_killed_at_every_block(tiny_llama, 3, 2);
    check_killed_at_every_block(tiny_gpt_neox, 2, 3);
    check_killed_at_every_block(tiny_llama, 3, 4);
    check_killed_at_every_block(tiny_olmoe, 2, 5);
}

/* Two on one walk are killed; then one goes on alone, and later the other; or one of them, further, with a new one. */
static void test_a_killed_walk_is_taken_up_by_each_alone(void **state)
{
    (void)state;
    struct fixture f;
    const int all[] = {0, 1, 4}, rest[] = {1, 2};
    open_fixture(&f, tiny_llama);
    (void)run_child(&f, all, 3, 3);
    assert_int_equal(finish(&f, 0), 2);
    assert_int_equal(run_child(&f, rest, 2, 0), 2); /* case 2 has nothing kept, and begins at the embeddings */
    assert_int_equal(finish(&f, 1), 3);
    assert_int_equal(finish(&f, 2), 3);
    assert_int_equal(unlink(scratch_path(&f.kept, "4.fp")), 0); /* the full-precision stream alone starts again */
    assert_int_equal(finish(&f, 4), 2);
    close_fixture(&f);
}

struct copy {
    const char *name;
    size_t size;
    unsigned char bytes[1 << 16];
};

static void copy_take(struct fixture *f, struct copy *copy)
{
    FILE *file = fopen(scratch_path(&f->kept, copy->name), "rb");
    assert_non_null(file);
    copy->size = fread(copy->bytes, 1, sizeof copy->bytes, file);
    (void)fclose(file);
    assert_in_range(copy->size, 1000, sizeof copy->bytes - 1);
}

/* Anything that is not what was written is as if it were not there. */
static void test_damaged_and_foreign_files_are_not_taken_up(void **state)
{
    (void)state;
    struct fixture f;
    const int number = 0;
    static struct copy copies[2] = {{.name = "0.state"}, {.name = "0.fp"}};
    open_fixture(&f, tiny_llama);
    (void)run_child(&f, &number, 1, 3);
    for (int n = 0; n < 2; n++) copy_take(&f, &copies[n]);
    for (int n = 0; n < 2; n++) {
        const size_t size = copies[n].size, places[] = {0, 9, 30, size / 2, size - 1};
        for (size_t i = 0; i <= sizeof places / sizeof places[0]; i++) {
            const bool cut = i == sizeof places / sizeof places[0];
            scratch_write(&f.kept, copies[!n].name, copies[!n].bytes, copies[!n].size);
            if (!cut) copies[n].bytes[places[i]] ^= 1;
            scratch_write(&f.kept, copies[n].name, copies[n].bytes, cut ? size / 2 : size);
            if (!cut) copies[n].bytes[places[i]] ^= 1;
            assert_int_equal(finish(&f, number), n == 0 ? 0 : 2);
        }
    }
    f.tokens[3] ^= 1; /* other tokens */
    assert_int_equal(finish(&f, number), 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes_on_one_walk_have_the_bits_they_have_alone),
        cmocka_unit_test(test_who_fails_or_is_stopped_leaves_the_others_alone),
        cmocka_unit_test(test_killed_at_every_block_a_run_ends_with_the_same_bits),
        cmocka_unit_test(test_a_killed_walk_is_taken_up_by_each_alone),
        cmocka_unit_test(test_damaged_and_foreign_files_are_not_taken_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
