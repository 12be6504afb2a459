#include "weights/weights.h"

#include "base/memory.h"
#include "files/file.h"
#include "formats/gguf/gguf_split.h"
#include "weights/weights_container.h"
#include "weights/weights_index.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_BYTES_MAX = 64 << 20, NAME_SHOWN = 80 };

/* Tried in this order. */
static const struct weights_container *const containers[] = {&weights_safetensors, &weights_torch_bin,
                                                             &weights_torch_pt, &weights_torch_pth, &weights_gguf};
enum { CONTAINERS = sizeof containers / sizeof containers[0] };

struct part {
    char *name;      /* owned; in the directory */
    void *container; /* owned */
    int first_file;  /* index of its first file among all files */
};

/* The place of a tensor. */
struct place {
    const char *name; /* lent by its container */
    int part;
    int64_t index; /* within the container */
};

struct weights {
    const struct weights_container *row;
    char *path;  /* owned; of the directory */
    char *given; /* owned; or NULL */
    int directory;
    struct part *parts;
    int part_count, file_count; /* files of all parts */
    struct place *places;       /* sorted by name */
    int64_t count;
    struct file *index;     /* or NULL */
    const char *index_name; /* lent by row */
    int64_t bytes;
    enum dtype dtype;
    bool mixed;
};

/* Bytes of `text` to show: whole characters, at most NAME_SHOWN bytes. */
static int shown_size(const char *text)
{
    size_t size = strlen(text);
    if (size <= NAME_SHOWN) return (int)size;
    size = NAME_SHOWN;
    while (size > 0 && ((unsigned char)text[size] & 0xc0u) == 0x80u) size--;
    return (int)size;
}

static bool has_suffix(const char *name, const char *suffix)
{
    const size_t size = strlen(name), ending = strlen(suffix);
    return size > ending && strcmp(name + size - ending, suffix) == 0;
}

static bool is_there(const struct weights *weights, const char *name)
{
    struct stat info;
    return name != NULL && fstatat(weights->directory, name, &info, 0) == 0;
}

/* Adds the file `name` as a part and opens it. */
static enum status add_part(struct weights *weights, const char *name, struct error *error)
{
    struct part *parts = realloc(weights->parts, (size_t)(weights->part_count + 1) * sizeof *parts);
    if (parts == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a list of files");
    weights->parts = parts;
    struct part *part = &parts[weights->part_count];
    *part = (struct part){.name = strdup(name), .first_file = weights->file_count};
    if (part->name == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate the name of a file");
    weights->part_count++;
    const enum status status = weights->row->open(weights->directory, name, &part->container, error);
    if (status == STATUS_OK)
        weights->file_count += weights->row->files != NULL ? weights->row->files(part->container) : 1;
    return status;
}

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

/* Merges the tensors of all parts into one sorted list and adds up their sizes. */
static enum status merge(struct weights *weights, struct error *error)
{
    int64_t elements[DTYPE_COUNT] = {0}, total = 0;
    struct weights_tensor tensor;
    enum status status;
    for (int part = 0; part < weights->part_count; part++) total += weights->row->count(weights->parts[part].container);
    if ((status = memory_new(total, sizeof *weights->places, "list of tensors", &weights->places, error)) != STATUS_OK)
        return status;
    for (int part = 0; part < weights->part_count; part++) {
        const int64_t count = weights->row->count(weights->parts[part].container);
        for (int64_t i = 0; i < count; i++) {
            weights->row->tensor(weights->parts[part].container, i, &tensor);
            weights->places[weights->count++] = (struct place){tensor.name, part, i};
            weights->bytes += tensor.bytes;
            elements[tensor.dtype] += tensor.elements;
        }
    }
    if (weights->part_count > 1)
        qsort(weights->places, (size_t)weights->count, sizeof *weights->places, compare_places);
    for (int64_t i = 1; i < weights->count; i++)
        if (compare_places(&weights->places[i - 1], &weights->places[i]) == 0)
            return error_set(error, STATUS_CORRUPT, "tensor \"%.*s\" is in two files",
                             shown_size(weights->places[i].name), weights->places[i].name);
    int kinds = 0;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        kinds += elements[dtype] > 0;
        if (elements[dtype] > elements[weights->dtype]) weights->dtype = (enum dtype)dtype;
    }
    weights->mixed = kinds > 1;
    return STATUS_OK;
}

/* Compares the tensors found with the index: both are sorted by name and must agree. Parts are in the index's file
 * order. */
static enum status check_index(const struct weights *weights, const struct weights_index *index, struct error *error)
{
    const int64_t listed = weights_index_count(index);
    for (int64_t i = 0; i < listed || i < weights->count; i++) {
        int file = -1;
        const char *name = i < listed ? weights_index_tensor(index, i, &file) : NULL;
        const struct place *place = i < weights->count ? &weights->places[i] : NULL;
        const int order = name == NULL ? 1 : place == NULL ? -1 : strcmp(name, place->name);
        if (order < 0)
            return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.*s\" is not in any of the files",
                             weights->index_name, shown_size(name), name);
        if (order > 0)
            return error_set(error, STATUS_CORRUPT, "%s does not list tensor \"%.*s\"", weights->index_name,
                             shown_size(place->name), place->name);
        if (file != place->part)
            return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.*s\" is in another file than listed",
                             weights->index_name, shown_size(name), name);
    }
    /* metadata.total_size is not checked: published indexes have it wrong, and nothing reads it. */
    return STATUS_OK;
}

