/* A regular expression of a tokenizer, a line end, and a text that it searches. Matches come in order, begin and end
 * between characters, and their number is bounded by the text. */
#include "fuzz.h"

#include "base/utf8.h"
#include "tokenizer/pattern.h"

#include <string.h>

enum { TEXT_MOST = 24 };

static bool between(const char *text, size_t bytes, size_t at)
{
    return at == bytes || (at < bytes && utf8_is_start(text[at]));
}

static void search_all(const struct pattern *pattern, const char *text, size_t bytes)
{
    struct pattern_scratch *scratch = NULL;
    struct error error;
    struct pattern_search search = {.text = text, .bytes = bytes};
    size_t before = 0, count = 0;
    bool found = true;
    fuzz_require(pattern_scratch_new(&scratch, &error) == STATUS_OK);
    while (found) {
        const enum status status = pattern_next(pattern, scratch, &search, &found, &error);
        if (status != STATUS_OK) {
            fuzz_require(status == STATUS_UNSUPPORTED && error.detail[0]);
            break;
        }
        if (!found) break;
        fuzz_require(search.start <= search.end && search.end <= bytes && search.start >= before);
        fuzz_require(between(text, bytes, search.start) && between(text, bytes, search.end));
        fuzz_require(++count <= bytes + 1);
        before = search.end;
    }
    pattern_scratch_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *all = (const char *)bytes, *line = size > 0 ? memchr(all, '\n', size) : NULL;
    const size_t length = line != NULL ? (size_t)(line - all) : size;
    const char *text = line != NULL ? line + 1 : "a 1\xc3\xa9";
    size_t left = line != NULL ? size - length - 1 : 5;
    if (utf8_check(all, length) != length) return 0; /* as the reader of JSON sees to */
    left = utf8_check(text, left < TEXT_MOST ? left : TEXT_MOST);
    for (int syntax = PATTERN_ONIGURUMA; syntax <= PATTERN_LITERAL; syntax++) {
        struct pattern *pattern = NULL;
        struct error error;
        const enum status status = pattern_new(all, length, (enum pattern_syntax)syntax, &pattern, &error);
        fuzz_require((status == STATUS_OK) == (pattern != NULL));
        fuzz_require(status == STATUS_OK || (status == STATUS_UNSUPPORTED && error.detail[0]));
        if (status == STATUS_OK) search_all(pattern, text, left);
        pattern_free(pattern);
    }
    return 0;
}
