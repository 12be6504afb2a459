/* faults.h: all faults of a request body, each with its pointer, so that a person can correct them at once. */
#ifndef SCHEMA_FAULTS_H
#define SCHEMA_FAULTS_H

#include "base/error.h"

enum { FAULTS_MAX = 32 };

struct faults { /* start with {0} */
    struct fault {
        char pointer[160]; /* RFC 6901, into the body */
        char detail[480];
    } items[FAULTS_MAX]; /* later faults are only counted */
    size_t count;
};

void faults_add(struct faults *faults, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_OK without faults, else STATUS_INVALID with the first one and the number of the others. */
MUST_CHECK enum status faults_status(const struct faults *faults, struct error *error);

/* The number of faults in `items`. */
size_t faults_kept(const struct faults *faults);

/* Writes `base`, "/" and `name` with "~" and "/" escaped into `pointer`; cut off when it does not fit. */
void faults_pointer(char *pointer, size_t size, const char *base, const char *name);

#endif
