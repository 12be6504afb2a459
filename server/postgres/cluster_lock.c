#include "postgres/cluster_lock.h"

#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long the lock of a process that has ended is waited for. */
enum { GRACE_MS = 5000, PAUSE_MS = 10 };

struct holder {
    char host[65], boot[40];
    int pid;
    unsigned long long nonce;
};

static void describe_ourselves(struct holder *holder)
{
    memset(holder, 0, sizeof *holder);
    if (gethostname(holder->host, sizeof holder->host - 1) != 0)
        (void)snprintf(holder->host, sizeof holder->host, "unknown");
    machine_boot_id(holder->boot, sizeof holder->boot);
    holder->pid = (int)getpid();
    if (getrandom(&holder->nonce, sizeof holder->nonce, 0) != sizeof holder->nonce) holder->nonce = 0;
}

static bool read_holder(int fd, struct holder *holder)
{
    char text[256] = "";
    memset(holder, 0, sizeof *holder);
    if (pread(fd, text, sizeof text - 1, 0) <= 0) return false;
    return sscanf(text, "host=%64s boot=%39s pid=%d nonce=%llx", holder->host, holder->boot, &holder->pid,
                  &holder->nonce) == 4;
}

static enum status write_holder(int fd, const struct holder *holder, struct error *error)
{
    char text[256];
    const int length = snprintf(text, sizeof text, "host=%s boot=%s pid=%d nonce=%016llx\n", holder->host, holder->boot,
                                holder->pid, holder->nonce);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length || fsync(fd) != 0)
        return error_set_errno(error, "cannot write the lock of the database directory");
    return STATUS_OK;
}

/* A process that was killed while it started another leaves the lock to that one until its exec, and one that has just
 * taken the lock has not said yet who it is. */
static bool passes_soon(bool known, const struct holder *theirs, const struct holder *ours)
{
    if (!known) return true;
    return strcmp(theirs->boot, ours->boot) == 0 && kill(theirs->pid, 0) != 0 && errno == ESRCH;
}

/* Whether the lock is ours now; if not, errno is flock's. *known: whether *theirs is its holder, or its last one. */
static bool lock_or_wait(int fd, const struct holder *ours, struct holder *theirs, bool *known)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000 * 1000};
    for (int waited = 0;; waited += PAUSE_MS) {
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        const int failure = errno;
        *known = read_holder(fd, theirs);
        if (locked) return true;
        if (failure != EWOULDBLOCK || waited >= GRACE_MS || !passes_soon(*known, theirs, ours)) {
            errno = failure;
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
}

static enum status refuse_locked(bool known, const struct holder *theirs, struct error *error)
{
    char holder[128] = "";
    if (errno != EWOULDBLOCK && !known) return error_set_errno(error, "cannot lock the database directory");
    if (known) (void)snprintf(holder, sizeof holder, " (process %d on %s)", theirs->pid, theirs->host);
    return error_set(error, STATUS_CONFLICT,
                     "another deltaq%s has this data directory: stop it or use another --data-dir", holder);
}

enum status cluster_lock_take(int directory, const char *name, int *fd, struct error *error)
{
    enum status status;
    struct holder ours, theirs;
    describe_ourselves(&ours);
    *fd = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0) return error_set_errno(error, "cannot open the lock of the database directory");
    bool known;
    const bool locked = lock_or_wait(*fd, &ours, &theirs, &known);
    if (!locked) {
        status = refuse_locked(known, &theirs, error);
        goto failed;
    }
    /* The lock is free on this kernel. With the same boot id, or the same host booted since, its last holder is
     * dead. */
    if (known && strcmp(theirs.boot, ours.boot) != 0 && strcmp(theirs.host, ours.host) != 0) {
        status = error_set(
            error, STATUS_FORBIDDEN,
            "process %d on host %s has this data directory; if that host is gone, remove pg/%s in it and start again",
            theirs.pid, theirs.host, name);
        goto failed;
    }
    if ((status = write_holder(*fd, &ours, error)) == STATUS_OK) return STATUS_OK;
failed:
    (void)close(*fd);
    *fd = -1;
    return status;
}

void cluster_lock_drop(int fd)
{
    if (fd < 0) return;
    /* If this fails, the text names a dead process of this boot, and the next start takes the lock all the same. */
    if (ftruncate(fd, 0) == 0) (void)fsync(fd);
    (void)close(fd);
}
