#include "json/jsonb.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SAFE_DIGITS = 18, SUFFIX = 2 };

/* The bytes of `text` that belong to the string at its beginning, with both quotation marks. */
static size_t string_span(const char *text, size_t length)
{
    size_t i = 1;
    while (i < length && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    return i < length ? i + 1 : length;
}

static size_t number_span(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && text[i] != '\0' && strchr("+-.eE0123456789", text[i]) != NULL) i++;
    return i;
}

/* Whether the number is an integer that jansson does not take. Something follows it: `text` ends with a NUL. */
static bool is_too_large(const char *text, size_t length)
{
    if (length <= SAFE_DIGITS || strspn(text, "-0123456789") < length) return false;
    errno = 0;
    (void)strtoll(text, NULL, 10);
    return errno == ERANGE;
}

/* The text with ".0" behind every integer that is too large. */
static char *widen(const char *text, size_t length, size_t *out_length)
{
    char *out = malloc(length + SUFFIX * (length / SAFE_DIGITS) + 1);
    size_t to = 0;
    for (size_t i = 0; out != NULL && i < length;) {
        size_t span = text[i] == '"' ? string_span(text + i, length - i) : number_span(text + i, length - i);
        const bool large = text[i] != '"' && is_too_large(text + i, span);
        if (span == 0) span = 1;
        memcpy(out + to, text + i, span);
        to += span;
        if (large) memcpy(out + to, ".0", SUFFIX);
        if (large) to += SUFFIX;
        i += span;
    }
    *out_length = to;
    return out;
}

static enum status explain(const json_error_t *why, struct error *error)
{
    if (json_error_code(why) == json_error_out_of_memory)
        return error_set(error, STATUS_NO_MEMORY, "no memory for JSON");
    return error_set(error, STATUS_CORRUPT, "no valid JSON: %s", why->text);
}

enum status jsonb_read(const char *text, size_t length, json_t **out, struct error *error)
{
    json_error_t why;
    *out = json_loadb(text, length, JSON_DECODE_ANY, &why);
    if (*out != NULL) return STATUS_OK;
    if (json_error_code(&why) != json_error_numeric_overflow) return explain(&why, error);
    size_t wide_length;
    char *wide = widen(text, length, &wide_length);
    if (wide == NULL) return error_no_memory(error, "JSON");
    *out = json_loadb(wide, wide_length, JSON_DECODE_ANY, &why);
    free(wide);
    return *out != NULL ? STATUS_OK : explain(&why, error);
}
