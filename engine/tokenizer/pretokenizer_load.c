#include "base/utf8.h"
#include "tokenizer/pretokenizer_steps.h"

#include <stdlib.h>
#include <string.h>

struct loading {
    const struct part_document *document;
    struct pretokenizer *pretokenizer;
    int depth;
};

static const char *const behaviors[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous", NULL};
static const char *const prepends[] = {"first", "never", "always", NULL};

/* Expressions of real models that match every character and never match across the border between a letter and a space:
 * each ends a run of letters at the space, none looks behind, and a match that begins with the space does not depend on
 * the letter before it. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char *const known[] = {
    gpt2,
    /* Llama 3, OLMo 2 */
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
    /* Qwen 2 and 3 */ CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
    /* Tekken, Apertus */ UPPER "*" LOWER "+|" UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
    /* GPT-4o */
    UPPER "*" LOWER "+" CONTRACTIONS "?|" UPPER "+" LOWER "*" CONTRACTIONS
          "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
};

static enum status add_step(struct loading *loading, struct pretokenizer_step **out, struct error *error)
{
    if (loading->pretokenizer->count == PRETOKENIZER_STEPS)
        return error_set(error, STATUS_UNSUPPORTED, "more than %d pre-tokenizers", PRETOKENIZER_STEPS);
    *out = &loading->pretokenizer->steps[loading->pretokenizer->count++];
    (*out)->border.harmless = true;
    return STATUS_OK;
}

static enum status add_split(struct loading *loading, const char *expression, size_t bytes, enum pattern_syntax syntax,
                             enum pretokenizer_behavior behavior, struct pretokenizer_step **out, struct error *error)
{
    enum status status = add_step(loading, out, error);
    if (status != STATUS_OK) return status;
    (*out)->kind = PRETOKENIZER_SPLIT;
    (*out)->behavior = behavior;
    return pattern_new(expression, bytes, syntax, &(*out)->pattern, error);
}

/* ---- one loader per type; field 0 is always "type" ---- */

static const struct part_table table;

static enum status load_sequence(struct loading *loading, const struct part *part, struct error *error)
{
    return part_sequence(part, &table, &loading->depth, loading, error);
}

/* {"add_prefix_space", "use_regex", ...}; trim_offsets concerns offsets only, which deltaq does not give. */
static enum status load_byte_level(struct loading *loading, const struct part *part, struct error *error)
{
    bool prefix_space = true, use_regex = true;
    struct pretokenizer_step *step = NULL;
    enum status status = part_bool(part, 1, &prefix_space, error);
    if (status == STATUS_OK) status = part_bool(part, 3, &use_regex, error);
    if (status == STATUS_OK && prefix_space && (status = add_step(loading, &step, error)) == STATUS_OK)
        step->kind = PRETOKENIZER_PREFIX_SPACE;
    if (status == STATUS_OK && use_regex) {
        status = add_split(loading, gpt2, sizeof gpt2 - 1, PATTERN_ONIGURUMA, PRETOKENIZER_ISOLATED, &step, error);
        if (status == STATUS_OK) step->border.separates = true;
    }
    if (status == STATUS_OK && (status = add_step(loading, &step, error)) == STATUS_OK) step->kind = PRETOKENIZER_BYTES;
    return status;
}

static bool is_known(const struct text *expression)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i]) == expression->size && memcmp(known[i], expression->bytes, expression->size) == 0)
            return true;
    }
    return false;
}

static struct pretokenizer_border split_border(const struct text *expression, bool literal,
                                               const struct pretokenizer_step *step)
{
    bool space = literal && expression->size == 1 && expression->bytes[0] == ' ' && !step->invert &&
                 step->behavior != PRETOKENIZER_MERGED_WITH_PREVIOUS;
    bool covers =
        !literal && is_known(expression) &&
        ((step->behavior == PRETOKENIZER_ISOLATED) || (step->behavior == PRETOKENIZER_REMOVED && step->invert));
    return (struct pretokenizer_border){.harmless = space || covers, .separates = space || covers};
}

static enum status load_split(struct loading *loading, const struct part *part, struct error *error)
{
    struct text expression = {0};
    struct pretokenizer_step *step = NULL;
    bool literal = false, invert = false;
    int behavior = -1;
    enum status status = part_pattern(part, 1, &expression, &literal, error);
    if (status == STATUS_OK) status = part_choice(part, 2, behaviors, &behavior, error);
    if (status == STATUS_OK) status = part_bool(part, 3, &invert, error);
    if (status == STATUS_OK && behavior < 0)
        status = error_set(error, STATUS_CORRUPT, "%s: Split lacks its behavior", loading->document->name);
    if (status == STATUS_OK)
        status = add_split(loading, expression.bytes, expression.size, literal ? PATTERN_LITERAL : PATTERN_ONIGURUMA,
                           (enum pretokenizer_behavior)behavior, &step, error);
    if (status == STATUS_OK) {
        step->invert = invert;
        step->border = split_border(&expression, literal, step);
    }
    text_free(&expression);
    return status;
}

static enum status load_digits(struct loading *loading, const struct part *part, struct error *error)
{
    bool individual = false;
    struct pretokenizer_step *step = NULL;
    enum status status = part_bool(part, 1, &individual, error);
    if (status != STATUS_OK) return status;
    return add_split(loading, "\\p{N}", 5, PATTERN_PCRE2, individual ? PRETOKENIZER_ISOLATED : PRETOKENIZER_CONTIGUOUS,
                     &step, error);
}

