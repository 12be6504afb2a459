#include "jobs/train/train.h"

#include "base/buffer.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/memory.h"
#include "files/file.h"
#include "jobs/train/train_curve.h"
#include "jobs/train/train_plan.h"
#include "model/chunks.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "train/vocabulary.h"

#include <assert.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_SECONDS  5
#define SAVE_SECONDS 60

struct training {
    const struct train_request *request;
    const struct train_params *params;
    struct backend *backend;
    char *config_text; /* owned */
    size_t config_size;
    struct tokenizer *tokenizer; /* NULL: token data */
    uint32_t *tokens;
    int64_t token_count;
    struct chunks validation; /* none when its count is 0 */
    struct parameters_layout *layout;
    struct trainer trainer;
    struct state_checkpoint *checkpoints; /* [capacity] */
    int64_t checkpoint_count, capacity, every;
    struct train_curve curve;
    uint64_t fingerprint;
    char state_path[PATH_MAX];
};

static const char too_long[] = "the run's directory has too long a path";

static enum status config_load(struct training *t, struct model_config *config, struct error *error)
{
    char path[PATH_MAX];
    enum status status;
    if (t->params->model != NULL) {
        t->config_size = strlen(t->params->model);
        if ((status = memory_new((int64_t)t->config_size + 1, 1, "configuration", &t->config_text, error)) != STATUS_OK)
            return status;
        memcpy(t->config_text, t->params->model, t->config_size);
    } else {
        if ((status = directory_path(t->request->from, "config.json", too_long, path, error)) != STATUS_OK)
            return status;
        status = file_read_all(AT_FDCWD, path, TRAIN_PLAN_CONFIG_LIMIT, &t->config_text, &t->config_size, error);
        if (status != STATUS_OK) return status;
    }
    if ((status = config_parse("config.json", t->config_text, t->config_size, config, error)) != STATUS_OK)
        return status;
    return train_plan_fit(t->params, config, error);
}

/* A tokenizer that an earlier attempt learned is used again. */
static enum status tokenizer_learn(struct training *t, char path[PATH_MAX], struct error *error)
{
    enum status status;
    if ((status = directory_path(t->request->work_directory, "tokenizer.json", too_long, path, error)) != STATUS_OK)
        return status;
    if (access(path, R_OK) == 0) return STATUS_OK;
    monitor_log(t->request->monitor, "learning a tokenizer of %lld tokens",
                (long long)t->params->tokenizer.vocabulary_size);
    return vocabulary_learn(t->request->dataset, t->params->tokenizer.vocabulary_size, path, t->request->monitor,
                            error);
}

static enum status tokenizer_load(struct training *t, struct error *error)
{
    char path[PATH_MAX];
    enum status status;
    if (t->request->from != NULL) {
        if ((status = directory_path(t->request->from, "tokenizer.json", too_long, path, error)) != STATUS_OK)
            return status;
        return access(path, R_OK) == 0 ? tokenizer_open(path, &t->tokenizer, error) : STATUS_OK;
    }
    switch ((enum train_tokenizer)t->params->tokenizer.name) {
    case TRAIN_TOKENIZER_NONE:
        return STATUS_OK;
    case TRAIN_TOKENIZER_BYTES:
        return tokenizer_open_bytes(&t->tokenizer, error);
    case TRAIN_TOKENIZER_FILE:
        return tokenizer_open(t->request->tokenizer, &t->tokenizer, error);
    case TRAIN_TOKENIZER_LEARNED:
        if ((status = tokenizer_learn(t, path, error)) != STATUS_OK) return status;
        return tokenizer_open(path, &t->tokenizer, error);
    }
    return error_set(error, STATUS_INTERNAL, "a tokenizer without a row");
}

static enum status text_check(const struct training *t, const struct dataset_source *source, const char *pointer,
                              struct error *error)
{
    if (t->tokenizer != NULL || (source->format != DATASET_TEXT && source->format != DATASET_JSONL)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer,
                        "text needs a tokenizer: set \"tokenizer\" to bytes, file or train");
}

