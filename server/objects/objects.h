/* objects.h: the configuration of object storage: the S3 server, its region, and who asks. It does not change (the
 * credentials are renewed within), so threads may share it. */
#ifndef OBJECTS_OBJECTS_H
#define OBJECTS_OBJECTS_H

#include "base/error.h"

#include <stdbool.h>

struct credentials;

struct objects_options {
    /* "https://minio.lab:9000", where buckets are the first part of the path; NULL: Amazon's of the region. http is
     * taken as it was written by who runs the server: requests are signed, and their secret does not travel. */
    const char *endpoint;
    const char *region; /* NULL: AWS_REGION, AWS_DEFAULT_REGION, "us-east-1" */
};

struct objects {
    char endpoint[512]; /* without a slash at its end; "": Amazon's */
    char region[64];
    struct credentials *credentials; /* owned */
};

/* The caller owns *out (objects_free). STATUS_INVALID naming the option, STATUS_NO_MEMORY. */
MUST_CHECK enum status objects_new(const struct objects_options *options, struct objects **out, struct error *error);
void objects_free(struct objects *objects); /* NULL is fine */

/* The same check without keeping anything. */
MUST_CHECK enum status objects_check(const struct objects_options *options, struct error *error);

#endif
