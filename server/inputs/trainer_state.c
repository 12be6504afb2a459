#include "inputs/trainer_state.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/json_reader.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* log_history grows with the training. It is read without a tree, which would take 80 times its text. */
enum { LARGEST = 64 << 20, DEEPEST = 64 };

/* Without fraction and exponent, and not one of Python's literals. */
static bool is_integer(struct json_reader_text number)
{
    for (size_t i = 0; i < number.size; i++)
        if (strchr("-0123456789", number.bytes[i]) == NULL) return false;
    return true;
}

/* An integer that is at least `least`; -1 for any other value. */
static void read_count(struct json_reader *reader, int64_t least, int64_t *out)
{
    struct json_reader_text text;
    struct json_reader number;
    int64_t value = -1;
    *out = -1;
    if (json_reader_peek(reader) != JSON_READER_NUMBER || !json_reader_number(reader, &text)) return;
    if (!is_integer(text)) return;
    json_reader_init(&number, reader->name, text.bytes, text.size, NULL, reader->error);
    (void)json_reader_int64(&number, INT64_MIN, INT64_MAX, &value);
    if (json_reader_finish(&number) != STATUS_OK)
        (void)json_reader_fail(reader, STATUS_INVALID, "no integer of 64 bits");
    else if (value >= least)
        *out = value;
}

/* The learning rate of a line; NAN when it has none. */
static double read_line(struct json_reader *reader)
{
    struct json_reader_text key;
    double rate = NAN;
    if (json_reader_peek(reader) != JSON_READER_OBJECT || !json_reader_object(reader)) return NAN;
    while (json_reader_next_key(reader, &key)) {
        if (!json_reader_is(key, "learning_rate")) continue;
        rate = NAN;
        if (json_reader_peek(reader) == JSON_READER_NUMBER) (void)json_reader_double(reader, &rate);
    }
    return rate >= 0 && isfinite(rate) ? rate : NAN;
}

static void read_history(struct json_reader *reader, double *rate)
{
    *rate = NAN;
    if (json_reader_peek(reader) != JSON_READER_ARRAY || !json_reader_array(reader)) return;
    while (json_reader_next_item(reader)) {
        const double found = read_line(reader);
        if (!isnan(found)) *rate = found;
    }
}

/* A key that is given twice has the later value, as in Python, which also writes NaN and Infinity: the loss and the
 * gradient norm of a training that diverged. */
static enum status read_text(const char *text, size_t size, struct trainer_state *out, struct error *error)
{
    const struct json_reader_options options = {.depth = DEEPEST, .not_finite = true};
    struct json_reader reader;
    struct json_reader_text key;
    json_reader_init(&reader, "trainer_state.json", text, size, &options, error);
    (void)json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "global_step")) read_count(&reader, 0, &out->step);
        if (json_reader_is(key, "num_input_tokens_seen")) read_count(&reader, 1, &out->tokens);
        if (json_reader_is(key, "log_history")) read_history(&reader, &out->learning_rate);
    }
    return json_reader_finish(&reader);
}

void trainer_state_read(const char *directory, struct trainer_state *out)
{
    static const struct trainer_state nothing = {-1, -1, NAN};
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    struct error ignored;
    *out = nothing;
    (void)snprintf(path, sizeof path, "%s/trainer_state.json", directory);
    if (file_read_all(AT_FDCWD, path, LARGEST, &text, &size, &ignored) != STATUS_OK) return;
    if (read_text(text, size, out, &ignored) != STATUS_OK) *out = nothing;
    memory_free(text);
}