static enum status validation_load(struct training *t, const struct model_config *config, struct error *error)
{
    const struct dataset_use use = {.packing = DATASET_BLOCKS,
                                    .sequence_length = t->params->sequence_length,
                                    .longest = config->maximum_positions,
                                    .max_sequences = t->params->validation_sequences,
                                    .vocabulary_size = config->vocabulary_size};
    struct sequences sequences = {0};
    enum status status;
    if (t->request->validation == NULL) return STATUS_OK;
    if ((status = text_check(t, t->request->validation, "/params/validation", error)) != STATUS_OK) return status;
    status = dataset_load(t->request->validation, &use, t->tokenizer, t->request->monitor, &sequences, error);
    if (status != STATUS_OK) return train_plan_blame(status, "/params/validation", error);
    if (t->request->validated_on != NULL) status = t->request->validated_on(t->request->owner, &sequences, error);
    if (status == STATUS_OK) status = chunks_init(&sequences, trainer_chunk_tokens(&t->trainer), &t->validation, error);
    dataset_sequences_free(&sequences);
    return status;
}

static enum status data_load(struct training *t, const struct model_config *config, struct error *error)
{
    enum status status;
    if ((status = tokenizer_load(t, error)) != STATUS_OK) return train_plan_blame(status, "/params/tokenizer", error);
    if ((status = text_check(t, t->request->dataset, "/params/tokenizer", error)) != STATUS_OK) return status;
    if (t->tokenizer != NULL && tokenizer_vocabulary_size(t->tokenizer) > config->vocabulary_size)
        return error_set_at(error, STATUS_INVALID, "/params/model",
                            "the tokenizer has %lld tokens, the model a vocab_size of %lld",
                            (long long)tokenizer_vocabulary_size(t->tokenizer), (long long)config->vocabulary_size);
    status = dataset_load_tokens(t->request->dataset, t->tokenizer, config->vocabulary_size, t->request->monitor,
                                 &t->tokens, &t->token_count, error);
    return train_plan_blame(status, "/params/dataset", error);
}

static enum status trainer_prepare(struct training *t, const struct model_config *config, struct error *error)
{
    const struct train_params *params = t->params;
    const int64_t limit = t->request->memory_limit > 0 ? t->request->memory_limit : t->backend->ops->memory(t->backend);
    struct trainer_setup setup = train_plan_setup(params, limit);
    enum status status;
    setup.tokens = t->tokens;
    setup.token_count = t->token_count;
    setup.monitor = t->request->monitor;
    if ((status = parameters_layout_new(config, &t->layout, error)) != STATUS_OK) return status;
    t->every = params->checkpoint_every > 0 ? train_plan_steps(params, params->checkpoint_every) : setup.schedule.total;
    t->capacity = (setup.schedule.total / t->every + 2) * (params->ema.decay > 0 ? 2 : 1);
    status = memory_new(t->capacity, sizeof *t->checkpoints, "checkpoint list", &t->checkpoints, error);
    if (status != STATUS_OK) return status;
    if ((status = train_curve_init(&t->curve, setup.schedule.total, error)) != STATUS_OK) return status;
    return trainer_init(&t->trainer, t->layout, t->backend, &setup, error);
}

/* Fingerprint of everything that decides a run's numbers; a struct is added field by field, because it may have
 * gaps. */
static uint64_t fingerprint_of(const struct training *t, uint64_t from)
{
    const struct trainer_setup *setup = &t->trainer.setup;
    const struct optimizer_settings *o = &setup->settings;
    const struct schedule *s = &setup->schedule;
    const double reals[] = {o->beta1, o->beta2, o->epsilon, o->weight_decay, o->clip, s->peak, s->final};
    const int64_t integers[] = {t->params->optimizer.name,
                                s->kind,
                                s->shape,
                                s->warmup,
                                s->decay,
                                s->total,
                                setup->batch_sequences,
                                setup->sequence_length,
                                (int64_t)setup->seed,
                                (int64_t)from,
                                t->every,
                                t->token_count};
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, reals, sizeof reals);
    checksum_add(&sum, integers, sizeof integers);
    /* later settings are added only if they are used, so that states of older runs stay valid */
    const double more[] = {o->rho, o->eta, setup->ema_decay};
    if (t->params->optimizer.name != OPTIMIZER_ADAMW || setup->ema_decay > 0) checksum_add(&sum, more, sizeof more);
    const double cycles[] = {(double)s->start, (double)s->period, s->growth};
    if (s->period > 0) checksum_add(&sum, cycles, sizeof cycles);
    const double own[] = {o->momentum, o->adamw_rate, (double)o->adjust, (double)o->precondition_frequency,
                          (double)o->max_precond_dim};
    if (t->params->optimizer.name >= OPTIMIZER_MUON) checksum_add(&sum, own, sizeof own);
    checksum_add(&sum, t->config_text, t->config_size);
    checksum_add(&sum, t->tokens, (size_t)t->token_count * sizeof *t->tokens);
    return checksum_value(&sum);
}

