/* Training runs as a whole: they learn, write checkpoints that open, go on after being stopped anywhere with the same bits, and
 * branch. */
#include "../formats/scratch.h"
#include "base/memory.h"
#include "base/random.h"
#include "eval/evaluate.h"
#include "formats/file.h"
#include "jobs/train.h"
#include "train/checkpoint.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#define MODEL                                                                                                                      \
    "{\"model_type\":\"llama\",\"vocab_size\":31,\"hidden_size\":16,\"num_hidden_layers\":2,\"num_attention_heads\":2,"            \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"max_position_embeddings\":32,\"tie_word_embeddings\":true,"              \
    "\"initializer_range\":0.1}"
#define STEP (4 * 16) /* tokens a step */

static struct error error;

static void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

/* A stream with a rule: each token follows from the one before, but for one in sixteen. */
enum { TOKENS = 4096 };
static uint32_t stream[TOKENS];
static int64_t stream_starts[] = {0, TOKENS};
static const struct sequences stream_sequences = {1, stream_starts, stream};
static const struct dataset_source stream_source = {.format = DATASET_INLINE, .inlined = &stream_sequences};

static void stream_fill(void)
{
    for (uint64_t t = 0; t < TOKENS; t++)
        stream[t] = t == 0 || random_below(1, 1, t, 16) == 0 ? (uint32_t)random_below(1, 2, t, 31) : (stream[t - 1] * 3 + 1) % 31;
}

static struct train_params plain(void)
{
    struct train_params params = {.trajectory = "t",
                                  .model = MODEL,
                                  .dataset = "d",
                                  .validation_sequences = 8,
                                  .tokens = 40 * STEP,
                                  .batch_sequences = 4,
                                  .sequence_length = 16,
                                  .checkpoint_every = 10 * STEP,
                                  .keep_state = true,
                                  .seed = 7};
    params.optimizer.settings = (struct optimizer_settings){0.9, 0.95, 1e-8, 0.1, 1};
    params.schedule.peak = 1e-2;
    params.schedule.warmup = 5 * STEP;
    params.schedule.decay = 10 * STEP;
    return params;
}

/* Checks that are left before the run is told to stop; negative: never. */
struct brake {
    int64_t left;
};

static enum status brake_check(void *owner, struct error *e)
{
    struct brake *brake = owner;
    if (brake->left-- == 0) return error_set(e, STATUS_CANCELLED, "stopped by the test");
    return STATUS_OK;
}

/* Directories of a run below a scratch directory. */
struct place {
    struct scratch scratch;
    char out[600], work[600];
    int written; /* calls */
    int64_t last_step;
};

static void place_open(struct place *place)
{
    *place = (struct place){0};
    scratch_open(&place->scratch);
    (void)snprintf(place->out, sizeof place->out, "%s", scratch_path(&place->scratch, "out"));
    (void)snprintf(place->work, sizeof place->work, "%s", scratch_path(&place->scratch, "work"));
    assert_int_equal(mkdir(place->out, 0700), 0);
    assert_int_equal(mkdir(place->work, 0700), 0);
}

static void place_close(struct place *place)
{
    DIR *directory = opendir(place->out);
    assert_non_null(directory);
    for (const struct dirent *item; (item = readdir(directory));) {
        char path[900];
        (void)snprintf(path, sizeof path, "%s/%s", place->out, item->d_name);
        if (item->d_name[0] != '.') checkpoint_remove(path);
    }
    (void)closedir(directory);
    checkpoint_remove(place->out);
    checkpoint_remove(place->work);
    scratch_close(&place->scratch);
}

static enum status written(void *owner, const struct train_written *checkpoint, struct error *e)
{
    struct place *place = owner;
    char path[900];
    (void)e;
    place->written++;
    place->last_step = checkpoint->reached.step;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", checkpoint->directory);
    assert_int_equal(access(path, R_OK), 0); /* it is there when its callback comes */
    return STATUS_OK;
}

