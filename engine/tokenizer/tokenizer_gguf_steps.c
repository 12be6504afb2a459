#include "tokenizer/tokenizer_gguf_steps.h"

#include <string.h>

#define SPACE        "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

/* The writer takes the first row with the right steps. */
static const struct tokenizer_gguf_splitting splittings[] = {
    {"gpt-2", NULL, false, false, false, false},
    {"olmo", NULL, false, true, false, false},
    {"mpt", NULL, false, true, false, false},
    {"smollm", NULL, true, false, false, false},
    {"dbrx",
     CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"
                  " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+"
                  "|\\\\s+(?!\\\\S)|\\\\s+",
     false, false, false, false},
    {"llama-bpe",
     CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"
                  " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+"
                  "|\\\\s+(?!\\\\S)|\\\\s+",
     false, false, true, true},
    {"qwen2",
     CONTRACTIONS
     "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+"
     "|\\\\s+(?!\\\\S)|\\\\s+",
     false, true, false, false},
    {"tekken",
     "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"
     "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
     "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"
     "|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
     false, false, true, true},
};

const struct tokenizer_gguf_splitting *tokenizer_gguf_splitting_at(int index)
{
    const int count = (int)(sizeof splittings / sizeof splittings[0]);
    return index >= 0 && index < count ? &splittings[index] : NULL;
}

/* Appends texts up to a NULL; they are too long for text_format. */
static enum status put_all(struct text *out, const char *const *texts, struct error *error)
{
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && *texts != NULL; texts++) status = text_append(out, *texts, strlen(*texts), error);
    return status;
}

static enum status add_sentencepiece(bool prefix, struct text *out, struct error *error)
{
    const char *const texts[] = {
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
        prefix ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," : "",
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}]},\"pre_tokenizer\":null,",
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE
        "\"},\"content\":\" \"},",
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}",
        prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "",
        "]},",
        NULL,
    };
    return put_all(out, texts, error);
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":"

static enum status add_byte_level(const struct tokenizer_gguf_splitting *splitting, struct text *out,
                                  struct error *error)
{
    const char *expression = splitting->expression;
    const bool sequence = expression != NULL || splitting->digits;
    const char *const texts[] = {
        "\"normalizer\":",
        splitting->normal_form ? "{\"type\":\"NFC\"}" : "null",
        ",\"pre_tokenizer\":",
        sequence ? "{\"type\":\"Sequence\",\"pretokenizers\":[" : "",
        splitting->digits ? "{\"type\":\"Digits\",\"individual_digits\":true}," : "",
        expression != NULL ? "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" : "",
        expression != NULL ? expression : "",
        expression != NULL ? "\"},\"behavior\":\"Isolated\",\"invert\":false}," : "",
        expression != NULL ? BYTE_LEVEL "false}" : BYTE_LEVEL "true}",
        sequence ? "]}" : "",
        ",\"decoder\":" BYTE_LEVEL "true},",
        NULL,
    };
    return put_all(out, texts, error);
}

enum status tokenizer_gguf_steps(const struct tokenizer_gguf_splitting *splitting, bool prefix, struct text *out,
                                 struct error *error)
{
    return splitting != NULL ? add_byte_level(splitting, out, error) : add_sentencepiece(prefix, out, error);
}
