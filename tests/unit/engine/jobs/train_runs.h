/* train_runs.h: small training runs in scratch directories, stopped and taken up again, and what they wrote
 * compared. */
#ifndef UNIT_TRAIN_RUNS_H
#define UNIT_TRAIN_RUNS_H

#include "base/memory.h"
#include "base/random.h"
#include "engine/files/scratch.h"
#include "files/file.h"
#include "jobs/train/train.h"
#include "train/checkpoint.h"

#include <math.h>

#define MODEL                                                                                                         \
    "{\"model_type\":\"llama\",\"vocab_size\":31,\"hidden_size\":16,\"num_hidden_layers\":2,"                         \
    "\"num_attention_heads\":2,"                                                                                      \
    "\"num_key_value_heads\":1,\"intermediate_size\":24,\"max_position_embeddings\":32,\"tie_word_embeddings\":true," \
    "\"initializer_range\":0.1}"
#define STEP (4 * 16) /* tokens a step */

static struct error error;

static inline void ok(enum status status)
{
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

/* A stream with a rule: each token follows from the one before, but for one in sixteen. */
enum { TOKENS = 4096 };
static uint32_t stream[TOKENS];
static int64_t stream_starts[] = {0, TOKENS};
static const struct sequences stream_sequences = {1, stream_starts, stream};
static const struct dataset_source stream_source = {.format = DATASET_INLINE, .inlined = &stream_sequences};

static inline void stream_fill(void)
{
    for (uint64_t t = 0; t < TOKENS; t++)
        stream[t] = t == 0 || random_below(1, 1, t, 16) == 0 ? (uint32_t)random_below(1, 2, t, 31)
                                                             : (stream[t - 1] * 3 + 1) % 31;
}

static inline struct train_params plain(void)
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
    params.optimizer.settings = (struct optimizer_settings){0.9, 0.95, 1e-8, 0.1, 1, 0, 0, 0, 0, 0, 0, 0};
    params.schedule.peak = 1e-2;
    params.schedule.warmup = 5 * STEP;
    params.schedule.decay = 10 * STEP;
    return params;
}

/* Checks that are left before the run is told to stop; negative: never. */
struct brake {
    int64_t left;
};

static inline enum status brake_check(void *owner, struct error *e)
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

/* Not inlined: gcc 12 then takes arrays of places for one string and warns of what cannot be. */
__attribute__((noinline, unused)) static void place_open(struct place *place)
{
    *place = (struct place){0};
    scratch_open(&place->scratch);
    (void)snprintf(place->out, sizeof place->out, "%s/out", place->scratch.directory);
    (void)snprintf(place->work, sizeof place->work, "%s/work", place->scratch.directory);
    assert_int_equal(mkdir(place->out, 0700), 0);
    assert_int_equal(mkdir(place->work, 0700), 0);
}

static inline void place_close(struct place *place)
{
    DIR *directory = opendir(place->out);
    assert_non_null(directory);
    for (const struct dirent *item; (item = readdir(directory)) != NULL;) {
        char path[900];
        (void)snprintf(path, sizeof path, "%s/%s", place->out, item->d_name);
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        checkpoint_remove(path); /* that of a killed attempt begins with a dot */
    }
    (void)closedir(directory);
    checkpoint_remove(place->out);
    checkpoint_remove(place->work);
    scratch_close(&place->scratch);
}

static inline enum status written(void *owner, const struct train_written *checkpoint, struct error *e)
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

static inline struct backend *fast_backend(struct team *team)
{
    struct backend *backend = NULL;
    ok(backend_cpu_new(team, &backend, &error));
    return backend;
}

static inline enum status run(struct place *place, const struct train_params *params, const char *from,
                              struct backend *backend, int64_t checks, double save_seconds, struct train_result *out)
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

static inline char *contents(const char *directory, const char *name, const char *file, size_t *size)
{
    char path[900], *bytes = NULL;
    (void)snprintf(path, sizeof path, "%s/%s/%s", directory, name, file);
    ok(file_read_all(AT_FDCWD, path, 1 << 28, &bytes, size, &error));
    return bytes;
}

static inline void assert_same_file(const struct place *a, const struct place *b, const char *name, const char *file)
{
    size_t size_a = 0, size_b = 0;
    char *bytes_a = contents(a->out, name, file, &size_a), *bytes_b = contents(b->out, name, file, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    memory_free(bytes_a);
    memory_free(bytes_b);
}

static inline void assert_same_result(const struct train_result *a, const struct train_result *b)
{
    assert_int_equal(a->checkpoint_count, b->checkpoint_count);
    assert_memory_equal(a->checkpoints, b->checkpoints, (size_t)a->checkpoint_count * sizeof *a->checkpoints);
    assert_memory_equal(&a->final_loss, &b->final_loss, sizeof a->final_loss);
    assert_int_equal(a->curve_count, b->curve_count);
    assert_memory_equal(a->curve, b->curve, (size_t)a->curve_count * sizeof *a->curve);
}

/* Stopped at every k-th check and taken up again until it ends. */
static inline void resume_to_the_end(const struct train_params *params, int64_t k, double save_seconds,
                                     const struct place *whole, const struct train_result *expected)
{
    struct backend *backend = fast_backend(NULL);
    struct train_result result;
    struct place place;
    enum status status;
    int attempts = 0;
    place_open(&place);
    while ((status = run(&place, params, NULL, backend, k, save_seconds, &result)) == STATUS_CANCELLED) {
        assert_true(++attempts < 200);
        train_result_reset(&result);
    }
    ok(status);
    assert_true(attempts > 0);
    assert_same_result(&result, expected);
    for (int step = 10; step <= 40; step += 10) {
        char name[32];
        train_checkpoint_name(step, false, name, sizeof name);
        assert_same_file(&place, whole, name, "model.safetensors");
        assert_same_file(&place, whole, name, "training.state");
        assert_same_file(&place, whole, name, "training.json");
        if (params->ema.decay == 0) continue;
        train_checkpoint_name(step, true, name, sizeof name);
        assert_same_file(&place, whole, name, "model.safetensors");
        assert_same_file(&place, whole, name, "training.json");
    }
    train_result_reset(&result);
    backend_free(backend);
    place_close(&place);
}

#endif
