/* openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS would do the same in one call, but kernels before 5.6,
 * emulators, valgrind, and the filters of some container runtimes do not have it. */
#include "inputs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Opens the name of `length` bytes at `name` in the directory `in`. Before the last one it must be a directory. */
static int step(int in, const char *name, size_t length)
{
    char part[PATH_MAX];
    if (length == 0 || length >= sizeof part || (length == 2 && memcmp(name, "..", 2) == 0)) {
        errno = EINVAL;
        return -1;
    }
    memcpy(part, name, length);
    part[length] = '\0';
    return openat(in, part, O_PATH | O_NOFOLLOW | O_CLOEXEC | (name[length] == '/' ? O_DIRECTORY : 0));
}

int beneath_open(int base, const char *path)
{
    int in = base;
    for (;;) {
        const size_t length = strcspn(path, "/");
        const int next = step(in, path, length), cause = errno;
        if (in != base) (void)close(in);
        errno = cause;
        if (next < 0 || path[length] == '\0') return next;
        in = next;
        path += length + 1;
    }
}
