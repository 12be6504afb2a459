#include "tokenizer/normalizer.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { STEPS_LIMIT = 64 };

struct step {
    enum { STEP_FORM, STEP_PREPEND, STEP_REPLACE, STEP_STRIP } kind;
    utf8proc_option_t form;
    struct text content;
    struct pattern *pattern; /* owned */
    bool plain;              /* replaces a fixed ASCII character */
    bool left, right;        /* strip */
};

struct normalizer {
    struct step steps[STEPS_LIMIT];
    int count;
    size_t growth; /* see part_replacement */
};

struct loading {
    const struct part_document *document;
    struct normalizer *normalizer;
    int depth;
};

static const struct part_table table;

/* ---- loaders, one per type ---- */

static enum status load_sequence(struct loading *loading, const struct part *part, struct step *step,
                                 struct error *error)
{
    (void)step;
    loading->normalizer->count--; /* a sequence takes no step itself */
    return part_sequence(part, &table, &loading->depth, loading, error);
}

static enum status load_prepend(struct loading *loading, const struct part *part, struct step *step,
                                struct error *error)
{
    step->kind = STEP_PREPEND;
    const enum status status = part_required_text(part, 1, &step->content, error);
    if (status != STATUS_OK || step->content.size <= PART_PREPEND_MOST) return status;
    return error_set(error, STATUS_UNSUPPORTED, "%s: a normalizer that puts more than %d bytes before text",
                     loading->document->name, PART_PREPEND_MOST);
}

static enum status load_replace(struct loading *loading, const struct part *part, struct step *step,
                                struct error *error)
{
    size_t literal;
    step->kind = STEP_REPLACE;
    const enum status status =
        part_replacement(part, &loading->normalizer->growth, &step->pattern, &step->content, &literal, error);
    step->plain = literal == 1;
    return status;
}

static enum status load_strip(struct loading *loading, const struct part *part, struct step *step, struct error *error)
{
    (void)loading;
    step->kind = STEP_STRIP;
    enum status status = part_bool(part, 1, &step->left, error);
    return status == STATUS_OK ? part_bool(part, 2, &step->right, error) : status;
}

static enum status load_form(struct loading *loading, const struct part *part, struct step *step, struct error *error)
{
    (void)loading, (void)part, (void)error;
    step->kind = STEP_FORM;
    return STATUS_OK;
}

#define COMPOSED   (UTF8PROC_STABLE | UTF8PROC_COMPOSE)
#define DECOMPOSED (UTF8PROC_STABLE | UTF8PROC_DECOMPOSE)
static const struct normalizer_type {
    struct part_row part;
    enum status (*load)(struct loading *loading, const struct part *part, struct step *step, struct error *error);
    int form;
} types[] = {
    {{"Sequence", {"type", "normalizers"}}, load_sequence, 0},
    {{"Prepend", {"type", "prepend"}}, load_prepend, 0},
    {{"Replace", {"type", "pattern", "content"}}, load_replace, 0},
    {{"Strip", {"type", "strip_left", "strip_right"}}, load_strip, 0},
    {{"NFC", {"type"}}, load_form, COMPOSED},
    {{"NFD", {"type"}}, load_form, DECOMPOSED},
    {{"NFKC", {"type"}}, load_form, COMPOSED | UTF8PROC_COMPAT},
    {{"NFKD", {"type"}}, load_form, DECOMPOSED | UTF8PROC_COMPAT},
};

static enum status load_row(void *context, const struct part *part, const void *row, struct error *error)
{
    struct loading *loading = context;
    const struct normalizer_type *type = row;
    if (loading->normalizer->count == STEPS_LIMIT)
        return error_set(error, STATUS_UNSUPPORTED, "more than %d normalizers", STEPS_LIMIT);
    struct step *step = &loading->normalizer->steps[loading->normalizer->count++];
    step->form = (utf8proc_option_t)type->form;
    return type->load(loading, part, step, error);
}

static const struct part_table table = PART_TABLE("normalizer", types, load_row);

