#include "files/json_reader.h"
#include "files/json_text.h"

#include <assert.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_DEFAULT = 32,
    DEPTH_MAX = 64,
    NUMBER_MAX = 400, /* characters; a double needs 17 digits, and nothing that we read has more than 25 */
    EXCERPT_MAX = 40  /* bytes of a key in a message */
};

static const char *const type_names[] = {
    [JSON_READER_NONE] = "nothing",    [JSON_READER_OBJECT] = "an object", [JSON_READER_ARRAY] = "an array",
    [JSON_READER_STRING] = "a string", [JSON_READER_NUMBER] = "a number",  [JSON_READER_TRUE] = "true",
    [JSON_READER_FALSE] = "false",     [JSON_READER_NULL] = "null",
};

/* ---- Failures ---- */

/* Length of the longest prefix of `text`, at most `limit` bytes, that cuts no character in two. */
static int excerpt_size(const char *text, size_t size, size_t limit)
{
    if (size <= limit) return (int)size;
    while (limit > 0 && ((unsigned char)text[limit] & 0xc0u) == 0x80u) limit--;
    return (int)limit;
}

bool json_reader_fail(struct json_reader *reader, enum status status, const char *format, ...)
{
    char detail[300];
    va_list list;
    if (reader->status != STATUS_OK) return false;
    va_start(list, format);
    (void)vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    const size_t at = reader->options.offset + (size_t)(reader->at - reader->start);
    const char *key = reader->key != NULL ? reader->key + 1 : "";
    size_t size = 0;
    while (reader->key != NULL && key[size] != '"') size += key[size] == '\\' ? 2 : 1;
    reader->status =
        error_set(reader->error, status, "%s: byte %zu%s%.*s%s: %s", reader->name, at, size ? ", after key \"" : "",
                  excerpt_size(key, size, EXCERPT_MAX), key, size ? "\"" : "", detail);
    reader->pending = false;
    return false;
}

static bool malformed(struct json_reader *reader, const char *expected)
{
    if (reader->at == reader->end)
        return json_reader_fail(reader, STATUS_MALFORMED, "the text ends where %s is expected", expected);
    const unsigned char byte = (unsigned char)*reader->at;
    if (byte > 0x20 && byte < 0x7f)
        return json_reader_fail(reader, STATUS_MALFORMED, "found '%c', expected %s", byte, expected);
    return json_reader_fail(reader, STATUS_MALFORMED, "found byte 0x%02x, expected %s", byte, expected);
}

enum status json_reader_status(const struct json_reader *reader)
{
    return reader->status;
}

/* ---- Beginning and end ---- */

void json_reader_init(struct json_reader *reader, const char *name, const void *bytes, size_t size,
                      const struct json_reader_options *options, struct error *error)
{
    *reader = (struct json_reader){.name = name, .error = error};
    if (options != NULL) reader->options = *options;
    if (reader->options.depth == 0) reader->options.depth = DEPTH_DEFAULT;
    assert(reader->options.depth > 0 && reader->options.depth <= DEPTH_MAX);
    json_reader_restart(reader, bytes, size, reader->options.offset);
}

void json_reader_restart(struct json_reader *reader, const void *bytes, size_t size, size_t offset)
{
    reader->start = reader->at = size ? bytes : "";
    reader->end = reader->start + size;
    reader->options.offset = offset;
    reader->depth = 0;
    reader->first = false;
    reader->key = NULL;
    reader->pending = reader->status == STATUS_OK;
}

static void skip_space(struct json_reader *reader)
{
    const char *at = reader->at;
    while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    reader->at = at;
}

bool json_reader_end(struct json_reader *reader)
{
    if (reader->status != STATUS_OK) return false;
    if (reader->pending && reader->depth == 0 && !json_reader_skip(reader, NULL)) return false;
    if (reader->depth > 0) return json_reader_fail(reader, STATUS_INTERNAL, "the document was not read to its end");
    skip_space(reader);
    return reader->at == reader->end || malformed(reader, "the end of the text");
}

enum status json_reader_finish(struct json_reader *reader)
{
    (void)json_reader_end(reader);
    free(reader->keys.bytes);
    free(reader->strings.bytes);
    reader->keys = reader->strings = (struct json_reader_scratch){0};
    return reader->status;
}

/* ---- Strings, numbers, literals ---- */

/* Moves past the string at reader->at (its opening quote). *raw: the text between the quotes. */
static bool scan_string(struct json_reader *reader, struct json_reader_text *raw, bool *escaped)
{
    const char *from = reader->at + 1;
    const char *complaint = json_text_string(&reader->at, reader->end, escaped);
    if (complaint != NULL) return json_reader_fail(reader, STATUS_MALFORMED, "%s", complaint);
    *raw = (struct json_reader_text){from, (size_t)(reader->at - 1 - from)};
    return true;
}

