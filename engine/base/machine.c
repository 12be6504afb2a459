#include "base/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The number after `word` at the beginning of a line, or, with word "", the first number of the file; -1: none. */
static int64_t number_of(const char *path, const char *word)
{
    char line[256];
    int64_t found = -1;
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    while (found < 0 && fgets(line, sizeof line, file) != NULL) {
        const size_t length = strlen(word);
        char *end = NULL;
        if (strncmp(line, word, length) != 0) continue;
        const long long value = strtoll(line + length, &end, 10);
        if (end != line + length && value >= 0) found = value;
    }
    (void)fclose(file);
    return found;
}

struct group {
    const char *limit, *used, *statistics, *reclaimable;
};

/* The usual mount points in containers; there the files at the root of the mount are those of the process's own
 * group. */
static const struct group groups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file "},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
     "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "},
};

int64_t machine_free_memory(void)
{
    const int64_t kibibytes = number_of("/proc/meminfo", "MemAvailable:");
    int64_t left = kibibytes >= 0 ? kibibytes * 1024 : (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const int64_t limit = number_of(groups[i].limit, ""), used = number_of(groups[i].used, "");
        const int64_t cached = number_of(groups[i].statistics, groups[i].reclaimable);
        if (limit < 0 || used < 0) continue;
        const int64_t own = limit - used + (cached > 0 ? cached : 0);
        if (own < left) left = own;
    }
    return left > 0 ? left : 0;
}

int64_t machine_memory(void)
{
    int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const int64_t limit = number_of(groups[i].limit, "");
        if (limit > 0 && limit < all) all = limit;
    }
    return all;
}

int64_t machine_free_disk(const char *directory)
{
    struct statvfs disk;
    if (directory == NULL || statvfs(directory, &disk) != 0) return -1;
    return (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

int64_t machine_bytes_read(void)
{
    return number_of("/proc/self/io", "rchar:");
}

void machine_boot_id(char *text, size_t size)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    text[0] = '\0';
    if (file == NULL) return;
    if (fgets(text, (int)size, file) == NULL) text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)fclose(file);
}
