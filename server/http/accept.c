#include "http/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* One element of a comma-separated list: the bytes of its value and its quality. */
struct element {
    const char *value;
    size_t length;
    int quality;
};

static size_t skip_space(const char *text)
{
    return strspn(text, " \t");
}

/* "0.85" becomes 850; more than one becomes 1000, no number becomes 0 */
static int quality_parse(const char *text)
{
    if (text[0] == '1') return 1000;
    if (text[0] != '0') return 0;
    int quality = 0, scale = 100;
    if (text[1] == '.')
        for (const char *c = text + 2; *c >= '0' && *c <= '9' && scale > 0; c++, scale /= 10)
            quality += (*c - '0') * scale;
    return quality;
}

/* Reads the element at *cursor and moves past its comma; false at the end of the list. */
static int element_next(const char **cursor, struct element *out)
{
    const char *text = *cursor + skip_space(*cursor);
    while (*text == ',') text += 1 + skip_space(text + 1);
    if (!*text) return 0;
    const size_t whole = strcspn(text, ",");
    size_t length = strcspn(text, ";,");
    *cursor = text + whole;
    out->quality = 1000;
    for (const char *c = text + length; c < text + whole; c += 1 + strcspn(c + 1, ";,")) {
        const char *name = c + 1 + skip_space(c + 1);
        if ((name[0] == 'q' || name[0] == 'Q') && name[1] == '=') out->quality = quality_parse(name + 2);
    }
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t')) length--;
    out->value = text;
    out->length = length;
    return 1;
}

/* 3: the type itself, 2: its family ("text" then "/" and a star), 1: anything, 0: no match */
static int type_specificity(const struct element *range, const char *type, size_t type_length)
{
    const size_t family = strcspn(type, "/");
    if (range->length == type_length && strncasecmp(range->value, type, type_length) == 0) return 3;
    if (range->length == family + 2 && strncasecmp(range->value, type, family + 1) == 0 &&
        range->value[family + 1] == '*')
        return 2;
    if (range->length == 3 && strncmp(range->value, "*/*", 3) == 0) return 1;
    return 0;
}

int accept_type_quality(const char *header, const char *type)
{
    const size_t type_length = strcspn(type, "; ");
    struct element range;
    int best = 0, quality = 0;
    while (element_next(&header, &range)) {
        const int specificity = type_specificity(&range, type, type_length);
        if (specificity > best) {
            best = specificity;
            quality = range.quality;
        }
    }
    return quality;
}

int accept_coding_quality(const char *header, const char *coding)
{
    struct element element;
    int any = 0;
    if (header == NULL) return 0;
    while (element_next(&header, &element)) {
        if (element.length == strlen(coding) && strncasecmp(element.value, coding, element.length) == 0)
            return element.quality;
        if (element.length == 1 && element.value[0] == '*') any = element.quality;
    }
    return any;
}
