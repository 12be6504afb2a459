#include "kinds/quantize_export.h"

#include "base/directory.h"
#include "base/memory.h"
#include "inputs/posted_model.h"
#include "kinds/artifacts.h"
#include "kinds/made_checkpoint.h"
#include "kinds/method.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MOST = 256 };

/* ---- what is told ---- */

#define EXPORTED(field) offsetof(struct quantize_exported, field)

static const struct result_field name_item = {.type = RESULT_CHARS};
static const struct result_field export_fields[] = {
    {.name = "format", .type = RESULT_TEXT, .offset = EXPORTED(format), .help = "As it was asked for"},
    {.name = "artifact", .type = RESULT_CHARS, .offset = EXPORTED(artifact), .help = "The weights"},
    {.name = "artifacts",
     .type = RESULT_LIST,
     .offset = EXPORTED(files),
     .count = EXPORTED(file_count),
     .stride = QUANTIZE_EXPORT_NAME,
     .item = &name_item,
     .help = "All of its files, for one directory"},
    {.name = "checkpoint",
     .type = RESULT_CHARS,
     .offset = EXPORTED(checkpoint.text),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = EXPORTED(registered),
     .help = "A dequantized one is registered too, in the trajectory NAME-quantized"},
    {0},
};
const struct result_shape quantize_export_shape = {
    .help = "The exported checkpoint; null where no export was asked for", .fields = export_fields};

void quantize_export_reset(struct quantize_exported *exported)
{
    memory_free(exported->files);
    *exported = (struct quantize_exported){0};
}

static const char too_long[] = "an export's path is too long";

/* ---- when posted ---- */

struct export_question {
    int format;
    const struct quantize_method *method;
};

static enum status export_look(const struct model *model, const void *context, struct error *error)
{
    const struct export_question *question = context;
    return export_check(question->format, question->method, model, error);
}

enum status quantize_export_check(const struct run_request *request, int format, const char *checkpoint,
                                  const struct quantize_method *method, struct error *error)
{
    struct quantize_method complete = *method;
    const struct export_question question = {format, &complete};
    struct export_grid grid;
    struct error cause = {0};
    char pointer[sizeof cause.pointer];
    enum status status;
    if (format == EXPORT_NONE) return STATUS_OK;
    if ((status = quantize_method_complete(&complete, &cause)) != STATUS_OK) goto done;
    if ((status = export_format_check(export_format_by_id(format), &complete, &grid, &cause)) != STATUS_OK) goto done;
    status = posted_model_ask(request, checkpoint, export_look, &question, &cause);
done:
    if (status == STATUS_OK) return STATUS_OK;
    (void)snprintf(pointer, sizeof pointer, "/params%.100s", cause.pointer);
    return error_set_at(error, status, pointer, "%s", cause.detail);
}

/* ---- in the run ---- */

/* Each attempt has a directory of its own, WORK/export-EPOCH. One that lost its run without knowing may still remove or
 * move away what it has published: by a path that is not there any more once the next attempt took the files over. */
#define EXPORT_PREFIX "export-"

static enum status own_directory(const struct run_context *context, char out[PATH_MAX], struct error *error)
{
    char name[sizeof EXPORT_PREFIX + 24];
    (void)snprintf(name, sizeof name, EXPORT_PREFIX "%lld", (long long)context->epoch);
    return directory_path(context->work_directory, name, too_long, out, error);
}

/* The epoch of an export's directory; 0: it is none. */
static int64_t epoch_of(const char *name)
{
    const size_t prefix = sizeof EXPORT_PREFIX - 1;
    return strncmp(name, EXPORT_PREFIX, prefix) == 0 ? strtoll(name + prefix, NULL, 10) : 0;
}

/* Takes over the files of the last attempt before this one, if it left any. */
static enum status take_over(const struct run_context *context, const char *directory, struct error *error)
{
    char name[sizeof EXPORT_PREFIX + 24], last[PATH_MAX];
    int64_t found = 0;
    DIR *stream = opendir(context->work_directory);
    if (stream == NULL) return error_set_errno(error, "cannot list a run's work directory");
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        const int64_t epoch = epoch_of(entry->d_name);
        if (epoch > found && epoch < context->epoch) found = epoch;
    }
    (void)closedir(stream);
    (void)snprintf(name, sizeof name, EXPORT_PREFIX "%lld", (long long)found);
    const enum status status = directory_path(context->work_directory, name, too_long, last, error);
    if (status != STATUS_OK || found == 0) return status;
    /* What is not there any more, that attempt has just removed. Files of this lease are there already
     * where the database went back to a backup. */
    if (rename(last, directory) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST) return STATUS_OK;
    return error_set_errno(error, "cannot take over an export");
}

enum status quantize_export_open(const struct run_context *context, int format, const struct quantize_method *method,
                                 const struct inputs *inputs, struct export_job **out, struct error *error)
{
    char directory[PATH_MAX];
    enum status status = own_directory(context, directory, error);
    *out = NULL;
    if (status == STATUS_OK) status = take_over(context, directory, error);
    return status == STATUS_OK ? export_open(format, method, inputs->model, directory, out, error) : status;
}

