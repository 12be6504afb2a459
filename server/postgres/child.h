/* child.h: starts a program in a child process with dropped ids. Safe in a process that has threads, because only
 * system calls run between fork and exec. */
#ifndef POSTGRES_CHILD_H
#define POSTGRES_CHILD_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

enum { CHILD_DIRECTORY_FD = 10 };

struct child {
    const char *program;            /* path */
    const char *const *arguments;   /* argv, ends with NULL */
    const char *const *environment; /* ends with NULL; NULL: a small one, see child_start */
    uid_t uid;                      /* ids for the program when we are root, without other groups */
    gid_t gid;
    int input, output; /* descriptors of its stdin, and of its stdout and stderr; -1: /dev/null */
    int directory;     /* becomes descriptor CHILD_DIRECTORY_FD; -1: none */
    int beside;        /* with a directory: becomes the next descriptor; -1 or 0: none */
    int death_signal;  /* the signal that it gets when the *thread* that called child_start ends */
    const char *what;  /* for child_run: a description that is printed on stderr when it takes long; NULL: nothing is
                        * printed */
};

/* A wait during the start. After CHILD_GRACE_MS, and then every CHILD_REMINDER_MS, stderr says what it waits for. */
enum { CHILD_GRACE_MS = 2000, CHILD_REMINDER_MS = 20000 };
struct child_wait {
    const char *what;           /* "making the database: ..." */
    int64_t started_at, say_at; /* of clock_milliseconds */
};
struct child_wait child_wait_start(const char *what);
void child_wait_tick(struct child_wait *wait);

/* Starts it in "/", umask 077, with no other descriptors and, unless another is given, an environment of PATH,
 * LC_ALL=C, TZ=UTC and HOME=/. STATUS_UNAVAILABLE. */
MUST_CHECK enum status child_start(const struct child *child, pid_t *pid, struct error *error);

/* Starts it and waits; STATUS_UNAVAILABLE unless it exits 0 ("initdb ended with exit status 1"). */
MUST_CHECK enum status child_run(const struct child *child, struct error *error);

/* "killed by signal 9", "exit status 1". */
void child_describe_end(int wait_status, char *text, size_t size);

#endif