/* Decodes `raw` into `scratch`, as many bytes at most: no escape is shorter than its character. */
static bool decode_string(struct json_reader *reader, struct json_reader_text raw, struct json_reader_scratch *scratch,
                          struct json_reader_text *out)
{
    if (raw.size > scratch->capacity) {
        const size_t capacity = raw.size < SIZE_MAX / 2 ? raw.size * 2 : raw.size;
        free(scratch->bytes);
        *scratch = (struct json_reader_scratch){malloc(capacity), capacity};
        if (scratch->bytes == NULL) {
            scratch->capacity = 0;
            return json_reader_fail(reader, STATUS_NO_MEMORY, "cannot allocate %zu bytes for a string", capacity);
        }
    }
    *out = (struct json_reader_text){scratch->bytes, json_text_decode(raw.bytes, raw.size, scratch->bytes)};
    return true;
}

/* Moves past `literal` if it comes next. */
static bool scan_literal(struct json_reader *reader, const char *literal)
{
    const size_t size = strlen(literal);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, literal, size) != 0) return false;
    reader->at += size;
    return true;
}

static bool scan_number(struct json_reader *reader, struct json_reader_text *out)
{
    const char *from = reader->at;
    const bool literal =
        reader->options.not_finite &&
        (scan_literal(reader, "NaN") || scan_literal(reader, "Infinity") || scan_literal(reader, "-Infinity"));
    const char *complaint = literal ? NULL : json_text_number(&reader->at, reader->end);
    if (complaint != NULL) return json_reader_fail(reader, STATUS_MALFORMED, "%s", complaint);
    if (reader->at - from > NUMBER_MAX)
        return json_reader_fail(reader, STATUS_MALFORMED, "a number of more than %d characters", NUMBER_MAX);
    *out = (struct json_reader_text){from, (size_t)(reader->at - from)};
    return true;
}

/* ---- Values ---- */

enum json_reader_type json_reader_peek(struct json_reader *reader)
{
    if (reader->status != STATUS_OK || !reader->pending) return JSON_READER_NONE;
    skip_space(reader);
    const char c = reader->at < reader->end ? *reader->at : '\0';
    switch (c) {
    case '{':
        return JSON_READER_OBJECT;
    case '[':
        return JSON_READER_ARRAY;
    case '"':
        return JSON_READER_STRING;
    case 't':
        return JSON_READER_TRUE;
    case 'f':
        return JSON_READER_FALSE;
    case 'n':
        return JSON_READER_NULL;
    default:
        break;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return JSON_READER_NUMBER;
    if (reader->options.not_finite && (c == 'N' || c == 'I')) return JSON_READER_NUMBER;
    (void)malformed(reader, "a value");
    return JSON_READER_NONE;
}

/* Whether the next value is of this type; any other type becomes the reader's error. */
static bool expect(struct json_reader *reader, enum json_reader_type type)
{
    const enum json_reader_type found = json_reader_peek(reader);
    if (found == type) return true;
    if (reader->status == STATUS_OK && !reader->pending)
        return json_reader_fail(reader, STATUS_INTERNAL, "no value to read here");
    return json_reader_fail(reader, STATUS_INVALID, "expected %s, found %s", type_names[type], type_names[found]);
}

static bool enter(struct json_reader *reader, bool object)
{
    if (reader->depth == reader->options.depth)
        return json_reader_fail(reader, STATUS_MALFORMED, "nested deeper than %d", reader->options.depth);
    const uint64_t bit = UINT64_C(1) << reader->depth++;
    reader->objects = object ? reader->objects | bit : reader->objects & ~bit;
    reader->first = true;
    reader->pending = false;
    reader->at++;
    return true;
}

bool json_reader_object(struct json_reader *reader)
{
    return expect(reader, JSON_READER_OBJECT) && enter(reader, true);
}

bool json_reader_array(struct json_reader *reader)
{
    return expect(reader, JSON_READER_ARRAY) && enter(reader, false);
}

static bool in_object(const struct json_reader *reader)
{
    return reader->objects >> (reader->depth - 1) & 1;
}

/* Goes to the next member or item of the innermost container; *raw and *escaped describe the member's key. False at the
 * end of the container, which is then left. */
static bool advance(struct json_reader *reader, struct json_reader_text *raw, bool *escaped)
{
    const bool object = in_object(reader);
    const char close = object ? '}' : ']';
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == close) {
        reader->at++;
        reader->depth--;
        reader->first = false;
        return false;
    }
    if (!reader->first) {
        if (reader->at == reader->end || *reader->at != ',')
            return malformed(reader, object ? "',' or '}'" : "',' or ']'");
        reader->at++;
        skip_space(reader);
    }
    reader->first = false;
    if (object) {
        if (reader->at == reader->end || *reader->at != '"') return malformed(reader, "a key");
        const char *key = reader->at;
        if (!scan_string(reader, raw, escaped)) return false;
        reader->key = key;
        skip_space(reader);
        if (reader->at == reader->end || *reader->at != ':') return malformed(reader, "':'");
        reader->at++;
    }
    reader->pending = true;
    return true;
}

