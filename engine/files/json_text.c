#include "files/json_text.h"

#include "base/hex.h"

#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 sequence at `at` (RFC 3629: no overlong forms, no surrogates, up to U+10FFFF), 0 when there is
 * none. */
static int sequence_size(const char *at, const char *end)
{
    static const struct {
        unsigned char first, last, second_least, second_most;
        int size;
    } rows[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char lead = (unsigned char)*at;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (lead < rows[i].first || lead > rows[i].last) continue;
        if (end - at < rows[i].size) return 0;
        const unsigned char second = (unsigned char)at[1];
        if (second < rows[i].second_least || second > rows[i].second_most) return 0;
        for (int j = 2; j < rows[i].size; j++)
            if (((unsigned char)at[j] & 0xc0u) != 0x80u) return 0;
        return rows[i].size;
    }
    return 0;
}

/* Moves past ASCII bytes that need no decoding, eight at a time. */
static const char *skip_plain(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        /* A byte's top bit is set for a quote, a backslash, a control character and anything above ASCII. Borrows reach
         * only bytes above such a byte, so the lowest top bit is right. */
        const uint64_t stops =
            (((word ^ ones * '"') - ones) | ((word ^ ones * '\\') - ones) | (word - ones * ' ') | word) & tops;
        if (stops) return at + __builtin_ctzll(stops) / 8;
    }
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

/* Value of the four hexadecimal digits at `at`, -1 when they are not there. */
static int escape_value(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(at[i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Scans an escape from its backslash; a surrogate pair is two escapes. */
static const char *scan_escape(const char **at, const char *end)
{
    const char *from = *at;
    if (end - from < 2) return "the text ends inside an escape";
    if (from[1] != 'u') {
        if (memchr("\"\\/bfnrt", from[1], 8) == NULL) return "unknown escape in a string";
        *at += 2;
        return NULL;
    }
    const int unit = escape_value(from + 2, end);
    if (unit < 0) return "\\u without four hexadecimal digits";
    if (unit < 0xd800 || unit > 0xdfff) {
        *at += 6;
        return NULL;
    }
    const bool paired = unit < 0xdc00 && end - from >= 12 && from[6] == '\\' && from[7] == 'u';
    const int low = paired ? escape_value(from + 8, end) : -1;
    if (low < 0xdc00 || low > 0xdfff) return "lone surrogate in a string";
    *at += 12;
    return NULL;
}

const char *json_text_string(const char **at, const char *end, bool *escaped)
{
    ++*at;
    *escaped = false;
    for (;;) {
        *at = skip_plain(*at, end);
        if (*at == end) return "the text ends inside a string";
        const unsigned char byte = (unsigned char)**at;
        if (byte == '"') break;
        if (byte == '\\') {
            *escaped = true;
            const char *complaint = scan_escape(at, end);
            if (complaint != NULL) return complaint;
            continue;
        }
        if (byte < 0x20) return "control character in a string";
        const int size = sequence_size(*at, end);
        if (size == 0) return "a string is not valid UTF-8";
        *at += size;
    }
    ++*at;
    return NULL;
}

static bool skip_digits(const char **at, const char *end)
{
    const char *from = *at;
    while (*at < end && **at >= '0' && **at <= '9') ++*at;
    return *at > from;
}

static bool skip_byte(const char **at, const char *end, char byte)
{
    if (*at == end || **at != byte) return false;
    ++*at;
    return true;
}

const char *json_text_number(const char **at, const char *end)
{
    static const char complaint[] = "a number lacks a digit";
    (void)skip_byte(at, end, '-');
    if (!skip_byte(at, end, '0') && !skip_digits(at, end)) return complaint;
    if (skip_byte(at, end, '.') && !skip_digits(at, end)) return complaint;
    if (skip_byte(at, end, 'e') || skip_byte(at, end, 'E')) {
        if (!skip_byte(at, end, '+')) (void)skip_byte(at, end, '-');
        if (!skip_digits(at, end)) return complaint;
    }
    return NULL;
}

static char *encode(unsigned code, char *out)
{
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *out++ = (char)(leads[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) *out++ = (char)(0x80u | (code >> (6 * i) & 0x3fu));
    return out;
}

/* Writes the character of the escape at `at` and moves past it. */
static const char *decode_escape(const char *at, const char *end, char **out)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    if (at[1] != 'u') {
        const char *letter = memchr(letters, at[1], 5);
        *(*out)++ = letter != NULL ? meanings[letter - letters] : at[1];
        return at + 2;
    }
    unsigned code = (unsigned)escape_value(at + 2, end);
    at += 6;
    if (code >= 0xd800 && code <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + ((unsigned)escape_value(at + 2, end) - 0xdc00);
        at += 6;
    }
    *out = encode(code, *out);
    return at;
}

size_t json_text_decode(const char *raw, size_t size, char *out)
{
    const char *at = raw, *const end = raw + size;
    char *to = out;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const size_t plain = (size_t)((escape != NULL ? escape : end) - at);
        memcpy(to, at, plain);
        to += plain;
        at += plain;
        if (escape != NULL) at = decode_escape(at, end, &to);
    }
    return (size_t)(to - out);
}
