/* tokenizers.h: small tokenizer.json files for tests, and short ways to use them. */
#ifndef TOKENIZERS_H
#define TOKENIZERS_H

#include "unit.h"

#include "base/memory.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* Joins the parts of a tokenizer.json; NULL parts are null, `added` and `model` are as given. */
static inline char *tokenizers_json(char *out, size_t size, const char *added, const char *normalizer,
                                    const char *pre_tokenizer, const char *post_processor, const char *decoder,
                                    const char *model)
{
    const char *null = "null";
    const int length =
        snprintf(out, size,
                 "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[%s],\"normalizer\":%s,"
                 "\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,\"model\":%s}",
                 added != NULL ? added : "", normalizer != NULL ? normalizer : null,
                 pre_tokenizer != NULL ? pre_tokenizer : null, post_processor != NULL ? post_processor : null,
                 decoder != NULL ? decoder : null, model);
    assert_true(length > 0 && (size_t)length < size);
    return out;
}

static inline struct tokenizer *tokenizers_open(const char *json)
{
    struct error error = {0};
    struct tokenizer *tokenizer = NULL;
    if (tokenizer_open_memory("tokenizer.json", json, strlen(json), &tokenizer, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    return tokenizer;
}

/* The status of opening `json`, with its message in *error. */
static inline enum status tokenizers_refuse(const char *json, struct error *error)
{
    struct tokenizer *tokenizer = NULL;
    const enum status status = tokenizer_open_memory("tokenizer.json", json, strlen(json), &tokenizer, error);
    tokenizer_close(tokenizer);
    return status;
}

/* Checks that `text` becomes `count` given ids. */
static inline void tokenizers_expect(const struct tokenizer *tokenizer, const char *text, bool special,
                                     const uint32_t *ids, int64_t count)
{
    struct error error = {0};
    struct token_list list = {0};
    if (tokenizer_encode(tokenizer, text, strlen(text), special, &list, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    for (int64_t i = 0; i < count && i < list.count; i++) {
        if (list.ids[i] != ids[i]) fail_msg("\"%s\": id %lld is %u, not %u", text, (long long)i, list.ids[i], ids[i]);
    }
    if (list.count != count) fail_msg("\"%s\": %lld ids, not %lld", text, (long long)list.count, (long long)count);
    tokenizer_list_free(&list);
}
#define EXPECT_IDS(tokenizer, text, special, ...)                                \
    tokenizers_expect(tokenizer, text, special, (const uint32_t[]){__VA_ARGS__}, \
                      sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* SentencePiece style, as in Llama 2: "▁" is id 3; "▁a", "ab", "▁ab" are merges. */
#define TOKENIZERS_BYTE_FALLBACK                                                                           \
    "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true," \
    "\"vocab\":{\"<unk>\":0,"                                                                              \
    "\"<s>\":1,\"<0x0A>\":2,\"\xe2\x96\x81\":3,\"a\":4,\"b\":5,\"ab\":6,\"\xe2\x96\x81"                    \
    "a\":7,\"\xe2\x96\x81"                                                                                 \
    "ab\":8,\"<0xC3>\":9,\"<0xA9>\":10},\"merges\":[[\"a\",\"b\"],\"\xe2\x96\x81 ab\",[\"\xe2\x96\x81\",\"a\"]]}"
#define TOKENIZERS_DUMMY_PREFIX                                                                    \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}," \
    "{\"type\":\"Replace\","                                                                       \
    "\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]}"
#define TOKENIZERS_BOS                                                                                \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}}," \
    "{\"Sequence\":{\"id\":\"A\","                                                                    \
    "\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}}"
#define TOKENIZERS_UNFUSE                                                                                   \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"}," \
    "\"content\":\" \"},"                                                                                   \
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define TOKENIZERS_ADDED(id, content)                                                  \
    "{\"id\":" #id ",\"content\":\"" content                                           \
    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false," \
    "\"special\":true}"

/* Byte level over a few letters: Ġ is 0. */
#define TOKENIZERS_LETTERS                                                                                   \
    "{\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"\xc4\xa0\":0,\"a\":1,\"b\":2,\"\xc4\xa0"              \
    "a\":3,\"ab\":4,\"1\":5,\"2\":6,\"12\":7,\"^\":8,\"^^\":9,\"^^^^\":10,\"\xc3\x83\":11,\"\xc2\xa9\":12}," \
    "\"merges\":["                                                                                           \
    "\"\xc4\xa0 a\",\"a b\",\"1 2\",\"^ ^\",\"^^ ^^\"]}"
#define TOKENIZERS_BYTE_LEVEL \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"

#endif