static struct backend *fast_backend(struct team *team)
{
    struct backend *backend = NULL;
    ok(backend_cpu_new(team, &backend, &error));
    return backend;
}

static enum status run(struct place *place, const struct train_params *params, const char *from, struct backend *backend,
                       int64_t checks, double save_seconds, struct train_result *out)
{
    struct brake brake = {checks};
    const struct monitor monitor = {.owner = &brake, .check = brake_check};
    const struct train_request request = {.params = params,
                                          .from = from,
                                          .dataset = &stream_source,
                                          .validation = &stream_source,
                                          .directory = place->out,
                                          .work_directory = place->work,
                                          .save_seconds = save_seconds,
                                          .backend = backend,
                                          .monitor = &monitor,
                                          .written = written,
                                          .owner = place};
    return train_run(&request, out, &error);
}

static char *contents(const char *directory, const char *name, const char *file, size_t *size)
{
    char path[900], *bytes = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/%s", directory, name, file);
    ok(file_read_all(AT_FDCWD, path, 1 << 28, &bytes, size, &error));
    return bytes;
}

static void assert_same_file(const struct place *a, const struct place *b, const char *name, const char *file)
{
    size_t size_a = 0, size_b = 0;
    char *bytes_a = contents(a->out, name, file, &size_a), *bytes_b = contents(b->out, name, file, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    memory_free(bytes_a);
    memory_free(bytes_b);
}

static void assert_same_result(const struct train_result *a, const struct train_result *b)
{
    assert_int_equal(a->checkpoint_count, b->checkpoint_count);
    assert_memory_equal(a->checkpoints, b->checkpoints, (size_t)a->checkpoint_count * sizeof *a->checkpoints);
    assert_memory_equal(&a->final_loss, &b->final_loss, sizeof a->final_loss);
}

static void test_learns_and_writes_checkpoints_that_evaluate_the_same(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result, full;
    struct place place;
    char path[900];
    params.tokens = 300 * STEP;
    params.checkpoint_every = 60 * STEP;
    place_open(&place);
    struct backend *backend = fast_backend(NULL);
    ok(run(&place, &params, NULL, backend, -1, 0, &result));
    assert_int_equal(result.checkpoint_count, 5);
    assert_int_equal(place.written, 5);
    assert_int_equal(result.steps, 300);
    assert_int_equal(result.tokens, 300 * STEP);
    assert_true(result.checkpoints[0].learning_rate == 1e-2);
    assert_true(fabs(result.checkpoints[4].learning_rate - 1e-3) < 1e-15); /* a tenth is left at the last of ten decay steps */
    /* the rule's own entropy is about 0.4 nats; not knowing anything costs log 31 = 3.4 */
    assert_true(result.validation_loss < 0.8);
    assert_true(result.validation_loss < result.checkpoints[0].validation_loss);

    struct model *model = NULL;
    struct evaluate_result evaluated;
    int64_t starts[9];
    for (int64_t s = 0; s <= 8; s++) starts[s] = s * 16;
    const struct sequences sequences = {8, starts, stream};
    (void)snprintf(path, sizeof path, "%s/step0000300", place.out);
    ok(model_open(path, &model, &error));
    ok(evaluate_run(model, backend, &sequences, NULL, &evaluated, &error));
    assert_true(fabs(evaluated.loss - result.validation_loss) < 1e-6);
    evaluate_result_reset(&evaluated);
    model_close(model);

    /* asked again when all is done, it gives the same answer at once and tells of every checkpoint again */
    ok(run(&place, &params, NULL, backend, -1, 0, &full));
    assert_same_result(&result, &full);
    assert_int_equal(place.written, 10);
    train_result_reset(&full);
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
}

/* Stopped at every k-th check and taken up again until it ends. */
static void resume_to_the_end(int64_t k, double save_seconds, const struct place *whole, const struct train_result *expected)
{
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct train_result result;
    struct place place;
    enum status status;
    int attempts = 0;
    place_open(&place);
    while ((status = run(&place, &params, NULL, backend, k, save_seconds, &result)) == STATUS_CANCELLED)
        assert_true(++attempts < 200);
    ok(status);
    assert_true(attempts > 0);
    assert_same_result(&result, expected);
    for (int step = 10; step <= 40; step += 10) {
        char name[32];
        train_checkpoint_name(step, name, sizeof name);
        assert_same_file(&place, whole, name, "model.safetensors");
        assert_same_file(&place, whole, name, "training.state");
        assert_same_file(&place, whole, name, "training.json");
    }
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
}

static void test_stopped_anywhere_it_ends_with_the_same_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct train_result expected;
    struct place whole;
    place_open(&whole);
    ok(run(&whole, &params, NULL, backend, -1, 0, &expected));
    for (int64_t k = 3; k <= 9; k += 2) resume_to_the_end(k, 1e-9, &whole, &expected); /* state saved at every step */
    resume_to_the_end(17, 1e9, &whole, &expected);                                     /* only at checkpoints */
    resume_to_the_end(13, 1e9, &whole, &expected);
    train_result_reset(&expected);
    backend_free(backend);
    place_close(&whole);
}

