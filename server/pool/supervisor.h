/* supervisor.h: starts the worker processes of `serve` and restarts (with backoff) those that die. The runs of a dead
 * worker are released at once through the fence, with its signal or exit status as evidence. Make all calls from the
 * main thread, because a child gets its parent-death signal when the thread that made it ends.
 *
 *   supervisor_block_signals(false);             // before any thread exists
 *   embedded_start(...); http_server_start(...);
 *   supervisor_start(&options, &supervisor, &error);
 *   supervisor_run(supervisor);                  // until SIGTERM or SIGINT
 *   http_server_stop(...); supervisor_stop(supervisor); embedded_stop(embedded); */
#ifndef POOL_SUPERVISOR_H
#define POOL_SUPERVISOR_H

#include "base/error.h"

#include <stdbool.h>

struct embedded;
struct supervisor;

struct supervisor_options {
    int workers;                   /* 0: none */
    const char *executable;        /* NULL: the running binary */
    const char *const *arguments;  /* arguments of a worker: "worker", ...; ends with NULL. They contain no secrets */
    const char *const *beside;     /* arguments of one more process, a launcher; NULL: none */
    const char *conninfo;          /* the workers' DATABASE_URL */
    struct embedded *embedded;     /* ticked in the loop; NULL with a DATABASE_URL */
    void (*tick)(void *context);   /* called about once a second, e.g. to watch directories; or NULL */
    void (*hangup)(void *context); /* called after SIGHUP; NULL: SIGHUP ends the process, as usual */
    void *context;
};

/* Blocks the signals that the supervisor reads from a descriptor; SIGHUP only with `hangup`. */
void supervisor_block_signals(bool hangup);

MUST_CHECK enum status supervisor_start(const struct supervisor_options *options, struct supervisor **out,
                                        struct error *error);
/* Runs until a signal to stop, which it returns. */
int supervisor_run(struct supervisor *supervisor);
/* Sends SIGTERM to the workers, and SIGKILL after 10 s (1 s after a second signal); releases their leases; frees. NULL
 * is fine. */
void supervisor_stop(struct supervisor *supervisor);

#endif
