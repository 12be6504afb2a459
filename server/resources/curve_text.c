#include "resources/curve_text.h"

#include "base/buffer.h"
#include "http/json_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 256 << 20 };

/* Takes the value. */
static void put_value(json_t *value, struct buffer *out)
{
    char *text = json_answer_dump(value);
    if (text != NULL)
        buffer_puts(out, text);
    else
        out->status = STATUS_NO_MEMORY;
    free(text);
    json_decref(value);
}

/* PostgreSQL writes the fewest digits that give the number again, as answers do. Only the form of exponents differs,
 * and 0 has no sign. */
static void put_number(const char *text, struct buffer *out)
{
    if (strchr(text, 'e') != NULL)
        put_value(json_real(strtod(text, NULL)), out);
    else
        buffer_puts(out, strcmp(text, "-0") == 0 ? "0" : text);
}

static bool plain(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\') return false;
    return true;
}

static void put_text(const char *text, struct buffer *out)
{
    if (!plain(text)) {
        put_value(json_string(text), out);
        return;
    }
    buffer_append(out, "\"", 1);
    buffer_puts(out, text);
    buffer_append(out, "\"", 1);
}

/* A label, `,"low":`, comes before the value of each column. */
struct writing {
    const struct curve_points *points;
    const json_t *flags; /* NULL where no checkpoint has any */
    char labels[CURVE_COLUMNS][24];
    size_t lengths[CURVE_COLUMNS];
};

static void writing_init(struct writing *out, const struct curve_points *points, const json_t *flags)
{
    *out = (struct writing){.points = points, .flags = json_object_size(flags) > 0 ? flags : NULL};
    for (enum curve_column c = 0; c < CURVE_COLUMNS; c++)
        out->lengths[c] = (size_t)snprintf(out->labels[c], sizeof out->labels[c], "%c\"%s\":", c == 0 ? '{' : ',',
                                           curve_points_columns[c].name);
}

static void put_point(const struct writing *writing, int row, struct buffer *out)
{
    for (enum curve_column c = 0; c < CURVE_COLUMNS; c++) {
        const char *text = curve_points_text(writing->points, row, c);
        buffer_append(out, writing->labels[c], writing->lengths[c]);
        if (text == NULL)
            buffer_puts(out, "null");
        else if (curve_points_columns[c].number)
            put_number(text, out);
        else
            put_text(text, out);
    }
    const char *checkpoint = curve_points_text(writing->points, row, CURVE_CHECKPOINT);
    json_t *of = writing->flags != NULL ? json_object_get(writing->flags, checkpoint) : NULL;
    buffer_puts(out, ",\"flags\":");
    if (of == NULL) {
        buffer_puts(out, "[]}");
        return;
    }
    put_value(json_incref(of), out);
    buffer_puts(out, "}");
}

/* Writes the members of `object`, and then the name `last`, whose value must follow; the caller closes the object. */
static void open_object(json_t *object, const char *last, struct buffer *out)
{
    char *text = json_answer_dump(object);
    if (text != NULL)
        buffer_append(out, text, strlen(text) - 1);
    else
        out->status = STATUS_NO_MEMORY;
    free(text);
    buffer_puts(out, ",\"");
    buffer_puts(out, last);
    buffer_puts(out, "\":");
}

static void put_series(json_t *series, const struct writing *writing, struct buffer *out)
{
    const struct curve_span *span = &writing->points->spans[json_integer_value(json_object_get(series, "points"))];
    const char *between = "[";
    (void)json_object_del(series, "points");
    open_object(series, "points", out);
    for (int i = 0; i < span->count; i++) {
        if (span->kept != NULL && !span->kept[i]) continue;
        buffer_puts(out, between);
        put_point(writing, span->first + i, out);
        between = ",";
    }
    buffer_puts(out, "]}");
}

enum status curve_text_answer(struct response *response, json_t *document, const struct curve_points *points,
                              const json_t *flags, struct error *error)
{
    size_t i, length;
    struct buffer out;
    struct writing writing;
    json_t *series, *list = json_incref(json_object_get(document, "series"));
    writing_init(&writing, points, flags);
    buffer_init(&out, TEXT_MAX);
    (void)json_object_del(document, "series");
    open_object(document, "series", &out);
    buffer_puts(&out, "[");
    json_array_foreach(list, i, series)
    {
        if (i > 0) buffer_puts(&out, ",");
        put_series(series, &writing, &out);
    }
    buffer_puts(&out, "]}");
    json_decref(list);
    const enum status status = buffer_status(&out, "a curve", error);
    if (status != STATUS_OK) {
        buffer_reset(&out);
        return status;
    }
    char *text = buffer_take(&out, &length);
    return response_take(response, 200, "application/json", text, length, error);
}
