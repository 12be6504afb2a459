/* control_group.h: how much memory the control groups of this process let it have. A process lies in a group of a tree
 * (/proc/self/cgroup), and every group above bounds it too: a job of Slurm has its limit some levels above the step
 * that the worker is in, a service of systemd may have it in its slice. */
#ifndef BASE_CONTROL_GROUP_H
#define BASE_CONTROL_GROUP_H

#include <stdint.h>

struct control_group_memory {
    int64_t limit; /* the smallest limit, in bytes; INT64_MAX: there is none */
    int64_t left;  /* the least that a group has left, files in the cache counted as free; INT64_MAX: no limit */
};

/* Reads the limits of the process whose groups the file `process` names ("/proc/self/cgroup"). The trees are mounted at
 * `mount` ("/sys/fs/cgroup"): version 2 there, version 1's memory controller at `mount`/memory. The root of the mount
 * is read as well, since within a container it is the container's own group. A group that is not below the mount is
 * passed over. */
struct control_group_memory control_group_read(const char *process, const char *mount);

/* The number behind `word` at the beginning of a line of the file; with word "" the file's own. -1: there is none. */
int64_t control_group_number(const char *path, const char *word);

#endif