/* Takes up the state that an earlier run kept beside its checkpoint. */
static enum status branch(struct training *t, uint64_t *from, struct error *error)
{
    struct trainer *trainer = &t->trainer;
    struct state_about about;
    struct state state;
    char path[PATH_MAX];
    enum status status;
    if (t->request->from_state != NULL)
        (void)snprintf(path, sizeof path, "%s", t->request->from_state);
    else if ((status = directory_path(t->request->from, "training.state", too_long, path, error)) != STATUS_OK)
        return status;
    if (access(path, F_OK) != 0) return error_set_at(error, STATUS_INVALID, "/params/from", TRAIN_NO_STATE);
    if ((status = state_look(path, &about, error)) != STATUS_OK) return train_plan_blame(status, "/params/from", error);
    if ((status = train_check_state(t->params, &about, error)) != STATUS_OK) return status;
    if (t->request->step_unknown && (status = train_check_branch(t->params, about.step, NULL, error)) != STATUS_OK)
        return status;
    if ((status = state_read(path, &state, &trainer->parameters, &trainer->optimizer, &trainer->ema, error)) !=
        STATUS_OK)
        return train_plan_blame(status, "/params/from", error);
    memory_free(state.checkpoints);
    memory_free(state.curve);
    trainer->step = state.step;
    *from = state.fingerprint ^ (uint64_t)state.step;
    return STATUS_OK;
}

static enum status written_tell(struct training *t, const struct state_checkpoint *reached, struct error *error)
{
    char name[40], path[PATH_MAX];
    enum status status;
    if (t->request->written == NULL) return STATUS_OK;
    train_checkpoint_name(reached->step, reached->averaged, name, sizeof name);
    if ((status = directory_path(t->request->directory, name, too_long, path, error)) != STATUS_OK) return status;
    return t->request->written(
        t->request->owner, &(struct train_written){path, name, *reached, reached->averaged ? &t->trainer.ema : NULL},
        error);
}

static enum status progress_take(struct training *t, const struct state *state, struct error *error)
{
    if (state->fingerprint != t->fingerprint || state->checkpoint_count > t->capacity)
        return error_set(
            error, STATUS_INPUT_CHANGED,
            "the data or the request is not what this run began with; start a new run instead of going on with it");
    t->trainer.step = state->step;
    t->trainer.loss = state->train_loss;
    t->checkpoint_count = state->checkpoint_count;
    if (state->checkpoint_count > 0)
        memcpy(t->checkpoints, state->checkpoints, (size_t)state->checkpoint_count * sizeof *t->checkpoints);
    return train_curve_continue(&t->curve, state->curve, state->curve_count, error);
}

/* Takes up what an earlier attempt at this run left, if it left anything. */
static enum status resume(struct training *t, bool *resumed, struct error *error)
{
    struct trainer *trainer = &t->trainer;
    struct state state;
    enum status status;
    *resumed = false;
    if (access(t->state_path, F_OK) != 0) return STATUS_OK;
    status = state_read(t->state_path, &state, &trainer->parameters, &trainer->optimizer, &trainer->ema, error);
    if (status == STATUS_OK) status = progress_take(t, &state, error);
    state_reset(&state);
    if (status != STATUS_OK) return status;
    *resumed = true;
    monitor_log(t->request->monitor, "going on from step %lld", (long long)trainer->step);
    for (int64_t i = 0; i < t->checkpoint_count; i++)
        if ((status = written_tell(t, &t->checkpoints[i], error)) != STATUS_OK) return status;
    return STATUS_OK;
}

/* Removes files that a killed attempt was writing; no other process writes here. */
static void remove_unfinished(const char *directory)
{
    char path[PATH_MAX];
    DIR *stream = opendir(directory);
    if (stream == NULL) return;
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strncmp(entry->d_name, ".deltaq-", 8) == 0 &&
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < (int)sizeof path)
            (void)unlink(path);
    (void)closedir(stream);
}

