#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern.h"

#include "base/utf8.h"
#include "tokenizer/pattern_syntax.h"

#include <pcre2.h>
#include <stdlib.h>
#include <time.h>

/* A hostile expression is stopped in three ways: one attempt by the match limit and the size of the stack; many
 * fruitless attempts by processor time, which is checked after every WINDOW starting points without a match and every
 * so many matches. */
enum {
    MATCH_LIMIT = 5000000,
    HEAP_LIMIT_KIB = 65536,
    STACK_START = 32 << 10,
    STACK_LIMIT = 32 << 20,
    WINDOW = 512,
    LOOK_EVERY = 4096
};
static const double seconds_allowed = 10.0, seconds_per_byte = 4e-6;

struct pattern {
    pcre2_code *code;
    bool compiled;      /* to machine code */
    struct text source; /* what was compiled */
    bool literal;
};

struct pattern_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum status pattern_new(const char *expression, size_t bytes, enum pattern_syntax syntax, struct pattern **out,
                        struct error *error)
{
    enum status status = STATUS_OK;
    struct text translated = {0};
    struct pattern *pattern = NULL;
    pcre2_compile_context *context = NULL;
    int code = 0;
    PCRE2_SIZE offset = 0;
    uint32_t options = PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT | PCRE2_NO_UTF_CHECK;
    *out = NULL;
    if (syntax == PATTERN_ONIGURUMA &&
        (status = pattern_syntax_translate(expression, bytes, &translated, error)) != STATUS_OK)
        goto done;
    if (syntax != PATTERN_ONIGURUMA && (status = text_append(&translated, expression, bytes, error)) != STATUS_OK)
        goto done;
    options |= syntax == PATTERN_LITERAL ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE;
    pattern = calloc(1, sizeof *pattern);
    context = pcre2_compile_context_create(NULL);
    if (pattern == NULL || context == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a regular expression");
        goto done;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pattern->code = pcre2_compile((PCRE2_SPTR)(translated.bytes != NULL ? translated.bytes : ""), translated.size,
                                  options, &code, &offset, context);
    if (pattern->code == NULL && code == PCRE2_ERROR_HEAP_FAILED) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a regular expression");
        goto done;
    }
    if (pattern->code == NULL) {
        char reason[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        status = error_set(error, STATUS_UNSUPPORTED, "regular expression does not compile: %s (\"%.*s\")", reason,
                           (int)(bytes < 60 ? bytes : 60), expression);
        goto done;
    }
    pattern->compiled = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    pattern->literal = syntax == PATTERN_LITERAL;
    pattern->source = translated;
    translated = (struct text){0};
    *out = pattern;
    pattern = NULL;
done:
    pattern_free(pattern);
    pcre2_compile_context_free(context);
    text_free(&translated);
    return status;
}

void pattern_free(struct pattern *pattern)
{
    if (pattern == NULL) return;
    pcre2_code_free(pattern->code);
    text_free(&pattern->source);
    free(pattern);
}

bool pattern_same(const struct pattern *a, const struct pattern *b)
{
    if (a == NULL || b == NULL) return a == b;
    return a->literal == b->literal && text_same(&a->source, &b->source);
}

enum status pattern_scratch_new(struct pattern_scratch **out, struct error *error)
{
    struct pattern_scratch *scratch = calloc(1, sizeof *scratch);
    *out = scratch;
    if (scratch != NULL) {
        scratch->data = pcre2_match_data_create(1, NULL);
        scratch->context = pcre2_match_context_create(NULL);
        scratch->stack =
            pcre2_jit_stack_create(STACK_START, STACK_LIMIT, NULL); /* NULL: no just-in-time compiler here */
    }
    if (scratch == NULL || scratch->data == NULL || scratch->context == NULL) {
        pattern_scratch_free(scratch);
        *out = NULL;
        return error_set(error, STATUS_NO_MEMORY, "no memory for matching");
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    if (scratch->stack != NULL) pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return STATUS_OK;
}

void pattern_scratch_free(struct pattern_scratch *scratch)
{
    if (scratch == NULL) return;
    pcre2_match_data_free(scratch->data);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    free(scratch);
}

static enum status too_much(size_t at, struct error *error)
{
    return error_set(
        error, STATUS_UNSUPPORTED,
        "regular expression of the tokenizer backtracks too much at byte %zu of this text; use another tokenizer"
        " or text",
        at);
}

static enum status look_at_clock(struct pattern_search *search, struct error *error)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (search->deadline == 0) search->deadline = seconds + seconds_allowed + seconds_per_byte * (double)search->bytes;
    return seconds > search->deadline ? too_much(search->from, error) : STATUS_OK;
}

/* First match at or behind `from`. */
static enum status find(const struct pattern *pattern, struct pattern_scratch *scratch, struct pattern_search *search,
                        size_t from, bool *found, struct error *error)
{
    *found = false;
    for (;;) {
        size_t limit = search->bytes - from > WINDOW ? from + WINDOW : search->bytes;
        while (limit < search->bytes && !utf8_is_start(search->text[limit])) limit++;
        if (search->windows++ % LOOK_EVERY == 0 || from > search->from) {
            enum status status = look_at_clock(search, error);
            if (status != STATUS_OK) return status;
        }
        pcre2_set_offset_limit(scratch->context, limit);
        int code = (pattern->compiled ? pcre2_jit_match : pcre2_match)(pattern->code, (PCRE2_SPTR)search->text,
                                                                       search->bytes, from, PCRE2_NO_UTF_CHECK,
                                                                       scratch->data, scratch->context);
        if (code >= 0) {
            const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(scratch->data);
            *found = true;
            search->start = offsets[0];
            search->end = offsets[1];
            return STATUS_OK;
        }
        if (code != PCRE2_ERROR_NOMATCH) return too_much(from, error);
        if (limit >= search->bytes) return STATUS_OK;
        from = limit;
    }
}

enum status pattern_next(const struct pattern *pattern, struct pattern_scratch *scratch, struct pattern_search *search,
                         bool *found, struct error *error)
{
    *found = false;
    size_t from = search->from, last = search->end;
    while (from <= search->bytes) {
        enum status status = find(pattern, scratch, search, from, found, error);
        if (status != STATUS_OK || !*found) return status;
        if (search->end > search->start || !search->any || search->end != last) break;
        /* An empty match at the end of the previous one does not count: go on behind the next character. */
        *found = false;
        from += from < search->bytes ? utf8_width(search->text[from]) : 1;
    }
    search->any = true;
    search->from = search->end;
    return STATUS_OK;
}
