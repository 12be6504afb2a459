#include "model/config_dtype.h"

#include "files/json_reader.h"

#include <stdio.h>

enum { KEYS = 2 };
static const char *const keys[KEYS] = {"torch_dtype", "dtype"}; /* the second in newer files */
static const char *const names[DTYPE_COUNT] = {
    [DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16"};

static void print(const bool other[KEYS], const char *stored, char out[CONFIG_DTYPE_SIZE])
{
    int used = 0;
    out[0] = '\0';
    for (int k = 0; k < KEYS; k++)
        if (other[k])
            used += snprintf(out + used, (size_t)(CONFIG_DTYPE_SIZE - used), "%s\"%s\": \"%s\"", used > 0 ? ", " : "{",
                             keys[k], stored);
    if (used > 0) (void)snprintf(out + used, (size_t)(CONFIG_DTYPE_SIZE - used), "}");
}

enum status config_dtype_members(const char *name, const char *text, size_t size, enum dtype stored,
                                 char out[CONFIG_DTYPE_SIZE], struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct json_reader reader;
    struct json_reader_text key, value;
    bool other[KEYS] = {false};
    out[0] = '\0';
    if (names[stored] == NULL) return STATUS_OK;
    json_reader_init(&reader, name, text, size, &options, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        for (int k = 0; k < KEYS; k++)
            if (json_reader_is(key, keys[k]) && json_reader_peek(&reader) == JSON_READER_STRING &&
                json_reader_string(&reader, &value))
                other[k] = !json_reader_is(value, names[stored]);
    }
    const enum status status = json_reader_finish(&reader);
    if (status == STATUS_OK) print(other, names[stored], out);
    return status;
}