static enum status begin(struct training *t, struct error *error)
{
    uint64_t from = 0;
    bool resumed = false;
    enum status status;
    remove_unfinished(t->request->work_directory);
    if ((status = directory_path(t->request->work_directory, "training.state", too_long, t->state_path, error)) !=
        STATUS_OK)
        return status;
    if (t->request->from != NULL && (status = branch(t, &from, error)) != STATUS_OK) return status;
    t->fingerprint = fingerprint_of(t, from);
    if ((status = resume(t, &resumed, error)) != STATUS_OK) return status;
    if (resumed || t->request->from != NULL) return STATUS_OK;
    return parameters_initialise(&t->trainer.parameters, t->trainer.setup.seed, error);
}

static struct state state_now(const struct training *t)
{
    return (struct state){.step = t->trainer.step,
                          .fingerprint = t->fingerprint,
                          .batch_sequences = t->params->batch_sequences,
                          .sequence_length = t->params->sequence_length,
                          .train_loss = t->trainer.loss,
                          .checkpoints = t->checkpoints,
                          .checkpoint_count = t->checkpoint_count,
                          .curve = t->curve.points,
                          .curve_count = t->curve.count};
}

static enum status state_save(const struct training *t, struct error *error)
{
    const struct state state = state_now(t);
    return state_write(t->state_path, &state, &t->trainer.parameters, &t->trainer.optimizer, &t->trainer.ema, error);
}

/* Names only those losses that were measured. */
static void checkpoint_log(const struct training *t, const char *name, const struct state_checkpoint *reached)
{
    struct buffer line = {0};
    buffer_printf(&line, "checkpoint %s", name);
    if (!isnan(reached->train_loss)) buffer_printf(&line, ": training loss %.4f", reached->train_loss);
    if (!isnan(reached->validation_loss))
        buffer_printf(&line, "%s validation loss %.4f", isnan(reached->train_loss) ? ":" : ",",
                      reached->validation_loss);
    if (line.bytes != NULL) monitor_log(t->request->monitor, "%s", line.bytes);
    buffer_reset(&line);
}

/* Measures, writes and reports the trainer's present parameters: the run's own or the average. */
static enum status checkpoint_add(struct training *t, bool averaged, struct error *error)
{
    static const enum dtype dtypes[] = {[TRAIN_DTYPE_F32] = DTYPE_F32, [TRAIN_DTYPE_BF16] = DTYPE_BF16};
    struct trainer *trainer = &t->trainer;
    struct state_checkpoint reached = {
        .step = trainer->step,
        .tokens = trainer->step * t->params->batch_sequences * t->params->sequence_length,
        .learning_rate = schedule_rate(&trainer->setup.schedule, trainer->step - 1),
        .train_loss = averaged ? NAN : trainer->loss,
        .validation_loss = NAN,
        .averaged = averaged,
    };
    char name[40], path[PATH_MAX];
    enum status status;
    if (t->validation.count > 0 &&
        (status = trainer_validate(trainer, &t->validation, &reached.validation_loss, error)) != STATUS_OK)
        return status;
    train_checkpoint_name(reached.step, averaged, name, sizeof name);
    if ((status = directory_path(t->request->directory, name, too_long, path, error)) != STATUS_OK) return status;
    struct state state = state_now(t);
    state.checkpoint_count = 0; /* a run that branches has no checkpoints yet, and a curve of its own */
    state.curve_count = 0;
    const struct checkpoint checkpoint = {
        .directory = path,
        .config = t->config_text,
        .config_size = t->config_size,
        .tokenizer = t->tokenizer,
        .dtype = dtypes[t->params->dtype],
        .seed = trainer->setup.seed,
        .reached = reached,
        .state = t->params->keep_state && !averaged ? &state : NULL,
        .optimizer = &trainer->optimizer,
        .ema = &trainer->ema,
    };
    if ((status = checkpoint_write(&checkpoint, &trainer->parameters, error)) != STATUS_OK) return status;
    if ((status = written_tell(t, &reached, error)) != STATUS_OK) return status;
    assert(t->checkpoint_count < t->capacity);
    t->checkpoints[t->checkpoint_count++] = reached;
    checkpoint_log(t, name, &reached);
    return STATUS_OK;
}

static enum status checkpoint_make(struct training *t, struct error *error)
{
    enum status status;
    if ((status = checkpoint_add(t, false, error)) != STATUS_OK) return status;
    if (t->trainer.ema.decay > 0) {
        trainer_show_average(&t->trainer);
        status = checkpoint_add(t, true, error);
        trainer_show_parameters(&t->trainer);
        if (status != STATUS_OK) return status;
    }
    return state_save(t, error);
}

