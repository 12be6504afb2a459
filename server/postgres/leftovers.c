#include "postgres/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool lives_in(const char *pid, const struct stat *data)
{
    char path[300], name[32] = "";
    struct stat directory;
    (void)snprintf(path, sizeof path, "/proc/%s/cwd", pid);
    if (stat(path, &directory) != 0 || directory.st_dev != data->st_dev || directory.st_ino != data->st_ino)
        return false;
    (void)snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const bool is_postgres = fgets(name, sizeof name, file) != NULL && strncmp(name, "postgres", 8) == 0;
    (void)fclose(file);
    return is_postgres;
}

int leftovers_signal(int data, int signal)
{
    struct stat directory;
    int count = 0;
    if (fstat(data, &directory) != 0) return 0;
    DIR *processes = opendir("/proc");
    if (processes == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !lives_in(entry->d_name, &directory)) continue;
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        count++;
        if (signal == 0) continue;
        (void)kill(pid, signal);
        (void)kill(pid, SIGCONT);
    }
    (void)closedir(processes);
    return count;
}

/* 0: no such file; -1: no number in it. */
static pid_t pid_in_file(int data)
{
    char text[32] = "";
    const int fd = openat(data, "postmaster.pid", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const long pid = length > 0 ? strtol(text, NULL, 10) : 0;
    return pid > 0 && pid < 1 << 30 ? (pid_t)pid : -1;
}

enum status leftovers_clear(int data, struct error *error)
{
    static const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    int left = leftovers_signal(data, SIGINT);
    for (int i = 0; left > 0 && i < 200; i++) {
        (void)nanosleep(&pause, NULL);
        left = leftovers_signal(data, i == 80 ? SIGQUIT : i == 120 || i == 160 ? SIGKILL : 0);
    }
    if (left > 0)
        return error_set(error, STATUS_UNAVAILABLE,
                         "%d processes of an earlier PostgreSQL on this directory do not end", left);
    const pid_t pid = pid_in_file(data);
    const bool blocks = pid == -1 || (pid > 0 && (kill(pid, 0) == 0 || errno == EPERM));
    if (blocks && unlinkat(data, "postmaster.pid", 0) != 0 && errno != ENOENT)
        return error_set_errno(error, "cannot remove a stale postmaster.pid");
    return STATUS_OK;
}
