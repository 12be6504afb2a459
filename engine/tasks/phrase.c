#include "tasks/phrase.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void phrase_reset(struct phrase *phrase)
{
    free(phrase->bytes);
    *phrase = (struct phrase){0};
}

enum status phrase_add(struct phrase *phrase, const char *bytes, size_t size, struct error *error)
{
    if (phrase->size + size > phrase->capacity) {
        const size_t capacity = 2 * (phrase->size + size) + 64;
        char *grown = realloc(phrase->bytes, capacity);
        if (grown == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a prompt of %zu bytes", capacity);
        phrase->bytes = grown;
        phrase->capacity = capacity;
    }
    if (size > 0) memcpy(phrase->bytes + phrase->size, bytes, size);
    phrase->size += size;
    return STATUS_OK;
}

static bool is_blank(int32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Texts come from a JSON reader that accepts only valid UTF-8. */
static size_t character(const char *bytes, size_t size, int32_t *c)
{
    const utf8proc_ssize_t read = utf8proc_iterate((const utf8proc_uint8_t *)bytes, (utf8proc_ssize_t)size, c);
    return read > 0 ? (size_t)read : 1;
}

size_t phrase_blanks_at_end(const char *bytes, size_t size)
{
    size_t end = size;
    while (end > 0) {
        size_t start = end - 1;
        int32_t c = 0;
        while (start > 0 && ((unsigned char)bytes[start] & 0xc0) == 0x80) start--;
        (void)character(bytes + start, end - start, &c);
        if (!is_blank(c)) break;
        end = start;
    }
    return size - end;
}

int64_t phrase_characters(const char *bytes, size_t size)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) count += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return count;
}

/* Removes `count` bytes at `at`. */
static void cut(struct phrase *phrase, size_t at, size_t count)
{
    if (count == 0) return;
    memmove(phrase->bytes + at, phrase->bytes + at + count, phrase->size - at - count);
    phrase->size -= count;
}

void phrase_strip_left(struct phrase *phrase, size_t from)
{
    size_t at = from;
    while (at < phrase->size) {
        int32_t c = 0;
        const size_t width = character(phrase->bytes + at, phrase->size - at, &c);
        if (!is_blank(c)) break;
        at += width;
    }
    cut(phrase, from, at - from);
}

void phrase_strip(struct phrase *phrase, size_t from)
{
    phrase_strip_left(phrase, from);
    if (phrase->size > from) phrase->size -= phrase_blanks_at_end(phrase->bytes + from, phrase->size - from);
}

static size_t blank_place(const struct phrase *phrase, size_t from)
{
    const char *found = phrase->size > from ? memchr(phrase->bytes + from, '_', phrase->size - from) : NULL;
    return found == NULL ? phrase->size : (size_t)(found - phrase->bytes);
}

void phrase_before_blank(struct phrase *phrase, size_t from)
{
    phrase->size = blank_place(phrase, from);
}

void phrase_after_blank(struct phrase *phrase, size_t from)
{
    const size_t place = blank_place(phrase, from);
    cut(phrase, from, place - from + (place < phrase->size));
    phrase_strip(phrase, from);
}

enum status phrase_capitalise(struct phrase *phrase, size_t from, struct error *error)
{
    struct phrase copy = {0};
    enum status status = STATUS_OK;
    for (size_t at = from; at < phrase->size && status == STATUS_OK;) {
        utf8proc_uint8_t encoded[4];
        int32_t c = 0;
        const bool first = at == from;
        at += character(phrase->bytes + at, phrase->size - at, &c);
        const utf8proc_ssize_t width = utf8proc_encode_char(first ? utf8proc_totitle(c) : utf8proc_tolower(c), encoded);
        status = phrase_add(&copy, (const char *)encoded, (size_t)width, error);
    }
    if (status == STATUS_OK) {
        phrase->size = from;
        status = phrase_add(phrase, copy.bytes, copy.size, error);
    }
    phrase_reset(&copy);
    return status;
}

static bool stands_at(const struct phrase *phrase, size_t at, const char *literal)
{
    const size_t length = strlen(literal);
    return phrase->size - at >= length && memcmp(phrase->bytes + at, literal, length) == 0;
}

/* Replaces every `found` by the shorter or equally long `by`, from the left, going on behind each. */
static void replace(struct phrase *phrase, size_t from, const char *found, const char *by)
{
    const size_t length = strlen(found), width = strlen(by);
    size_t to = from;
    for (size_t at = from; at < phrase->size;) {
        if (stands_at(phrase, at, found)) {
            memcpy(phrase->bytes + to, by, width);
            to += width;
            at += length;
        } else {
            phrase->bytes[to++] = phrase->bytes[at++];
        }
    }
    phrase->size = to;
}

static void drop_brackets(struct phrase *phrase, size_t from)
{
    size_t to = from;
    for (size_t at = from; at < phrase->size;) {
        size_t end = at + 1;
        if (phrase->bytes[at] == '[') {
            while (end < phrase->size && phrase->bytes[end] != ']' && phrase->bytes[end] != '\n') end++;
            if (end < phrase->size && phrase->bytes[end] == ']') {
                at = end + 1;
                continue;
            }
        }
        phrase->bytes[to++] = phrase->bytes[at++];
    }
    phrase->size = to;
}

void phrase_clean_wikihow(struct phrase *phrase, size_t from)
{
    phrase_strip(phrase, from);
    replace(phrase, from, " [title]", ". ");
    drop_brackets(phrase, from);
    replace(phrase, from, "  ", " ");
}