static enum status open_sharded(struct weights *weights, struct error *error)
{
    enum status status;
    struct weights_index *index = NULL;
    char *text = NULL;
    weights->index_name = weights->row->index;
    status =
        file_open(weights->directory, weights->index_name, FILE_FOLLOW_LINKS, INDEX_BYTES_MAX, &weights->index, error);
    if (status != STATUS_OK) goto done;
    const int64_t size = file_bytes(weights->index);
    if ((status = memory_new(size, 1, "index", &text, error)) != STATUS_OK) goto done;
    if ((status = file_read(weights->index, 0, text, (size_t)size, error)) != STATUS_OK) goto done;
    status = weights_index_new(weights->index_name, text, (size_t)size, weights->row->suffix, &index, error);
    if (status != STATUS_OK) goto done;
    for (int file = 0; file < weights_index_files(index); file++)
        if ((status = add_part(weights, weights_index_file(index, file), error)) != STATUS_OK) goto done;
    if ((status = merge(weights, error)) != STATUS_OK) goto done;
    status = check_index(weights, index, error);
done:
    weights_index_free(index);
    memory_free(text);
    return status;
}

static enum status open_single(struct weights *weights, const char *name, struct error *error)
{
    const enum status status = add_part(weights, name, error);
    return status == STATUS_OK ? merge(weights, error) : status;
}

