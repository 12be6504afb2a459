#include "hub/bucket_checkpoints.h"

#include "hub/bucket_files.h"
#include "hub/selection.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects by their directories ---- */

/* The length of the directory's name in the item's name, with the slash. */
static size_t directory_length(const struct listing_item *item)
{
    const char *slash = strrchr(item->name, '/');
    return slash != NULL ? (size_t)(slash - item->name) + 1 : 0;
}

static int compare_directories(const struct listing_item *a, const struct listing_item *b)
{
    const size_t x = directory_length(a), y = directory_length(b);
    const int order = memcmp(a->name, b->name, x < y ? x : y);
    return order != 0 ? order : (x > y) - (x < y);
}

/* Sorts by directory: the bucket's own order puts subdirectories between the files of a directory. */
static int compare_items(const void *a, const void *b)
{
    const struct listing_item *x = a, *y = b;
    const int order = compare_directories(x, y);
    return order != 0 ? order : strcmp(x->name, y->name);
}

/* ---- one directory ---- */

static const struct repository_file *find_file(const struct repository_file *files, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(files[i].name, name) == 0) return &files[i];
    return NULL;
}

/* "model-00001-of-00003.safetensors" says that there are three shards. */
static bool shards_are_there(const struct repository_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned part, parts;
        int begin = 0, end = 0;
        const char *dash = strstr(files[i].name, "-of-");
        if (dash == NULL || dash - files[i].name < 6) continue;
        const char *digits = dash - 5;
        if (sscanf(digits, "%5u-of-%5u%n", &part, &parts, &end) != 2 || end != 14 || parts > count) {
            if (end == 14) return false;
            continue;
        }
        begin = (int)(digits - files[i].name);
        for (unsigned k = 1; k <= parts; k++) {
            char name[NAMES_FILE_MOST + 16];
            (void)snprintf(name, sizeof name, "%.*s%05u%s", begin, files[i].name, k, digits + 5);
            if (find_file(files, count, name) == NULL) return false;
        }
    }
    return true;
}

static bool is_checkpoint(const struct repository_file *files, size_t count)
{
    if (find_file(files, count, "config.json") != NULL) return true;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(files[i].name);
        if (length > 5 && strcmp(files[i].name + length - 5, ".gguf") == 0) return true;
    }
    return false;
}

/* Whether the directory can be registered: not when its name has an empty part ("a//b") or "..", or is too long. */
static bool has_place(const char *text)
{
    struct objects_place place;
    struct error ignored;
    char written[OBJECTS_PLACE_MOST + 8];
    if (objects_place_read(text, "", &place, &ignored) != STATUS_OK) return false;
    objects_place_write(&place, written, sizeof written);
    return strcmp(text, written) == 0;
}

/* The newest time of the files that are used. */
static double newest(const struct listing_item *items, size_t count, size_t directory,
                     const struct repository_file *files, size_t taken)
{
    double found = 0;
    for (size_t i = 0; i < count; i++)
        if (find_file(files, taken, items[i].name + directory) != NULL) found = fmax(found, items[i].modified);
    return found;
}

/* Turns the group into the files of a repository. */
static enum status read_group(const struct repository_caller *caller, const char *place, double now,
                              struct listing_item *items, size_t count, struct bucket_checkpoint *out, bool *found,
                              struct error *error)
{
    struct repository_file *files = NULL;
    size_t file_count = 0, taken = 0;
    const int length = snprintf(out->place, sizeof out->place, "%s/%s", place, items[0].name);
    const size_t directory = directory_length(&items[0]);
    *found = false;
    if (length >= (int)sizeof out->place) return STATUS_OK; /* deeper than any place that can be registered */
    out->place[strlen(place) + directory] = '\0';           /* without the trailing slash */
    if (!has_place(out->place)) return STATUS_OK;
    enum status status = bucket_files_take(caller, out->place, items, count, directory, &files, &file_count, error);
    if (status == STATUS_OK) status = selection_make(files, file_count, NULL, 0, &taken, error);
    /* what has more objects than a checkpoint, logs for instance, is no fault of those beside it */
    if (status == STATUS_UNSUPPORTED || status == STATUS_TOO_LARGE ||
        (status == STATUS_OK && !is_checkpoint(files, taken))) {
        free(files);
        return STATUS_OK;
    }
    if (status == STATUS_OK) status = bucket_files_commit(files, taken, out->commit, error);
    out->whole = status == STATUS_OK && shards_are_there(files, taken);
    out->age = now - newest(items, count, directory, files, taken);
    *found = status == STATUS_OK;
    free(files);
    return status;
}

enum status bucket_checkpoints_find(const struct repository_caller *caller, const char *place,
                                    struct bucket_checkpoint **out, size_t *count, struct error *error)
{
    struct listing listing = {0};
    size_t capacity = 0;
    *out = NULL;
    *count = 0;
    enum status status = bucket_files_listing(caller, place, true, &listing, error);
    if (status == STATUS_OK && listing.count > 0)
        qsort(listing.items, listing.count, sizeof *listing.items, compare_items);
    for (size_t i = 0, end; status == STATUS_OK && i < listing.count; i = end) {
        bool found = false;
        for (end = i + 1; end < listing.count; end++)
            if (compare_directories(&listing.items[i], &listing.items[end]) != 0) break;
        if (*count == capacity) {
            capacity = capacity == 0 ? 64 : 2 * capacity;
            struct bucket_checkpoint *larger = realloc(*out, capacity * sizeof *larger);
            if (larger == NULL) status = error_no_memory(error, "a list of checkpoints");
            if (larger != NULL) *out = larger;
        }
        if (status == STATUS_OK)
            status =
                read_group(caller, place, listing.time, &listing.items[i], end - i, &(*out)[*count], &found, error);
        *count += found;
    }
    listing_reset(&listing);
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
        *count = 0;
    }
    return status;
}
