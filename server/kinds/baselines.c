#include "kinds/baselines.h"

#include "base/version.h"
#include "inputs/hash.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_BYTES (2LL << 30) /* of all files together */

static enum status key_make(const struct inputs *inputs, const struct sequences *evaluation, char out[HASH_TEXT],
                            struct error *error)
{
    struct hash *hash = NULL;
    char description[256];
    enum status status = hash_new(&hash, error);
    if (status != STATUS_OK) return status;
    backend_describe(inputs->backend, description, sizeof description);
    hash_add(hash, DELTAQ_VERSION, sizeof DELTAQ_VERSION);
    hash_add(hash, description, strlen(description) + 1);
    hash_add(hash, inputs->row.sha256, strlen(inputs->row.sha256) + 1);
    hash_add(hash, evaluation->starts, (size_t)(evaluation->count + 1) * sizeof *evaluation->starts);
    hash_add(hash, evaluation->tokens, (size_t)evaluation->starts[evaluation->count] * sizeof *evaluation->tokens);
    return hash_finish(hash, out, error);
}

struct oldest {
    char name[256];
    struct timespec time;
    int64_t total; /* bytes of all files */
};

static bool older(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static void look_through(int directory, DIR *listing, struct oldest *oldest)
{
    struct stat about;
    *oldest = (struct oldest){0};
    rewinddir(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (fstatat(directory, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode)) continue;
        oldest->total += about.st_size;
        if (oldest->name[0] != '\0' && !older(about.st_mtim, oldest->time)) continue;
        (void)snprintf(oldest->name, sizeof oldest->name, "%s", entry->d_name);
        oldest->time = about.st_mtim;
    }
}

/* Removes the oldest files until `wanted` more bytes fit. Several workers may do so at once; each removes one file at a
 * time. */
static void make_space(const char *path, int64_t wanted)
{
    DIR *listing = opendir(path);
    struct oldest oldest;
    if (listing == NULL) return;
    const int directory = dirfd(listing);
    for (look_through(directory, listing, &oldest); oldest.total + wanted > KEPT_BYTES && oldest.name[0] != '\0';
         look_through(directory, listing, &oldest))
        if (unlinkat(directory, oldest.name, 0) != 0) break;
    closedir(listing);
}

enum status baselines_path(const struct run_context *context, const struct inputs *inputs,
                           const struct sequences *evaluation, char **out, struct error *error)
{
    const int64_t bytes =
        evaluation->starts[evaluation->count] * inputs->model->config.hidden_size * (int64_t)sizeof(float);
    char key[HASH_TEXT], *directory = NULL;
    enum status status;
    *out = NULL;
    if (inputs->row.sha256[0] == '\0' || bytes > KEPT_BYTES / 2) return STATUS_OK;
    if ((status = key_make(inputs, evaluation, key, error)) != STATUS_OK) return status;
    if (asprintf(&directory, "%s/tmp/baselines", context->data_directory) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    (void)mkdir(directory, 0700); /* if the directory cannot be made, writing the file fails, which costs only time */
    make_space(directory, bytes);
    if (asprintf(out, "%s/%s", directory, key) < 0) {
        *out = NULL;
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    }
    free(directory);
    return status;
}
