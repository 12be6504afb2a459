#include "weights/weights_index.h"

#include "files/json_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 4096, FILE_NAME_SIZE = NAME_MAX + 1 };

struct entry {
    char *name; /* owned */
    int file;
};

struct weights_index {
    char **files; /* owned, sorted */
    struct entry *entries;
    int64_t count, capacity;
    int file_count, file_capacity;
};

struct parser {
    struct json_reader reader;
    struct weights_index *index;
    const char *suffix;
    int latest; /* the file of the previous tensor: neighbours are mostly in the same file */
};

static bool no_memory(struct parser *parser)
{
    return json_reader_fail(&parser->reader, STATUS_NO_MEMORY, "cannot allocate an index");
}

static bool plain_name(const char *name, const char *suffix)
{
    const size_t size = strlen(name), ending = strlen(suffix);
    if (size <= ending || strcmp(name + size - ending, suffix) != 0) return false;
    for (const char *at = name; *at; at++)
        if (*at == '/' || *at == '\\' || (*at > 0 && *at < ' ') || *at == 0x7f) return false;
    return true;
}

/* Index of `name` in the sorted files, or the index where it belongs (*found false). */
static int file_place(const struct weights_index *index, const char *name, bool *found)
{
    int low = 0, high = index->file_count;
    *found = false;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(index->files[middle], name);
        if (order == 0) *found = true;
        if (order == 0) return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds `name` to the sorted files: later files move up, and tensors that refer to them are renumbered. */
static bool insert_file(struct parser *parser, int place, const char *name)
{
    struct weights_index *index = parser->index;
    if (index->file_count == FILES_MAX)
        return json_reader_fail(&parser->reader, STATUS_CORRUPT, "more than %d files", FILES_MAX);
    if (index->file_count == index->file_capacity) {
        const int capacity = index->file_capacity * 2 + 16;
        char **files = realloc(index->files, (size_t)capacity * sizeof *files);
        if (files == NULL) return no_memory(parser);
        index->files = files;
        index->file_capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL) return no_memory(parser);
    memmove(index->files + place + 1, index->files + place, (size_t)(index->file_count - place) * sizeof *index->files);
    index->files[place] = copy;
    index->file_count++;
    if (place + 1 < index->file_count)
        for (int64_t i = 0; i < index->count; i++) index->entries[i].file += index->entries[i].file >= place;
    return true;
}

static bool parse_file(struct parser *parser, int *file)
{
    char name[FILE_NAME_SIZE];
    bool found = false;
    if (!json_reader_string_copy(&parser->reader, name, sizeof name)) return false;
    if (parser->latest < parser->index->file_count && strcmp(parser->index->files[parser->latest], name) == 0) {
        *file = parser->latest;
        return true;
    }
    if (!plain_name(name, parser->suffix))
        return json_reader_fail(&parser->reader, STATUS_CORRUPT, "expected the name of a %s file in the same directory",
                                parser->suffix);
    *file = file_place(parser->index, name, &found);
    if (!found && !insert_file(parser, *file, name)) return false;
    parser->latest = *file;
    return true;
}

static bool parse_map(struct parser *parser)
{
    struct weights_index *index = parser->index;
    struct json_reader_text key;
    if (!json_reader_object(&parser->reader)) return false;
    while (json_reader_next_key(&parser->reader, &key)) {
        if (memchr(key.bytes, '\0', key.size) != NULL)
            return json_reader_fail(&parser->reader, STATUS_CORRUPT, "the name of a tensor contains NUL");
        if (index->count == index->capacity) {
            const int64_t capacity = index->capacity * 2 + 64;
            struct entry *entries = realloc(index->entries, (size_t)capacity * sizeof *entries);
            if (entries == NULL) return no_memory(parser);
            index->entries = entries;
            index->capacity = capacity;
        }
        int file = 0;
        char *name = strndup(key.bytes, key.size);
        if (name == NULL) return no_memory(parser);
        if (!parse_file(parser, &file)) {
            free(name);
            return false;
        }
        index->entries[index->count++] = (struct entry){name, file};
    }
    return json_reader_status(&parser->reader) == STATUS_OK;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool parse(struct parser *parser)
{
    static const char *const fields[] = {"metadata", "weight_map", NULL};
    struct json_reader *reader = &parser->reader;
    struct weights_index *index = parser->index;
    struct json_reader_text key;
    uint64_t seen = 0;
    if (!json_reader_object(reader)) return false;
    while (json_reader_next_key(reader, &key)) {
        const int field = json_reader_field(reader, key, fields, &seen);
        if (field == 1 && !parse_map(parser)) return false;
    }
    if (!json_reader_end(reader)) return false;
    if (index->count == 0) return json_reader_fail(reader, STATUS_CORRUPT, "weight_map is missing or empty");
    qsort(index->entries, (size_t)index->count, sizeof *index->entries, compare_entries);
    for (int64_t i = 1; i < index->count; i++)
        if (compare_entries(&index->entries[i - 1], &index->entries[i]) == 0)
            return json_reader_fail(reader, STATUS_CORRUPT, "a tensor is given twice");
    return true;
}

enum status weights_index_new(const char *name, const char *text, size_t size, const char *suffix,
                              struct weights_index **out, struct error *error)
{
    struct parser parser = {.suffix = suffix};
    *out = NULL;
    struct weights_index *index = calloc(1, sizeof *index);
    if (index == NULL) return error_set(error, STATUS_NO_MEMORY, "%s: cannot allocate an index", name);
    parser.index = index;
    json_reader_init(&parser.reader, name, text, size, NULL, error);
    (void)parse(&parser);
    enum status status = json_reader_finish(&parser.reader);
    if (status == STATUS_MALFORMED || status == STATUS_INVALID) status = error->status = STATUS_CORRUPT;
    if (status == STATUS_OK) {
        *out = index;
        return STATUS_OK;
    }
    weights_index_free(index);
    return status;
}

void weights_index_free(struct weights_index *index)
{
    if (index == NULL) return;
    for (int i = 0; i < index->file_count; i++) free(index->files[i]);
    for (int64_t i = 0; i < index->count; i++) free(index->entries[i].name);
    free(index->files);
    free(index->entries);
    free(index);
}

int weights_index_files(const struct weights_index *index)
{
    return index->file_count;
}

const char *weights_index_file(const struct weights_index *index, int file)
{
    return index->files[file];
}

int64_t weights_index_count(const struct weights_index *index)
{
    return index->count;
}

const char *weights_index_tensor(const struct weights_index *index, int64_t i, int *file)
{
    *file = index->entries[i].file;
    return index->entries[i].name;
}
