#include "tokenizer/decoder.h"

#include "base/array.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_LIMIT = 32 };

struct step {
    enum status (*apply)(const struct step *step, struct pattern_scratch *scratch, const struct decoder_strings *from,
                         struct decoder_strings *to, struct error *error);
    struct pattern *pattern; /* owned */
    struct text content;     /* replacement; the character to strip or to turn into a space */
    int64_t start, stop;
    bool drop_first; /* Metaspace: the first string loses its mark */
};

struct decoder {
    struct step steps[STEPS_LIMIT];
    int count;
    size_t growth; /* see part_replacement */
};

struct loading {
    const struct part_document *document;
    struct decoder *decoder;
    int depth;
};

enum status decoder_append(struct decoder_strings *strings, const char *bytes, size_t size, struct error *error)
{
    enum status status = text_append(&strings->text, bytes, size, error);
    if (status == STATUS_OK)
        status = array_grow(&strings->ends, strings->count + 1, &strings->capacity, sizeof *strings->ends, error);
    if (status == STATUS_OK) strings->ends[strings->count++] = strings->text.size;
    return status;
}

void decoder_strings_free(struct decoder_strings *strings)
{
    text_free(&strings->text);
    free(strings->ends);
    *strings = (struct decoder_strings){0};
}

static const char *string(const struct decoder_strings *strings, int64_t i, size_t *size)
{
    size_t start = i > 0 ? strings->ends[i - 1] : 0;
    *size = strings->ends[i] - start;
    return strings->text.bytes + start;
}

static const char replacement_character[] = "\xef\xbf\xbd";

/* Appends bytes; each maximal invalid part of a character becomes one U+FFFD (Unicode's recommended practice). */
static enum status append_lossy(struct text *out, const char *bytes, size_t size, struct error *error)
{
    while (size > 0) {
        size_t valid = utf8_check(bytes, size), bad = 0;
        enum status status = text_append(out, bytes, valid, error);
        if (status != STATUS_OK || valid == size) return status;
        bytes += valid;
        size -= valid;
        for (bad = 1; bad < size && bad < utf8_width(bytes[0]); bad++) {
            char whole[4] = {bytes[0], (char)0x80, (char)0x80, (char)0x80}, high[4];
            memcpy(whole, bytes, bad + 1);
            memcpy(high, whole, sizeof high);
            memset(high + bad + 1, (char)0xbf, 3 - bad);
            size_t width = utf8_width(bytes[0]);
            if (utf8_check(whole, width) != width && utf8_check(high, width) != width) break;
        }
        if ((status = text_append(out, replacement_character, 3, error)) != STATUS_OK) return status;
        bytes += bad;
        size -= bad;
    }
    return STATUS_OK;
}

/* ---- the steps ---- */

/* Turns stand-ins into bytes; a string with any other character is taken unchanged. Gives one string. */
static enum status apply_byte_level(const struct step *step, struct pattern_scratch *scratch,
                                    const struct decoder_strings *from, struct decoder_strings *to, struct error *error)
{
    struct text bytes = {0}, joined = {0};
    enum status status = STATUS_OK;
    (void)step, (void)scratch;
    for (int64_t i = 0; status == STATUS_OK && i < from->count; i++) {
        size_t size, before = bytes.size, at = 0;
        const char *text = string(from, i, &size);
        for (; status == STATUS_OK && at < size; at += utf8_width(text[at])) {
            int byte = byte_alphabet_byte(utf8_decode(text + at));
            if (byte < 0) break;
            char c = (char)byte;
            status = text_append(&bytes, &c, 1, error);
        }
        if (status != STATUS_OK || at == size) continue;
        bytes.size = before;
        status = text_append(&bytes, text, size, error);
    }
    if (status == STATUS_OK) status = append_lossy(&joined, bytes.bytes, bytes.size, error);
    if (status == STATUS_OK) status = decoder_append(to, joined.bytes, joined.size, error);
    text_free(&bytes);
    text_free(&joined);
    return status;
}