/* The same with SIGKILL at any instruction, also in the middle of writing. */
static void test_killed_anywhere_it_ends_with_the_same_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct backend *backend = fast_backend(NULL);
    struct train_result expected;
    struct place whole, place;
    int killed = 0, ended = 0;
    place_open(&whole);
    place_open(&place);
    ok(run(&whole, &params, NULL, backend, -1, 0, &expected));
    for (unsigned attempt = 0; !ended && attempt < 400; attempt++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct train_result result;
            _exit(run(&place, &params, NULL, backend, -1, 1e-9, &result) == STATUS_OK ? 0 : 1);
        }
        int how = 0;
        (void)usleep(2000 + 300 * attempt);
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        killed += WIFSIGNALED(how);
        ended = WIFEXITED(how);
        if (ended) assert_int_equal(WEXITSTATUS(how), 0);
    }
    assert_true(ended && killed > 0);
    DIR *work = opendir(place.work); /* nothing but the state is left of all those attempts */
    for (const struct dirent *item; (item = readdir(work));)
        if (item->d_name[0] != '.' || item->d_name[1] == 'd') assert_string_equal(item->d_name, "training.state");
    (void)closedir(work);
    for (int step = 10; step <= 40; step += 10) {
        char name[32];
        train_checkpoint_name(step, name, sizeof name);
        assert_same_file(&place, &whole, name, "model.safetensors");
        assert_same_file(&place, &whole, name, "training.state");
    }
    train_result_reset(&expected);
    backend_free(backend);
    place_close(&place);
    place_close(&whole);
}

