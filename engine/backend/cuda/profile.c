#include "backend/cuda/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void profile_begin(struct cuda_profile *profile)
{
    if (profile->on) profile->last = now();
}

static struct profile_row *row_named(struct cuda_profile *profile, const char *name)
{
    for (int i = 0; i < profile->row_count; i++)
        if (strncmp(profile->rows[i].name, name, PROFILE_NAME - 1) == 0) return &profile->rows[i];
    if (profile->row_count == PROFILE_ROWS) return &profile->rows[PROFILE_ROWS - 1];
    struct profile_row *row = &profile->rows[profile->row_count++];
    (void)snprintf(row->name, sizeof row->name, "%s", profile->row_count == PROFILE_ROWS ? "the rest" : name);
    return row;
}

void profile_add(struct cuda_profile *profile, const char *name)
{
    if (!profile->on) return;
    const double end = now();
    struct profile_row *row = row_named(profile, name);
    row->count++;
    row->seconds += end - profile->last;
    profile->last = end;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const struct profile_row *)a)->seconds, y = ((const struct profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

void profile_print(struct cuda_profile *profile, const char *device, FILE *to)
{
    double sum = 0;
    if (!profile->on) return;
    for (int i = 0; i < profile->row_count; i++) sum += profile->rows[i].seconds;
    qsort(profile->rows, (size_t)profile->row_count, sizeof profile->rows[0], by_time);
    (void)fprintf(to, "%s: %.3f s, every operation waited for\n      s      %%     times  us each  operation\n", device,
                  sum);
    for (int i = 0; i < profile->row_count; i++) {
        const struct profile_row *row = &profile->rows[i];
        (void)fprintf(to, "%7.3f  %5.1f  %8" PRId64 " %8.1f  %s\n", row->seconds, 100 * row->seconds / sum, row->count,
                      1e6 * row->seconds / (double)row->count, row->name);
    }
}
