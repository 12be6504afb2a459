#include "tokenizer/tokenizer_stream.h"

#include "base/utf8.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

struct tokenizer_stream {
    const struct tokenizer *tokenizer;
    struct text held; /* text that is not encoded yet */
    size_t checked;   /* bytes of it known to be UTF-8 */
    size_t searched;  /* bytes of it known to have no place to cut */
    size_t encoded;   /* bytes of the document before `held` */
};

enum status tokenizer_stream_open(const struct tokenizer *tokenizer, struct tokenizer_stream **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a stream of text");
    (*out)->tokenizer = tokenizer;
    return STATUS_OK;
}

void tokenizer_stream_close(struct tokenizer_stream *stream)
{
    if (stream == NULL) return;
    text_free(&stream->held);
    free(stream);
}

static enum status check(struct tokenizer_stream *stream, bool last, struct error *error)
{
    struct text *held = &stream->held;
    if (held->size > stream->checked)
        stream->checked += utf8_check(held->bytes + stream->checked, held->size - stream->checked);
    size_t rest = held->size - stream->checked;
    if (rest == 0 || (!last && rest < 4)) return STATUS_OK; /* the rest of a character may follow */
    return error_set(error, STATUS_MALFORMED, "text is not UTF-8 at byte %zu", stream->encoded + stream->checked);
}

static enum status encode_head(struct tokenizer_stream *stream, size_t bytes, struct token_list *out,
                               struct error *error)
{
    struct text *held = &stream->held;
    if (bytes == 0) return STATUS_OK;
    enum status status =
        tokenizer_encode_part(stream->tokenizer, held->bytes, bytes, stream->encoded > 0, NULL, out, error);
    if (status != STATUS_OK) return status;
    memmove(held->bytes, held->bytes + bytes, held->size - bytes);
    held->size -= bytes;
    stream->checked -= bytes;
    stream->encoded += bytes;
    stream->searched = 0;
    return STATUS_OK;
}

enum status tokenizer_stream_feed(struct tokenizer_stream *stream, const char *text, size_t bytes,
                                  struct token_list *out, struct error *error)
{
    struct text *held = &stream->held;
    enum status status;
    if (held->size + bytes > (size_t)TOKENIZER_TEXT_LIMIT)
        return error_set(error, STATUS_TOO_LARGE,
                         "text has over %lld bytes without a place where this tokenizer may be interrupted",
                         (long long)TOKENIZER_TEXT_LIMIT);
    if ((status = text_append(held, text, bytes, error)) != STATUS_OK ||
        (status = check(stream, false, error)) != STATUS_OK)
        return status;
    if (held->size < TOKENIZER_CHUNK) return STATUS_OK;
    size_t at = stream->checked;
    while (--at > stream->searched && !tokenizer_cuts_at(stream->tokenizer, held->bytes, at)) continue;
    if (at > stream->searched) return encode_head(stream, at, out, error);
    stream->searched = stream->checked - 1;
    return STATUS_OK;
}

enum status tokenizer_stream_end(struct tokenizer_stream *stream, struct token_list *out, struct error *error)
{
    enum status status = check(stream, true, error);
    if (status == STATUS_OK) status = encode_head(stream, stream->held.size, out, error);
    stream->held.size = stream->checked = stream->searched = stream->encoded = 0;
    return status;
}