static void test_threads_do_not_change_bits(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct train_result result[3];
    struct place place[3];
    for (int threads = 1; threads <= 3; threads++) {
        struct team *team = NULL;
        ok(team_new(threads, &team, &error));
        struct backend *backend = fast_backend(team);
        place_open(&place[threads - 1]);
        ok(run(&place[threads - 1], &params, NULL, backend, -1, 0, &result[threads - 1]));
        backend_free(backend);
        team_free(team);
    }
    for (int i = 1; i < 3; i++) {
        assert_same_result(&result[0], &result[i]);
        assert_same_file(&place[0], &place[i], "step0000040", "training.state");
    }
    for (int i = 0; i < 3; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
}

static void test_a_branch_gives_the_bits_of_a_run_with_its_schedule(void **state)
{
    (void)state;
    struct train_params whole = plain(), stable = plain(), decay = plain();
    struct train_result result[3];
    struct place place[3];
    char from[900];
    struct backend *backend = fast_backend(NULL);
    stable.schedule.name = SCHEDULE_CONSTANT;
    stable.tokens = 60 * STEP; /* longer than where the decay begins, which is at step 30 */
    decay.model = NULL;
    decay.from = "t/step0000030";
    for (int i = 0; i < 3; i++) place_open(&place[i]);
    ok(run(&place[0], &whole, NULL, backend, -1, 0, &result[0]));
    ok(run(&place[1], &stable, NULL, backend, -1, 0, &result[1]));
    (void)snprintf(from, sizeof from, "%s/step0000030", place[1].out);
    ok(run(&place[2], &decay, from, backend, -1, 0, &result[2]));
    assert_int_equal(result[2].checkpoint_count, 1);
    assert_same_file(&place[0], &place[1], "step0000030", "model.safetensors");
    assert_same_file(&place[0], &place[2], "step0000040", "model.safetensors");
    for (int i = 0; i < 3; i++) {
        train_result_reset(&result[i]);
        place_close(&place[i]);
    }
    backend_free(backend);
}

static void test_divergence_stops_the_run_and_keeps_its_checkpoints(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct backend *backend = fast_backend(NULL);
    params.schedule = (__typeof__(params.schedule)){.name = SCHEDULE_CONSTANT, .peak = 1e3};
    params.checkpoint_every = STEP;
    params.tokens = 400 * STEP;
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_NOT_FINITE);
    assert_non_null(strstr(error.detail, "step"));
    assert_non_null(strstr(error.detail, "1000"));
    assert_true(place.written > 0);
    assert_int_equal(result.checkpoint_count, 0);
    backend_free(backend);
    place_close(&place);
}

static void test_a_changed_request_is_not_gone_on_with(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct backend *backend = fast_backend(NULL);
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, 5, 1e-9, &result), STATUS_CANCELLED);
    params.schedule.peak = 2e-2;
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_INPUT_CHANGED);
    backend_free(backend);
    place_close(&place);
}

static void test_a_damaged_state_is_refused(void **state)
{
    (void)state;
    const struct train_params params = plain();
    struct train_result result;
    struct place place;
    char path[900];
    struct backend *backend = fast_backend(NULL);
    place_open(&place);
    assert_int_equal(run(&place, &params, NULL, backend, 5, 1e-9, &result), STATUS_CANCELLED);
    (void)snprintf(path, sizeof path, "%s/training.state", place.work);
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    char byte = 0;
    assert_int_equal(pread(descriptor, &byte, 1, 5000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, 5000), 1);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_CORRUPT);
    assert_int_equal(ftruncate(descriptor, 5000), 0);
    assert_int_equal(run(&place, &params, NULL, backend, -1, 0, &result), STATUS_CORRUPT);
    (void)close(descriptor);
    backend_free(backend);
    place_close(&place);
}

static void expect_refusal(const struct train_params *params, const char *pointer)
{
    assert_int_not_equal(train_check(params, &error), STATUS_OK);
    assert_string_equal(error.pointer, pointer);
}

static void test_what_does_not_fit_is_refused_at_its_field(void **state)
{
    (void)state;
    struct train_params params = plain();
    error = (struct error){0};
    ok(train_check(&params, &error));
    params.from = "t/x";
    expect_refusal(&params, "/params/model");
    params = plain();
    params.model = NULL;
    expect_refusal(&params, "/params/model");
    params = plain();
    params.model = "{\"model_type\":\"unheard\"}";
    expect_refusal(&params, "/params/model");
    params = plain();
    params.sequence_length = 64;
    expect_refusal(&params, "/params/sequence_length");
    params = plain();
    params.schedule.warmup = 35 * STEP;
    expect_refusal(&params, "/params/schedule");
    params = plain();
    params.tokenizer.name = TRAIN_TOKENIZER_BYTES;
    expect_refusal(&params, "/params/model");
}

