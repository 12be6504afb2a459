#include "backup/base_list.h"

#include "backup/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static int is_base(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return strlen(name) == BASE_NAME - 1 && strspn(name, "0123456789") == 8 && name[8] == 'T' &&
           name[BASE_NAME - 2] == 'Z';
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

enum status base_list_path(const char *archive, const char *name, char *out, struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/base/%s", archive, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "the archive's path is too long");
}

static int64_t bytes_of(const json_t *files)
{
    size_t index;
    const json_t *file;
    int64_t bytes = 0;
    json_array_foreach(files, index, file) bytes += json_integer_value(json_object_get(file, "bytes"));
    return bytes;
}

static void read_entry(const char *archive, const char *name, struct base_entry *out)
{
    char path[PATH_MAX];
    json_t *manifest = NULL;
    struct error error = {.detail = ""};
    (void)snprintf(out->name, sizeof out->name, "%.20s", name);
    enum status status = base_list_path(archive, name, path, &error);
    if (status == STATUS_OK) status = manifest_read(path, &manifest, &error);
    (void)snprintf(out->ended_at, sizeof out->ended_at, "%.31s", text_of(manifest, "ended_at"));
    (void)snprintf(out->segment, sizeof out->segment, "%.24s", text_of(manifest, "segment"));
    out->bytes = bytes_of(json_object_get(manifest, "files"));
    if (status == STATUS_OK && (out->ended_at[0] == '\0' || strlen(out->segment) != sizeof out->segment - 1))
        status =
            error_set(&error, STATUS_CORRUPT, "%.200s is no copy for an archive: its manifest has no segment", path);
    if (status != STATUS_OK) (void)snprintf(out->fault, sizeof out->fault, "%.299s", error.detail);
    json_decref(manifest);
}

enum status base_list_read(const char *archive, struct base_list *out, struct error *error)
{
    char parent[PATH_MAX];
    struct dirent **entries = NULL;
    *out = (struct base_list){0};
    const enum status status = base_list_path(archive, "", parent, error);
    if (status != STATUS_OK) return status;
    const int count = scandir(parent, &entries, is_base, by_name);
    if (count < 0)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "listing %.300s: %s", parent,
                         strerror(errno));
    out->items = calloc((size_t)count + 1, sizeof *out->items);
    for (int i = 0; i < count; i++) {
        if (out->items != NULL) read_entry(archive, entries[i]->d_name, &out->items[out->count++]);
        free(entries[i]);
    }
    free(entries);
    return out->items != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a list of copies");
}

void base_list_reset(struct base_list *list)
{
    free(list->items);
    *list = (struct base_list){0};
}

enum status base_list_verify(const char *archive, const struct base_entry *entry, struct error *error)
{
    char path[PATH_MAX];
    json_t *manifest = NULL;
    if (entry->fault[0] != '\0') return error_set(error, STATUS_CORRUPT, "%s", entry->fault);
    enum status status = base_list_path(archive, entry->name, path, error);
    if (status == STATUS_OK) status = manifest_read(path, &manifest, error);
    if (status == STATUS_OK) status = manifest_verify(json_object_get(manifest, "files"), path, error);
    json_decref(manifest);
    return status;
}
