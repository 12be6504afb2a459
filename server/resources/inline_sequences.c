#include "resources/inline_sequences.h"

#include "files/spill.h"
#include "inputs/hash.h"
#include "json/small_number.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 16384 /* numbers */, TOKEN_MOST = INT32_MAX - 1, NUMBER_SIZE = 64 };

static_assert((int)INLINE_SEQUENCES_HASH == (int)HASH_TEXT, "a hash is written as one");

/* Collects numbers for a file. */
struct writer {
    struct spill *file; /* lent */
    int64_t count;
    int32_t chunk[CHUNK];
};

struct reading {
    struct json_reader json;
    struct faults *faults;
    struct writer writers[DATASET_PARTS];
    struct error *error;
    enum status status;
};

static void flush(struct reading *reading, struct writer *writer)
{
    const int64_t waiting = (writer->count - 1) % CHUNK + 1, first = writer->count - waiting;
    if (writer->count == 0 || reading->status != STATUS_OK) return;
    reading->status = spill_write(writer->file, first * (int64_t)sizeof *writer->chunk, writer->chunk,
                                  (size_t)waiting * sizeof *writer->chunk, reading->error);
}

static void put(struct reading *reading, enum dataset_part part, int32_t number)
{
    struct writer *writer = &reading->writers[part];
    writer->chunk[writer->count++ % CHUNK] = number;
    if (writer->count % CHUNK == 0) flush(reading, writer);
}

static const char *type_name(enum json_reader_type type)
{
    static const char *const names[] = {
        [JSON_READER_NONE] = "nothing",    [JSON_READER_OBJECT] = "an object", [JSON_READER_ARRAY] = "an array",
        [JSON_READER_STRING] = "a string", [JSON_READER_NUMBER] = "a number",  [JSON_READER_TRUE] = "a boolean",
        [JSON_READER_FALSE] = "a boolean", [JSON_READER_NULL] = "null",
    };
    return names[type];
}

/* Reads `text` as a whole number; as in JSON Schema, 256.0 and 1e3 are integers too. */
static bool whole(struct json_reader_text text, double *out)
{
    char copy[NUMBER_SIZE];
    if (text.size >= sizeof copy) return false;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    size_t size;
    *out = strtod(copy, NULL);
    return trunc(*out) == *out && small_number_find(copy, text.size, &size) == NULL;
}

static bool plain(struct json_reader_text text, int64_t *out)
{
    *out = 0;
    if (text.size > 10) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') return false;
        *out = *out * 10 + (text.bytes[i] - '0');
    }
    return *out <= TOKEN_MOST;
}

static void read_token(struct reading *reading, int64_t sequence, int64_t index)
{
    struct json_reader_text text;
    char pointer[64];
    int64_t token;
    double number;
    const enum json_reader_type type = json_reader_peek(&reading->json);
    (void)snprintf(pointer, sizeof pointer, "/sequences/%lld/%lld", (long long)sequence, (long long)index);
    if (type != JSON_READER_NUMBER) {
        faults_add(reading->faults, pointer, "must be a token id, an integer, found %s", type_name(type));
        (void)json_reader_skip(&reading->json, NULL);
        return;
    }
    if (!json_reader_number(&reading->json, &text)) return;
    if (plain(text, &token)) {
        put(reading, DATASET_PART_TOKENS, (int32_t)token);
        return;
    }
    if (!whole(text, &number))
        faults_add(reading->faults, pointer, "must be a token id, an integer, found %.*s",
                   text.size < NUMBER_SIZE ? (int)text.size : NUMBER_SIZE, text.bytes);
    else if (number < 0 || number > TOKEN_MOST)
        faults_add(reading->faults, pointer, "must be from 0 to %d, found %.17g", TOKEN_MOST, number);
    else
        put(reading, DATASET_PART_TOKENS, (int32_t)number);
}

