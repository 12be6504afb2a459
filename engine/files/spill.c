#include "files/spill.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK_MOST (1 << 30) /* of a single read or write */

struct spill {
    int descriptor;
    const char *what; /* lent */
};

static enum status fail(const struct spill *spill, const char *action, struct error *error)
{
    char text[160];
    (void)snprintf(text, sizeof text, "%s %s", action, spill->what);
    return error_set_errno(error, text);
}

/* On file systems without nameless files the file is created with a name and unlinked at once. */
int spill_nameless(const char *directory)
{
    char path[4096];
    const int descriptor = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
    const int length = snprintf(path, sizeof path, "%s/spill-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    const int named = mkostemp(path, O_CLOEXEC);
    if (named >= 0) (void)unlink(path);
    return named;
}

static enum status open_file(struct spill *spill, const char *directory, int64_t bytes, struct error *error)
{
    if ((spill->descriptor = spill_nameless(directory)) < 0) return fail(spill, "cannot make a file for", error);
    const int result = posix_fallocate(spill->descriptor, 0, bytes > 0 ? bytes : 1);
    if (result == 0 || result == EOPNOTSUPP || result == ENOSYS || result == EINVAL) return STATUS_OK;
    errno = result;
    return fail(spill, "cannot set disk space aside for", error);
}

enum status spill_open(const char *directory, int64_t bytes, const char *what, struct spill **out, struct error *error)
{
    struct spill *spill = NULL;
    enum status status = memory_new(1, sizeof *spill, what, &spill, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    spill->descriptor = -1;
    spill->what = what;
    if ((status = open_file(spill, directory, bytes, error)) == STATUS_OK)
        *out = spill;
    else
        spill_close(spill);
    return status;
}

void spill_close(struct spill *spill)
{
    if (spill == NULL) return;
    if (spill->descriptor >= 0) (void)close(spill->descriptor);
    memory_free(spill);
}

enum status spill_write(struct spill *spill, int64_t at, const void *bytes, size_t size, struct error *error)
{
    const char *from = bytes;
    while (size > 0) {
        const ssize_t put = pwrite(spill->descriptor, from, size < CHUNK_MOST ? size : CHUNK_MOST, at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return fail(spill, "cannot write", error);
        from += put;
        at += put;
        size -= (size_t)put;
    }
    return STATUS_OK;
}

enum status spill_read(const struct spill *spill, int64_t at, void *bytes, size_t size, struct error *error)
{
    char *to = bytes;
    while (size > 0) {
        const ssize_t got = pread(spill->descriptor, to, size < CHUNK_MOST ? size : CHUNK_MOST, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(spill, "cannot read", error);
        if (got == 0) return error_set(error, STATUS_IO, "the file of %s ends early", spill->what);
        to += got;
        at += got;
        size -= (size_t)got;
    }
    return STATUS_OK;
}

enum status spill_descriptor(const struct spill *spill, int *out, struct error *error)
{
    *out = fcntl(spill->descriptor, F_DUPFD_CLOEXEC, 0);
    return *out >= 0 ? STATUS_OK : fail(spill, "cannot send", error);
}
