/* record.h: values of one record (a JSON object, a line of a .jsonl file) by path: "choices.text.0" is the first item
 * of the array `text` in the object `choices`. If a key occurs twice the last one counts, as in Python. Errors name
 * file, line and path. */
#ifndef TASKS_RECORD_H
#define TASKS_RECORD_H

#include "files/json_reader.h"
#include "tasks/phrase.h"

struct record {
    const char *file;             /* for messages; lent */
    int64_t line;                 /* from 1 */
    struct json_reader_text json; /* lent */
};

/* Appends a string, or the text of a number or boolean. STATUS_INVALID (missing, null, an object), STATUS_MALFORMED. */
MUST_CHECK enum status record_text(const struct record *record, const char *path, struct phrase *out,
                                   struct error *error);

/* An integer, or a string that holds one. STATUS_INVALID. */
MUST_CHECK enum status record_integer(const struct record *record, const char *path, int64_t *out, struct error *error);

/* Number of items of an array. STATUS_INVALID when there is none. */
MUST_CHECK enum status record_count(const struct record *record, const char *path, int64_t *out, struct error *error);

/* Whether two valid documents are equal in Python's sense: the order of keys, white space and escapes do not matter. */
MUST_CHECK enum status record_equal(struct json_reader_text a, struct json_reader_text b, bool *equal,
                                    struct error *error);

#endif