/* Files that trainers put beside the weights, with the same endings. */
static bool is_training_state(const char *name)
{
    static const char *const beginnings[] = {"training_args", "optimizer", "scheduler",
                                             "scaler",        "rng_state", "random_states"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

/* Whether `name` is a later part of a split file; the first part represents all of them. */
static bool is_later_part(const char *name)
{
    int part, count;
    return gguf_split_read(name, &part, &count) && part > 1;
}

bool weights_file_is_whole(const char *name)
{
    if (is_later_part(name)) return false;
    for (int i = 0; i < CONTAINERS; i++)
        if (containers[i]->index == NULL && has_suffix(name, containers[i]->suffix)) return !is_training_state(name);
    return false;
}

/* Looks for files of each known format. `name` [NAME_MAX + 1]: the one file found with the suffix of `row`. */
static enum status scan(const struct weights *weights, const struct weights_container *row, char *name, int *found,
                        struct error *error)
{
    *found = 0;
    const int descriptor = openat(weights->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* guarded already */
    DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (directory == NULL) {
        const enum status status = error_set_errno(error, "cannot list the directory");
        if (descriptor >= 0) (void)close(descriptor);
        return status;
    }
    for (const struct dirent *item; (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] == '.' || !has_suffix(item->d_name, row->suffix) || is_training_state(item->d_name) ||
            is_later_part(item->d_name))
            continue;
        (void)snprintf(name, NAME_MAX + 1, "%s", item->d_name);
        ++*found;
    }
    (void)closedir(directory);
    return STATUS_OK;
}

/* Shards of FSDP that torch.distributed.checkpoint writes; refused. */
static const struct weights_container sharded_state = {.suffix = ".distcp"};

/* A directory without one of the usual names. */
static enum status open_only_file(struct weights *weights, struct error *error)
{
    enum status status;
    char name[NAME_MAX + 1];
    for (int i = 0; i < CONTAINERS; i++) {
        int found;
        if ((status = scan(weights, containers[i], name, &found, error)) != STATUS_OK) return status;
        if (found == 0) continue;
        if (found > 1 && containers[i]->index == NULL)
            return error_set(error, STATUS_INVALID, "the directory has %d %s files; name one of them", found,
                             containers[i]->suffix);
        if (found > 1)
            return error_set(
                error, STATUS_INVALID,
                "the directory has %d %s files and neither %s nor %s; name one of the files, or add the index", found,
                containers[i]->suffix, containers[i]->single, containers[i]->index);
        weights->row = containers[i];
        return open_single(weights, name, error);
    }
    int parts = 0;
    if ((status = scan(weights, &sharded_state, name, &parts, error)) != STATUS_OK) return status;
    if (parts > 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the directory is a sharded training state (%s): how its parts fit is in a pickle that is not read; "
            "make one file of it with python -m torch.distributed.checkpoint.format_utils dcp_to_torch DIR model.pt",
            name);
    return error_set(error, STATUS_NOT_FOUND, "the directory has no weights; expected %s or %s",
                     weights_safetensors.single, weights_safetensors.index);
}

/* If both exist, the single file is preferred to the index, as in the Hugging Face libraries. */
static enum status open_directory(struct weights *weights, struct error *error)
{
    for (int i = 0; i < CONTAINERS; i++) {
        const bool single = is_there(weights, containers[i]->single);
        if (!single && !is_there(weights, containers[i]->index)) continue;
        weights->row = containers[i];
        return single ? open_single(weights, weights->row->single, error) : open_sharded(weights, error);
    }
    return open_only_file(weights, error);
}

/* `path` is a file: its directory becomes weights->path. */
static enum status open_file(struct weights *weights, const char *path, struct error *error)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    free(weights->path);
    weights->path = slash == path ? strdup("/") : slash != NULL ? strndup(path, (size_t)(slash - path)) : strdup(".");
    if (weights->path == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a path");
    const enum status status = file_directory(AT_FDCWD, weights->path, &weights->directory, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < CONTAINERS; i++) {
        if (!has_suffix(name, containers[i]->suffix)) continue;
        weights->row = containers[i];
        return open_single(weights, name, error);
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "not a file of weights; expected .safetensors, .bin, .pt, .pth or .gguf, or a directory");
}

enum status weights_open(const char *path, struct weights **out, struct error *error)
{
    enum status status;
    *out = NULL;
    struct weights *weights = calloc(1, sizeof *weights);
    if (weights == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate weights");
    *weights = (struct weights){.directory = -1, .path = strdup(path)};
    if (weights->path == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "cannot allocate a path");
        goto done;
    }
    bool is_directory;
    if ((status = file_is_directory(path, &is_directory, error)) != STATUS_OK) goto done;
    if (!is_directory)
        status = open_file(weights, path, error);
    else if ((status = file_directory(AT_FDCWD, path, &weights->directory, error)) == STATUS_OK)
        status = open_directory(weights, error);
    if (status != STATUS_OK) goto done;
    *out = weights;
    weights = NULL;
done:
    weights_close(weights);
    return status;
}

enum status weights_of_container(const struct weights_container *row, void *container, const char *directory,
                                 struct weights **out, struct error *error)
{
    enum status status;
    struct weights *weights = calloc(1, sizeof *weights);
    *out = NULL;
    if (weights != NULL) *weights = (struct weights){.row = row, .directory = -1, .path = strdup(directory)};
    if (weights != NULL) weights->parts = calloc(1, sizeof *weights->parts);
    if (weights == NULL || weights->path == NULL || weights->parts == NULL) {
        row->close(container);
        status = error_set(error, STATUS_NO_MEMORY, "cannot allocate weights");
        goto done;
    }
    weights->parts[weights->part_count++].container = container;
    if ((status = merge(weights, error)) != STATUS_OK) goto done;
    *out = weights;
    weights = NULL;
done:
    weights_close(weights);
    return status;
}

void weights_close(struct weights *weights)
{
    if (weights == NULL) return;
    for (int i = 0; i < weights->part_count; i++) {
        weights->row->close(weights->parts[i].container);
        free(weights->parts[i].name);
    }
    file_close(weights->index);
    free(weights->parts);
    memory_free(weights->places);
    if (weights->directory >= 0) (void)close(weights->directory);
    free(weights->path);
    free(weights->given);
    free(weights);
}

const char *weights_directory(const struct weights *weights)
{
    return weights->path;
}

int64_t weights_count(const struct weights *weights)
{
    return weights->count;
}

void weights_tensor(const struct weights *weights, int64_t index, struct weights_tensor *out)
{
    assert(index >= 0 && index < weights->count);
    const struct place *place = &weights->places[index];
    weights->row->tensor(weights->parts[place->part].container, place->index, out);
    out->file += weights->parts[place->part].first_file;
}

int64_t weights_find(const struct weights *weights, const char *name)
{
    const struct place key = {.name = name};
    if (weights->count == 0) return -1;
    const struct place *place = bsearch(&key, weights->places, (size_t)weights->count, sizeof key, compare_places);
    return place != NULL ? place - weights->places : -1;
}

enum status weights_read_f32(const struct weights *weights, int64_t index, int64_t first, int64_t count, float *out,
                             struct error *error)
{
    assert(index >= 0 && index < weights->count);
    const struct place *place = &weights->places[index];
    return weights->row->read_f32(weights->parts[place->part].container, place->index, first, count, out, error);
}

enum status weights_read_bytes(const struct weights *weights, int64_t index, int64_t first, int64_t bytes, void *out,
                               struct error *error)
{
    assert(index >= 0 && index < weights->count && weights->row->read_bytes != NULL);
    const struct place *place = &weights->places[index];
    return weights->row->read_bytes(weights->parts[place->part].container, place->index, first, bytes, out, error);
}

void weights_readahead(const struct weights *weights, int64_t index)
{
    assert(index >= 0 && index < weights->count);
    const struct place *place = &weights->places[index];
    weights->row->readahead(weights->parts[place->part].container, place->index);
}

int64_t weights_bytes(const struct weights *weights)
{
    return weights->bytes;
}

enum dtype weights_dtype(const struct weights *weights, bool *mixed)
{
    if (mixed != NULL) *mixed = weights->mixed;
    return weights->dtype;
}

const char *weights_config(const struct weights *weights)
{
    return weights->row->config != NULL ? weights->row->config(weights->parts[0].container) : NULL;
}

enum status weights_give_config(struct weights *weights, const char *text, struct error *error)
{
    char *copy = strdup(text);
    if (copy == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a configuration");
    free(weights->given);
    weights->given = copy;
    return STATUS_OK;
}

const char *weights_given_config(const struct weights *weights)
{
    return weights->given;
}

void weights_progress(const struct weights *weights, struct weights_progress *out)
{
    *out = (struct weights_progress){-1, -1};
    if (weights->row->progress != NULL) weights->row->progress(weights->parts[0].container, out);
}

int weights_file_count(const struct weights *weights)
{
    return weights->row->file != NULL ? weights->file_count + (weights->index != NULL) : 0;
}

void weights_file(const struct weights *weights, int index, struct weights_file *out)
{
    assert(index >= 0 && index < weights_file_count(weights));
    if (index == weights->file_count) {
        *out = (struct weights_file){weights->index_name, file_bytes(weights->index)};
        return;
    }
    int at = weights->part_count - 1;
    while (weights->parts[at].first_file > index) at--;
    const struct part *part = &weights->parts[at];
    const struct file *file = weights->row->file(part->container, index - part->first_file);
    *out = (struct weights_file){weights->row->files != NULL ? file_name(file) : part->name, file_bytes(file)};
}

enum status weights_check_unchanged(const struct weights *weights, struct error *error)
{
    enum status status;
    for (int i = 0; i < weights->part_count; i++) {
        const void *container = weights->parts[i].container;
        const int files = weights->row->check_unchanged != NULL ? 0
                          : weights->row->files != NULL         ? weights->row->files(container)
                                                                : 1;
        status = weights->row->check_unchanged != NULL ? weights->row->check_unchanged(container, error) : STATUS_OK;
        for (int file = 0; status == STATUS_OK && file < files; file++)
            status = file_check_unchanged(weights->row->file(container, file), error);
        if (status != STATUS_OK) return status;
    }
    return weights->index != NULL ? file_check_unchanged(weights->index, error) : STATUS_OK;
}
