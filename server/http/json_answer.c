#include "http/json_answer.h"

#include "json/written.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REAL_MAX = 40 };

/* Rewrites the number [from, end) at `to`, which is not after `from`; the result is never longer. Returns its end. */
static char *copy_number(char *to, const char *from, const char *end)
{
    char given[REAL_MAX], made[REAL_MAX];
    const size_t length = (size_t)(end - from);
    const char *chosen = from;
    size_t size = length;
    if (length < sizeof given && memchr(from, '.', length) != NULL) {
        memcpy(given, from, length);
        given[length] = '\0';
        const double value = strtod(given, NULL);
        for (int digits = 15; digits <= 16 && chosen == from; digits++) {
            (void)snprintf(made, sizeof made, "%.*g", digits, value);
            if (strtod(made, NULL) != value || strlen(made) > length) continue;
            if (strpbrk(made, ".e") == NULL && strlen(made) + 2 <= length)
                memcpy(made + strlen(made), ".0", sizeof ".0");
            if (strpbrk(made, ".e") == NULL) continue;
            chosen = made;
            size = strlen(made);
        }
    }
    memmove(to, chosen, size);
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