/* Like advance, after skipping a value that was not read. */
static bool next(struct json_reader *reader, bool object, struct json_reader_text *raw, bool *escaped)
{
    if (reader->status != STATUS_OK) return false;
    if (reader->pending && !json_reader_skip(reader, NULL)) return false;
    if (reader->depth == 0 || in_object(reader) != object)
        return json_reader_fail(reader, STATUS_INTERNAL, "not inside %s", object ? "an object" : "an array");
    return advance(reader, raw, escaped);
}

bool json_reader_next_key(struct json_reader *reader, struct json_reader_text *key)
{
    struct json_reader_text raw = {0};
    bool escaped = false;
    if (!next(reader, true, &raw, &escaped)) return false;
    if (escaped) return decode_string(reader, raw, &reader->keys, key);
    *key = raw;
    return true;
}

bool json_reader_next_item(struct json_reader *reader)
{
    return next(reader, false, NULL, NULL);
}

bool json_reader_leave(struct json_reader *reader)
{
    if (reader->status != STATUS_OK) return false;
    if (reader->depth == 0) return json_reader_fail(reader, STATUS_INTERNAL, "nothing to leave");
    struct json_reader_text raw;
    bool escaped;
    const int outside = reader->depth - 1;
    while (next(reader, in_object(reader), &raw, &escaped)) continue;
    assert(reader->status != STATUS_OK || reader->depth == outside);
    (void)outside;
    return reader->status == STATUS_OK;
}

/* Checks one scalar value, or enters a container. */
static bool scan_value(struct json_reader *reader)
{
    struct json_reader_text text;
    bool escaped, right = false;
    const enum json_reader_type type = json_reader_peek(reader);
    switch (type) {
    case JSON_READER_NONE:
        return false;
    case JSON_READER_OBJECT:
        return enter(reader, true);
    case JSON_READER_ARRAY:
        return enter(reader, false);
    case JSON_READER_STRING:
        right = scan_string(reader, &text, &escaped);
        break;
    case JSON_READER_NUMBER:
        right = scan_number(reader, &text);
        break;
    case JSON_READER_TRUE:
    case JSON_READER_FALSE:
    case JSON_READER_NULL:
        right = scan_literal(reader, type_names[type]) || malformed(reader, "a value");
        break;
    }
    reader->pending = false;
    return right;
}

bool json_reader_skip(struct json_reader *reader, struct json_reader_text *out)
{
    if (reader->status != STATUS_OK) return false;
    if (!reader->pending) return json_reader_fail(reader, STATUS_INTERNAL, "no value to read here");
    skip_space(reader);
    const char *from = reader->at;
    const int outside = reader->depth;
    struct json_reader_text raw;
    bool escaped;
    if (!scan_value(reader)) return false;
    while (reader->depth > outside) {
        if (advance(reader, &raw, &escaped) && !scan_value(reader)) return false;
        if (reader->status != STATUS_OK) return false;
    }
    if (out != NULL) *out = (struct json_reader_text){from, (size_t)(reader->at - from)};
    return true;
}

bool json_reader_string(struct json_reader *reader, struct json_reader_text *out)
{
    struct json_reader_text raw;
    bool escaped;
    if (!expect(reader, JSON_READER_STRING) || !scan_string(reader, &raw, &escaped)) return false;
    reader->pending = false;
    if (escaped) return decode_string(reader, raw, &reader->strings, out);
    *out = raw;
    return true;
}

bool json_reader_string_copy(struct json_reader *reader, char *buffer, size_t capacity)
{
    struct json_reader_text text;
    if (!json_reader_string(reader, &text)) return false;
    if (text.size >= capacity)
        return json_reader_fail(reader, STATUS_INVALID, "a string of %zu bytes, at most %zu are accepted", text.size,
                                capacity - 1);
    if (memchr(text.bytes, '\0', text.size) != NULL)
        return json_reader_fail(reader, STATUS_INVALID, "a string contains NUL");
    memcpy(buffer, text.bytes, text.size);
    buffer[text.size] = '\0';
    return true;
}

