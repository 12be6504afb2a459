/* tokenizer.json: whatever is accepted encodes text to ids below its size, the same twice and in a stream, and decodes
 * them. */
#include "fuzz.h"

#include "base/memory.h"
#include "tokenizer/tokenizer_stream.h"

#include <string.h>

static const char text[] = "ab  aab\n<s> 12^^ \xc3\xa9\xe2\x96\x81x <0x0A>";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct error error;
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_stream *stream = NULL;
    struct token_list once = {0}, again = {0};
    char *decoded = NULL;
    size_t decoded_size;
    const enum status status = tokenizer_open_memory("x", (const char *)bytes, size, &tokenizer, &error);
    if (status != STATUS_OK) {
        fuzz_require(tokenizer == NULL && error.detail[0] && status != STATUS_INTERNAL);
        return 0;
    }
    if (tokenizer_encode(tokenizer, text, sizeof text - 1, false, &once, &error) == STATUS_OK) {
        fuzz_require(tokenizer_stream_open(tokenizer, &stream, &error) == STATUS_OK);
        fuzz_require(tokenizer_stream_feed(stream, text, 17, &again, &error) == STATUS_OK);
        fuzz_require(tokenizer_stream_feed(stream, text + 17, sizeof text - 1 - 17, &again, &error) == STATUS_OK);
        fuzz_require(tokenizer_stream_end(stream, &again, &error) == STATUS_OK);
        fuzz_require(again.count == once.count);
        for (int64_t i = 0; i < once.count; i++)
            fuzz_require(once.ids[i] == again.ids[i] && (int64_t)once.ids[i] < tokenizer_vocabulary_size(tokenizer));
        if (tokenizer_decode(tokenizer, once.ids, once.count, false, &decoded, &decoded_size, &error) == STATUS_OK)
            fuzz_require(strlen(decoded) <= decoded_size);
        memory_free(decoded);
    }
    tokenizer_stream_close(stream);
    tokenizer_list_free(&once);
    tokenizer_list_free(&again);
    tokenizer_close(tokenizer);
    return 0;
}
