#include "backup/manifest.h"

#include "backup/copy.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_writer.h"
#include "inputs/hash.h"
#include "json/written.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_MOST = 256 << 20 };

enum status manifest_write(const char *directory, json_t *manifest, struct error *error)
{
    char path[PATH_MAX], sha256[HASH_TEXT];
    enum status status = hash_json(manifest, sha256, error);
    if (status != STATUS_OK) return status;
    char *text = json_object_set_new(manifest, "sha256", json_string(sha256)) == 0
                     ? written_json(manifest, JSON_INDENT(1) | JSON_PRESERVE_ORDER)
                     : NULL;
    if (text == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a manifest");
    else if (snprintf(path, sizeof path, "%s/" MANIFEST_NAME, directory) >= (int)sizeof path)
        status = error_set(error, STATUS_INVALID, "the backup's path is too long");
    else
        status = file_writer_put(path, text, strlen(text), error);
    free(text);
    return status;
}

static enum status damaged(struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "the backup's " MANIFEST_NAME " is damaged");
}

/* Whether the name stays below the backup: relative, without "..". */
static bool path_is_plain(const char *path)
{
    if (path[0] == '\0' || path[0] == '/') return false;
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '\0' || part[0] == '/' || strncmp(part, "../", 3) == 0 || strcmp(part, "..") == 0) return false;
    }
    return true;
}

static bool files_have_form(const json_t *files)
{
    size_t index;
    const json_t *file;
    if (!json_is_array(files)) return false;
    json_array_foreach(files, index, file)
    {
        const char *path = json_string_value(json_object_get(file, "path")),
                   *sha256 = json_string_value(json_object_get(file, "sha256"));
        if (path == NULL || !path_is_plain(path) || sha256 == NULL || strlen(sha256) != HASH_TEXT - 1 ||
            !json_is_integer(json_object_get(file, "bytes")))
            return false;
    }
    return true;
}

static enum status check(json_t *manifest, struct error *error)
{
    char sha256[HASH_TEXT];
    json_t *said = json_incref(json_object_get(manifest, "sha256"));
    enum status status = damaged(error);
    if (json_is_string(said) && json_object_del(manifest, "sha256") == 0) status = hash_json(manifest, sha256, error);
    if (status == STATUS_OK && strcmp(sha256, json_string_value(said)) != 0) status = damaged(error);
    json_decref(said);
    if (status != STATUS_OK) return status;
    const json_int_t format = json_integer_value(json_object_get(manifest, "format"));
    if (format != MANIFEST_FORMAT)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the backup has format %lld, this deltaq knows %d: use a newer deltaq", (long long)format,
                         MANIFEST_FORMAT);
    if (files_have_form(json_object_get(manifest, "files")) &&
        files_have_form(json_object_get(manifest, "elsewhere")) &&
        json_is_string(json_object_get(manifest, "data_directory")) &&
        json_is_integer(json_object_get(manifest, "schema")))
        return STATUS_OK;
    return damaged(error);
}

enum status manifest_read(const char *directory, json_t **out, struct error *error)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    json_error_t cause;
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/" MANIFEST_NAME, directory) >= (int)sizeof path)
        return error_set(error, STATUS_INVALID, "the backup's path is too long");
    enum status status = file_read_all(AT_FDCWD, path, MANIFEST_MOST, &text, &size, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, status, "%.300s is no backup, or one that was not finished: it has no " MANIFEST_NAME,
                         directory);
    if (status != STATUS_OK) return status;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES, &cause);
    memory_free(text);
    if (*out != NULL)
        status = check(*out, error);
    else if (json_error_code(&cause) == json_error_out_of_memory)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the backup's " MANIFEST_NAME);
    else
        status = damaged(error);
    if (status == STATUS_OK) return status;
    json_decref(*out);
    *out = NULL;
    return status;
}

static enum status verify_one(const json_t *file, const char *directory, struct error *error)
{
    char sha256[HASH_TEXT];
    int64_t bytes = 0;
    struct error cause = {0};
    const char *name = json_string_value(json_object_get(file, "path"));
    const enum status status = copy_digest(directory, name, &bytes, sha256, &cause);
    if (status != STATUS_OK) return error_set(error, STATUS_CORRUPT, "the backup is not whole: %.400s", cause.detail);
    if (bytes == json_integer_value(json_object_get(file, "bytes")) &&
        strcmp(sha256, json_string_value(json_object_get(file, "sha256"))) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "the backup is damaged: %.150s/%.200s is not what was written", directory,
                     name);
}

enum status manifest_verify(const json_t *files, const char *directory, struct error *error)
{
    size_t index;
    const json_t *file;
    enum status status = STATUS_OK;
    json_array_foreach(files, index, file) if (status == STATUS_OK) status = verify_one(file, directory, error);
    return status;
}
