#include "base/machine.h"

#include "base/control_group.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char OWN_GROUPS[] = "/proc/self/cgroup", GROUPS_MOUNT[] = "/sys/fs/cgroup";

int64_t machine_free_memory(void)
{
    const int64_t kibibytes = control_group_number("/proc/meminfo", "MemAvailable:");
    const int64_t free = kibibytes >= 0 ? kibibytes * 1024 : (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    const int64_t own = control_group_read(OWN_GROUPS, GROUPS_MOUNT).left;
    return own < free ? own : free;
}

int64_t machine_memory(void)
{
    const int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    const int64_t own = control_group_read(OWN_GROUPS, GROUPS_MOUNT).limit;
    return own < all ? own : all;
}

int64_t machine_free_disk(const char *directory)
{
    struct statvfs disk;
    if (directory == NULL || statvfs(directory, &disk) != 0) return -1;
    return (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

int64_t machine_bytes_read(void)
{
    return control_group_number("/proc/self/io", "rchar:");
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
