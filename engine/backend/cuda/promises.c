#include "backend/cuda/promises.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES = 64, LINE_BYTES = 64, LOOKS = 1000 };
_Static_assert(sizeof(struct promise) <= LINE_BYTES, "a line has space for a promise");

/* The file: a byte that a backend locks while it makes a promise, then the lines. Locks belong to open files (F_OFD_…),
 * so backends of one process exclude each other too, and no process ids are needed. */
static off_t place_of(int line)
{
    return (off_t)(line + 1) * LINE_BYTES;
}

static int lock(int fd, int command, short type, off_t start)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
    int code;
    do code = fcntl(fd, command, &lock);
    while (code != 0 && errno == EINTR);
    return code;
}

static bool is_anothers(int fd, int line)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place_of(line), .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool write_own(const struct promises *promises)
{
    return pwrite(promises->fd, &promises->own, sizeof promises->own, place_of(promises->line)) ==
           (ssize_t)sizeof promises->own;
}

static enum status take_line(struct promises *out, struct error *error)
{
    for (out->line = 0; out->line < LINES; out->line++) {
        if (lock(out->fd, F_OFD_SETLK, F_WRLCK, place_of(out->line)) == 0)
            return write_own(out) ? STATUS_OK : error_set_errno(error, "writing what a device has promised");
        if (errno != EAGAIN && errno != EACCES) return error_set_errno(error, "locking what a device has promised");
    }
    return error_set(error, STATUS_TOO_MANY, "%d others work on this device already", LINES);
}

enum status promises_open(const char *directory, const char *name, struct promises *out, struct error *error)
{
    char path[PATH_MAX];
    *out = (struct promises){.fd = -1};
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) return error_set_errno(error, "making a directory of devices");
    if (snprintf(path, sizeof path, "%s/%s.promises", directory, name) >= (int)sizeof path)
        return error_set(error, STATUS_IO, "the path of the data directory is too long");
    out->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (out->fd < 0) return error_set_errno(error, "opening what a device has promised");
    return take_line(out, error);
}

void promises_close(struct promises *promises)
{
    if (promises->fd >= 0) (void)close(promises->fd); /* this releases the locks */
    promises->fd = -1;
}

/* Reads the other backends' lines; lines without a backend are zero. */
static void look(const struct promises *promises, struct promise out[LINES])
{
    memset(out, 0, LINES * sizeof *out);
    for (int line = 0; line < LINES; line++)
        if (line != promises->line && is_anothers(promises->fd, line) &&
            pread(promises->fd, &out[line], sizeof out[line], place_of(line)) != (ssize_t)sizeof out[line])
            out[line] = (struct promise){0};
}

/* Reads the free memory at a moment when no line changes: otherwise bytes that a backend just takes or gives back would
 * count twice or not at all. Under the lock promises do not grow, but held memory may change at any time. */
static int look_at_all(const struct promises *promises, struct device *device, struct promise lines[LINES],
                       int64_t *available)
{
    struct promise before[LINES];
    int64_t total = 0;
    int code = 0;
    look(promises, lines);
    for (int i = 0; i < LOOKS; i++) {
        memcpy(before, lines, sizeof before);
        if ((code = device->memory(device, available, &total)) != 0) return code;
        look(promises, lines);
        if (memcmp(before, lines, sizeof before) == 0) break;
    }
    return code;
}

static void add_up(const struct promises *promises, const struct promise lines[LINES], int64_t reserve,
                   struct promised_space *space)
{
    for (int line = 0; line < LINES; line++) {
        space->others += lines[line].promised;
        space->outstanding += lines[line].promised - lines[line].held;
    }
    space->may_have = promises->own.held + space->free - space->outstanding - reserve;
}

enum status promises_take(struct promises *promises, struct device *device, int64_t reserve, int64_t most,
                          struct promised_space *out, struct error *error)
{
    struct promise lines[LINES];
    *out = (struct promised_space){0};
    if (lock(promises->fd, F_OFD_SETLKW, F_WRLCK, 0) != 0)
        return error_set_errno(error, "locking what a device has promised");
    const int code = look_at_all(promises, device, lines, &out->free);
    if (code == 0) {
        add_up(promises, lines, reserve, out);
        const int64_t held = promises->own.held, bounded = out->may_have < most ? out->may_have : most;
        promises->own.promised = bounded > held ? bounded : held;
        promises->own.changes++;
    }
    const bool written = code != 0 || write_own(promises);
    (void)lock(promises->fd, F_OFD_SETLK, F_UNLCK, 0);
    if (!written) return error_set_errno(error, "writing what a device has promised");
    if (code == 0) return STATUS_OK;
    char text[DEVICE_TEXT] = "";
    device->error_text(code, text, sizeof text);
    return error_set(error, device->failure(code) == DEVICE_FAULT ? STATUS_DEVICE : STATUS_INTERNAL,
                     "the CUDA device does not tell its free memory: %s", text);
}

/* If the line cannot be written, it keeps promising more. */
void promises_keep(struct promises *promises, int64_t bytes)
{
    promises->own.promised = bytes;
    promises->own.changes++;
    (void)write_own(promises);
}

void promises_hold(struct promises *promises, int64_t bytes)
{
    promises->own.held += bytes;
    promises->own.changes++;
    if (promises->fd >= 0) (void)write_own(promises);
}
