/* Readers of text and jsonl. */
#include "base/memory.h"
#include "base/utf8.h"
#include "dataset/dataset_reader.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/tokenizer_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 20, LOOK_BYTES = 64 << 10 };
#define LINE_LIMIT ((size_t)64 << 20)

static enum status open_file(const char *path, struct file **file, char **buffer, struct error *error)
{
    *buffer = NULL;
    enum status status = file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, INT64_MAX, file, error);
    return status == STATUS_OK ? memory_new(READ_BYTES, 1, "read buffer", buffer, error) : status;
}

/* Prefixes an error with "FILE: " or "FILE line N: ", because the tokenizer's messages do not name the place. */
static enum status place(const struct file *file, int64_t line, enum status status, struct error *error)
{
    struct error inner = *error;
    if (status == STATUS_OK || status == STATUS_NO_MEMORY) return status;
    if (line > 0) return error_set(error, status, "%s line %lld: %s", file_name(file), (long long)line, inner.detail);
    return error_set(error, status, "%s: %s", file_name(file), inner.detail);
}

static enum status put_list(struct dataset_sink *sink, struct token_list *list, struct error *error)
{
    enum status status = dataset_sink_put(sink, list->ids, list->count, error);
    list->count = 0;
    return status;
}

static enum status stream_text(struct dataset_reader *reader, struct file *file, char *buffer,
                               struct tokenizer_stream *stream, struct token_list *list, struct error *error)
{
    enum status status = STATUS_OK;
    int64_t size = file_bytes(file);
    for (int64_t at = 0; at < size && !dataset_sink_document_full(reader->sink);) {
        size_t bytes = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES;
        if ((status = monitor_check(reader->monitor, error)) != STATUS_OK) return status;
        if ((status = file_read(file, at, buffer, bytes, error)) != STATUS_OK) return status;
        if ((status = dataset_sink_read(reader->sink, bytes, error)) != STATUS_OK) return status;
        at += (int64_t)bytes;
        status = place(file, 0, tokenizer_stream_feed(stream, buffer, bytes, list, error), error);
        if (status == STATUS_OK && at == size)
            status = place(file, 0, tokenizer_stream_end(stream, list, error), error);
        if (status == STATUS_OK) status = put_list(reader->sink, list, error);
        if (status != STATUS_OK) return status;
    }
    return status;
}

enum status dataset_reader_text(struct dataset_reader *reader, const char *path, struct error *error)
{
    struct file *file = NULL;
    char *buffer = NULL;
    struct tokenizer_stream *stream = NULL;
    struct token_list list = {0};
    const struct postprocessor *around = &reader->tokenizer->postprocessor;
    enum status status = open_file(path, &file, &buffer, error);
    if (status == STATUS_OK) status = tokenizer_stream_open(reader->tokenizer, &stream, error);
    if (status == STATUS_OK && reader->add_special_tokens)
        status = dataset_sink_put(reader->sink, around->before.ids, around->before.count, error);
    if (status == STATUS_OK) status = stream_text(reader, file, buffer, stream, &list, error);
    if (status == STATUS_OK && reader->add_special_tokens && !dataset_sink_document_full(reader->sink))
        status = dataset_sink_put(reader->sink, around->after.ids, around->after.count, error);
    if (status == STATUS_OK) status = dataset_sink_end(reader->sink, error);
    tokenizer_list_free(&list);
    tokenizer_stream_close(stream);
    memory_free(buffer);
    file_close(file);
    return status;
}

/* ---- jsonl ---- */

struct lines {
    struct dataset_reader *reader;
    struct file *file;
    struct token_list list;
    int64_t number;
};

/* Finds the field's text in a line; lent by `json` until json_reader_finish. */
static bool find_field(struct json_reader *json, const char *field, struct json_reader_text *out)
{
    struct json_reader_text key, text;
    bool found = false;
    json_reader_object(json);
    while (json_reader_next_key(json, &key)) {
        if (!json_reader_is(key, field)) continue;
        if (found) json_reader_fail(json, STATUS_INVALID, "field \"%.60s\" is given twice", field);
        found = true;
        json_reader_skip(json, &text);
    }
    if (!found) json_reader_fail(json, STATUS_INVALID, "no field \"%.60s\"", field);
    if (!json_reader_end(json)) return false;
    *out = text;
    return true;
}

/* Finds the value of a line's field, still quoted. */
static bool find_text(struct json_reader *json, const char *line, const struct dataset_source *source,
                      struct json_reader_text *value)
{
    struct json_reader_text text;
    const char *field = source->field != NULL ? source->field : "text";
    if (!find_field(json, field, &text)) return false;
    json_reader_restart(json, text.bytes, text.size, (size_t)(text.bytes - line));
    if (json_reader_peek(json) != JSON_READER_STRING)
        json_reader_fail(json, STATUS_INVALID, "field \"%.60s\" is not a string", field);
    return json_reader_string(json, value);
}

