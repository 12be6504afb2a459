#include "base/directory.h"
#include "cli/doctor.h"
#include "cli/place.h"
#include "postgres/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SCRATCH_BYTES = 1 << 20, BLOCK_BYTES = 1 << 16, ENOUGH_GIBIBYTES = 2, LINE = PLACE_PATH + 600 };

/* A directory of doctor's own inside the directory that is tested. */
struct scratch {
    char path[PLACE_PATH + 32];
    int fd; /* -1: not open */
};

static enum status step_failed(const char *step, struct error *error)
{
    return error_set(error, STATUS_IO, "%s: %s", step, strerror(errno));
}

static enum status scratch_open(const char *directory, struct scratch *scratch, struct error *error)
{
    scratch->fd = -1;
    (void)snprintf(scratch->path, sizeof scratch->path, "%s/.doctor-XXXXXX", directory);
    if (mkdtemp(scratch->path) == NULL) {
        scratch->path[0] = '\0';
        return step_failed("making a directory", error);
    }
    scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return scratch->fd >= 0 ? STATUS_OK : step_failed("opening the new directory", error);
}

static enum status scratch_close(struct scratch *scratch, struct error *error)
{
    struct stat found;
    if (scratch->fd >= 0) (void)close(scratch->fd);
    if (scratch->path[0] == '\0') return STATUS_OK;
    directory_remove(AT_FDCWD, scratch->path);
    if (lstat(scratch->path, &found) == 0)
        return error_set(error, STATUS_IO, "removing %.300s, which doctor made, failed: remove it", scratch->path);
    return STATUS_OK;
}

static void fill(unsigned char block[BLOCK_BYTES], int number)
{
    for (int i = 0; i < BLOCK_BYTES; i++) block[i] = (unsigned char)(i * 31 + number * 7 + 1);
}

static enum status write_file(int fd, struct error *error)
{
    unsigned char block[BLOCK_BYTES];
    for (int i = 0; i < SCRATCH_BYTES / BLOCK_BYTES; i++) {
        fill(block, i);
        errno = ENOSPC; /* after a short write that sets no error */
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) return step_failed("writing 1 MiB", error);
    }
    return fsync(fd) == 0 ? STATUS_OK : step_failed("fsync of a file", error);
}

static enum status read_file(int fd, struct error *error)
{
    unsigned char block[BLOCK_BYTES], expected[BLOCK_BYTES];
    for (int i = 0; i < SCRATCH_BYTES / BLOCK_BYTES; i++) {
        fill(expected, i);
        errno = EIO;
        if (read(fd, block, sizeof block) != (ssize_t)sizeof block) return step_failed("reading it back", error);
        if (memcmp(block, expected, sizeof block) != 0)
            return error_set(error, STATUS_CORRUPT, "the file reads back with other bytes than were written");
    }
    return STATUS_OK;
}