bool json_reader_number(struct json_reader *reader, struct json_reader_text *out)
{
    if (!expect(reader, JSON_READER_NUMBER) || !scan_number(reader, out)) return false;
    reader->pending = false;
    return true;
}

/* Reads an integer as sign and magnitude. */
static bool integer(struct json_reader *reader, bool *negative, uint64_t *magnitude)
{
    struct json_reader_text text;
    if (!json_reader_number(reader, &text)) return false;
    *negative = text.bytes[0] == '-';
    *magnitude = 0;
    for (size_t i = *negative; i < text.size; i++) {
        const char c = text.bytes[i];
        if (c < '0' || c > '9')
            return json_reader_fail(reader, STATUS_INVALID, "expected an integer, found %.*s",
                                    excerpt_size(text.bytes, text.size, EXCERPT_MAX), text.bytes);
        if (__builtin_mul_overflow(*magnitude, UINT64_C(10), magnitude) ||
            __builtin_add_overflow(*magnitude, (uint64_t)(c - '0'), magnitude))
            return json_reader_fail(reader, STATUS_INVALID, "integer out of range: %.*s",
                                    excerpt_size(text.bytes, text.size, EXCERPT_MAX), text.bytes);
    }
    return true;
}

bool json_reader_int64(struct json_reader *reader, int64_t minimum, int64_t maximum, int64_t *out)
{
    bool negative = false;
    uint64_t magnitude = 0;
    if (!integer(reader, &negative, &magnitude)) return false;
    const bool fits = magnitude <= (uint64_t)INT64_MAX + negative;
    const int64_t value = negative ? (int64_t)(UINT64_C(0) - magnitude) : (int64_t)magnitude;
    if (!fits || value < minimum || value > maximum)
        return json_reader_fail(reader, STATUS_INVALID, "%s%llu is not in [%lld, %lld]", negative ? "-" : "",
                                (unsigned long long)magnitude, (long long)minimum, (long long)maximum);
    *out = value;
    return true;
}

bool json_reader_uint64(struct json_reader *reader, uint64_t maximum, uint64_t *out)
{
    bool negative = false;
    uint64_t magnitude = 0;
    if (!integer(reader, &negative, &magnitude)) return false;
    if (negative || magnitude > maximum) /* -0 is refused too: unsigned readers refuse the sign */
        return json_reader_fail(reader, STATUS_INVALID, "%s%llu is not in [0, %llu]", negative ? "-" : "",
                                (unsigned long long)magnitude, (unsigned long long)maximum);
    *out = magnitude;
    return true;
}

bool json_reader_double(struct json_reader *reader, double *out)
{
    struct json_reader_text text;
    char copy[NUMBER_MAX + 1];
    if (!json_reader_number(reader, &text)) return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    /* strtod would take the decimal point of the locale */
    const locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (locale == NULL) return json_reader_fail(reader, STATUS_NO_MEMORY, "cannot allocate a locale");
    const double value = strtod_l(copy, NULL, locale);
    freelocale(locale);
    const bool literal = text.bytes[text.size - 1] == 'N' || text.bytes[text.size - 1] == 'y';
    if (!literal && __builtin_isinf(value))
        return json_reader_fail(reader, STATUS_INVALID, "number out of range: %.*s",
                                excerpt_size(text.bytes, text.size, EXCERPT_MAX), text.bytes);
    *out = value;
    return true;
}

bool json_reader_bool(struct json_reader *reader, bool *out)
{
    const bool value = json_reader_peek(reader) == JSON_READER_TRUE;
    if (!value && json_reader_peek(reader) != JSON_READER_FALSE) {
        const enum json_reader_type found = json_reader_peek(reader);
        return json_reader_fail(reader, STATUS_INVALID, "expected true or false, found %s", type_names[found]);
    }
    if (!scan_value(reader)) return false;
    *out = value;
    return true;
}

bool json_reader_null(struct json_reader *reader)
{
    return json_reader_peek(reader) == JSON_READER_NULL && scan_value(reader);
}

/* ---- Helpers ---- */

bool json_reader_is(struct json_reader_text text, const char *literal)
{
    return strlen(literal) == text.size && memcmp(text.bytes, literal, text.size) == 0;
}

int json_reader_field(struct json_reader *reader, struct json_reader_text key, const char *const *names, uint64_t *seen)
{
    for (int i = 0; names[i] != NULL; i++) {
        assert(i < 64);
        if (!json_reader_is(key, names[i])) continue;
        if (*seen >> i & 1) {
            (void)json_reader_fail(reader, STATUS_MALFORMED, "the key is given twice");
            return -1;
        }
        *seen |= UINT64_C(1) << i;
        return i;
    }
    return -1;
}
