#include "tasks/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status invalid(const struct record *record, struct error *error, const char *path, const char *what)
{
    return error_set(error, STATUS_INVALID, "%s: line %lld: \"%s\" %s", record->file, (long long)record->line, path,
                     what);
}

/* The value of `key` in an object, or of that number in an array; *found stays false when there is none. */
static enum status step(struct json_reader_text json, struct json_reader_text key, bool *found,
                        struct json_reader_text *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text name;
    int64_t index = 0;
    *found = false;
    json_reader_init(&reader, "record", json.bytes, json.size, NULL, error);
    if (json_reader_peek(&reader) == JSON_READER_ARRAY) {
        char number[24];
        json_reader_array(&reader);
        while (json_reader_next_item(&reader)) {
            (void)snprintf(number, sizeof number, "%lld", (long long)index++);
            if (strlen(number) == key.size && memcmp(number, key.bytes, key.size) == 0)
                *found = json_reader_skip(&reader, out);
        }
    } else if (json_reader_peek(&reader) == JSON_READER_OBJECT) {
        json_reader_object(&reader);
        while (json_reader_next_key(&reader, &name))
            if (name.size == key.size && memcmp(name.bytes, key.bytes, key.size) == 0)
                *found = json_reader_skip(&reader, out);
    } else {
        json_reader_skip(&reader, NULL);
    }
    return json_reader_finish(&reader);
}

static enum status find(const struct record *record, const char *path, struct json_reader_text *out,
                        struct error *error)
{
    *out = record->json;
    for (const char *at = path; *at != '\0';) {
        const char *dot = strchr(at, '.');
        const struct json_reader_text key = {at, dot == NULL ? strlen(at) : (size_t)(dot - at)};
        bool found = false;
        struct error cause;
        const enum status status = step(*out, key, &found, out, &cause);
        if (status != STATUS_OK)
            return error_set(error, status, "%s: line %lld: %.300s", record->file, (long long)record->line,
                             cause.detail);
        if (!found) return invalid(record, error, path, "is missing");
        at += key.size + (dot != NULL);
    }
    return STATUS_OK;
}

enum status record_text(const struct record *record, const char *path, struct phrase *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text value, text = {0};
    bool truth = false;
    enum status status = find(record, path, &value, error);
    if (status != STATUS_OK) return status;
    json_reader_init(&reader, record->file, value.bytes, value.size, NULL, error);
    switch (json_reader_peek(&reader)) {
    case JSON_READER_STRING:
        json_reader_string(&reader, &text);
        break;
    case JSON_READER_NUMBER:
        json_reader_number(&reader, &text);
        break;
    case JSON_READER_TRUE:
    case JSON_READER_FALSE:
        json_reader_bool(&reader, &truth);
        text = truth ? (struct json_reader_text){"True", 4} : (struct json_reader_text){"False", 5};
        break;
    case JSON_READER_NONE:
    case JSON_READER_OBJECT:
    case JSON_READER_ARRAY:
    case JSON_READER_NULL:
        json_reader_skip(&reader, NULL);
        status = json_reader_finish(&reader);
        return status == STATUS_OK ? invalid(record, error, path, "is not text") : status;
    }
    if (json_reader_status(&reader) == STATUS_OK) status = phrase_add(out, text.bytes, text.size, error);
    const enum status read = json_reader_finish(&reader);
    return read != STATUS_OK ? read : status;
}

enum status record_integer(const struct record *record, const char *path, int64_t *out, struct error *error)
{
    struct phrase text = {0};
    char digits[24] = "", *end = digits;
    enum status status = record_text(record, path, &text, error);
    if (status == STATUS_OK) {
        phrase_strip(&text, 0);
        if (text.size > 0 && text.size < sizeof digits) memcpy(digits, text.bytes, text.size);
        *out = strtoll(digits, &end, 10);
        if (end == digits || *end != '\0') status = invalid(record, error, path, "is not an integer");
    }
    phrase_reset(&text);
    return status;
}

