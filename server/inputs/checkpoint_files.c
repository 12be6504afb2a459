#include "inputs/checkpoint_files.h"

#include "inputs/public_rate.h"
#include "inputs/trainer_state.h"
#include "model/architecture.h"
#include "tokenizer/tokenizer_place.h"
#include "json/written.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Adds the given configuration in canonical form, because its white space differs between the request and the
 * database. */
static enum status add_given(struct hash *hash, const struct model *model, struct error *error)
{
    const char *given = weights_given_config(model->weights);
    if (given == NULL) return STATUS_OK;
    json_t *value = json_loads(given, 0, NULL);
    char *text = value == NULL ? NULL : written_json(value, JSON_COMPACT | JSON_SORT_KEYS);
    if (text != NULL) hash_add(hash, text, strlen(text));
    const bool added = text != NULL;
    free(text);
    json_decref(value);
    return added ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a configuration");
}

/* Adds every weights file, config.json if there is one, and the configuration given beside it to the hash; files are
 * added by `add`. */
static enum status hash_files(const struct model *model, const struct monitor *monitor,
                              enum status (*add)(struct hash *, const char *, struct error *), char out[HASH_TEXT],
                              struct error *error)
{
    struct hash *hash = NULL;
    char path[PATH_MAX];
    enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    const int count = weights_file_count(model->weights);
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        struct weights_file file;
        weights_file(model->weights, i, &file);
        bytes += file.bytes;
    }
    hash_watch(hash, monitor, bytes);
    for (int i = 0; i <= count && status == STATUS_OK; i++) {
        struct weights_file file = {.name = "config.json"};
        if (i < count) weights_file(model->weights, i, &file);
        (void)snprintf(path, sizeof path, "%s/%s", weights_directory(model->weights), file.name);
        if (i < count || access(path, F_OK) == 0) status = add(hash, path, error);
    }
    if (status == STATUS_OK) status = add_given(hash, model, error);
    if (status == STATUS_OK) return hash_finish(hash, out, error);
    hash_free(hash);
    return status;
}

enum status checkpoint_files_fingerprint(const struct model *model, char out[HASH_TEXT], struct error *error)
{
    return hash_files(model, NULL, hash_add_sample, out, error);
}

enum status checkpoint_files_content(const struct model *model, const struct monitor *monitor, char out[HASH_TEXT],
                                     struct error *error)
{
    return hash_files(model, monitor, hash_add_file, out, error);
}

static json_t *list_files(const struct model *model)
{
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < weights_file_count(model->weights); i++) {
        struct weights_file file;
        weights_file(model->weights, i, &file);
        (void)json_array_append_new(list, json_pack("{ss sI}", "name", file.name, "bytes", (json_int_t)file.bytes));
    }
    return list;
}

/* What trainer_state.json says goes before what the weights' own container says. */
static void read_training_state(const char *directory, struct checkpoint_files *out)
{
    struct trainer_state state;
    trainer_state_read(directory, &state);
    if (state.step >= 0) out->step = state.step;
    if (state.tokens > 0) out->tokens = state.tokens;
    out->learning_rate = state.learning_rate;
}

/* A pipe or a device in place of the tokenizer would fail the first run that reads text, or make it wait. */
static enum status check_tokenizer(const char *path, struct error *error)
{
    char tokenizer[PATH_MAX];
    struct stat found;
    if (!tokenizer_place_find(path, tokenizer, sizeof tokenizer, NULL) || stat(tokenizer, &found) != 0)
        return STATUS_OK;
    if (S_ISREG(found.st_mode)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "its tokenizer.json is not a regular file");
}

/* When reading is too slow for a waiting request, the first run computes the hash. */
static enum status hash_at_once(const struct model *model, const struct monitor *monitor, char out[HASH_TEXT],
                                struct error *error)
{
    const enum status status = checkpoint_files_content(model, monitor, out, error);
    if (status != STATUS_TOO_LARGE) return status;
    out[0] = '\0';
    return STATUS_OK;
}

