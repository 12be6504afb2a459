/* promises.h: lets backends of one device plan together, in any process, through a file per device that records how
 * much was promised to each. Each backend locks its own line of the file, so a promise ends with its process, however
 * that ends. */
#ifndef BACKEND_CUDA_PROMISES_H
#define BACKEND_CUDA_PROMISES_H

#include "backend/cuda/device.h"
#include "base/error.h"

#include <stdint.h>

/* A line of the file. The outstanding part of a promise is promised and not yet held: the device still counts it as
 * free. */
struct promise {
    int64_t promised; /* bytes that the backend may hold on the device */
    int64_t held;     /* bytes that it holds, at most `promised` */
    uint64_t changes; /* of this line: an equal number in two readings means that it did not change */
};

struct promises {
    int fd; /* -1: this backend shares with nobody */
    int line;
    struct promise own;
};

/* The device's memory when something was promised, in bytes. */
struct promised_space {
    int64_t free;        /* free on the device */
    int64_t outstanding; /* the others' outstanding part of it */
    int64_t others;      /* everything promised to others */
    int64_t may_have;    /* most the asker may hold: held plus free, less outstanding, less reserve */
};

/* Takes a line of the file `name` below `directory`; both are made if missing. The caller calls promises_close, also on
 * failure. STATUS_IO, STATUS_TOO_MANY. */
MUST_CHECK enum status promises_open(const char *directory, const char *name, struct promises *out,
                                     struct error *error);
void promises_close(struct promises *promises);

/* Promises this backend all available memory, at most `most`, and at least what it holds; *out has the numbers.
 * STATUS_IO; STATUS_DEVICE, STATUS_INTERNAL when the device does not report its free memory. */
MUST_CHECK enum status promises_take(struct promises *promises, struct device *device, int64_t reserve, int64_t most,
                                     struct promised_space *out, struct error *error);
/* Lowers the promise to `bytes`. */
void promises_keep(struct promises *promises, int64_t bytes);
/* Records that `bytes` more are held (fewer, if negative). Call it after memory was taken and before it is given back:
 * others may then count too little free memory for a moment, but never too much. */
void promises_hold(struct promises *promises, int64_t bytes);

#endif
