/* pickle.h: reads a pickle (Python's Lib/pickletools.py describes the opcodes) as data and executes nothing. A call
 * becomes a node that records the callable and its arguments, and only callables on the reader's list are accepted. No
 * imports, attributes, recursion or cycles; everything is bounded. */
#ifndef PYTORCH_PICKLE_H
#define PYTORCH_PICKLE_H

#include "base/error.h"

#include <stdint.h>

struct pickle;

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL, /* number: 0, 1 */
    PICKLE_INT,  /* number */
    PICKLE_TEXT,
    PICKLE_GLOBAL, /* a name on the list */
    PICKLE_TUPLE,
    PICKLE_DICT,
    PICKLE_CALL,       /* items: the arguments */
    PICKLE_PERSISTENT, /* items: the one value that names an object outside the pickle */
    PICKLE_OTHER,      /* floats, bytes, lists, sets: their content is not kept */
    PICKLE_MARK        /* internal */
};

struct pickle_value {
    uint8_t kind;   /* enum pickle_kind */
    uint32_t index; /* internal */
    int64_t number;
};

/* How an imported name is treated. */
enum pickle_rule {
    PICKLE_RULE_CALL, /* may be named; calling it gives a PICKLE_CALL */
    PICKLE_RULE_DICT, /* the same; calling it without arguments gives an empty PICKLE_DICT */
    PICKLE_RULE_REFUSE
};

struct pickle_global {
    const char *module, *name;
    enum pickle_rule rule;
    int meaning;        /* for the caller */
    const char *advice; /* PICKLE_RULE_REFUSE: names the thing and says what to do instead */
};

struct pickle_list {
    const struct pickle_value *values; /* lent; for a dict: key, value, key, value */
    int64_t count;
};

struct pickle_string {
    const char *bytes; /* lent from the pickle's own bytes; not NUL-terminated, any bytes */
    size_t size;
};

enum { PICKLE_BYTES_MAX = 64 << 20 };

/* Reads `bytes` [size]. They and `globals` [count], in any order, must outlive the pickle. `name` names the file in
 * messages. The caller owns *out. STATUS_UNSUPPORTED (a name that is not on the list, an opcode that checkpoints do not
 * use), STATUS_CORRUPT, STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status pickle_read(const char *name, const char *bytes, size_t size,
                                   const struct pickle_global *globals, size_t count, struct pickle **out,
                                   struct error *error);
void pickle_free(struct pickle *pickle); /* NULL is fine */

struct pickle_value pickle_root(const struct pickle *pickle);
/* The items of a tuple, a dict, a call or a persistent value; an empty list for other values. */
struct pickle_list pickle_items(const struct pickle *pickle, struct pickle_value value);
struct pickle_string pickle_text(const struct pickle *pickle, struct pickle_value value); /* of a PICKLE_TEXT */
/* The name of a PICKLE_GLOBAL, or of the callable of a PICKLE_CALL. */
const struct pickle_global *pickle_name(const struct pickle *pickle, struct pickle_value value);
/* Whether `value` is the text `literal`. */
bool pickle_is(const struct pickle *pickle, struct pickle_value value, const char *literal);

#endif
