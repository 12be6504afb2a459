#include "dataset/dataset.h"

#include "base/array.h"
#include "files/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void dataset_files_free(struct dataset_files *files)
{
    for (int64_t i = 0; i < files->count; i++) free(files->paths[i]);
    free(files->paths);
    *files = (struct dataset_files){0};
}

static enum status add(struct dataset_files *files, int64_t *capacity, char *path, struct error *error)
{
    if (path == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a list of files");
    enum status status = array_grow(&files->paths, files->count + 1, capacity, sizeof *files->paths, error);
    if (status == STATUS_OK)
        files->paths[files->count++] = path;
    else
        free(path);
    return status;
}

static bool is_token_file(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".npy") == 0 || strcmp(dot, ".bin") == 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum status list_directory(const struct dataset_source *source, DIR *directory, struct dataset_files *out,
                                  struct error *error)
{
    int64_t capacity = 0;
    enum status status = STATUS_OK;
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        struct stat info;
        char *path = NULL;
        if (entry->d_name[0] == '.') continue;
        if (source->format == DATASET_TOKENS && !is_token_file(entry->d_name)) continue;
        if (fstatat(dirfd(directory), entry->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode)) continue;
        if (asprintf(&path, "%s/%s", source->path, entry->d_name) < 0) path = NULL;
        status = add(out, &capacity, path, error);
    }
    if (out->count > 0) qsort(out->paths, (size_t)out->count, sizeof *out->paths, by_name);
    if (status == STATUS_OK && out->count == 0)
        status = error_set(error, STATUS_NOT_FOUND, "the directory has no %s",
                           source->format == DATASET_TOKENS ? ".npy or .bin files" : "files");
    return status;
}

enum status dataset_files_list(const struct dataset_source *source, struct dataset_files *out, struct error *error)
{
    bool is_directory;
    int64_t capacity = 0;
    *out = (struct dataset_files){0};
    if (source->format == DATASET_INLINE) return STATUS_OK;
    enum status status = file_is_directory(source->path, &is_directory, error);
    if (status != STATUS_OK) return status;
    if (!is_directory) return add(out, &capacity, strdup(source->path), error);
    DIR *directory = NULL;
    if ((status = file_directory_list(source->path, &directory, error)) != STATUS_OK) return status;
    status = list_directory(source, directory, out, error);
    closedir(directory);
    if (status != STATUS_OK) dataset_files_free(out);
    return status;
}
