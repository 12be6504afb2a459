#include "http/json_body.h"

#include "json/small_number.h"

enum { DEPTH_MAX = 32, OBJECTS_MAX = 65536, ARRAYS_MAX = 524288 };

/* Counts brackets outside strings before any tree is built. The rest of the grammar is left to the parser, which runs
 * after it. */
static enum status scan(const char *bytes, size_t length, struct error *error)
{
    size_t depth = 0, objects = 0, arrays = 0, line = 1, line_start = 0;
    bool string = false;
    for (size_t i = 0; i < length; i++) {
        const char c = bytes[i];
        if (string) {
            if (c == '\\')
                i++;
            else
                string = c != '"';
            continue;
        }
        if (c == '"') string = true;
        if (c == '\n') {
            line++;
            line_start = i + 1;
        }
        if (c == '{' || c == '[') {
            depth++;
            *(c == '{' ? &objects : &arrays) += 1;
            if (depth > DEPTH_MAX)
                return error_set(error, STATUS_MALFORMED, "line %zu, column %zu: nested deeper than %d levels", line,
                                 i - line_start + 1, DEPTH_MAX);
        }
        if ((c == '}' || c == ']') && depth > 0) depth--;
    }
    if (objects > OBJECTS_MAX || arrays > ARRAYS_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "the body holds %zu objects and %zu arrays; at most %d and %d are taken", objects, arrays,
                         OBJECTS_MAX, ARRAYS_MAX);
    return STATUS_OK;
}

static enum status refuse_small_numbers(const char *bytes, size_t length, struct error *error)
{
    size_t size = 0, line = 1;
    const char *found = small_number_find(bytes, length, &size), *line_start = bytes;
    if (found == NULL) return STATUS_OK;
    for (const char *at = bytes; at < found; at++) {
        if (*at != '\n') continue;
        line++;
        line_start = at + 1;
    }
    return error_set(error, STATUS_MALFORMED,
                     "line %zu, column %zu: the number %.*s is neither 0 nor at least " SMALL_NUMBER_LEAST
                     " in magnitude, and would be taken for 0",
                     line, (size_t)(found - line_start) + 1, size < 40 ? (int)size : 40, found);
}

enum status json_body_parse(const char *bytes, size_t length, json_t **out, struct error *error)
{
    json_error_t cause;
    *out = NULL;
    enum status status = scan(bytes, length, error);
    if (status != STATUS_OK) return status;
    *out = json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &cause);
    if (*out != NULL) {
        if ((status = refuse_small_numbers(bytes, length, error)) == STATUS_OK) return STATUS_OK;
        json_decref(*out);
        *out = NULL;
        return status;
    }
    if (json_error_code(&cause) == json_error_out_of_memory)
        return error_set(error, STATUS_NO_MEMORY, "out of memory for the body");
    if (json_error_code(&cause) == json_error_null_character)
        return error_set(error, STATUS_MALFORMED, "line %d, column %d: \\u0000 is not allowed here", cause.line,
                         cause.column);
    return error_set(error, STATUS_MALFORMED, "line %d, column %d: %s", cause.line, cause.column, cause.text);
}
