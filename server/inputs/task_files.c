#include "inputs/task_files.h"

#include "base/words.h"
#include "files/file.h"
#include "inputs/roots.h"
#include "objects/objects_place.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20, SMALL_BYTES = 8 << 20 }; /* small files are parsed when the run is posted */

#define AT(field) offsetof(struct task_param, field)

const struct param task_file_params[] = {
    {.name = "name",
     .type = PARAM_CHOICE,
     .offset = AT(name),
     .choices = task_names,
     .help = "The task, as the harness calls it"},
    {.name = "path", .type = PARAM_STRING, .offset = AT(path), .maximum = 4000, .help = "Its records, JSON lines"},
    {.name = "fewshot",
     .type = PARAM_STRING,
     .offset = AT(fewshot),
     .fallback = "null",
     .nullable = true,
     .maximum = 4000,
     .help = "The records that examples are drawn from"},
    {.name = "sha256",
     .type = PARAM_STRING,
     .offset = AT(sha256),
     .fallback = "null",
     .nullable = true,
     .maximum = 64,
     .help = "What the file must be; null: as it is now, which is written here"},
    {.name = "fewshot_sha256",
     .type = PARAM_STRING,
     .offset = AT(fewshot_sha256),
     .fallback = "null",
     .nullable = true,
     .maximum = 64,
     .help = "Likewise"},
    {0},
};

bool task_files_named(const char *name, char known[TASK_FILES_NAMES])
{
    known[0] = '\0';
    for (size_t i = 0; i < task_count; i++) {
        if (strcmp(task_names[i], name) == 0) return true;
        words_add(known, TASK_FILES_NAMES, "%s", task_names[i]);
        assert(strlen(known) < TASK_FILES_NAMES - 1);
    }
    return false;
}