/* Writes as artifacts and checkpoints are written: under another name, synced, renamed, and the directory synced. */
static enum status try_files(const struct scratch *scratch, struct error *error)
{
    enum status status;
    int fd = openat(scratch->fd, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return step_failed("making a file", error);
    status = write_file(fd, error);
    if (close(fd) != 0 && status == STATUS_OK) status = step_failed("closing a file", error);
    if (status != STATUS_OK) return status;
    if (renameat(scratch->fd, "new", scratch->fd, "whole") != 0) return step_failed("renaming a file", error);
    if (fsync(scratch->fd) != 0) return step_failed("fsync of a directory", error);
    if ((fd = openat(scratch->fd, "whole", O_RDONLY | O_CLOEXEC)) < 0) return step_failed("opening it again", error);
    status = read_file(fd, error);
    (void)close(fd);
    return status;
}

/* Two descriptors from two calls of open exclude each other, as two processes would. */
static enum status try_locks(const struct scratch *scratch, struct error *error)
{
    enum status status = STATUS_OK;
    const int first = openat(scratch->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int second = openat(scratch->fd, "lock", O_RDWR | O_CLOEXEC);
    if (first < 0 || second < 0)
        status = step_failed("making a file", error);
    else if (flock(first, LOCK_EX | LOCK_NB) != 0)
        status = step_failed("flock", error);
    else if (flock(second, LOCK_EX | LOCK_NB) == 0)
        status = error_set(error, STATUS_UNSUPPORTED, "flock gave one file to two holders");
    else if (errno != EWOULDBLOCK)
        status = step_failed("flock of a file that is held", error);
    else if (flock(first, LOCK_UN) != 0 || flock(second, LOCK_EX | LOCK_NB) != 0)
        status = step_failed("flock of a file that was given back", error);
    if (first >= 0) (void)close(first);
    if (second >= 0) (void)close(second);
    return status;
}

/* `asked`: the data directory; `directory`: the same, or its nearest existing parent. */
static int say_files(enum status status, const char *asked, const char *directory, bool there,
                     const struct error *error)
{
    char text[2 * LINE], where[PLACE_PATH + 80] = "";
    if (!there)
        (void)snprintf(where, sizeof where, "%s is not there yet, and will be made by `deltaq serve`; in ", asked);
    if (status == STATUS_OK)
        (void)snprintf(text, sizeof text, "%s%s: 1 MiB written, synced, renamed, read back, removed", where, directory);
    else
        (void)snprintf(text, sizeof text,
                       "%s%s: %.200s; mend that (rights, a mount that is read only, a full disk) or give another"
                       " --data-dir",
                       where, directory, error->detail);
    return doctor_say(status == STATUS_OK, "data directory", text);
}

static int say_locks(enum status status, const char *directory, const struct error *error)
{
    char text[LINE];
    if (status == STATUS_OK)
        (void)snprintf(text, sizeof text, "flock in %s: a held file is refused, one given back is taken", directory);
    else
        (void)snprintf(text, sizeof text,
                       "in %s: %.200s; processes would not exclude each other: use a --data-dir on a local file system",
                       directory, error->detail);
    return doctor_say(status == STATUS_OK, "file locks", text);
}

static int check_space(const char *directory)
{
    char text[LINE];
    struct statvfs space;
    (void)snprintf(text, sizeof text, "%s does not tell its free space: %s", directory, strerror(errno));
    if (statvfs(directory, &space) != 0) return doctor_say(false, "free space", text);
    const double gibibytes = (double)space.f_bavail * (double)space.f_frsize / (1 << 30);
    const bool enough = gibibytes >= ENOUGH_GIBIBYTES;
    (void)snprintf(text, sizeof text, "%.1f GiB in %s%s", gibibytes, directory,
                   enough ? "" : "; at least 2 GiB are needed: free some, or give another --data-dir");
    return doctor_say(enough, "free space", text);
}

/* Only the private database needs certain file systems. */
static int check_file_system(const struct options *options, const char *directory)
{
    struct statfs found;
    struct error error;
    if (options_text(options, "--database-url") != NULL || statfs(directory, &found) != 0) return 0;
    if (cluster_check_filesystem((int64_t)found.f_type, &error) == STATUS_OK) return 0;
    return doctor_say(false, "file system", error.detail);
}

int doctor_directory(const struct options *options)
{
    char asked[PLACE_PATH], directory[PLACE_PATH];
    bool there;
    int wrong = 0;
    struct scratch scratch;
    struct error error, left;
    enum status status = place_data_path(options, asked, &error);
    if (status == STATUS_OK) status = place_data_look(options, directory, &there, &error);
    if (status != STATUS_OK) return doctor_say(false, "data directory", error.detail);
    const enum status opened = scratch_open(directory, &scratch, &error);
    status = opened == STATUS_OK ? try_files(&scratch, &error) : opened;
    wrong += say_files(status, asked, directory, there, &error);
    if (opened == STATUS_OK) wrong += say_locks(try_locks(&scratch, &error), directory, &error);
    if (scratch_close(&scratch, &left) != STATUS_OK) wrong += doctor_say(false, "data directory", left.detail);
    return wrong + check_space(directory) + check_file_system(options, directory);
}
