/* pickle_machine.h: the state of reading a pickle, for pickle.c and pickle_steps.c: bytes, stack, memo and objects, all
 * of bounded size. The functions fill pickle->error. */
#ifndef PYTORCH_PICKLE_MACHINE_H
#define PYTORCH_PICKLE_MACHINE_H

#include "formats/pytorch/pickle.h"

enum { PICKLE_MACHINE_STACK = 1 << 20, PICKLE_MACHINE_MEMOS = 1 << 20 };

struct object {
    uint8_t kind; /* enum pickle_kind, as in its values */
    uint8_t height;
    bool used; /* part of another object; it may not change any more, so no object can contain itself */
    uint32_t global;
    struct pickle_value *items; /* owned */
    uint32_t count, capacity;
};

struct values {
    struct pickle_value *values;
    size_t count, capacity;
};

struct pickle {
    const char *name;
    const char *bytes;
    size_t size, at;
    const struct pickle_global *globals;
    size_t global_count;
    struct object *objects;
    size_t object_count, object_capacity, item_count;
    struct values stack, memo;
    struct pickle_value root;
    struct error *error; /* while reading */
    bool stopped;
};

MUST_CHECK enum status pickle_machine_corrupt(const struct pickle *pickle, const char *what);
MUST_CHECK enum status pickle_machine_too_large(const struct pickle *pickle, const char *what, size_t most);

/* Reads the next `size` bytes; a number of `width` bytes, at most 8; a length of `width` bytes and then as many bytes.
 * All are lent from the pickle. */
MUST_CHECK enum status pickle_machine_take(struct pickle *pickle, size_t size, const uint8_t **out);
MUST_CHECK enum status pickle_machine_number(struct pickle *pickle, size_t width, uint64_t *out);
MUST_CHECK enum status pickle_machine_counted(struct pickle *pickle, size_t width, struct pickle_string *out);

/* Pushes onto `to`, which may hold at most `most` values; `what` names them. */
MUST_CHECK enum status pickle_machine_push(struct pickle *pickle, struct values *to, struct pickle_value value,
                                           size_t most, const char *what);
MUST_CHECK enum status pickle_machine_push_value(struct pickle *pickle, struct pickle_value value);
MUST_CHECK enum status pickle_machine_push_kind(struct pickle *pickle, enum pickle_kind kind, int64_t number);
MUST_CHECK enum status pickle_machine_pop(struct pickle *pickle, struct pickle_value *out);
/* Pops everything above the latest mark, and the mark. *first: the lowest of them; valid until the next push. */
MUST_CHECK enum status pickle_machine_pop_mark(struct pickle *pickle, const struct pickle_value **first, size_t *count);

bool pickle_machine_is_object(struct pickle_value value);
MUST_CHECK enum status pickle_machine_object(struct pickle *pickle, enum pickle_kind kind, struct pickle_value *out);
/* Makes `values` part of the object `index`; stores them if `keep`. An object that is part of another may not change
 * any more: pickles of real data fill an object before they store it, and breaking this rule is how an object would
 * contain itself. */
MUST_CHECK enum status pickle_machine_insert(struct pickle *pickle, uint32_t index, const struct pickle_value *values,
                                             size_t count, bool keep);
/* Pushes a new object with these items. */
MUST_CHECK enum status pickle_machine_push_object(struct pickle *pickle, enum pickle_kind kind,
                                                  const struct pickle_value *values, size_t count);

bool pickle_machine_same(struct pickle_string text, const char *literal);

#endif
