/* json_reader.h: the engine's only reader of JSON (RFC 8259): a strict pull parser over bytes in memory. It builds no
 * tree and does not recurse. What it accepts is valid UTF-8 without lone surrogates, raw control characters or anything
 * after the document.
 *
 * Errors stick: the first failure fills the caller's `error`, every later call does nothing, returns false and leaves
 * its result untouched, and json_reader_finish returns the status. So a caller gives its results defaults, reads
 * straight through and checks once, at the end (docs/formats.md).
 *
 *     struct json_reader reader;
 *     struct json_reader_text key;
 *     int64_t width = 0;
 *     json_reader_init(&reader, "config.json", bytes, size, NULL, error);
 *     json_reader_object(&reader);
 *     while (json_reader_next_key(&reader, &key)) {
 *         if (json_reader_is(key, "hidden_size")) json_reader_int64(&reader, 1, INT32_MAX, &width);
 *     }                                         // a value nobody read is checked and skipped
 *     return json_reader_finish(&reader);
 *
 * Grammar errors are STATUS_MALFORMED; a value of another type or out of range is STATUS_INVALID; STATUS_NO_MEMORY. A
 * reader belongs to one thread. Duplicate keys are for the caller to refuse: json_reader_field does it for small
 * objects. */
#ifndef FILES_JSON_READER_H
#define FILES_JSON_READER_H

#include "base/error.h"

#include <stdint.h>

enum json_reader_type {
    JSON_READER_NONE, /* no value to read: the end of a container, or after an error */
    JSON_READER_OBJECT,
    JSON_READER_ARRAY,
    JSON_READER_STRING,
    JSON_READER_NUMBER,
    JSON_READER_TRUE,
    JSON_READER_FALSE,
    JSON_READER_NULL
};

/* Lent bytes, not NUL-terminated; may contain NUL when the text says \u0000. */
struct json_reader_text {
    const char *bytes;
    size_t size;
};

struct json_reader_options {
    int depth;       /* deepest nesting accepted, 1 to 64; 0: 32 */
    bool not_finite; /* accept the literals Infinity, -Infinity and NaN as numbers: Python writes them */
    size_t offset;   /* added to the byte offsets in messages: where the bytes lie in their file */
};

/* Caller's memory; the fields are the reader's own. */
struct json_reader {
    const char *name;
    const char *start, *at, *end;
    struct error *error;
    enum status status;
    struct json_reader_options options;
    uint64_t objects; /* bit d-1: the container at depth d is an object */
    int depth;
    bool first;      /* no member or item of the innermost container has been read yet */
    bool pending;    /* a value starts at `at` and is not read yet */
    const char *key; /* opening quote of the latest key, for messages; or NULL */
    struct json_reader_scratch {
        char *bytes;
        size_t capacity;
    } keys, strings; /* decoded texts; owned */
};

/* Begins to read `bytes` [size]. The bytes, `name` (of the file, for messages) and `error` must outlive the reader.
 * `options` NULL: the defaults. Ends with json_reader_finish. */
void json_reader_init(struct json_reader *reader, const char *name, const void *bytes, size_t size,
                      const struct json_reader_options *options, struct error *error);

/* Begins another document with the same reader, keeping its buffers (jsonl); an earlier error stays. `offset` as in
 * options. */
void json_reader_restart(struct json_reader *reader, const void *bytes, size_t size, size_t offset);

/* Checks that the document has been read to its end and only white space follows; returns whether. Keeps the buffers,
 * for jsonl. */
bool json_reader_end(struct json_reader *reader);

/* json_reader_end, then releases the buffers. Returns the reader's first failure, or STATUS_OK. Safe after a
 * failure. */
MUST_CHECK enum status json_reader_finish(struct json_reader *reader);

/* Type of the value to read next. Reads nothing. */
enum json_reader_type json_reader_peek(struct json_reader *reader);

/* Enters the next value, an object (an array). Any other value is an error: false. */
bool json_reader_object(struct json_reader *reader);
bool json_reader_array(struct json_reader *reader);

/* In an object: goes to the next key, lent until the next json_reader_next_key. Skips a value that was not read. False
 * at the closing bracket, which leaves the object, and after an error. */
bool json_reader_next_key(struct json_reader *reader, struct json_reader_text *key);
/* In an array: goes to the next item; otherwise like json_reader_next_key. */
bool json_reader_next_item(struct json_reader *reader);

/* Skips the rest of the innermost object or array and leaves it: for loops that end early. */
bool json_reader_leave(struct json_reader *reader);

/* Reads a string. The text is lent: from the input when it has no escapes, otherwise until the next string is read. */
bool json_reader_string(struct json_reader *reader, struct json_reader_text *out);
/* Reads a string into `buffer` [capacity], NUL-terminated. Refuses one that does not fit or contains NUL. */
bool json_reader_string_copy(struct json_reader *reader, char *buffer, size_t capacity);

/* Reads a number as its text (lent from the input), as an integer in [minimum, maximum] written without fraction and
 * exponent, or as the nearest double (which must be finite, unless options.not_finite and one of the literals). */
bool json_reader_number(struct json_reader *reader, struct json_reader_text *out);
bool json_reader_int64(struct json_reader *reader, int64_t minimum, int64_t maximum, int64_t *out);
bool json_reader_uint64(struct json_reader *reader, uint64_t maximum, uint64_t *out);
bool json_reader_double(struct json_reader *reader, double *out);
bool json_reader_bool(struct json_reader *reader, bool *out);

/* True when the value is null, which is then read; otherwise reads nothing: `if (!json_reader_null(r))
 * json_reader_int64(...)`. */
bool json_reader_null(struct json_reader *reader);

/* Checks and skips one value. `out` (may be NULL): its text, lent from the input; another reader can read it later. */
bool json_reader_skip(struct json_reader *reader, struct json_reader_text *out);

/* Index of `key` in `names` (at most 64, ends with NULL), -1 when it is none of them. A name that occurred before is an
 * error (and -1); *seen records them (0 at first). After the loop, bit i of *seen tells whether names[i] occurred. */
int json_reader_field(struct json_reader *reader, struct json_reader_text key, const char *const *names,
                      uint64_t *seen);

bool json_reader_is(struct json_reader_text text, const char *literal);

/* Reports an objection of the caller as the reader's error, with its place, unless the reader has an error already.
 * Returns false. */
bool json_reader_fail(struct json_reader *reader, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_OK, or the reader's error. */
enum status json_reader_status(const struct json_reader *reader);

#endif
