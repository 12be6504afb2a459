#include "hub/revision_name.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Patterns of whole names, with the groups stage, ingredient, step, tokens, unit; the first row that matches counts. A
 * row's `stage` is used when its pattern lacks that group. Stages are sorted by `order`, then by the number in them. */
#define TOKENS "(?:-tokens(?<tokens>[0-9]{1,9}(?:\\.[0-9]{1,6})?)(?<unit>[KMBT]?))?"
#define STEP   "(?<step>[0-9]{1,15})"
static const struct row {
    const char *pattern;
    const char *stage;
    int order;
} rows[] = {
    /* OLMo 2, SmolLM3 */
    {"(?<stage>stage[0-9]{1,3})(?:-ingredient(?<ingredient>[0-9]{1,3}))?-step-?" STEP TOKENS, "", 0},
    {"(?:global_?)?step[-_]?" STEP TOKENS, "", 0}, /* Pythia, Apertus */
    {"iter[-_]?" STEP, "", 0},                     /* open-sci-ref, Megatron */
    {"ckpt[-_]?" STEP, "", 0},                     /* Amber */
    {"checkpoint[-_]" STEP, "", 0},
    {"(?<stage>lc-[0-9a-z]{1,8}-to-[0-9a-z]{1,8})-step-" STEP, "", 1}, /* SmolLM3, longer contexts */
    {"(?<stage>it)-mid-training", "", 2},                              /* SmolLM3, instruction tuning: in this order */
    {"(?<stage>it)-SFT", "", 3},
    {"(?<stage>it)-soup-[A-Za-z0-9]{1,16}", "", 4},
    {"(?<stage>it)-[A-Za-z0-9-]{1,40}", "", 5},
    {"main", "final", 6},
};
enum { ROWS = sizeof rows / sizeof rows[0], MATCH_LIMIT = 20000 };

struct revision_names {
    pcre2_code *codes[ROWS];
    pcre2_match_data *data;
    pcre2_match_context *context;
};

enum status revision_names_new(struct revision_names **out, struct error *error)
{
    struct revision_names *names = calloc(1, sizeof *names);
    bool good = names != NULL;
    *out = NULL;
    for (size_t i = 0; good && i < ROWS; i++) {
        int code;
        PCRE2_SIZE offset;
        names->codes[i] = pcre2_compile((PCRE2_SPTR)rows[i].pattern, PCRE2_ZERO_TERMINATED,
                                        PCRE2_ANCHORED | PCRE2_ENDANCHORED, &code, &offset, NULL);
        good = names->codes[i] != NULL;
    }
    if (good) {
        names->data = pcre2_match_data_create(8, NULL);
        names->context = pcre2_match_context_create(NULL);
        good = names->data != NULL && names->context != NULL && pcre2_set_match_limit(names->context, MATCH_LIMIT) == 0;
    }
    if (!good) {
        revision_names_free(names);
        return error_set(error, STATUS_NO_MEMORY, "no memory for patterns of names");
    }
    *out = names;
    return STATUS_OK;
}

void revision_names_free(struct revision_names *names)
{
    if (names == NULL) return;
    for (size_t i = 0; i < ROWS; i++) pcre2_code_free(names->codes[i]);
    pcre2_match_data_free(names->data);
    pcre2_match_context_free(names->context);
    free(names);
}

/* Copies the group of the last match into `out`; false when it did not take part in the match. */
static bool group(const struct revision_names *names, const char *which, char *out, size_t size)
{
    PCRE2_SIZE length = size;
    out[0] = '\0';
    return pcre2_substring_copy_byname(names->data, (PCRE2_SPTR)which, (PCRE2_UCHAR *)out, &length) == 0 &&
           out[0] != '\0';
}

static int64_t group_integer(const struct revision_names *names, const char *which)
{
    char text[32];
    return group(names, which, text, sizeof text) ? (int64_t)strtoll(text, NULL, 10) : -1;
}

/* "630" and "B". In decimal digits, so that 2.2T is exactly 2,200,000,000,000. */
static int64_t group_tokens(const struct revision_names *names)
{
    static const char units[] = "KMBT";
    char text[32], unit[4];
    if (!group(names, "tokens", text, sizeof text)) return -1;
    const char *at = group(names, "unit", unit, sizeof unit) ? strchr(units, unit[0]) : NULL;
    int zeros = at != NULL ? 3 * (int)(at - units + 1) : 0;
    int64_t value = (int64_t)strtoll(text, NULL, 10);
    const char *fraction = strchr(text, '.');
    for (; zeros > 0; zeros--) {
        if (fraction != NULL) fraction++;
        const int digit = fraction != NULL && *fraction != '\0' ? *fraction - '0' : 0;
        if (fraction != NULL && *fraction == '\0') fraction = NULL;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)) return -1;
    }
    return value;
}

void revision_name_read(const struct revision_names *names, const char *text, struct revision_name *out)
{
    *out = (struct revision_name){.step = -1, .tokens = -1, .ingredient = -1};
    for (size_t i = 0; i < ROWS && !out->known; i++) {
        if (pcre2_match(names->codes[i], (PCRE2_SPTR)text, strlen(text), 0, 0, names->data, names->context) < 0)
            continue;
        out->known = true;
        out->order = rows[i].order;
        out->step = group_integer(names, "step");
        out->tokens = group_tokens(names);
        out->ingredient = group_integer(names, "ingredient");
        if (!group(names, "stage", out->stage, sizeof out->stage))
            (void)snprintf(out->stage, sizeof out->stage, "%s", rows[i].stage);
    }
}

static int compare_integers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

int revision_name_compare(const struct revision_name *a, const struct revision_name *b)
{
    int order = compare_integers(b->known, a->known);
    if (order == 0) order = compare_integers(a->order, b->order);
    if (order == 0) order = strverscmp(a->stage, b->stage);
    if (order == 0) order = compare_integers(a->ingredient, b->ingredient);
    if (order == 0) order = compare_integers(a->step < 0 ? INT64_MAX : a->step, b->step < 0 ? INT64_MAX : b->step);
    return order;
}