/* Reads at least two ids, because a loss needs a token to predict. */
static void read_sequence(struct reading *reading, int64_t index)
{
    char pointer[48];
    int64_t length = 0;
    const enum json_reader_type type = json_reader_peek(&reading->json);
    (void)snprintf(pointer, sizeof pointer, "/sequences/%lld", (long long)index);
    if (type != JSON_READER_ARRAY) {
        faults_add(reading->faults, pointer, "must be an array of token ids, found %s", type_name(type));
        (void)json_reader_skip(&reading->json, NULL);
        return;
    }
    (void)json_reader_array(&reading->json);
    while (reading->status == STATUS_OK && json_reader_next_item(&reading->json)) read_token(reading, index, length++);
    if (reading->status == STATUS_OK && length < 2)
        faults_add(reading->faults, pointer, "has %lld tokens; a sequence needs at least 2", (long long)length);
    put(reading, DATASET_PART_LENGTHS, (int32_t)length);
}

static void read_all(struct reading *reading)
{
    int64_t count = 0;
    const enum json_reader_type type = json_reader_peek(&reading->json);
    if (type != JSON_READER_ARRAY) {
        faults_add(reading->faults, "/sequences", "must be an array of sequences, found %s", type_name(type));
        return;
    }
    (void)json_reader_array(&reading->json);
    while (reading->status == STATUS_OK && json_reader_next_item(&reading->json)) read_sequence(reading, count++);
    if (count == 0) faults_add(reading->faults, "/sequences", "must hold at least one sequence");
}

enum status inline_sequences_read(struct json_reader_text text, const char *directory, struct faults *faults,
                                  struct inline_sequences *out, struct error *error)
{
    struct reading *reading = calloc(1, sizeof *reading);
    *out = (struct inline_sequences){0};
    if (reading == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for sequences");
    reading->faults = faults;
    reading->error = error;
    for (int i = 0; i < DATASET_PARTS && reading->status == STATUS_OK; i++) {
        reading->status = spill_open(directory, 0, "a dataset's tokens", &out->parts[i], error);
        reading->writers[i].file = out->parts[i];
    }
    json_reader_init(&reading->json, "sequences", text.bytes, text.size, NULL, error);
    if (reading->status == STATUS_OK) read_all(reading);
    for (int i = 0; i < DATASET_PARTS; i++) {
        if (reading->writers[i].count % CHUNK != 0) flush(reading, &reading->writers[i]);
        out->counts[i] = reading->writers[i].count;
    }
    enum status status = reading->status;
    if (status == STATUS_OK) status = json_reader_finish(&reading->json);
    free(reading);
    return status;
}

void inline_sequences_reset(struct inline_sequences *sequences)
{
    for (int i = 0; i < DATASET_PARTS; i++) spill_close(sequences->parts[i]);
    *sequences = (struct inline_sequences){0};
}

static enum status read_numbers(const void *owner, enum dataset_part part, int64_t first, int64_t count, int32_t *out,
                                struct error *error)
{
    const struct inline_sequences *sequences = owner;
    return spill_read(sequences->parts[part], first * (int64_t)sizeof *out, out, (size_t)count * sizeof *out, error);
}

struct dataset_sequences inline_sequences_source(const struct inline_sequences *sequences)
{
    struct dataset_sequences source = {.owner = sequences, .read = read_numbers};
    memcpy(source.counts, sequences->counts, sizeof source.counts);
    return source;
}

static enum status hash_part(struct hash *hash, const struct inline_sequences *sequences, enum dataset_part part,
                             int32_t *numbers, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t first = 0; first < sequences->counts[part] && status == STATUS_OK; first += CHUNK) {
        const int64_t left = sequences->counts[part] - first, count = left < CHUNK ? left : CHUNK;
        status = read_numbers(sequences, part, first, count, numbers, error);
        if (status == STATUS_OK) hash_add(hash, numbers, (size_t)count * sizeof *numbers);
    }
    return status;
}

enum status inline_sequences_hash(const struct inline_sequences *sequences, char out[INLINE_SEQUENCES_HASH],
                                  struct error *error)
{
    struct hash *hash = NULL;
    int32_t *numbers = malloc(CHUNK * sizeof *numbers);
    enum status status =
        numbers == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for sequences") : hash_new(&hash, error);
    if (status == STATUS_OK) hash_add(hash, "sequences", sizeof "sequences");
    for (int part = 0; part < DATASET_PARTS && status == STATUS_OK; part++)
        status = hash_part(hash, sequences, (enum dataset_part)part, numbers, error);
    if (status == STATUS_OK)
        status = hash_finish(hash, out, error);
    else
        hash_free(hash);
    free(numbers);
    return status;
}