static const char *media_type(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".json") == 0 ? "application/json" : "application/octet-stream";
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Sorted by name, so that equal runs give equal results. */
static enum status list_files(const char *directory, struct quantize_exported *out, struct error *error)
{
    enum status status = memory_new(FILES_MOST, sizeof *out->files, "an export", &out->files, error);
    DIR *stream = status == STATUS_OK ? opendir(directory) : NULL;
    if (status != STATUS_OK) return status;
    if (stream == NULL) return error_set_errno(error, "cannot list an export");
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        if (out->file_count == FILES_MOST)
            status = error_set(error, STATUS_UNSUPPORTED, "an export of more than %d files", FILES_MOST);
        else
            (void)snprintf(out->files[out->file_count++], sizeof out->files[0], "%.127s", entry->d_name);
    }
    (void)closedir(stream);
    qsort(out->files, (size_t)out->file_count, sizeof out->files[0], compare_names);
    return status;
}

static enum status publish_files(const struct run_context *context, const struct export_job *job, const char *directory,
                                 struct quantize_exported *out, struct error *error)
{
    char path[PATH_MAX];
    enum status status = list_files(directory, out, error);
    (void)snprintf(out->artifact, sizeof out->artifact, "%s", export_weights_name(job));
    for (int64_t i = 0; status == STATUS_OK && i < out->file_count; i++) {
        const char *name = out->files[i];
        if ((status = directory_path(directory, name, too_long, path, error)) == STATUS_OK)
            status = artifact_publish_file(context->artifacts, name, media_type(name), path, context->monitor, error);
    }
    return status;
}

static enum status sync_directory(const char *path, struct error *error)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool failed = descriptor < 0 || fsync(descriptor) != 0;
    const enum status status = failed ? error_set_errno(error, "cannot make a checkpoint durable") : STATUS_OK;
    if (descriptor >= 0) (void)close(descriptor);
    return status;
}

/* Moves the export to $DATA/checkpoints/RUN/dequantized. Another attempt may have put files there, which have the same
 * bits. They are not removed first: if that attempt moved the export away, nothing would take their place. */
static enum status move_directory(const struct run_context *context, const char *from, char to[PATH_MAX],
                                  struct error *error)
{
    char parent[PATH_MAX], run[PATH_MAX];
    enum status status;
    if ((status = directory_path(context->data_directory, "checkpoints", too_long, parent, error)) != STATUS_OK)
        return status;
    if ((status = made_checkpoint_directory(context, run, sizeof run, error)) != STATUS_OK) return status;
    if ((status = directory_path(run, "dequantized", too_long, to, error)) != STATUS_OK) return status;
    export_tidy(from);
    if ((status = export_publish(from, to, error)) != STATUS_OK) return status;
    return sync_directory(parent, error);
}

static enum status register_directory(const struct run_context *context, const struct quantize_method *method,
                                      const struct inputs *inputs, const char *path, struct quantize_exported *out,
                                      struct error *error)
{
    const struct checkpoint *row = &inputs->row;
    char trajectory[STORE_NAME], name[STORE_NAME], ending[64], label[METHOD_LABEL];
    method_label(method, label);
    json_t *origin = json_pack("{s[s] ss ss}", "checkpoints", row->id.text, "run", context->run, "method", label);
    (void)snprintf(ending, sizeof ending, "-%s-%.8s", quantizer_by_id(method->quantizer)->name, context->run);
    store_name_extend(row->trajectory_name, "-quantized", trajectory);
    store_name_extend(row->name, ending, name);
    const struct checkpoint_new new = {
        .trajectory = trajectory,
        .name = name,
        .step = row->step >= 0 ? &row->step : NULL,
        .tokens = row->tokens >= 0 ? &row->tokens : NULL,
        .learning_rate = isfinite(row->learning_rate) ? &row->learning_rate : NULL,
        .path = path,
        .derived_from = origin,
    };
    enum status status = origin == NULL ? error_no_memory(error, "an export") : STATUS_OK;
    if (status == STATUS_OK) status = made_checkpoint_register(context, &new, &out->checkpoint, error);
    out->registered = status == STATUS_OK;
    json_decref(origin);
    return status;
}

enum status quantize_export_publish(const struct run_context *context, int format, const struct quantize_method *method,
                                    const struct inputs *inputs, struct export_job *job, struct quantize_exported *out,
                                    struct error *error)
{
    char directory[PATH_MAX], path[PATH_MAX];
    enum status status = export_finish(job, context->monitor, error);
    *out = (struct quantize_exported){.format = export_format_by_id(format)->name};
    if (status == STATUS_OK) status = own_directory(context, directory, error);
    if (status == STATUS_OK) status = publish_files(context, job, directory, out, error);
    if (status == STATUS_OK && format != EXPORT_DEQUANTIZED)
        export_remove(directory);
    else if (status == STATUS_OK && (status = move_directory(context, directory, path, error)) == STATUS_OK)
        status = register_directory(context, method, inputs, path, out, error);
    if (status != STATUS_OK) quantize_export_reset(out);
    return status;
}