static enum status read_line(struct lines *lines, const char *line, size_t bytes, struct error *error)
{
    struct json_reader json;
    struct json_reader_text value;
    struct dataset_sink *sink = lines->reader->sink;
    char name[96];
    enum status status = STATUS_OK, encoded = STATUS_OK;
    lines->number++;
    while (bytes > 0 && strchr(" \t\r", line[bytes - 1]) != NULL) bytes--;
    if (bytes == 0) return STATUS_OK;
    snprintf(name, sizeof name, "%.60s line %lld", file_name(lines->file), (long long)lines->number);
    json_reader_init(&json, name, line, bytes, NULL, error);
    if (find_text(&json, line, lines->reader->source, &value))
        encoded = tokenizer_encode(lines->reader->tokenizer, value.bytes, value.size, lines->reader->add_special_tokens,
                                   &lines->list, error);
    struct error kept = *error;
    status = json_reader_finish(&json);
    if (encoded != STATUS_OK) {
        *error = kept;
        status = place(lines->file, lines->number, encoded, error);
    }
    if (status == STATUS_OK) status = put_list(sink, &lines->list, error);
    return status == STATUS_OK ? dataset_sink_end(sink, error) : status;
}

/* Reads the whole lines in `held` and keeps the rest. */
static enum status read_lines(struct lines *lines, struct text *held, size_t searched, bool last, struct error *error)
{
    size_t done = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && done < held->size && !dataset_sink_full(lines->reader->sink)) {
        size_t from = done > searched ? done : searched;
        const char *end = memchr(held->bytes + from, '\n', held->size - from);
        if (end == NULL && !last) break;
        size_t bytes = end != NULL ? (size_t)(end - held->bytes) - done : held->size - done;
        status = read_line(lines, held->bytes + done, bytes, error);
        done += bytes + (end != NULL ? 1 : 0);
    }
    if (done > 0) memmove(held->bytes, held->bytes + done, held->size - done);
    held->size -= done;
    return status;
}

enum status dataset_reader_jsonl(struct dataset_reader *reader, const char *path, struct error *error)
{
    struct lines lines = {.reader = reader};
    struct text held = {0};
    char *buffer = NULL;
    enum status status = open_file(path, &lines.file, &buffer, error);
    int64_t size = status == STATUS_OK ? file_bytes(lines.file) : 0;
    for (int64_t at = 0; status == STATUS_OK && at < size && !dataset_sink_full(reader->sink);) {
        size_t bytes = size - at < READ_BYTES ? (size_t)(size - at) : READ_BYTES, searched = held.size;
        if ((status = monitor_check(reader->monitor, error)) != STATUS_OK) break;
        if ((status = file_read(lines.file, at, buffer, bytes, error)) != STATUS_OK) break;
        if ((status = dataset_sink_read(reader->sink, bytes, error)) != STATUS_OK) break;
        if ((status = text_append(&held, buffer, bytes, error)) != STATUS_OK) break;
        at += (int64_t)bytes;
        status = read_lines(&lines, &held, searched, at == size, error);
        if (status == STATUS_OK && held.size > LINE_LIMIT)
            status = error_set(error, STATUS_TOO_LARGE, "%s line %lld: longer than %zu bytes", file_name(lines.file),
                               (long long)lines.number + 1, LINE_LIMIT);
    }
    tokenizer_list_free(&lines.list);
    text_free(&held);
    memory_free(buffer);
    file_close(lines.file);
    return status;
}

/* ---- looking at the beginning only ---- */

/* Checks the whole lines in `bytes`; `last`: also the incomplete line at the end. */
static enum status look_at_lines(const struct dataset_source *source, const struct file *file, const char *bytes,
                                 size_t size, bool last, struct error *error)
{
    enum status status = STATUS_OK;
    int64_t number = 0;
    for (size_t at = 0; at < size && status == STATUS_OK;) {
        struct json_reader json;
        struct json_reader_text value;
        char name[96];
        const char *line = bytes + at, *end = memchr(line, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - line) : size - at;
        if (end == NULL && !last) break;
        at += length + 1;
        number++;
        while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL) length--;
        if (length == 0) continue;
        snprintf(name, sizeof name, "%.60s line %lld", file_name(file), (long long)number);
        json_reader_init(&json, name, line, length, NULL, error);
        (void)find_text(&json, line, source, &value);
        status = json_reader_finish(&json);
    }
    return status;
}

enum status dataset_reader_look_text(const struct dataset_source *source, const char *path, struct error *error)
{
    enum { CUT = 3 }; /* bytes of a character that the end of the block may have cut */
    struct file *file = NULL;
    char *bytes = NULL;
    enum status status = open_file(path, &file, &bytes, error);
    const int64_t all = status == STATUS_OK ? file_bytes(file) : 0;
    const size_t size = all < LOOK_BYTES ? (size_t)all : LOOK_BYTES;
    const bool last = (int64_t)size == all;
    if (status == STATUS_OK) status = file_read(file, 0, bytes, size, error);
    const size_t good = status == STATUS_OK ? utf8_check(bytes, size) : size;
    if (good < size && (last || size - good > CUT))
        status = error_set(error, STATUS_CORRUPT, "%s: byte %zu is not UTF-8", file_name(file), good);
    if (status == STATUS_OK && source->format == DATASET_JSONL)
        status = look_at_lines(source, file, bytes, size, last, error);
    memory_free(bytes);
    file_close(file);
    return status;
}
