/* A GGUF file, the model and the tokenizer in it. Tensors that are accepted lie in the file, aligned and apart, and can
 * be read; what the metadata becomes is JSON. */
#include "fuzz_file.h"

#include "files/json_reader.h"
#include "formats/gguf/gguf_model.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_gguf.h"

#include <string.h>

static void check(const struct gguf *file, int64_t size)
{
    float values[64];
    struct error error;
    for (int64_t i = 0; i < gguf_count(file); i++) {
        const struct gguf_tensor *tensor = gguf_tensor(file, i);
        const struct dtype_info *dtype = dtype_info(tensor->dtype);
        fuzz_require(tensor->rank >= 1 && tensor->rank <= GGUF_RANK_MAX && tensor->elements > 0);
        fuzz_require(tensor->offset >= 24 && tensor->bytes > 0 && tensor->offset + tensor->bytes <= size);
        fuzz_require(tensor->bytes / (int64_t)(dtype->bits / 8) == tensor->elements / dtype->block);
        fuzz_require(gguf_find(file, tensor->name) == tensor);
        const int64_t count = tensor->elements < 64 ? tensor->elements : 64;
        const enum status status = gguf_read_f32(file, tensor, tensor->elements - count, count, values, &error);
        fuzz_require(status == (dtype->to_f32 != NULL ? STATUS_OK : STATUS_UNSUPPORTED));
    }
}

static void check_model(const struct gguf_model *model)
{
    float values[8];
    struct error error;
    struct json_reader reader;
    const char *config = gguf_model_config(model);
    json_reader_init(&reader, "x", config, strlen(config), NULL, &error);
    json_reader_skip(&reader, NULL);
    fuzz_require(json_reader_finish(&reader) == STATUS_OK);
    for (int64_t i = 0; i < gguf_model_count(model); i++) {
        const struct gguf_model_tensor *tensor = gguf_model_tensor(model, i);
        const int64_t count = tensor->elements < 8 ? tensor->elements : 8;
        fuzz_require(tensor->elements > 0 && tensor->first >= 0 &&
                     tensor->first + tensor->elements <= tensor->stored->elements);
        fuzz_require(tensor->rank >= 1 && tensor->rank <= tensor->stored->rank && tensor->part == 0);
        fuzz_require(i == 0 || strcmp(gguf_model_tensor(model, i - 1)->name, tensor->name) <= 0);
        (void)!gguf_model_read_f32(model, i, tensor->elements - count, count, values, &error);
    }
}

/* A tokenizer.json that can be made is JSON, and encodes. */
static void check_tokenizer(const char *path)
{
    struct text text = {0};
    struct error error;
    struct json_reader reader;
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    const enum status status = tokenizer_gguf_text(path, &text, &error);
    fuzz_require(status != STATUS_INTERNAL && (status == STATUS_OK || error.detail[0]));
    if (status == STATUS_OK) {
        json_reader_init(&reader, "x", text.bytes, text.size, NULL, &error);
        json_reader_skip(&reader, NULL);
        fuzz_require(json_reader_finish(&reader) == STATUS_OK);
        const enum status opened = tokenizer_open_memory("x", text.bytes, text.size, &tokenizer, &error);
        fuzz_require(opened != STATUS_INTERNAL && opened != STATUS_MALFORMED &&
                     (opened == STATUS_OK || error.detail[0]));
        if (opened == STATUS_OK) (void)!tokenizer_encode(tokenizer, "ab a\xc3\xa9 1<s>", 12, true, &list, &error);
    }
    tokenizer_list_free(&list);
    tokenizer_close(tokenizer);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    struct gguf *file = NULL;
    struct gguf_model *model = NULL;
    struct error error;
    const int descriptor = fuzz_file(bytes, size, path);
    enum status status = gguf_open(AT_FDCWD, path, &file, &error);
    if (status == STATUS_OK) {
        check(file, (int64_t)size);
        gguf_close(file);
        check_tokenizer(path);
        status = gguf_model_open(AT_FDCWD, path, &model, &error);
        if (status == STATUS_OK) check_model(model);
        gguf_model_close(model);
    }
    fuzz_require(
        status == STATUS_OK ||
        ((status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED || status == STATUS_INVALID) && error.detail[0]));
    (void)close(descriptor);
    return 0;
}
