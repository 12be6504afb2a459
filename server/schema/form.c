#include "schema/form.h"

static bool is_name(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at >= 0x20 && *at != 0x7f && *at != '/') at++;
    return *at == '\0' && at != (const unsigned char *)text;
}

const struct param_form form_name = {
    .pattern = "^[^/\\x00-\\x1f\\x7f]+$",
    .fits = is_name,
    .wanted = "must not contain \"/\" or control characters",
};
