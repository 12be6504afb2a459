#include "http/byte_range.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const char unit[] = "bytes=";

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* Moves *text behind the digits; a number that does not fit is the largest one. False without a digit. */
static bool read_number(const char **text, int64_t *out)
{
    const char *from = *text;
    *out = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        const int digit = **text - '0';
        *out = *out > (INT64_MAX - digit) / 10 ? INT64_MAX : *out * 10 + digit;
    }
    return *text > from;
}

/* FIRST-LAST, FIRST- or -COUNT, with nothing behind. */
enum byte_range_verdict byte_range_of(const char *header, int64_t size, struct byte_range *out)
{
    int64_t first, last;
    if (header == NULL || strncasecmp(header, unit, strlen(unit)) != 0) return BYTE_RANGE_WHOLE;
    const char *text = skip_blanks(header + strlen(unit));
    const bool begins = read_number(&text, &first);
    if (*text++ != '-') return BYTE_RANGE_WHOLE;
    const bool ends = read_number(&text, &last);
    if (*skip_blanks(text) != '\0' || (!begins && !ends) || (begins && ends && last < first)) return BYTE_RANGE_WHOLE;
    if (!begins) {
        first = last < size ? size - last : 0;
        if (last == 0) return BYTE_RANGE_OUTSIDE;
    }
    if (first >= size) return BYTE_RANGE_OUTSIDE;
    const int64_t end = !begins || !ends || last >= size - 1 ? size : last + 1;
    *out = (struct byte_range){first, end - first};
    return BYTE_RANGE_PART;
}
