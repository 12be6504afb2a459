#include "json/small_number.h"

#include <stdbool.h>
#include <string.h>

/* POWER_MOST: a larger exponent is as good as this one. */
enum { LEAST_POWER = -307, POWER_MOST = 100000000 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool belongs(char c)
{
    return is_digit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* The exponent behind "e". */
static long exponent_of(const char *text, size_t length)
{
    const bool negative = length > 0 && text[0] == '-';
    long sum = 0;
    for (size_t i = length > 0 && !is_digit(text[0]); i < length && is_digit(text[i]) && sum < POWER_MOST; i++)
        sum = 10 * sum + (text[i] - '0');
    return negative ? -sum : sum;
}

/* The number is at least 10^p and less than 10^(p + 1), p being the power of its first digit that is not 0. */
static bool is_small(const char *text, size_t length)
{
    size_t mantissa = 0, first = length, point;
    while (mantissa < length && text[mantissa] != 'e' && text[mantissa] != 'E') mantissa++;
    const char *dot = memchr(text, '.', mantissa);
    point = dot != NULL ? (size_t)(dot - text) : mantissa;
    for (size_t i = mantissa; i > 0; i--)
        if (text[i - 1] >= '1' && text[i - 1] <= '9') first = i - 1;
    if (first == length) return false;
    const long power = first < point ? (long)(point - first) - 1 : -(long)(first - point);
    const long given = mantissa < length ? exponent_of(text + mantissa + 1, length - mantissa - 1) : 0;
    return power + given < LEAST_POWER;
}

const char *small_number_find(const char *text, size_t length, size_t *size)
{
    bool string = false;
    for (size_t i = 0; i < length; i++) {
        if (string && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            string = !string;
        } else if (!string && (is_digit(text[i]) || text[i] == '-')) {
            size_t end = i + 1;
            while (end < length && belongs(text[end])) end++;
            *size = end - i;
            if (is_small(text + i, *size)) return text + i;
            i = end - 1;
        }
    }
    return NULL;
}
