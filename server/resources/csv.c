#include "resources/csv.h"

#include "http/json_answer.h"

#include <string.h>

void csv_field(struct buffer *out, const json_t *value, char end)
{
    const char *text = json_string_value(value);
    if (json_is_integer(value)) buffer_printf(out, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) {
        char digits[JSON_ANSWER_REAL];
        json_answer_real(json_real_value(value), digits);
        buffer_puts(out, digits);
    }
    if (text != NULL && strpbrk(text, "\",\r\n") == NULL && (text[0] == '\0' || strchr("=+-@", text[0]) == NULL)) {
        buffer_puts(out, text);
    } else if (text != NULL) {
        buffer_puts(out, "\"");
        if (strchr("=+-@", text[0]) != NULL) buffer_puts(out, "'");
        for (; *text != '\0'; text++) {
            if (*text == '"') buffer_puts(out, "\"");
            buffer_append(out, text, 1);
        }
        buffer_puts(out, "\"");
    }
    buffer_append(out, &end, 1);
}

enum status csv_answer_as(struct response *response, const char *content_type, struct buffer *table,
                          struct error *error)
{
    size_t length;
    const enum status status = buffer_status(table, "a table", error);
    char *text = buffer_take(table, &length);
    if (status != STATUS_OK) return status;
    return text != NULL ? response_take(response, 200, content_type, text, length, error)
                        : response_bytes(response, 200, content_type, "", 0, error);
}

enum status csv_answer(struct response *response, struct buffer *table, struct error *error)
{
    return csv_answer_as(response, "text/csv; charset=utf-8", table, error);
}
