/* trial.h: runs work in a child process first when it may crash or hang (a BLAS library, a device driver), so that this
 * process only observes the failure. The child reports in memory shared with its parent, which survives a crash. The
 * child inherits everything that the parent has opened and none of its threads: begin a trial while no other thread
 * runs, and before the parent uses the library or driver itself (CUDA does not work across a fork). */
#ifndef BASE_TRIAL_H
#define BASE_TRIAL_H

#include "base/error.h"

#include <stdint.h>

/* How far a body has come. The shared memory begins with this struct. */
struct trial_progress {
    int64_t steps;     /* raised by the body: restarts the deadline */
    char current[160]; /* current step: "cblas_sgemm of 17 x 33 x 65, a transposed, beta 0" */
    bool ended;        /* the body returned */
};

struct trial {
    void (*body)(void *memory, const void *context); /* runs in the child; the parent sees what it leaves in `memory` */
    const void *context;
    struct trial_progress *progress; /* trial_memory_new */
    size_t bytes;
    /* Longest time between two steps, in seconds of this process's running time: suspension of the host and a stopped
     * process do not count. */
    double deadline_seconds;
    const char *first; /* the step before the body names one: "loading the library" */
};

/* Shared memory of `bytes`, zeroed, which begins with a struct trial_progress. The caller owns *out
 * (trial_memory_free). STATUS_NO_MEMORY. `out` is the address of a pointer. */
MUST_CHECK enum status trial_memory_new(size_t bytes, const char *what, void *out, struct error *error);
void trial_memory_free(void *memory, size_t bytes); /* NULL is fine */

/* Clears the memory and runs the body in a new child, which writes no core file and dies with this process. `failure`
 * becomes "" if the body returned, else "CURRENT STEP: crash by signal 11 (…)", "…: no end within 10 s" or "…: the
 * process ended with exit status 3". A child that survives SIGKILL because a driver holds it is abandoned.
 * STATUS_UNAVAILABLE: no process could be started. */
enum { TRIAL_FAILURE = 320 };
MUST_CHECK enum status trial_run(const struct trial *trial, char failure[TRIAL_FAILURE], struct error *error);

#endif
