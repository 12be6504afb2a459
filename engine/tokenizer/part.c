#include "tokenizer/part.h"

#include <string.h>

void part_reader(const struct part_document *document, struct json_reader_text span, struct json_reader *reader,
                 struct error *error)
{
    struct json_reader_options options = {.offset = (size_t)(span.bytes - document->json)};
    json_reader_init(reader, document->name, span.bytes, span.size, &options, error);
}

bool part_absent(struct json_reader_text span)
{
    return span.bytes == NULL || json_reader_is(span, "null");
}

enum status part_type(const struct part_document *document, struct json_reader_text span, const char *kind, char *type,
                      struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key, value;
    (void)kind;
    type[0] = '\0';
    part_reader(document, span, &reader, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (!json_reader_is(key, "type") || !json_reader_string(&reader, &value)) continue;
        size_t size = value.size < 63 ? value.size : 63;
        memcpy(type, value.bytes, size);
        type[size] = '\0';
    }
    return json_reader_finish(&reader);
}

enum status part_read(const struct part_document *document, struct json_reader_text span, const char *kind,
                      const char *const *fields, bool lenient, struct part *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key, value;
    uint64_t seen = 0;
    *out = (struct part){.document = document, .kind = kind, .fields = fields};
    part_reader(document, span, &reader, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        int field = json_reader_field(&reader, key, fields, &seen);
        if (field >= 0) {
            if (json_reader_skip(&reader, &value) && !json_reader_is(value, "null")) out->spans[field] = value;
        } else if (!lenient && json_reader_status(&reader) == STATUS_OK && !json_reader_is(key, "type")) {
            json_reader_fail(&reader, STATUS_UNSUPPORTED, "%s has the unknown field \"%.*s\"", kind,
                             (int)(key.size < 60 ? key.size : 60), key.bytes);
        }
    }
    return json_reader_finish(&reader);
}

enum status part_bool(const struct part *part, int field, bool *out, struct error *error)
{
    if (part->spans[field].bytes == NULL) return STATUS_OK;
    struct json_reader reader;
    part_reader(part->document, part->spans[field], &reader, error);
    json_reader_bool(&reader, out);
    return json_reader_finish(&reader);
}

enum status part_integer(const struct part *part, int field, int64_t minimum, int64_t maximum, int64_t *out,
                         struct error *error)
{
    if (part->spans[field].bytes == NULL) return STATUS_OK;
    struct json_reader reader;
    part_reader(part->document, part->spans[field], &reader, error);
    json_reader_int64(&reader, minimum, maximum, out);
    return json_reader_finish(&reader);
}

static enum status read_text(const struct part_document *document, struct json_reader_text span, struct text *out,
                             struct error *error)
{
    struct json_reader reader;
    struct json_reader_text value;
    enum status appended = STATUS_OK;
    part_reader(document, span, &reader, error);
    if (json_reader_string(&reader, &value)) {
        out->size = 0;
        appended = text_append(out, value.bytes, value.size, error);
    }
    enum status status = json_reader_finish(&reader);
    return appended != STATUS_OK ? appended : status;
}

enum status part_text(const struct part *part, int field, struct text *out, struct error *error)
{
    return part->spans[field].bytes != NULL ? read_text(part->document, part->spans[field], out, error) : STATUS_OK;
}

enum status part_required_text(const struct part *part, int field, struct text *out, struct error *error)
{
    if (part->spans[field].bytes != NULL) return read_text(part->document, part->spans[field], out, error);
    return error_set(error, STATUS_CORRUPT, "%s: %s lacks \"%s\"", part->document->name, part->kind,
                     part->fields[field]);
}

enum status part_choice(const struct part *part, int field, const char *const *choices, int *out, struct error *error)
{
    struct text value = {0};
    enum status status = part_text(part, field, &value, error);
    if (status != STATUS_OK || part->spans[field].bytes == NULL) goto done;
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], value.bytes) != 0) continue;
        *out = i;
        goto done;
    }
    status = error_set(error, STATUS_UNSUPPORTED, "%s: %s has the unknown %s \"%.60s\"", part->document->name,
                       part->kind, part->fields[field], value.bytes);
done:
    text_free(&value);
    return status;
}

