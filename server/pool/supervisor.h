/* supervisor.h: `serve` starts worker processes and looks after them: one that dies is started again (with backoff) and
 * what it held is released at once, fenced, with its signal or exit status as evidence. All calls from the main thread:
 * the parent-death signal of a child follows the thread that made it.
 *
 *   supervisor_block_signals(false);             // first of all, before any thread exists
 *   embedded_start(...); http_start(...);
 *   supervisor_start(&options, &supervisor, &error);
 *   supervisor_run(supervisor);                  // until SIGTERM or SIGINT
 *   (stop HTTP) supervisor_stop(supervisor); embedded_stop(embedded); */
#ifndef POOL_SUPERVISOR_H
#define POOL_SUPERVISOR_H

#include "base/error.h"

#include <stdbool.h>

struct embedded;
struct supervisor;

struct supervisor_options {
    int workers;                   /* 0: none */
    const char *executable;        /* NULL: this binary */
    const char *const *arguments;  /* after the executable: "worker", ...; ends with NULL. Nothing secret */
    const char *const *beside;     /* those of one more process, a launcher; NULL: none */
    const char *conninfo;          /* given to the workers as DATABASE_URL */
    struct embedded *embedded;     /* ticked in the loop; NULL with a DATABASE_URL */
    void (*tick)(void *context);   /* called about once a second, e.g. to watch directories; or NULL */
    void (*hangup)(void *context); /* called after SIGHUP; NULL: it ends the process, as ever */
    void *context;
};

/* Blocks the signals that the supervisor reads from a descriptor; SIGHUP only with `hangup`. */
void supervisor_block_signals(bool hangup);

MUST_CHECK enum status supervisor_start(const struct supervisor_options *options, struct supervisor **out,
                                        struct error *error);
/* Returns the signal that ended it. */
int supervisor_run(struct supervisor *supervisor);
/* SIGTERM to the workers, SIGKILL after 10 s (1 s after a second signal), what they still held is released; frees. NULL
 * is fine. */
void supervisor_stop(struct supervisor *supervisor);

#endif
