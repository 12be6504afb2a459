#include "base/size.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool size_read(const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double value = strtod(text, &end);
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    for (const char *at = units; unit != NULL && at <= unit; at++) value *= 1024;
    if (end == text || (*end != '\0' && (unit == NULL || end[1] != '\0')) || !(value >= 0 && value < 9e18))
        return false;
    *out = (int64_t)value;
    return true;
}
