#include "postgres/recovery.h"

#include "postgres/archive.h"
#include "postgres/child.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Unpacks as PostgreSQL's user, who must own the files. */
static enum status unpack(const struct recovery *recovery, const struct child *like, const char *name, const char *into,
                          struct error *error)
{
    char path[ARCHIVE_PATH + 32];
    const char *const arguments[] = {"tar", "-xzf", "-", "-C", into, NULL};
    struct child child = *like;
    (void)snprintf(path, sizeof path, "%.4095s/%s", recovery->base, name);
    child.program = "/usr/bin/tar";
    child.arguments = arguments;
    child.input = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    child.what = "unpacking the copy of the database";
    const enum status status =
        child.input < 0 ? error_set_errno(error, "cannot open the copy of the database") : child_run(&child, error);
    if (child.input >= 0) (void)close(child.input);
    return status;
}

enum status recovery_unpack(const struct recovery *recovery, const struct child *child, struct error *error)
{
    static const char data[] = "/proc/self/fd/10", wal[] = "/proc/self/fd/10/pg_wal"; /* CHILD_DIRECTORY_FD */
    enum status status = unpack(recovery, child, "base.tar.gz", data, error);
    if (status == STATUS_OK) status = unpack(recovery, child, "pg_wal.tar.gz", wal, error);
    if (status != STATUS_OK) return status;
    /* This file makes PostgreSQL recover at the next start. */
    const int signal = openat(child->directory, "recovery.signal", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool done =
        signal >= 0 && (geteuid() != 0 || fchown(signal, child->uid, child->gid) == 0) && syncfs(child->directory) == 0;
    if (!done) status = error_set_errno(error, "cannot prepare the database for its recovery");
    if (signal >= 0) (void)close(signal);
    return status;
}

size_t recovery_settings(const struct recovery *recovery, char texts[2][RECOVERY_TEXT], const char **out)
{
    size_t count = 0;
    out[count++] = "hot_standby=off"; /* no client is admitted before everything is replayed */
    out[count++] = "recovery_target_timeline=current";
    out[count++] = "recovery_target_action=promote";
    const int used = snprintf(texts[0], RECOVERY_TEXT, "restore_command=");
    archive_restore_command(recovery->last, texts[0] + used, RECOVERY_TEXT - (size_t)used);
    out[count++] = texts[0];
    if (recovery->until == NULL) return count;
    (void)snprintf(texts[1], RECOVERY_TEXT, "recovery_target_time=%s", recovery->until);
    out[count++] = texts[1];
    return count;
}
