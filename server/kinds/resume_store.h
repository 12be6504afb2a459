/* resume_store.h: what an interrupted run goes on from, in the bucket of --artifacts, so that another node goes on
 * where this one was. The files of the work directory that its kind names (kind.h, `resumes`) go there as they are:
 *
 *     PREFIX/resume/RUN/LEASE/SHA256            the bytes of a file
 *     PREFIX/resume/RUN/LEASE/NUMBER-SHA256     a list of such files with their names, and its own hash
 *
 * LEASE is the epoch of the lease and NUMBER counts the uploads under it, both with leading zeros. A list goes last, so
 * what it names is whole, and the last list of the last lease is the one to go on from. A worker that has lost its
 * lease without knowing writes below its own LEASE alone. Nobody removes anything of a later lease than its own. */
#ifndef KINDS_RESUME_STORE_H
#define KINDS_RESUME_STORE_H

#include "inputs/hash.h"
#include "kinds/artifact_store.h"

#include <stdbool.h>
#include <sys/types.h>

enum { RESUME_STORE_FILES = 160, RESUME_STORE_NAME = 64 };

/* A run and the place where it is executed. All lent. */
struct resume_place {
    const struct artifact_store *store;
    const char *run; /* id */
    int64_t epoch;
    const char *directory;      /* the run's work directory */
    const char *const *resumes; /* the patterns of its kind */
};

/* The state in the bucket: fetched by this lease at first, then its latest upload. Start with {.place = …}. */
struct resume_published {
    struct resume_place place;
    int64_t number, count;
    struct resume_file {
        char name[RESUME_STORE_NAME], sha256[HASH_TEXT]; /* "": not uploaded under this lease */
        dev_t device;
        ino_t inode;
        int64_t bytes, changed; /* nanoseconds */
    } files[RESUME_STORE_FILES];
    bool untidy; /* removing objects that only older lists name failed, which was logged */
};

/* Fetches the newest state that an earlier lease left into the work directory, replacing what is there, unless the
 * directory's state is of the same lease or a later one; then notes that the directory belongs to this lease. *found:
 * the bucket has some state of the run. Statuses of artifact_store_get and of the monitor; a failure leaves the
 * directory with its old files or fewer. */
MUST_CHECK enum status resume_store_fetch(struct resume_published *published, const struct monitor *monitor,
                                          bool *found, struct error *error);

/* Uploads the state if it differs from the last one (*done), and removes objects that no list needs any more. The run
 * may write meanwhile, because it replaces files as a whole. When the work directory contains directories (an export,
 * branches), these files alone cannot restore it, and nothing is uploaded. Statuses of artifact_store_put and of the
 * monitor. */
MUST_CHECK enum status resume_store_publish(struct resume_published *published, const struct monitor *monitor,
                                            bool *done, struct error *error);

/* Removes the state that leases up to `epoch` left of a run that has ended. Each request gets one try, until the time
 * `until` (clock_seconds). Statuses of artifact_store_remove. */
MUST_CHECK enum status resume_store_remove(const struct artifact_store *store, const char *run, int64_t epoch,
                                           double until, struct error *error);

/* For every run with state in the bucket at the time of the call: calls `ended`, and removes the state if *yes.
 * `age`: seconds since the latest object of the run was written, by the clock of the bucket. Statuses of bucket_ask and
 * of `ended`. */
MUST_CHECK enum status resume_store_clean(const struct artifact_store *store,
                                          enum status (*ended)(void *owner, const char *run, double age, bool *yes,
                                                               struct error *error),
                                          void *owner, int *removed, struct error *error);

#endif
