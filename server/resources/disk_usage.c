#include "resources/disk_usage.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const disk_usage_names[] = {"artifacts", "backups", "checkpoints", "hub", "pg", "tmp", NULL};

enum {
    NAMES = sizeof disk_usage_names / sizeof disk_usage_names[0] - 1,
    PAUSE_LEAST_MS = 60000,
    PAUSE_PER_WORK = 50,
    DEPTH_MOST = 32,
    BLOCK = 512 /* of st_blocks */
};

struct disk_usage {
    char *directory; /* owned */
    _Atomic int64_t bytes[NAMES];
    atomic_bool stopping;
    int stop; /* eventfd */
    pthread_t thread;
};

/* Files that disappear meanwhile count as 0. */
static int64_t add_up(const struct disk_usage *usage, int parent, const char *name, int depth)
{
    int64_t sum = 0;
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *entry;
         directory != NULL && !atomic_load(&usage->stopping) && (entry = readdir(directory)) != NULL;) {
        struct stat file;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fstatat(fd, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISDIR(file.st_mode) && depth < DEPTH_MOST)
            sum += add_up(usage, fd, entry->d_name, depth + 1);
        else if (S_ISREG(file.st_mode) && file.st_nlink > 0)
            sum += (int64_t)file.st_blocks * BLOCK / (int64_t)file.st_nlink;
    }
    if (directory != NULL)
        (void)closedir(directory);
    else if (fd >= 0)
        (void)close(fd);
    return sum;
}

static void *look(void *context)
{
    struct disk_usage *usage = context;
    struct pollfd stop = {.fd = usage->stop, .events = POLLIN};
    for (;;) {
        const int64_t began = clock_milliseconds();
        const int data = open(usage->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < NAMES && data >= 0; i++) {
            const int64_t bytes = add_up(usage, data, disk_usage_names[i], 0);
            if (!atomic_load(&usage->stopping)) atomic_store(&usage->bytes[i], bytes);
        }
        if (data >= 0) (void)close(data);
        const int64_t pause = (clock_milliseconds() - began) * PAUSE_PER_WORK;
        if (poll(&stop, 1, pause < PAUSE_LEAST_MS ? PAUSE_LEAST_MS : (int)(pause < INT32_MAX ? pause : INT32_MAX)) > 0)
            return NULL;
    }
}

enum status disk_usage_start(const char *data_directory, struct disk_usage **out, struct error *error)
{
    struct disk_usage *usage = calloc(1, sizeof *usage);
    enum status status = STATUS_OK;
    *out = NULL;
    if (usage == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a thread");
    for (size_t i = 0; i < NAMES; i++) atomic_init(&usage->bytes[i], -1);
    usage->directory = strdup(data_directory);
    usage->stop = eventfd(0, EFD_CLOEXEC);
    if (usage->directory == NULL || usage->stop < 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory or no descriptor for a thread");
    else if ((errno = pthread_create(&usage->thread, NULL, look, usage)) != 0)
        status = error_set_errno(error, "starting a thread");
    if (status == STATUS_OK) {
        *out = usage;
        return STATUS_OK;
    }
    if (usage->stop >= 0) (void)close(usage->stop);
    free(usage->directory);
    free(usage);
    return status;
}

void disk_usage_stop(struct disk_usage *usage)
{
    if (usage == NULL) return;
    atomic_store(&usage->stopping, true);
    (void)eventfd_write(usage->stop, 1);
    (void)pthread_join(usage->thread, NULL);
    (void)close(usage->stop);
    free(usage->directory);
    free(usage);
}

int64_t disk_usage_bytes(const struct disk_usage *usage, size_t which)
{
    return atomic_load(&usage->bytes[which]);
}