/* SHA-256 of the file's bytes, as sha256sum has it. */
static enum status hash_of(const char *path, char out[HASH_TEXT], int64_t *size, struct error *error)
{
    struct file *file = NULL;
    struct hash *hash = NULL;
    char *chunk = NULL;
    enum status status = file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, TASK_SET_FILE_LIMIT, &file, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    if (status == STATUS_OK && (chunk = malloc(CHUNK)) == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory to read a file");
    *size = status == STATUS_OK ? file_bytes(file) : 0;
    for (int64_t at = 0; at < *size && status == STATUS_OK; at += CHUNK) {
        const size_t length = *size - at < CHUNK ? (size_t)(*size - at) : CHUNK;
        status = file_read(file, at, chunk, length, error);
        if (status == STATUS_OK) hash_add(hash, chunk, length);
    }
    if (status == STATUS_OK) {
        status = hash_finish(hash, out, error);
        hash = NULL;
    }
    hash_free(hash);
    free(chunk);
    file_close(file);
    return status;
}

/* A file of a task: found, hashed, and compared with the expected hash. */
struct found {
    char path[PATH_MAX], sha256[HASH_TEXT];
    int64_t size;
};

static enum status find(const struct roots *roots, const char *path, const char *expected, const char *pointer,
                        enum status otherwise, struct found *out, struct error *error)
{
    if (objects_place_is(path))
        return error_set_at(error, STATUS_UNSUPPORTED, pointer,
                            "tasks' files are not read out of a bucket: copy the file below a root");
    enum status status = roots_resolve(roots, path, pointer, out->path, sizeof out->path, error);
    struct error cause;
    if (status != STATUS_OK) return status;
    if ((status = hash_of(out->path, out->sha256, &out->size, &cause)) != STATUS_OK)
        return error_set_at(error, status, pointer, "%s", cause.detail);
    if (expected == NULL || strcmp(expected, out->sha256) == 0) return STATUS_OK;
    return error_set_at(error, otherwise, pointer, "is not the file that was asked for: its SHA-256 is %s, expected %s",
                        out->sha256, expected);
}

static enum status note(json_t *object, const char *key, const char *sha256, json_t *identity, struct error *error)
{
    if (json_object_set_new(object, key, json_string(sha256)) == 0 &&
        json_array_append_new(identity, json_string(sha256)) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
}

static enum status check_records(const struct task_param *task, const struct found *eval, const struct found *fewshot,
                                 int shots, int64_t limit, const char *pointer, struct error *error)
{
    struct task_set *set = NULL;
    struct error cause;
    if (eval->size + (shots > 0 ? fewshot->size : 0) > SMALL_BYTES) return STATUS_OK;
    const struct task_set_source source = {&task_table[task->name], eval->path, shots > 0 ? fewshot->path : NULL, shots,
                                           limit};
    const enum status status = task_set_open(&source, &set, &cause);
    task_set_close(set);
    if (status == STATUS_OK) return STATUS_OK;
    /* the request is well-formed, but the file is not */
    return error_set_at(error, status == STATUS_MALFORMED ? STATUS_INVALID : status, pointer, "%s", cause.detail);
}

static enum status check_one(struct run_request *request, const struct task_param *task, int64_t index, int shots,
                             int64_t limit, json_t *identity, struct error *error)
{
    json_t *object = json_array_get(json_object_get(request->params, "tasks"), (size_t)index);
    struct found *found = calloc(2, sizeof *found);
    char pointer[64];
    enum status status = found == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run") : STATUS_OK;
    (void)snprintf(pointer, sizeof pointer, "/params/tasks/%lld/path", (long long)index);
    if (status == STATUS_OK)
        status = find(request->roots, task->path, task->sha256, pointer, STATUS_INVALID, &found[0], error);
    if (status == STATUS_OK) status = note(object, "sha256", found[0].sha256, identity, error);
    (void)snprintf(pointer, sizeof pointer, "/params/tasks/%lld/fewshot", (long long)index);
    if (status == STATUS_OK && shots == 0 && task->fewshot != NULL) /* the file is not needed without shots, but a wrong
                                                                     * path is still refused */
        status = find(request->roots, task->fewshot, task->fewshot_sha256, pointer, STATUS_INVALID, &found[1], error);
    if (status == STATUS_OK && shots > 0) {
        status =
            task->fewshot == NULL
                ? error_set_at(error, STATUS_INVALID, pointer,
                               "is missing: %d shots need examples; name a file or set shots to 0", shots)
                : find(request->roots, task->fewshot, task->fewshot_sha256, pointer, STATUS_INVALID, &found[1], error);
        if (status == STATUS_OK) status = note(object, "fewshot_sha256", found[1].sha256, identity, error);
    }
    (void)snprintf(pointer, sizeof pointer, "/params/tasks/%lld", (long long)index);
    if (status == STATUS_OK) status = check_records(task, &found[0], &found[1], shots, limit, pointer, error);
    free(found);
    return status;
}

enum status task_files_check(struct run_request *request, const struct task_param *tasks, int64_t count, int shots,
                             int64_t limit, struct error *error)
{
    json_t *identity = json_array();
    enum status status = identity == NULL || json_object_set_new(request->identity, "tasks", identity) != 0
                             ? error_set(error, STATUS_NO_MEMORY, "no memory for a run")
                             : STATUS_OK;
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        for (int64_t j = 0; j < i; j++)
            if (tasks[j].name == tasks[i].name) {
                char pointer[64];
                (void)snprintf(pointer, sizeof pointer, "/params/tasks/%lld/name", (long long)i);
                return error_set_at(error, STATUS_INVALID, pointer, "\"%s\" is named twice", task_names[tasks[i].name]);
            }
        status = check_one(request, &tasks[i], i, shots, limit, identity, error);
    }
    return status;
}

enum status task_files_open(const struct run_context *context, const struct task_param *tasks, int64_t count, int shots,
                            int64_t limit, struct task_set **sets, struct error *error)
{
    struct found *found = calloc(2, sizeof *found);
    enum status status = found == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a run") : STATUS_OK;
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct task_param *task = &tasks[i];
        status = find(context->roots, task->path, task->sha256, "", STATUS_INPUT_CHANGED, &found[0], error);
        if (status == STATUS_OK && shots > 0)
            status =
                find(context->roots, task->fewshot, task->fewshot_sha256, "", STATUS_INPUT_CHANGED, &found[1], error);
        const struct task_set_source source = {&task_table[task->name], found[0].path, shots > 0 ? found[1].path : NULL,
                                               shots, limit};
        if (status == STATUS_OK) status = task_set_open(&source, &sets[i], error);
        if (status == STATUS_OK) status = monitor_check(context->monitor, error);
    }
    free(found);
    return status;
}

void task_files_close(struct task_set **sets, int64_t count)
{
    for (int64_t i = 0; sets != NULL && i < count; i++) task_set_close(sets[i]);
}
