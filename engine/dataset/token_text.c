#include "dataset/token_text.h"

#include "base/buffer.h"
#include "base/memory.h"

#include <string.h>

struct decoded {
    char *text; /* owned */
    size_t bytes;
};

static bool inside_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Length of the longest common prefix of whole characters. */
static size_t common(const struct decoded *a, const struct decoded *b)
{
    const size_t most = a->bytes < b->bytes ? a->bytes : b->bytes;
    size_t at = 0;
    while (at < most && a->text[at] == b->text[at]) at++;
    while (at > 0 && at < b->bytes && inside_character(b->text[at])) at--;
    return at;
}

/* Copies a text; every byte 0 becomes U+FFFD. */
static enum status copy(const char *from, size_t bytes, char **out, struct error *error)
{
    struct buffer text = {0};
    for (size_t at = 0; at < bytes;) {
        const size_t run = strnlen(from + at, bytes - at);
        buffer_append(&text, from + at, run);
        at += run;
        if (at < bytes) buffer_puts(&text, "\xEF\xBF\xBD");
        at += at < bytes;
    }
    enum status status = buffer_status(&text, "a token's text", error);
    if (status == STATUS_OK) status = memory_new((int64_t)text.length + 1, 1, "a token's text", out, error);
    if (status == STATUS_OK && text.length > 0) memcpy(*out, text.bytes, text.length);
    buffer_reset(&text);
    return status;
}

/* Compares three decodings: of the tokens before, of those with the token, and of all. A decoder may render the end of
 * an incomplete text differently from its middle, so the common prefixes tell where the parts end. */
enum status token_text_of(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count, int64_t place,
                          struct token_text *out, struct error *error)
{
    const int64_t ends[] = {place, place + 1, count};
    struct decoded found[3] = {{0}};
    enum status status = STATUS_OK;
    *out = (struct token_text){0};
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = tokenizer_decode(tokenizer, ids, ends[i], false, &found[i].text, &found[i].bytes, error);
    if (status != STATUS_OK) goto done;
    const struct decoded *whole = &found[2];
    const size_t end = common(&found[1], whole), without = common(&found[0], whole);
    const size_t start = without < end ? without : end;
    if ((status = copy(whole->text, start, &out->before, error)) != STATUS_OK) goto done;
    if ((status = copy(whole->text + start, end - start, &out->token, error)) != STATUS_OK) goto done;
    status = copy(whole->text + end, whole->bytes - end, &out->after, error);
done:
    for (int i = 0; i < 3; i++) memory_free(found[i].text);
    return status;
}

void token_text_reset(struct token_text *text)
{
    memory_free(text->before);
    memory_free(text->token);
    memory_free(text->after);
    *text = (struct token_text){0};
}
