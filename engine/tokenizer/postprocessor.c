#include "tokenizer/postprocessor.h"

#include "tokenizer/bpe.h"

#include <string.h>

struct loading {
    const struct part_document *document;
    struct postprocessor *out;
    int depth;
};

static const struct part_table table;

static enum status load_sequence(struct loading *loading, const struct part *part, struct error *error)
{
    return part_sequence(part, &table, &loading->depth, loading, error);
}

/* This processor changes offsets only, which deltaq does not give. */
static enum status load_byte_level(struct loading *loading, const struct part *part, struct error *error)
{
    (void)loading, (void)part, (void)error;
    return STATUS_OK;
}

/* Puts a later processor's tokens around those of the earlier ones. */
static enum status surround(struct loading *loading, const struct token_list *before, const struct token_list *after,
                            struct error *error)
{
    struct token_list joined = {0};
    struct postprocessor *out = loading->out;
    enum status status = bpe_append(&joined, before->ids, before->count, error);
    if (status == STATUS_OK) status = bpe_append(&joined, out->before.ids, out->before.count, error);
    if (status == STATUS_OK) status = bpe_append(&out->after, after->ids, after->count, error);
    if (status != STATUS_OK) {
        tokenizer_list_free(&joined);
        return status;
    }
    tokenizer_list_free(&out->before);
    out->before = joined;
    return STATUS_OK;
}

/* ---- TemplateProcessing ---- */

enum { TEMPLATE_SINGLE = 1, TEMPLATE_TOKENS = 3 };

struct template
{
    const struct part *part;
    struct token_list before, after;
    bool text_seen;
};

/* Appends the ids of the token `name` in `special_tokens`. */
static enum status append_special(struct template *template, const char *name, size_t size, struct token_list *out,
                                  struct error *error)
{
    struct json_reader reader;
    struct json_reader_text key;
    enum status appended = STATUS_OK;
    bool known = false;
    const struct part *part = template->part;
    if (part->spans[TEMPLATE_TOKENS].bytes != NULL) {
        part_reader(part->document, part->spans[TEMPLATE_TOKENS], &reader, error);
        json_reader_object(&reader);
        while (json_reader_next_key(&reader, &key)) {
            if (key.size != size || memcmp(key.bytes, name, size) != 0) continue;
            json_reader_object(&reader);
            while (json_reader_next_key(&reader, &key)) {
                if (!json_reader_is(key, "ids")) continue;
                known = json_reader_array(&reader);
                while (json_reader_next_item(&reader)) {
                    int64_t id;
                    if (!json_reader_int64(&reader, 0, TOKENIZER_ID_LIMIT - 1, &id) || appended != STATUS_OK) continue;
                    uint32_t narrow = (uint32_t)id;
                    appended = bpe_append(out, &narrow, 1, error);
                }
            }
        }
        enum status status = json_reader_finish(&reader);
        if (status != STATUS_OK || appended != STATUS_OK) return status != STATUS_OK ? status : appended;
    }
    if (known) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s: post_processor has no ids for \"%.*s\"", part->document->name,
                     (int)(size < 60 ? size : 60), name);
}

static enum status visit_template(void *context, struct json_reader_text item, struct error *error)
{
    static const char *const kinds[] = {"SpecialToken", "Sequence", NULL};
    static const char *const fields[] = {"id", "type_id", NULL};
    struct template *template = context;
    struct part piece, inner;
    struct text id = {0};
    const struct part_document *document = template->part->document;
    enum status status = part_read(document, item, "a template", kinds, false, &piece, error);
    bool special = status == STATUS_OK && piece.spans[0].bytes != NULL;
    if (status == STATUS_OK && !special && piece.spans[1].bytes == NULL)
        status = error_set(error, STATUS_CORRUPT, "%s: an empty piece of a template", document->name);
    if (status == STATUS_OK)
        status = part_read(document, piece.spans[special ? 0 : 1], "a template", fields, false, &inner, error);
    if (status == STATUS_OK) status = part_required_text(&inner, 0, &id, error);
    if (status == STATUS_OK && special)
        status = append_special(template, id.bytes, id.size, template->text_seen ? &template->after : &template->before,
                                error);
    if (status == STATUS_OK && !special) {
        if (template->text_seen || strcmp(id.bytes, "A") != 0)
            status = error_set(error, STATUS_UNSUPPORTED, "%s: template for a single text must have \"A\" once",
                               document->name);
        template->text_seen = true;
    }
    text_free(&id);
    return status;
}

