#include "schema/form.h"

#include <string.h>

/* Control characters as the database defines them: also U+0080 to U+009F, U+2028 and U+2029. */
static bool is_control(const unsigned char *at)
{
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0) ||
           (at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9));
}

static bool is_name(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (!is_control(at) && *at != '/') at++;
    const bool dots = strcmp(text, ".") == 0 || strcmp(text, "..") == 0; /* clients remove them from an address */
    return *at == '\0' && at != (const unsigned char *)text && !dots;
}

const struct param_form form_name = {
    .pattern = "^[^/\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]+$",
    .fits = is_name,
    .wanted = "must not contain \"/\" or control characters, nor be \".\" or \"..\"",
};

/* The length of the word at `text`: letters, digits, ".", "_" and "-". */
static size_t word_length(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
}

static bool is_label(const char *text)
{
    const size_t name = word_length(text);
    if (name == 0 || text[name] != '=') return name > 0 && text[name] == '\0';
    const size_t value = word_length(text + name + 1);
    return value > 0 && text[name + 1 + value] == '\0';
}

const struct param_form form_label = {
    .pattern = "^[A-Za-z0-9._-]+(=[A-Za-z0-9._-]+)?$",
    .fits = is_label,
    .wanted = "must be NAME=VALUE or NAME of letters, digits, \".\", \"_\" and \"-\"",
};

enum status form_check_tags(json_t *tags, const char *pointer, struct error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(tags, key, value)
    {
        if (key[0] == '\0' || strchr(key, ':') != NULL)
            return error_set_at(error, STATUS_INVALID, pointer,
                                "the key \"%.60s\" of a tag is empty or has a colon: no list could be filtered by it",
                                key);
    }
    return STATUS_OK;
}