enum status checkpoint_files_read(const char *path, const char *config, const struct monitor *monitor,
                                  struct checkpoint_files *out, struct error *error)
{
    struct model *model = NULL;
    enum status status;
    *out = (struct checkpoint_files){.step = -1, .tokens = -1, .learning_rate = NAN};
    if ((status = model_open_as(path, config, &model, error)) != STATUS_OK) goto done;
    if ((status = check_tokenizer(path, error)) != STATUS_OK) goto done;
    out->parameters = model->parameters;
    out->bytes = weights_bytes(model->weights);
    (void)snprintf(out->architecture, sizeof out->architecture, "%s", model->config.architecture->model_type);
    (void)snprintf(out->dtype, sizeof out->dtype, "%s", dtype_info(weights_dtype(model->weights, NULL))->name);
    if ((status = checkpoint_files_fingerprint(model, out->fingerprint, error)) != STATUS_OK) goto done;
    if (out->bytes <= HASH_AT_ONCE) status = hash_at_once(model, monitor, out->sha256, error);
    if (status != STATUS_OK) goto done;
    if ((out->files = list_files(model)) == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a list of files");
    struct weights_progress progress;
    weights_progress(model->weights, &progress);
    out->step = progress.step;
    out->tokens = progress.tokens;
    read_training_state(weights_directory(model->weights), out);
done:
    model_close(model);
    if (status != STATUS_OK) checkpoint_files_reset(out);
    return status;
}

void checkpoint_files_reset(struct checkpoint_files *files)
{
    json_decref(files->files);
    *files = (struct checkpoint_files){0};
}

/* Step, tokens and learning rate that the request leaves out: those of the files, then those that were guessed, and of
 * the rate those of public models. */
static void fill_progress(struct checkpoint_new *new, const struct checkpoint_guess *guess,
                          struct checkpoint_files *files)
{
    if (guess != NULL && files->step < 0) files->step = guess->step;
    if (guess != NULL && files->tokens < 0) files->tokens = guess->tokens;
    if (new->step == NULL && files->step >= 0) new->step = &files->step;
    if (new->tokens == NULL && files->tokens >= 0) new->tokens = &files->tokens;
    if (new->learning_rate != NULL) return;
    if (!isfinite(files->learning_rate))
        files->learning_rate = public_rate(new->source, new->trajectory, new->name, files->parameters,
                                           new->step != NULL ? *new->step : -1);
    if (isfinite(files->learning_rate)) new->learning_rate = &files->learning_rate;
}

enum status checkpoint_files_register(struct connection *connection, const struct checkpoint_new *row,
                                      const struct checkpoint_guess *guess, const struct monitor *monitor,
                                      enum store_outcome *outcome, json_t **document, struct error *error)
{
    struct checkpoint_files files;
    struct checkpoint_new new = *row;
    json_t *source = NULL;
    char *config = written_json(json_object_get(row->source, "config"), JSON_COMPACT); /* NULL when there is none */
    enum status status = checkpoint_files_read(row->path, config, monitor, &files, error);
    free(config);
    if (status != STATUS_OK) return status;
    fill_progress(&new, guess, &files);
    if (new.source == NULL) new.source = source = json_pack("{ss}", "path", row->path);
    /* the path in this machine's cache is not stored; the path where a run made the checkpoint is stored beside its
     * bucket */
    if (json_object_get(new.source, "commit") != NULL && json_object_get(new.derived_from, "run") == NULL)
        new.path = NULL;
    new.architecture = files.architecture;
    new.parameters = &files.parameters;
    new.bytes = &files.bytes;
    new.dtype = files.dtype;
    new.fingerprint = files.fingerprint;
    new.files = files.files;
    new.sha256 = files.sha256[0] != '\0' ? files.sha256 : NULL;
    status = checkpoint_insert(connection, &new, outcome, document, error);
    json_decref(source);
    checkpoint_files_reset(&files);
    return status;
}
