#include "base/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void words_add(char *list, size_t size, const char *format, ...)
{
    va_list arguments;
    if (list[0] != '\0') (void)snprintf(list + strlen(list), size - strlen(list), ", ");
    const size_t used = strlen(list);
    va_start(arguments, format);
    (void)vsnprintf(list + used, size - used, format, arguments);
    va_end(arguments);
}