static enum status load_punctuation(struct loading *loading, const struct part *part, struct error *error)
{
    static const char expression[] = "[\\p{P}$+<=>^`|~]";
    int behavior = PRETOKENIZER_ISOLATED;
    struct pretokenizer_step *step = NULL;
    enum status status = part_choice(part, 1, behaviors, &behavior, error);
    if (status != STATUS_OK) return status;
    return add_split(loading, expression, sizeof expression - 1, PATTERN_PCRE2, (enum pretokenizer_behavior)behavior,
                     &step, error);
}

static enum status load_whitespace(struct loading *loading, const struct part *part, struct error *error)
{
    static const char expression[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+|"
                                     "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}\\p{White_Space}]+";
    struct pretokenizer_step *step = NULL;
    (void)part;
    enum status status =
        add_split(loading, expression, sizeof expression - 1, PATTERN_PCRE2, PRETOKENIZER_REMOVED, &step, error);
    if (status == STATUS_OK) step->invert = step->border.separates = true;
    return status;
}

static enum status load_whitespace_split(struct loading *loading, const struct part *part, struct error *error)
{
    static const char expression[] = "\\p{White_Space}";
    struct pretokenizer_step *step = NULL;
    (void)part;
    enum status status =
        add_split(loading, expression, sizeof expression - 1, PATTERN_PCRE2, PRETOKENIZER_REMOVED, &step, error);
    if (status == STATUS_OK) step->border.separates = true;
    return status;
}

/* {"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}; str_rep repeats the replacement. */
static enum status load_metaspace(struct loading *loading, const struct part *part, struct error *error)
{
    struct pretokenizer_step *step = NULL, *splitting = NULL;
    bool prefix_space = true, split = true;
    int prepend = PRETOKENIZER_ALWAYS;
    enum status status = add_step(loading, &step, error);
    if (status != STATUS_OK) return status;
    step->kind = PRETOKENIZER_METASPACE;
    if ((status = part_required_text(part, 1, &step->replacement, error)) != STATUS_OK) return status;
    if ((status = part_bool(part, 2, &prefix_space, error)) != STATUS_OK) return status;
    if ((status = part_choice(part, 3, prepends, &prepend, error)) != STATUS_OK) return status;
    if ((status = part_bool(part, 4, &split, error)) != STATUS_OK) return status;
    if (step->replacement.size == 0 || utf8_width(step->replacement.bytes[0]) != step->replacement.size)
        return error_set(error, STATUS_CORRUPT, "%s: Metaspace's replacement is not one character",
                         loading->document->name);
    if (!prefix_space && part->spans[3].bytes != NULL && prepend != PRETOKENIZER_NEVER)
        return error_set(error, STATUS_CORRUPT, "%s: Metaspace's add_prefix_space contradicts its prepend_scheme",
                         loading->document->name);
    step->prepend = prefix_space ? (enum pretokenizer_prepend)prepend : PRETOKENIZER_NEVER;
    if (!split) return STATUS_OK;
    status = add_split(loading, step->replacement.bytes, step->replacement.size, PATTERN_LITERAL,
                       PRETOKENIZER_MERGED_WITH_NEXT, &splitting, error);
    if (status == STATUS_OK) splitting->border.separates = true;
    return status;
}

static const struct pretokenizer_type {
    struct part_row part;
    enum status (*load)(struct loading *loading, const struct part *part, struct error *error);
} types[] = {
    {{"Sequence", {"type", "pretokenizers"}}, load_sequence},
    {{"ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"}}, load_byte_level},
    {{"Split", {"type", "pattern", "behavior", "invert"}}, load_split},
    {{"Digits", {"type", "individual_digits"}}, load_digits},
    {{"Punctuation", {"type", "behavior"}}, load_punctuation},
    {{"Whitespace", {"type"}}, load_whitespace},
    {{"WhitespaceSplit", {"type"}}, load_whitespace_split},
    {{"Metaspace", {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}}, load_metaspace},
};

static enum status load_row(void *context, const struct part *part, const void *row, struct error *error)
{
    const struct pretokenizer_type *type = row;
    return type->load(context, part, error);
}

static const struct part_table table = PART_TABLE("pre_tokenizer", types, load_row);

enum status pretokenizer_load(const struct part_document *document, struct json_reader_text span, bool raw_bytes,
                              struct pretokenizer **out, struct error *error)
{
    *out = NULL;
    struct pretokenizer *pretokenizer = calloc(1, sizeof *pretokenizer);
    if (pretokenizer == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    struct loading loading = {.document = document, .pretokenizer = pretokenizer};
    enum status status = part_absent(span) ? STATUS_OK : part_load(document, span, &table, &loading, error);
    if (status != STATUS_OK) {
        pretokenizer_free(pretokenizer);
        return status;
    }
    int last = pretokenizer->count - 1;
    if (raw_bytes && last >= 0 && pretokenizer->steps[last].kind == PRETOKENIZER_BYTES) {
        pretokenizer->raw_bytes = true;
        pretokenizer->count = last;
    }
    *out = pretokenizer;
    return STATUS_OK;
}