static bool checkpoint_due(const struct training *t)
{
    const int64_t step = t->trainer.step;
    return step == t->trainer.setup.schedule.total || step % t->every == 0;
}

static enum status steps_run(struct training *t, struct train_result *out, struct error *error)
{
    struct trainer *trainer = &t->trainer;
    const struct monitor *monitor = t->request->monitor;
    const double save_every = t->request->save_seconds > 0 ? t->request->save_seconds : SAVE_SECONDS;
    const double step_tokens = (double)(t->params->batch_sequences * t->params->sequence_length),
                 began = clock_seconds();
    const int64_t first = trainer->step, total = trainer->setup.schedule.total;
    double saved = began, logged = began;
    enum status status;
    while (trainer->step < total) {
        if ((status = trainer_step(trainer, error)) != STATUS_OK) return status;
        train_curve_note(&t->curve, trainer);
        const double now = clock_seconds();
        out->tokens_per_second = (double)(trainer->step - first) * step_tokens / (now - began);
        if (now - logged >= LOG_SECONDS) {
            monitor_log(monitor, "step %lld of %lld: loss %.4f, learning rate %.3g, gradient norm %.3g, %.0f tokens/s",
                        (long long)trainer->step, (long long)total, trainer->loss,
                        schedule_rate(&trainer->setup.schedule, trainer->step - 1), trainer->gradient_norm,
                        out->tokens_per_second);
            logged = now;
        }
        if (checkpoint_due(t)) {
            if ((status = checkpoint_make(t, error)) != STATUS_OK) return status;
            saved = clock_seconds();
        } else if (now - saved >= save_every) {
            if ((status = state_save(t, error)) != STATUS_OK) return status;
            saved = clock_seconds();
        }
        monitor_progress(monitor, trainer->step, total, "step");
    }
    return STATUS_OK;
}

static void curve_take(struct training *t, struct train_result *out)
{
    out->curve = t->curve.points;
    out->curve_count = t->curve.count;
    t->curve.points = NULL;
}

static void result_take(struct training *t, struct train_result *out)
{
    const bool averages =
        t->trainer.ema.decay > 0; /* then the last one is the average, and the one before it the run's own */
    const struct state_checkpoint *last = &t->checkpoints[t->checkpoint_count - 1];
    out->ema_loss = averages ? last->validation_loss : NAN;
    out->validation_loss = last[averages ? -1 : 0].validation_loss;
    out->checkpoints = t->checkpoints;
    out->checkpoint_count = t->checkpoint_count;
    t->checkpoints = NULL;
    out->final_loss = t->trainer.loss;
    out->steps = t->trainer.step;
    out->tokens = out->steps * t->params->batch_sequences * t->params->sequence_length;
}

enum status train_run(const struct train_request *request, struct train_result *out, struct error *error)
{
    struct training t = {.request = request, .params = request->params, .backend = request->backend};
    struct model_config config;
    enum status status;
    *out = (struct train_result){0};
    if ((status = train_check(request->params, error)) != STATUS_OK) goto done;
    if ((status = config_load(&t, &config, error)) != STATUS_OK) goto done;
    if ((status = data_load(&t, &config, error)) != STATUS_OK) goto done;
    if ((status = trainer_prepare(&t, &config, error)) != STATUS_OK) goto done;
    if ((status = validation_load(&t, &config, error)) != STATUS_OK) goto done;
    if ((status = begin(&t, error)) != STATUS_OK) goto done;
    status = steps_run(&t, out, error);
    curve_take(&t, out);
    if (status == STATUS_OK) result_take(&t, out);
done:
    trainer_reset(&t.trainer);
    parameters_layout_free(t.layout);
    chunks_reset(&t.validation);
    train_curve_reset(&t.curve);
    memory_free(t.checkpoints);
    memory_free(t.tokens);
    tokenizer_close(t.tokenizer);
    memory_free(t.config_text);
    return status;
}

void train_result_reset(struct train_result *result)
{
    memory_free(result->checkpoints);
    memory_free(result->curve);
    *result = (struct train_result){0};
}

void train_checkpoint_name(int64_t step, bool averaged, char *out, size_t size)
{
    (void)snprintf(out, size, "step%07lld%s", (long long)step, averaged ? "-ema" : "");
}
