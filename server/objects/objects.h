/* objects.h: the configuration of object storage: the S3 server, its region and the credentials. It does not change
 * (only credentials are renewed inside), so threads may share it. */
#ifndef OBJECTS_OBJECTS_H
#define OBJECTS_OBJECTS_H

#include "base/error.h"

#include <stdbool.h>

struct credentials;

struct objects_options {
    /* "https://minio.lab:9000", where the bucket is the first part of the path; NULL: Amazon's endpoint of the region.
     * http is accepted because the operator chose it; requests are signed, so the secret is not sent. */
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

/* As objects_new, but keeps nothing. */
MUST_CHECK enum status objects_check(const struct objects_options *options, struct error *error);

#endif