static void test_refuses_a_checkpoint_without_state_and_too_little_memory(void **state)
{
    (void)state;
    struct train_params params = plain(), on = plain();
    struct train_result result;
    struct place place, next;
    char from[900];
    struct backend *backend = fast_backend(NULL);
    params.keep_state = false;
    place_open(&place);
    place_open(&next);
    ok(run(&place, &params, NULL, backend, -1, 0, &result));
    train_result_reset(&result);
    (void)snprintf(from, sizeof from, "%s/step0000010", place.out);
    on.model = NULL;
    on.from = "t/step0000010";
    error.pointer[0] = '\0';
    assert_int_equal(run(&next, &on, from, backend, -1, 0, &result), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/from");
    const struct train_request tight = {.params = &params,
                                        .dataset = &stream_source,
                                        .directory = next.out,
                                        .work_directory = next.work,
                                        .memory_limit = 10000,
                                        .backend = backend};
    assert_int_equal(train_run(&tight, &result, &error), STATUS_TOO_LARGE);
    backend_free(backend);
    place_close(&place);
    place_close(&next);
}

/* Text: the vocabulary is learned, kept for the next attempt, and written beside the weights. */
static void test_learns_a_tokenizer_from_text(void **state)
{
    (void)state;
    struct train_params params = plain();
    struct train_result result;
    struct place place;
    struct tokenizer *tokenizer = NULL;
    char text[20000], path[900];
    size_t size = 0;
    struct backend *backend = fast_backend(NULL);
    for (uint64_t i = 0; size + 32 < sizeof text; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "the %s runs %s.\n", random_below(1, 5, i, 2) ? "dog" : "cat",
                                 random_below(1, 6, i, 2) ? "home" : "away");
    params.model =
        "{\"model_type\":\"gpt_neox\",\"vocab_size\":300,\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
        "\"intermediate_size\":24,\"max_position_embeddings\":32,\"rotary_pct\":0.25}";
    params.tokenizer.name = TRAIN_TOKENIZER_LEARNED;
    params.tokenizer.vocabulary_size = 300;
    place_open(&place);
    scratch_write(&place.scratch, "text.txt", text, size);
    const struct dataset_source source = {.format = DATASET_TEXT, .path = scratch_path(&place.scratch, "text.txt")};
    const struct train_request request = {.params = &params,
                                          .dataset = &source,
                                          .validation = &source,
                                          .directory = place.out,
                                          .work_directory = place.work,
                                          .backend = backend};
    ok(train_run(&request, &result, &error));
    assert_true(result.validation_loss < result.checkpoints[0].validation_loss);
    train_result_reset(&result);
    (void)snprintf(path, sizeof path, "%s/step0000040/tokenizer.json", place.out);
    ok(tokenizer_open(path, &tokenizer, &error));
    assert_true(tokenizer_vocabulary_size(tokenizer) <= 300 && tokenizer_vocabulary_size(tokenizer) > 256);
    tokenizer_close(tokenizer);
    params.tokenizer.name = TRAIN_TOKENIZER_NONE;
    error.pointer[0] = '\0';
    assert_int_equal(train_run(&request, &result, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/tokenizer");
    backend_free(backend);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns_and_writes_checkpoints_that_evaluate_the_same),
        cmocka_unit_test(test_stopped_anywhere_it_ends_with_the_same_bits),
        cmocka_unit_test(test_killed_anywhere_it_ends_with_the_same_bits),
        cmocka_unit_test(test_threads_do_not_change_bits),
        cmocka_unit_test(test_a_branch_gives_the_bits_of_a_run_with_its_schedule),
        cmocka_unit_test(test_divergence_stops_the_run_and_keeps_its_checkpoints),
        cmocka_unit_test(test_a_changed_request_is_not_gone_on_with),
        cmocka_unit_test(test_a_damaged_state_is_refused),
        cmocka_unit_test(test_what_does_not_fit_is_refused_at_its_field),
        cmocka_unit_test(test_refuses_a_checkpoint_without_state_and_too_little_memory),
        cmocka_unit_test(test_learns_a_tokenizer_from_text),
    };
    stream_fill();
    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
