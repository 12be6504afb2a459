/* trial.h: work whose crash or hang is to be seen and not suffered (a library of products, the driver of a device) runs
 * in a child process first. What the child tells lies in memory that it has in common with its parent, so that it is
 * there after a crash. The child inherits all that the parent has opened and none of its threads: begin a trial while
 * no other thread runs, and before the parent has used what is tried (CUDA does not work across a fork). */
#ifndef BASE_TRIAL_H
#define BASE_TRIAL_H

#include "base/error.h"

#include <stdint.h>

/* How far a body has come. The memory in common begins with it. */
struct trial_progress {
    int64_t steps;     /* raised by the body: the deadline begins anew */
    char current[160]; /* what the body is at: "cblas_sgemm of 17 x 33 x 65, a transposed, beta 0" */
    bool ended;        /* the body returned */
};

struct trial {
    void (*body)(void *memory, const void *context); /* in the child; what it leaves in `memory` is the parent's */
    const void *context;
    struct trial_progress *progress; /* trial_memory_new */
    size_t bytes;
    /* Between two steps, in seconds that this process runs: neither a suspended host nor a stopped process counts. */
    double deadline_seconds;
    const char *first; /* what the body is at before it says so: "loading the library" */
};

/* Memory in common of `bytes`, zeroed; it begins with a struct trial_progress. The caller owns *out
 * (trial_memory_free). STATUS_NO_MEMORY. `out` is the address of a pointer. */
MUST_CHECK enum status trial_memory_new(size_t bytes, const char *what, void *out, struct error *error);
void trial_memory_free(void *memory, size_t bytes); /* NULL is fine */

/* Clears the memory and runs the body in a child of its own, which writes no core file and dies with this process.
 * `failure` becomes "" if the body returned, else "WHAT IT WAS AT: crash by signal 11 (…)", "…: no end within 10 s" or
 * "…: the process ended with exit status 3". A child that does not even die of SIGKILL, since a driver holds it, is
 * left behind. STATUS_UNAVAILABLE: no process could be started. */
enum { TRIAL_FAILURE = 320 };
MUST_CHECK enum status trial_run(const struct trial *trial, char failure[TRIAL_FAILURE], struct error *error);

#endif
