#include "base/hex.h"

const unsigned char hex_digits[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

void hex_write(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

bool hex_read(const char *text, unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++, text += 2) {
        const int high = hex_value(text[0]), low = high < 0 ? -1 : hex_value(text[1]);
        if (low < 0) return false;
        out[i] = (unsigned char)(high * 16 + low);
    }
    return *text == '\0';
}