enum status normalizer_load(const struct part_document *document, struct json_reader_text span, struct normalizer **out,
                            struct error *error)
{
    *out = NULL;
    if (part_absent(span)) return STATUS_OK;
    struct loading loading = {.document = document, .normalizer = calloc(1, sizeof *loading.normalizer)};
    if (loading.normalizer == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a normalizer");
    loading.normalizer->growth = 1;
    enum status status = part_load(document, span, &table, &loading, error);
    if (status == STATUS_OK) {
        *out = loading.normalizer;
        return STATUS_OK;
    }
    normalizer_free(loading.normalizer);
    return status;
}

void normalizer_free(struct normalizer *normalizer)
{
    if (normalizer == NULL) return;
    for (int i = 0; i < STEPS_LIMIT; i++) {
        text_free(&normalizer->steps[i].content);
        pattern_free(normalizer->steps[i].pattern);
    }
    free(normalizer);
}

/* ---- applying: each writes the new text to `out` ---- */

static bool is_ascii(const struct text *text)
{
    for (size_t i = 0; i < text->size; i++) {
        if ((uint8_t)text->bytes[i] >= 0x80) return false;
    }
    return true;
}

static enum status apply_form(const struct step *step, const struct text *text, struct text *out, struct error *error)
{
    utf8proc_uint8_t *normal = NULL;
    if (is_ascii(text)) return text_append(out, text->bytes, text->size, error);
    utf8proc_ssize_t size =
        utf8proc_map((const utf8proc_uint8_t *)text->bytes, (utf8proc_ssize_t)text->size, &normal, step->form);
    if (size == UTF8PROC_ERROR_NOMEM)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %zu bytes of text", text->size);
    if (size < 0) return error_set(error, STATUS_INTERNAL, "Unicode normalization: %s", utf8proc_errmsg(size));
    enum status status = text_append(out, (const char *)normal, (size_t)size, error);
    free(normal);
    return status;
}

static enum status apply_replace(const struct step *step, struct pattern_scratch *scratch, const struct text *text,
                                 struct text *out, struct error *error)
{
    struct pattern_search search = {.text = text->bytes, .bytes = text->size};
    enum status status;
    size_t done = 0;
    bool found;
    while ((status = pattern_next(step->pattern, scratch, &search, &found, error)) == STATUS_OK && found) {
        if ((status = text_append(out, text->bytes + done, search.start - done, error)) != STATUS_OK) return status;
        if ((status = text_append(out, step->content.bytes, step->content.size, error)) != STATUS_OK) return status;
        done = search.end;
    }
    return status == STATUS_OK ? text_append(out, text->bytes + done, text->size - done, error) : status;
}

static enum status apply_strip(const struct step *step, const struct text *text, struct text *out, bool *stripped,
                               struct error *error)
{
    size_t start = 0, end = text->size;
    while (step->left && start < end && utf8_is_white_space(utf8_decode(text->bytes + start)))
        start += utf8_width(text->bytes[start]);
    while (step->right && end > start) {
        size_t last = end - 1;
        while (!utf8_is_start(text->bytes[last])) last--;
        if (!utf8_is_white_space(utf8_decode(text->bytes + last))) break;
        end = last;
    }
    *stripped = *stripped || start > 0;
    return text_append(out, text->bytes + start, end - start, error);
}

static enum status apply_prepend(const struct step *step, bool continued, const struct text *text, struct text *out,
                                 struct error *error)
{
    enum status status = STATUS_OK;
    if (text->size > 0 && !continued) status = text_append(out, step->content.bytes, step->content.size, error);
    return status == STATUS_OK ? text_append(out, text->bytes, text->size, error) : status;
}

enum status normalizer_apply(const struct normalizer *normalizer, struct pattern_scratch *scratch, bool continued,
                             struct text *text, struct text *other, bool *stripped, struct error *error)
{
    for (int i = 0; normalizer != NULL && i < normalizer->count; i++) {
        const struct step *step = &normalizer->steps[i];
        enum status status = STATUS_OK;
        other->size = 0;
        if (step->kind == STEP_FORM) status = apply_form(step, text, other, error);
        if (step->kind == STEP_REPLACE) status = apply_replace(step, scratch, text, other, error);
        if (step->kind == STEP_STRIP) status = apply_strip(step, text, other, stripped, error);
        if (step->kind == STEP_PREPEND) status = apply_prepend(step, continued, text, other, error);
        if (status != STATUS_OK) return status;
        struct text swapped = *text;
        *text = *other;
        *other = swapped;
    }
    return STATUS_OK;
}

/* Letters and spaces never compose with a character before them, so a normal form can begin with them (UAX #15). */
bool normalizer_splits(const struct normalizer *normalizer)
{
    for (int i = 0; normalizer != NULL && i < normalizer->count; i++) {
        const struct step *step = &normalizer->steps[i];
        if (step->kind == STEP_STRIP || (step->kind == STEP_REPLACE && !step->plain)) return false;
    }
    return true;
}

bool normalizer_same(const struct normalizer *a, const struct normalizer *b)
{
    const int count = a != NULL ? a->count : 0;
    bool same = count == (b != NULL ? b->count : 0);
    for (int i = 0; i < count && same; i++) {
        const struct step *one = &a->steps[i], *other = &b->steps[i];
        same = one->kind == other->kind && one->form == other->form && one->left == other->left &&
               one->right == other->right && pattern_same(one->pattern, other->pattern) &&
               text_same(&one->content, &other->content);
    }
    return same;
}
