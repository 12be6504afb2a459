/* scratch.h: a directory of its own for a test that writes files. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch {
    char directory[128];
    char path[512]; /* of the latest scratch_path */
};

static inline void scratch_open(struct scratch *scratch)
{
    const char *root = getenv("TMPDIR");
    (void)snprintf(scratch->directory, sizeof scratch->directory, "%s/deltaq-test-XXXXXX",
                   root != NULL ? root : "/tmp");
    assert_non_null(mkdtemp(scratch->directory));
}

static inline const char *scratch_path(struct scratch *scratch, const char *name)
{
    (void)snprintf(scratch->path, sizeof scratch->path, "%s/%s", scratch->directory, name);
    return scratch->path;
}

static inline void scratch_write(struct scratch *scratch, const char *name, const void *bytes, size_t size)
{
    const int descriptor = open(scratch_path(scratch, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, size), size);
    (void)close(descriptor);
}

/* Number of entries; removes them if asked. */
static inline int scratch_entries(struct scratch *scratch, int remove)
{
    int count = 0;
    DIR *directory = opendir(scratch->directory);
    assert_non_null(directory);
    for (const struct dirent *item; (item = readdir(directory)) != NULL;) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        count++;
        if (remove && unlinkat(dirfd(directory), item->d_name, 0) != 0)
            (void)unlinkat(dirfd(directory), item->d_name, AT_REMOVEDIR);
    }
    (void)closedir(directory);
    return count;
}

static inline void scratch_close(struct scratch *scratch)
{
    (void)scratch_entries(scratch, 1);
    assert_int_equal(rmdir(scratch->directory), 0);
}

#endif