enum status record_count(const struct record *record, const char *path, int64_t *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text value;
    enum status status = find(record, path, &value, error);
    *out = 0;
    if (status != STATUS_OK) return status;
    json_reader_init(&reader, record->file, value.bytes, value.size, NULL, error);
    const bool list = json_reader_peek(&reader) == JSON_READER_ARRAY;
    if (list) {
        json_reader_array(&reader);
        while (json_reader_next_item(&reader)) *out += 1;
    } else {
        json_reader_skip(&reader, NULL);
    }
    status = json_reader_finish(&reader);
    return status == STATUS_OK && !list ? invalid(record, error, path, "is not a list") : status;
}

static enum status equal_strings(struct json_reader_text a, struct json_reader_text b, bool *equal, struct error *error)
{
    const struct record left = {"record", 1, a}, right = {"record", 1, b};
    struct phrase x = {0}, y = {0};
    enum status status = record_text(&left, "", &x, error);
    if (status == STATUS_OK) status = record_text(&right, "", &y, error);
    *equal = status == STATUS_OK && x.size == y.size && (x.size == 0 || memcmp(x.bytes, y.bytes, x.size) == 0);
    phrase_reset(&x);
    phrase_reset(&y);
    return status;
}

/* Counts members of an object, or items of an array; each must have an equal in the other. */
static enum status equal_containers(struct json_reader_text a, struct json_reader_text b, bool *equal,
                                    struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key, value, other;
    int64_t index = 0, unequal = 0;
    enum status status = STATUS_OK;
    char number[24];
    json_reader_init(&reader, "record", a.bytes, a.size, NULL, error);
    const bool list = json_reader_peek(&reader) == JSON_READER_ARRAY;
    (void)(list ? json_reader_array(&reader) : json_reader_object(&reader));
    while (status == STATUS_OK && (list ? json_reader_next_item(&reader) : json_reader_next_key(&reader, &key))) {
        bool found = false, same = false;
        (void)snprintf(number, sizeof number, "%lld", (long long)index++);
        const struct json_reader_text name = list ? (struct json_reader_text){number, strlen(number)} : key;
        status = step(b, name, &found, &other, error);
        if (status == STATUS_OK && found && json_reader_skip(&reader, &value))
            status = record_equal(value, other, &same, error);
        unequal += !same;
    }
    const enum status read = json_reader_finish(&reader);
    *equal = unequal == 0;
    return read != STATUS_OK ? read : status;
}

static int64_t members(struct json_reader_text json, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key;
    int64_t count = 0;
    json_reader_init(&reader, "record", json.bytes, json.size, NULL, error);
    const bool list = json_reader_peek(&reader) == JSON_READER_ARRAY;
    (void)(list ? json_reader_array(&reader) : json_reader_object(&reader));
    while (list ? json_reader_next_item(&reader) : json_reader_next_key(&reader, &key)) count++;
    return json_reader_finish(&reader) == STATUS_OK ? count : -1;
}

enum status record_equal(struct json_reader_text a, struct json_reader_text b, bool *equal, struct error *error)
{
    *equal = a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
    if (*equal || a.size == 0 || b.size == 0) return STATUS_OK;
    if (a.bytes[0] != b.bytes[0] && (strchr("{[\"", a.bytes[0]) != NULL || strchr("{[\"", b.bytes[0]) != NULL))
        return STATUS_OK;
    if (a.bytes[0] == '"') return equal_strings(a, b, equal, error);
    if (a.bytes[0] == '{' || a.bytes[0] == '[') {
        if (members(a, error) != members(b, error)) return STATUS_OK;
        return equal_containers(a, b, equal, error);
    }
    char *end_a = NULL, *end_b = NULL; /* numbers: 1 equals 1.0; true, false and null were compared by their bytes */
    char left[64] = "", right[64] = "";
    (void)snprintf(left, sizeof left, "%.*s", (int)(a.size < 63 ? a.size : 63), a.bytes);
    (void)snprintf(right, sizeof right, "%.*s", (int)(b.size < 63 ? b.size : 63), b.bytes);
    const double x = strtod(left, &end_a), y = strtod(right, &end_b);
    *equal = end_a != left && end_b != right && x == y;
    return STATUS_OK;
}
