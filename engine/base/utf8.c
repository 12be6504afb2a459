#include "base/utf8.h"

#include <string.h>

/* Width of the valid character at `at`, 0 when there is none. Bounds: RFC 3629, section 4. */
static size_t valid_width(const uint8_t *at, size_t left)
{
    uint8_t first = at[0], low = 0x80, high = 0xbf;
    size_t width = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (width == 0 || width > left) return 0;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    for (size_t i = 1; i < width; i++) {
        if (at[i] < low || at[i] > high) return 0;
        low = 0x80;
        high = 0xbf;
    }
    return width;
}

size_t utf8_check(const char *text, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t i = 0;
    while (i < bytes) {
        uint64_t eight;
        if (bytes - i >= sizeof eight) {
            memcpy(&eight, at + i, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                i += sizeof eight;
                continue;
            }
        }
        size_t width = valid_width(at + i, bytes - i);
        if (width == 0) break;
        i += width;
    }
    return i;
}

void utf8_repair(char *text)
{
    const size_t bytes = strlen(text);
    for (size_t at = utf8_check(text, bytes); at < bytes; at += utf8_check(text + at, bytes - at)) text[at] = '?';
}

uint32_t utf8_decode(const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    if (at[0] < 0x80) return at[0];
    if (at[0] < 0xe0) return (uint32_t)(at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    if (at[0] < 0xf0) return (uint32_t)(at[0] & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    return (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12 | (uint32_t)(at[2] & 0x3f) << 6 |
           (at[3] & 0x3f);
}

size_t utf8_encode(uint32_t character, char *out)
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    size_t width = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = width - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    out[0] = (char)(first[width] | character);
    return width;
}

bool utf8_is_white_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
