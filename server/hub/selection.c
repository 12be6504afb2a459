#include "hub/selection.h"

#include "weights/configuration_files.h"

#include <fnmatch.h>
#include <string.h>

enum { CONFIG_FILE_BYTES_MOST = 256 << 20, SELECTED_MOST = 5000 };
#define TOTAL_BYTES_MOST (INT64_C(64) << 40)

/* Formats of weights, the preferred one first. A row fits when all its patterns fit a file; with `alone`, the last one
 * must fit a single file. */
static const struct format {
    const char *patterns[3];
    bool alone;
} formats[] = {
    {{"model.safetensors"}, true},
    {{"model.safetensors.index.json", "model-*.safetensors"}, false},
    {{"*.safetensors"}, true},
    {{"pytorch_model.bin"}, true},
    {{"pytorch_model.bin.index.json", "pytorch_model-*.bin"}, false},
    {{"*.pth"}, true},
    {{"*.pt"}, true},
    {{"*.gguf"}, true},
};

/* Wanted beside the configuration files. */
static const char *const training_files[] = {"trainer_state.json", "training.json", NULL};

static size_t matches(const struct repository_file *files, size_t count, const char *pattern)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += fnmatch(pattern, files[i].name, FNM_PATHNAME) == 0;
    return found;
}

static const struct format *find_format(const struct repository_file *files, size_t count)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        bool fits = true;
        for (size_t k = 0; k < 3 && formats[i].patterns[k] != NULL; k++) {
            const size_t found = matches(files, count, formats[i].patterns[k]);
            fits = fits && found > 0 && (!formats[i].alone || found == 1);
        }
        if (fits) return &formats[i];
    }
    return NULL;
}

static bool is_named(const struct repository_file *file, const char *const *names)
{
    while (*names != NULL && strcmp(*names, file->name) != 0) names++;
    return *names != NULL;
}

static bool is_wanted(const struct repository_file *file, const struct format *format)
{
    for (size_t k = 0; k < 3 && format->patterns[k] != NULL; k++)
        if (fnmatch(format->patterns[k], file->name, FNM_PATHNAME) == 0) return true;
    return (is_named(file, configuration_files) || is_named(file, training_files)) &&
           file->bytes <= CONFIG_FILE_BYTES_MOST;
}

static void take(struct repository_file *files, size_t index, size_t *wanted)
{
    const struct repository_file file = files[index];
    files[index] = files[*wanted];
    files[(*wanted)++] = file;
}

static enum status take_names(struct repository_file *files, size_t count, const char *const *names, size_t name_count,
                              size_t *wanted, struct error *error)
{
    for (size_t k = 0; k < name_count; k++) {
        size_t at = 0;
        while (at < count && strcmp(files[at].name, names[k]) != 0) at++;
        if (at == count)
            return error_set_at(error, STATUS_NOT_FOUND, "/params/files",
                                "the repository has no file \"%.200s\" at that revision", names[k]);
        if (at >= *wanted) take(files, at, wanted);
    }
    return STATUS_OK;
}

enum status selection_make(struct repository_file *files, size_t count, const char *const *names, size_t name_count,
                           size_t *wanted, struct error *error)
{
    int64_t total = 0;
    enum status status = STATUS_OK;
    *wanted = 0;
    if (name_count > 0) {
        status = take_names(files, count, names, name_count, wanted, error);
    } else {
        const struct format *format = find_format(files, count);
        if (format == NULL)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "no weights at the top of the repository that are known by their names (model.safetensors, its shards, "
                "pytorch_model.bin, …): name the files in \"files\"");
        for (size_t i = 0; i < count; i++)
            if (is_wanted(&files[i], format)) take(files, i, wanted);
    }
    for (size_t i = 0; status == STATUS_OK && i < *wanted; i++)
        if (__builtin_add_overflow(total, files[i].bytes, &total) || total > TOTAL_BYTES_MOST ||
            *wanted > SELECTED_MOST)
            status = error_set(error, STATUS_TOO_LARGE,
                               "more than a checkpoint has: %zu files, the first %zu of more than %lld bytes", *wanted,
                               i + 1, (long long)TOTAL_BYTES_MOST);
    return status;
}
