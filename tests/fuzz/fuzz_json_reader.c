/* Skipping a document and reading all of it must come to the same verdict. */
#include "fuzz.h"

#include "files/json_reader.h"

/* Reads whatever comes, without recursion; numbers as text, so that only the grammar decides. */
static void read_everything(struct json_reader *reader)
{
    bool objects[64];
    int depth = 0;
    struct json_reader_text text = {0};
    do {
        bool entered = false;
        switch (json_reader_peek(reader)) {
        case JSON_READER_OBJECT:
            entered = json_reader_object(reader);
            if (entered) objects[depth++] = true;
            break;
        case JSON_READER_ARRAY:
            entered = json_reader_array(reader);
            if (entered) objects[depth++] = false;
            break;
        case JSON_READER_STRING:
            (void)json_reader_string(reader, &text);
            break;
        case JSON_READER_NUMBER:
            (void)json_reader_number(reader, &text);
            break;
        case JSON_READER_TRUE:
        case JSON_READER_FALSE:
            (void)json_reader_bool(reader, &entered);
            break;
        case JSON_READER_NULL:
            (void)json_reader_null(reader);
            break;
        case JSON_READER_NONE:
            return;
        }
        unsigned sum = 0;
        for (size_t i = 0; i < text.size; i++) sum += (unsigned char)text.bytes[i];
        fuzz_require(sum <= text.size * 255);
        while (depth > 0 && !(objects[depth - 1] ? json_reader_next_key(reader, &text) : json_reader_next_item(reader)))
            depth--;
    } while (depth > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < 2; i++) {
        const struct json_reader_options options = {.depth = i ? 64 : 3, .not_finite = i};
        struct json_reader reader;
        struct error error;
        json_reader_init(&reader, "x", bytes, size, &options, &error);
        const enum status skipped = json_reader_finish(&reader);
        json_reader_init(&reader, "x", bytes, size, &options, &error);
        read_everything(&reader);
        fuzz_require(json_reader_finish(&reader) == skipped);
        fuzz_require(skipped == STATUS_OK || skipped == STATUS_MALFORMED);
        double number;
        int64_t integer;
        json_reader_init(&reader, "x", bytes, size, &options, &error);
        (void)json_reader_double(&reader, &number);
        (void)(json_reader_finish(&reader) == STATUS_OK);
        json_reader_init(&reader, "x", bytes, size, &options, &error);
        (void)json_reader_int64(&reader, -5, INT64_MAX, &integer);
        (void)(json_reader_finish(&reader) == STATUS_OK);
    }
    return 0;
}
