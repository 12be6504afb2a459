/* tiny_fixture.h: a tiny model opened on the CPU, and random tokens of its vocabulary to evaluate and to calibrate
 * with. */
#ifndef TINY_FIXTURE_H
#define TINY_FIXTURE_H

#include "dataset/dataset.h"
#include "engine/jobs/tiny_model.h"
#include "model/model.h"

struct fixture {
    struct team *team; /* of two threads */
    struct backend *backend;
    struct scratch scratch, work; /* the checkpoint's directory, and an empty one */
    struct model *model;
    int64_t *starts, *calibration_starts;
    uint32_t *tokens, *calibration_tokens;
    struct sequences evaluation, calibration; /* over these arrays, which a test may change */
};

static inline int64_t *tiny_starts(int count, int length)
{
    int64_t *starts = calloc((size_t)count + 1, sizeof *starts);
    for (int i = 0; i < count; i++) starts[i + 1] = starts[i] + length;
    return starts;
}

static inline uint32_t *tiny_tokens(uint64_t stream, int count, int64_t vocabulary)
{
    uint32_t *tokens = calloc((size_t)count, sizeof *tokens);
    for (int i = 0; i < count; i++) tokens[i] = (uint32_t)random_below(1, stream, (uint64_t)i, (uint64_t)vocabulary);
    return tokens;
}

/* `count` sequences of `length` tokens of each kind. */
static inline void open_changed_fixture(struct fixture *f, const char *config, struct tiny_change change, int count,
                                        int length)
{
    struct error error;
    memset(f, 0, sizeof *f);
    tiny_write(&f->scratch, config, change);
    scratch_open(&f->work);
    assert_int_equal(team_new(2, &f->team, &error), STATUS_OK);
    if (backend_cpu_new(f->team, &f->backend, &error) != STATUS_OK ||
        model_open(f->scratch.directory, &f->model, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    f->starts = tiny_starts(count, length);
    f->calibration_starts = tiny_starts(count, length);
    f->tokens = tiny_tokens(0, count * length, f->model->config.vocabulary_size);
    f->calibration_tokens = tiny_tokens(1, count * length, f->model->config.vocabulary_size);
    f->evaluation = (struct sequences){count, f->starts, f->tokens};
    f->calibration = (struct sequences){count, f->calibration_starts, f->calibration_tokens};
}

static inline void open_fixture(struct fixture *f, const char *config, int count, int length)
{
    open_changed_fixture(f, config, (struct tiny_change){0}, count, length);
}

static inline void close_fixture(struct fixture *f)
{
    free(f->starts);
    free(f->calibration_starts);
    free(f->tokens);
    free(f->calibration_tokens);
    model_close(f->model);
    backend_free(f->backend);
    team_free(f->team);
    scratch_close(&f->scratch);
    scratch_close(&f->work);
}

#endif
