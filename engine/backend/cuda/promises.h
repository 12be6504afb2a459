/* promises.h: how backends of one device plan together, whichever process they are in: a file for each device that says
 * what was promised to whom. Each backend holds a lock on its own line of the file, so what a process was promised is
 * free as soon as it is gone, however it ended. */
#ifndef BACKEND_CUDA_PROMISES_H
#define BACKEND_CUDA_PROMISES_H

#include "backend/cuda/device.h"
#include "base/error.h"

#include <stdint.h>

/* A line of the file. Outstanding is what is promised and not yet held: it still counts as free on the device. */
struct promise {
    int64_t promised; /* bytes that it may have of the device in all */
    int64_t held;     /* bytes that it has, no more of them than that */
    uint64_t changes; /* of this line, so that two looks at it tell whether it stood still */
};

struct promises {
    int fd; /* -1: nobody else plans with this device */
    int line;
    struct promise own;
};

/* What there was when something was promised, in bytes. */
struct promised_room {
    int64_t free;        /* on the device, as it says */
    int64_t outstanding; /* of that, promised to others */
    int64_t others;      /* all that was promised to others */
    int64_t may_have;    /* by the asker in all: what it holds and what is free, less outstanding, less reserve */
};

/* A line of the file `name` below `directory`, which is made. promises_close in any case. STATUS_IO,
 * STATUS_TOO_MANY. */
MUST_CHECK enum status promises_open(const char *directory, const char *name, struct promises *out,
                                     struct error *error);
void promises_close(struct promises *promises);

/* Promises itself as much as there is, at most `most`, and at least what it holds; *out says what there was.
 * STATUS_IO; STATUS_DEVICE, STATUS_INTERNAL when the device does not tell what is free. */
MUST_CHECK enum status promises_take(struct promises *promises, struct device *device, int64_t reserve, int64_t most,
                                     struct promised_room *out, struct error *error);
/* The promise becomes `bytes`, which is no more than it was. */
void promises_keep(struct promises *promises, int64_t bytes);
/* Notes that `bytes` more, or fewer, are held: after they were taken, and before they are given back, so that others
 * may think too little free for a moment and never too much. */
void promises_hold(struct promises *promises, int64_t bytes);

#endif
