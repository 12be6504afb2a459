/* resume_object.h: the names of the objects that resume_store.h describes. For resume_store.c. */
#ifndef KINDS_RESUME_OBJECT_H
#define KINDS_RESUME_OBJECT_H

#include "inputs/hash.h"
#include "kinds/artifact_store.h"

#include <stdbool.h>

#define RESUME_OBJECT_FOLDER "resume"
enum { RESUME_OBJECT_DIGITS = 10, RESUME_OBJECT_DIGEST = HASH_TEXT - 1, RESUME_OBJECT_NAME = 256 };

/* "LEASE/SHA256" or "LEASE/NUMBER-SHA256", as a listing of a run shows it. */
struct resume_object {
    int64_t epoch, number; /* number 0: a file, not a list */
    const char *sha256;    /* [RESUME_OBJECT_DIGEST], lent by the name */
};

/* False for a name of another form. */
bool resume_object_read(const char *name, struct resume_object *out);
bool resume_object_is_digest(const char *text);

/* "resume/RUN/LEASE/REST" for the artifact store. */
void resume_object_name(const char *run, int64_t epoch, const char *rest, char out[RESUME_OBJECT_NAME]);

/* List the objects of a run, and remove one of them. As artifact_store_list and artifact_store_remove. */
MUST_CHECK enum status resume_object_list(const struct artifact_store *store, const char *run, double until,
                                          const struct monitor *monitor, struct listing *out, struct error *error);
MUST_CHECK enum status resume_object_remove(const struct artifact_store *store, const char *run, const char *name,
                                            double until, const struct monitor *monitor, struct error *error);

#endif