static enum status apply_replace(const struct step *step, struct pattern_scratch *scratch,
                                 const struct decoder_strings *from, struct decoder_strings *to, struct error *error)
{
    for (int64_t i = 0; i < from->count; i++) {
        size_t size, done = 0;
        const char *text = string(from, i, &size);
        struct pattern_search search = {.text = text, .bytes = size};
        bool found = false;
        enum status status = STATUS_OK;
        while (size > 0 && (status = pattern_next(step->pattern, scratch, &search, &found, error)) == STATUS_OK &&
               found) {
            if ((status = text_append(&to->text, text + done, search.start - done, error)) != STATUS_OK) return status;
            if ((status = text_append(&to->text, step->content.bytes, step->content.size, error)) != STATUS_OK)
                return status;
            done = search.end;
        }
        if (status == STATUS_OK) status = decoder_append(to, text + done, size - done, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* The byte of "<0xHH>" with exactly two hexadecimal digits; -1 for other texts. */
static int byte_token(const char *text, size_t size)
{
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = hex_value(text[3]), low = hex_value(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static enum status flush_bytes(struct text *bytes, struct decoder_strings *to, struct error *error)
{
    enum status status = STATUS_OK;
    if (bytes->size > 0 && utf8_check(bytes->bytes, bytes->size) == bytes->size) {
        status = decoder_append(to, bytes->bytes, bytes->size, error);
    } else {
        for (size_t i = 0; status == STATUS_OK && i < bytes->size; i++)
            status = decoder_append(to, replacement_character, 3, error);
    }
    bytes->size = 0;
    return status;
}

static enum status apply_byte_fallback(const struct step *step, struct pattern_scratch *scratch,
                                       const struct decoder_strings *from, struct decoder_strings *to,
                                       struct error *error)
{
    struct text bytes = {0};
    enum status status = STATUS_OK;
    (void)step, (void)scratch;
    for (int64_t i = 0; status == STATUS_OK && i < from->count; i++) {
        size_t size;
        const char *text = string(from, i, &size);
        int byte = byte_token(text, size);
        char c = (char)byte;
        if (byte >= 0) {
            status = text_append(&bytes, &c, 1, error);
        } else if ((status = flush_bytes(&bytes, to, error)) == STATUS_OK) {
            status = decoder_append(to, text, size, error);
        }
    }
    if (status == STATUS_OK) status = flush_bytes(&bytes, to, error);
    text_free(&bytes);
    return status;
}

static enum status apply_fuse(const struct step *step, struct pattern_scratch *scratch,
                              const struct decoder_strings *from, struct decoder_strings *to, struct error *error)
{
    (void)step, (void)scratch;
    return decoder_append(to, from->text.bytes, from->text.size, error);
}

static enum status apply_strip(const struct step *step, struct pattern_scratch *scratch,
                               const struct decoder_strings *from, struct decoder_strings *to, struct error *error)
{
    const struct text *mark = &step->content;
    (void)scratch;
    for (int64_t i = 0; i < from->count; i++) {
        size_t size;
        const char *text = string(from, i, &size);
        for (int64_t n = 0; n < step->start && size >= mark->size && memcmp(text, mark->bytes, mark->size) == 0; n++) {
            text += mark->size;
            size -= mark->size;
        }
        for (int64_t n = 0;
             n < step->stop && size >= mark->size && memcmp(text + size - mark->size, mark->bytes, mark->size) == 0;
             n++)
            size -= mark->size;
        enum status status = decoder_append(to, text, size, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status apply_metaspace(const struct step *step, struct pattern_scratch *scratch,
                                   const struct decoder_strings *from, struct decoder_strings *to, struct error *error)
{
    (void)scratch;
    for (int64_t i = 0; i < from->count; i++) {
        size_t size;
        const char *text = string(from, i, &size);
        enum status status = STATUS_OK;
        for (size_t at = 0, width; status == STATUS_OK && at < size; at += width) {
            width = utf8_width(text[at]);
            bool mark = width == step->content.size && memcmp(text + at, step->content.bytes, width) == 0;
            if (!mark) status = text_append(&to->text, text + at, width, error);
            if (mark && !(i == 0 && step->drop_first)) status = text_append(&to->text, " ", 1, error);
        }
        if (status == STATUS_OK) status = decoder_append(to, "", 0, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* ---- loading ---- */

static const struct part_table table;

static enum status load_sequence(struct loading *loading, const struct part *part, struct step *step,
                                 struct error *error)
{
    (void)step;
    loading->decoder->count--;
    return part_sequence(part, &table, &loading->depth, loading, error);
}

static enum status load_plain(struct loading *loading, const struct part *part, struct step *step, struct error *error)
{
    (void)loading, (void)part, (void)step, (void)error;
    return STATUS_OK;
}

static enum status load_replace(struct loading *loading, const struct part *part, struct step *step,
                                struct error *error)
{
    size_t literal;
    return part_replacement(part, &loading->decoder->growth, &step->pattern, &step->content, &literal, error);
}

static enum status check_character(struct loading *loading, const struct step *step, struct error *error)
{
    if (step->content.size > 0 && utf8_width(step->content.bytes[0]) == step->content.size) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "%s: decoder's character is not one character", loading->document->name);
}

static enum status load_strip(struct loading *loading, const struct part *part, struct step *step, struct error *error)
{
    enum status status = part_required_text(part, 1, &step->content, error);
    if (status == STATUS_OK) status = part_integer(part, 2, 0, INT32_MAX, &step->start, error);
    if (status == STATUS_OK) status = part_integer(part, 3, 0, INT32_MAX, &step->stop, error);
    return status == STATUS_OK ? check_character(loading, step, error) : status;
}

static enum status load_metaspace(struct loading *loading, const struct part *part, struct step *step,
                                  struct error *error)
{
    static const char *const prepends[] = {"never", "first", "always", NULL};
    int prepend = 2;
    bool prefix_space = true;
    enum status status = part_required_text(part, 1, &step->content, error);
    if (status == STATUS_OK) status = part_bool(part, 2, &prefix_space, error);
    if (status == STATUS_OK) status = part_choice(part, 3, prepends, &prepend, error);
    step->drop_first = prefix_space && prepend != 0;
    return status == STATUS_OK ? check_character(loading, step, error) : status;
}

static const struct decoder_type {
    struct part_row part;
    enum status (*load)(struct loading *loading, const struct part *part, struct step *step, struct error *error);
    enum status (*apply)(const struct step *step, struct pattern_scratch *scratch, const struct decoder_strings *from,
                         struct decoder_strings *to, struct error *error);
} types[] = {
    {{"Sequence", {"type", "decoders"}}, load_sequence, NULL},
    {{"ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"}}, load_plain, apply_byte_level},
    {{"Replace", {"type", "pattern", "content"}}, load_replace, apply_replace},
    {{"ByteFallback", {"type"}}, load_plain, apply_byte_fallback},
    {{"Fuse", {"type"}}, load_plain, apply_fuse},
    {{"Strip", {"type", "content", "start", "stop"}}, load_strip, apply_strip},
    {{"Metaspace", {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}},
     load_metaspace,
     apply_metaspace},
};

static enum status load_row(void *context, const struct part *part, const void *row, struct error *error)
{
    struct loading *loading = context;
    const struct decoder_type *type = row;
    if (loading->decoder->count == STEPS_LIMIT)
        return error_set(error, STATUS_UNSUPPORTED, "more than %d decoders", STEPS_LIMIT);
    struct step *step = &loading->decoder->steps[loading->decoder->count++];
    step->apply = type->apply;
    return type->load(loading, part, step, error);
}

static const struct part_table table = PART_TABLE("decoder", types, load_row);

enum status decoder_load(const struct part_document *document, struct json_reader_text span, struct decoder **out,
                         struct error *error)
{
    *out = NULL;
    struct loading loading = {.document = document, .decoder = calloc(1, sizeof *loading.decoder)};
    if (loading.decoder == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a decoder");
    loading.decoder->growth = 1;
    enum status status = part_absent(span) ? STATUS_OK : part_load(document, span, &table, &loading, error);
    if (status == STATUS_OK) {
        *out = loading.decoder;
        return STATUS_OK;
    }
    decoder_free(loading.decoder);
    return status;
}

void decoder_free(struct decoder *decoder)
{
    if (decoder == NULL) return;
    for (int i = 0; i < STEPS_LIMIT; i++) {
        pattern_free(decoder->steps[i].pattern);
        text_free(&decoder->steps[i].content);
    }
    free(decoder);
}

enum status decoder_apply(const struct decoder *decoder, struct pattern_scratch *scratch,
                          struct decoder_strings *strings, struct text *out, struct error *error)
{
    struct decoder_strings other = {0};
    enum status status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < decoder->count; i++) {
        other.text.size = 0;
        other.count = 0;
        status = decoder->steps[i].apply(&decoder->steps[i], scratch, strings, &other, error);
        struct decoder_strings swapped = *strings;
        *strings = other;
        other = swapped;
    }
    for (int64_t i = 0; status == STATUS_OK && i < strings->count; i++) {
        size_t size;
        const char *text = string(strings, i, &size);
        if (decoder->count == 0 && i > 0) status = text_append(out, " ", 1, error);
        if (status == STATUS_OK) status = text_append(out, text, size, error);
    }
    decoder_strings_free(&other);
    return status;
}
