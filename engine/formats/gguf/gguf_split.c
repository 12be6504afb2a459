#include "formats/gguf/gguf_split.h"

#include <stdio.h>
#include <string.h>

enum { DIGITS = 5 };
static const char ending[] = ".gguf", between[] = "-of-";
#define TAIL (1 + DIGITS + sizeof between - 1 + DIGITS + sizeof ending - 1) /* "-00001-of-00003.gguf" */

static int number(const char *digits)
{
    int value = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9') return -1;
        value = 10 * value + digits[i] - '0';
    }
    return value;
}

bool gguf_split_read(const char *name, int *part, int *count)
{
    const size_t size = strlen(name);
    if (size <= TAIL) return false;
    const char *tail = name + size - TAIL, *middle = tail + 1 + DIGITS, *last = middle + sizeof between - 1;
    if (*tail != '-' || strncmp(middle, between, sizeof between - 1) != 0 || strcmp(last + DIGITS, ending) != 0)
        return false;
    *part = number(tail + 1);
    *count = number(last);
    return *part >= 1 && *count >= *part;
}

bool gguf_split_name(const char *name, int part, char *out, size_t size)
{
    const size_t length = strlen(name);
    if (length <= TAIL) return false;
    const char *middle = name + length - TAIL + 1 + DIGITS;
    return (size_t)snprintf(out, size, "%.*s-%05d%s", (int)(length - TAIL), name, part, middle) < size;
}