enum status part_pattern(const struct part *part, int field, struct text *out, bool *literal, struct error *error)
{
    static const char *const forms[] = {"String", "Regex", NULL};
    struct part pattern;
    if (part->spans[field].bytes == NULL)
        return error_set(error, STATUS_CORRUPT, "%s: %s lacks \"%s\"", part->document->name, part->kind,
                         part->fields[field]);
    enum status status = part_read(part->document, part->spans[field], "a pattern", forms, false, &pattern, error);
    if (status != STATUS_OK) return status;
    bool both = pattern.spans[0].bytes != NULL && pattern.spans[1].bytes != NULL;
    if (both || (pattern.spans[0].bytes == NULL && pattern.spans[1].bytes == NULL))
        return error_set(error, STATUS_CORRUPT, "%s: a pattern of %s needs one of \"String\" and \"Regex\"",
                         part->document->name, part->kind);
    *literal = pattern.spans[0].bytes != NULL;
    return part_text(&pattern, *literal ? 0 : 1, out, error);
}

enum status part_items(const struct part_document *document, struct json_reader_text span,
                       enum status (*visit)(void *context, struct json_reader_text item, struct error *error),
                       void *context, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text item;
    enum status visited = STATUS_OK;
    part_reader(document, span, &reader, error);
    json_reader_array(&reader);
    while (visited == STATUS_OK && json_reader_next_item(&reader)) {
        if (json_reader_skip(&reader, &item)) visited = visit(context, item, error);
    }
    struct error kept = *error;
    enum status status =
        json_reader_finish(&reader); /* releases the buffers; complains if the array was not read to its end */
    if (visited == STATUS_OK) return status;
    *error = kept;
    return visited;
}

enum status part_load(const struct part_document *document, struct json_reader_text span,
                      const struct part_table *table, void *context, struct error *error)
{
    char type[64];
    struct part part;
    enum status status = part_type(document, span, table->kind, type, error);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < table->count; i++) {
        const struct part_row *row = (const void *)((const char *)table->rows + i * table->size);
        if (strcmp(row->name, type) != 0) continue;
        status = part_read(document, span, table->kind, row->fields, false, &part, error);
        return status == STATUS_OK ? table->load(context, &part, row, error) : status;
    }
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s type \"%s\", which deltaq does not do", document->name,
                     table->kind, type);
}

struct sequence {
    const struct part_document *document;
    const struct part_table *table;
    void *context;
};

static enum status load_item(void *context, struct json_reader_text item, struct error *error)
{
    const struct sequence *sequence = context;
    return part_load(sequence->document, item, sequence->table, sequence->context, error);
}

enum status part_sequence(const struct part *part, const struct part_table *table, int *depth, void *context,
                          struct error *error)
{
    struct sequence sequence = {part->document, table, context};
    if (part->spans[1].bytes == NULL)
        return error_set(error, STATUS_CORRUPT, "%s: %s lacks its list", part->document->name, part->kind);
    if (++*depth > PART_DEPTH)
        return error_set(error, STATUS_UNSUPPORTED, "%s: sequences of %s are nested too deep", part->document->name,
                         part->kind);
    const enum status status = part_items(part->document, part->spans[1], load_item, &sequence, error);
    --*depth;
    return status;
}

/* `pattern`: bytes of a literal pattern; 0: a pattern that may match nothing. */
static enum status grow(const struct part_document *document, size_t pattern, size_t content, size_t *growth,
                        struct error *error)
{
    const size_t longer = pattern > 0 ? (content + pattern - 1) / pattern : content + 1;
    if (longer > 1 && (longer > PART_GROWTH_MOST || (*growth *= longer) > PART_GROWTH_MOST))
        return error_set(error, STATUS_UNSUPPORTED, "%s: replacements that make text more than %d times longer",
                         document->name, PART_GROWTH_MOST);
    return STATUS_OK;
}

enum status part_replacement(const struct part *part, size_t *growth, struct pattern **pattern, struct text *content,
                             size_t *literal, struct error *error)
{
    struct text text = {0};
    bool is_literal = false;
    enum status status = part_pattern(part, 1, &text, &is_literal, error);
    if (status == STATUS_OK) status = part_required_text(part, 2, content, error);
    if (status == STATUS_OK)
        status = pattern_new(text.bytes, text.size, is_literal ? PATTERN_LITERAL : PATTERN_ONIGURUMA, pattern, error);
    *literal = is_literal ? text.size : 0;
    if (status == STATUS_OK) status = grow(part->document, *literal, content->size, growth, error);
    text_free(&text);
    return status;
}
