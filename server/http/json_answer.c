#include "http/json_answer.h"

#include "json/written.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_answer_real(double value, char out[JSON_ANSWER_REAL])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, JSON_ANSWER_REAL, "%.*g", digits, value);
        if (strtod(out, NULL) == value) return;
    }
}

/* Rewrites the number [from, end) at `to`, which is not after `from`; the result is never longer. Returns its end. */
static char *copy_number(char *to, const char *from, const char *end)
{
    char given[JSON_ANSWER_REAL], made[JSON_ANSWER_REAL + 2];
    const size_t length = (size_t)(end - from);
    bool shorter = false;
    if (length < sizeof given && memchr(from, '.', length) != NULL) {
        memcpy(given, from, length);
        given[length] = '\0';
        json_answer_real(strtod(given, NULL), made);
        if (strpbrk(made, ".e") == NULL) memcpy(made + strlen(made), ".0", sizeof ".0");
        shorter = strlen(made) <= length;
    }
    const size_t size = shorter ? strlen(made) : length;
    memmove(to, shorter ? made : from, size);
    return to + size;
}

char *json_answer_dump(const json_t *value)
{
    char *text = written_json(value, JSON_COMPACT | JSON_ENCODE_ANY), *to = text;
    if (text == NULL) return NULL;
    for (const char *from = text; *from != '\0';) {
        size_t length = 1;
        if (*from == '"') {
            while (from[length] != '"') length += from[length] == '\\' ? 2 : 1;
            length++;
        } else if (*from == '-' || (*from >= '0' && *from <= '9')) {
            length = strspn(from, "+-.0123456789eE");
            to = copy_number(to, from, from + length);
            from += length;
            continue;
        }
        memmove(to, from, length);
        to += length;
        from += length;
    }
    *to = '\0';
    return text;
}
