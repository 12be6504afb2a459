/* part.h: one typed object of a tokenizer.json ({"type": "Split", ...}), read without building a tree: its fields are
 * spans of the file, which are read on demand. Every object accepts the fields of its row and no others. */
#ifndef TOKENIZER_PART_H
#define TOKENIZER_PART_H

#include "files/json_reader.h"
#include "tokenizer/pattern.h"
#include "tokenizer/text.h"

enum { PART_FIELDS = 16, PART_DEPTH = 4 };

/* The file's bytes, lent. Every span below lies inside. */
struct part_document {
    const char *name; /* for messages */
    const char *json;
    size_t bytes;
};

struct part {
    const struct part_document *document;
    const char *kind;                           /* "normalizer": for messages */
    const char *const *fields;                  /* names, ends with NULL */
    struct json_reader_text spans[PART_FIELDS]; /* the values' spans; bytes NULL when absent or null */
};

/* Begins to read one span of the file; messages give offsets in the file. */
void part_reader(const struct part_document *document, struct json_reader_text span, struct json_reader *reader,
                 struct error *error);

/* True when the span is absent or says null. */
bool part_absent(struct json_reader_text span);

/* Copies the "type" of the object at `span` into `type` [64]; "" when it has none. */
MUST_CHECK enum status part_type(const struct part_document *document, struct json_reader_text span, const char *kind,
                                 char *type, struct error *error);

/* Finds the fields of the object at `span`. STATUS_UNSUPPORTED for a field that is not in `fields` (unless
 * `lenient`). */
MUST_CHECK enum status part_read(const struct part_document *document, struct json_reader_text span, const char *kind,
                                 const char *const *fields, bool lenient, struct part *out, struct error *error);

/* The types that objects of one kind have. */
struct part_row {
    const char *name; /* as in "type" */
    const char *const fields[8];
};
struct part_table {
    const char *kind;
    const void *rows;   /* each begins with a struct part_row */
    size_t count, size; /* bytes of a row */
    enum status (*load)(void *context, const struct part *part, const void *row, struct error *error);
};
#define PART_TABLE(kind, rows, load)                               \
    {                                                              \
        kind, rows, sizeof rows / sizeof *rows, sizeof *rows, load \
    }

/* Reads the fields of the object at `span` by its type's row, and gives both to the table's `load`. STATUS_UNSUPPORTED
 * for a type that has no row. */
MUST_CHECK enum status part_load(const struct part_document *document, struct json_reader_text span,
                                 const struct part_table *table, void *context, struct error *error);

/* Loads the list of a "Sequence", field 1 of `part`, item by item, until one fails. *depth counts the enclosing
 * sequences. STATUS_CORRUPT without a list, STATUS_UNSUPPORTED deeper than PART_DEPTH; statuses of part_load. */
MUST_CHECK enum status part_sequence(const struct part *part, const struct part_table *table, int *depth, void *context,
                                     struct error *error);

/* Read the value of field number `field`; *out does not change when the field is absent or null. part_text replaces the
 * content. */
MUST_CHECK enum status part_bool(const struct part *part, int field, bool *out, struct error *error);
MUST_CHECK enum status part_integer(const struct part *part, int field, int64_t minimum, int64_t maximum, int64_t *out,
                                    struct error *error);
MUST_CHECK enum status part_text(const struct part *part, int field, struct text *out, struct error *error);
/* Like part_text; STATUS_CORRUPT when absent. */
MUST_CHECK enum status part_required_text(const struct part *part, int field, struct text *out, struct error *error);
/* Index of a string in `choices` (ends with NULL); STATUS_UNSUPPORTED for any other string. */
MUST_CHECK enum status part_choice(const struct part *part, int field, const char *const *choices, int *out,
                                   struct error *error);

/* Reads a pattern: {"String": "..."} or {"Regex": "..."}. STATUS_CORRUPT when absent. */
MUST_CHECK enum status part_pattern(const struct part *part, int field, struct text *out, bool *literal,
                                    struct error *error);

/* Calls `visit` with each item of an array, in order, until one fails. */
MUST_CHECK enum status part_items(const struct part_document *document, struct json_reader_text span,
                                  enum status (*visit)(void *context, struct json_reader_text item,
                                                       struct error *error),
                                  void *context, struct error *error);

enum { PART_GROWTH_MOST = 256, PART_PREPEND_MOST = 64 };

/* A "Replace": its pattern (field 1), compiled, and its content (field 2). *literal: bytes of a literal pattern, 0 for
 * a regular expression. Successive replacements may each make text longer: *growth, 1 before the first, is multiplied
 * by the factor of this one. STATUS_UNSUPPORTED beyond PART_GROWTH_MOST, which no real tokenizer comes near, because a
 * small file could otherwise fill any memory. Also statuses of part_pattern, part_required_text and pattern_new. */
MUST_CHECK enum status part_replacement(const struct part *part, size_t *growth, struct pattern **pattern,
                                        struct text *content, size_t *literal, struct error *error);

#endif
