/* profile.h: where a run's time on the device goes. With DELTAQ_CUDA_PROFILE=1 the backend waits after every operation,
 * adds its time to a row, and prints the rows when it closes. The sum is more than the run takes without it, because
 * nothing overlaps then. */
#ifndef BACKEND_CUDA_PROFILE_H
#define BACKEND_CUDA_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PROFILE_ROWS = 160, PROFILE_NAME = 64 };

struct cuda_profile {
    bool on;
    double last; /* when the operation before this one was done, or the slot's call began; seconds */
    struct profile_row {
        char name[PROFILE_NAME];
        int64_t count;
        double seconds;
    } rows[PROFILE_ROWS]; /* the last one has all that found no place */
    int row_count;
};

void profile_begin(struct cuda_profile *profile); /* of a slot's call */
void profile_add(struct cuda_profile *profile, const char *name);
void profile_print(struct cuda_profile *profile, const char *device, FILE *to); /* the longest first */

#endif