static enum status load_template(struct loading *loading, const struct part *part, struct error *error)
{
    struct template template = {.part = part};
    enum status status = STATUS_OK;
    if (part->spans[TEMPLATE_SINGLE].bytes != NULL)
        status = part_items(loading->document, part->spans[TEMPLATE_SINGLE], visit_template, &template, error);
    if (status == STATUS_OK && !template.text_seen)
        status = error_set(error, STATUS_CORRUPT, "%s: template has no place for the text", loading->document->name);
    if (status == STATUS_OK) status = surround(loading, &template.before, &template.after, error);
    tokenizer_list_free(&template.before);
    tokenizer_list_free(&template.after);
    return status;
}

/* ---- BertProcessing, RobertaProcessing: [cls] text [sep] ---- */

static enum status read_marker(const struct part *part, int field, uint32_t *out, struct error *error)
{
    struct json_reader reader;
    struct json_reader_text content;
    int64_t id = -1;
    if (part->spans[field].bytes == NULL)
        return error_set(error, STATUS_CORRUPT, "%s: post_processor lacks \"%s\"", part->document->name,
                         part->fields[field]);
    part_reader(part->document, part->spans[field], &reader, error);
    json_reader_array(&reader);
    const bool paired = json_reader_next_item(&reader) && json_reader_string(&reader, &content) &&
                        json_reader_next_item(&reader) && json_reader_int64(&reader, 0, TOKENIZER_ID_LIMIT - 1, &id) &&
                        !json_reader_next_item(&reader);
    if (!paired) json_reader_fail(&reader, STATUS_CORRUPT, "expected a token and its id");
    *out = (uint32_t)id;
    return json_reader_finish(&reader);
}

static enum status load_pair(struct loading *loading, const struct part *part, struct error *error)
{
    uint32_t after, before;
    enum status status = read_marker(part, 1, &after, error);
    if (status == STATUS_OK) status = read_marker(part, 2, &before, error);
    if (status != STATUS_OK) return status;
    struct token_list first = {.ids = &before, .count = 1}, last = {.ids = &after, .count = 1};
    return surround(loading, &first, &last, error);
}

static const struct postprocessor_type {
    struct part_row part;
    enum status (*load)(struct loading *loading, const struct part *part, struct error *error);
} types[] = {
    {{"Sequence", {"type", "processors"}}, load_sequence},
    {{"ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"}}, load_byte_level},
    {{"TemplateProcessing", {"type", "single", "pair", "special_tokens"}}, load_template},
    {{"BertProcessing", {"type", "sep", "cls"}}, load_pair},
    {{"RobertaProcessing", {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}}, load_pair},
};

static enum status load_row(void *context, const struct part *part, const void *row, struct error *error)
{
    const struct postprocessor_type *type = row;
    return type->load(context, part, error);
}

static const struct part_table table = PART_TABLE("post_processor", types, load_row);

enum status postprocessor_load(const struct part_document *document, struct json_reader_text span,
                               struct postprocessor *out, struct error *error)
{
    struct loading loading = {.document = document, .out = out};
    *out = (struct postprocessor){0};
    return part_absent(span) ? STATUS_OK : part_load(document, span, &table, &loading, error);
}

void postprocessor_reset(struct postprocessor *postprocessor)
{
    tokenizer_list_free(&postprocessor->before);
    tokenizer_list_free(&postprocessor->after);
}
