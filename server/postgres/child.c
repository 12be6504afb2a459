#include "postgres/child.h"

#include "base/clock.h"
#include "log/log.h"
#include "postgres/session.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The exit status of a child that could not start its program. */
enum { EXIT_NOT_STARTED = 127 };

/* These are system calls, because libc's functions change the ids of all threads together, under locks that may be held
 * in a forked process. */
static bool drop_ids(uid_t uid, gid_t gid)
{
    if (geteuid() != 0) return true;
    return syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, gid, gid, gid) == 0 &&
           syscall(SYS_setresuid, uid, uid, uid) == 0;
}

static bool place_descriptor(int from, int to)
{
    if (from == to) return fcntl(to, F_SETFD, 0) == 0;
    return dup2(from, to) == to;
}

static void reset_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int i = 1; i < SIGRTMIN; i++)
        if (i != SIGKILL && i != SIGSTOP) (void)signal(i, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool place_streams(const struct child *child)
{
    const int null = open("/dev/null", O_RDWR);
    return null >= 0 && place_descriptor(child->input >= 0 ? child->input : null, 0) &&
           place_descriptor(child->output >= 0 ? child->output : null, 1) && dup2(1, 2) == 2;
}

/* Places the directory and the descriptor beside it, if wanted; execve closes every other descriptor. */
static bool place_others(const struct child *child)
{
    const bool wanted = child->directory >= 0, beside = child->beside > 0;
    const unsigned first = (unsigned)CHILD_DIRECTORY_FD;
    if (!wanted) {
        (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
        return true;
    }
    /* Moved first, because its number may be the one that the directory gets. */
    const int aside = beside ? fcntl(child->beside, F_DUPFD, CHILD_DIRECTORY_FD + 2) : -1;
    if (beside && aside < 0) return false;
    if (!place_descriptor(child->directory, CHILD_DIRECTORY_FD)) return false;
    if (beside && !place_descriptor(aside, CHILD_DIRECTORY_FD + 1)) return false;
    (void)syscall(SYS_close_range, 3U, first - 1, CLOSE_RANGE_CLOEXEC);
    (void)syscall(SYS_close_range, first + 1 + beside, ~0U, CLOSE_RANGE_CLOEXEC);
    return true;
}

static _Noreturn void become(const struct child *child, pid_t parent)
{
    static const char *const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/",
                                              NULL};
    reset_signals();
    (void)setpgid(0, 0); /* Ctrl-C in a terminal reaches only us, and we stop it when its clients are done */
    (void)umask(077);
    if (chdir("/") != 0 || !place_streams(child) || !place_others(child)) _exit(EXIT_NOT_STARTED);
    if (!drop_ids(child->uid, child->gid)) _exit(EXIT_NOT_STARTED);
    /* Set after the ids, because a change of ids clears it. If the parent has died meanwhile, getppid() gives another
     * process. */
    if (child->death_signal != 0 && (prctl(PR_SET_PDEATHSIG, child->death_signal) != 0 || getppid() != parent))
        _exit(EXIT_NOT_STARTED);
    union {
        const char *const *constant;
        char *const *plain;
    } arguments = {.constant = child->arguments},
      variables = {.constant = child->environment != NULL ? child->environment : environment};
    (void)execve(child->program, arguments.plain, variables.plain);
    _exit(EXIT_NOT_STARTED);
}

enum status child_start(const struct child *child, pid_t *pid, struct error *error)
{
    const pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0) become(child, parent);
    if (*pid > 0) return STATUS_OK;
    *pid = 0;
    return error_set(error, STATUS_UNAVAILABLE, "cannot start a process: %s", strerror(errno));
}

void child_describe_end(int wait_status, char *text, size_t size)
{
    if (WIFSIGNALED(wait_status))
        (void)snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        (void)snprintf(text, size, "exit status %d", WEXITSTATUS(wait_status));
}

struct child_wait child_wait_start(const char *what)
{
    const int64_t now = clock_milliseconds();
    return (struct child_wait){.what = what, .started_at = now, .say_at = now + CHILD_GRACE_MS};
}

void child_wait_tick(struct child_wait *wait)
{
    const int64_t now = clock_milliseconds();
    if (wait->what == NULL || now < wait->say_at) return;
    log_info(LOG_COMPONENT_DATABASE, "%s (%d s so far)", wait->what, (int)((now - wait->started_at) / 1000));
    wait->say_at = now + CHILD_REMINDER_MS;
}

enum status child_run(const struct child *child, struct error *error)
{
    static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    pid_t pid, ended;
    int end;
    char text[96];
    const enum status status = child_start(child, &pid, error);
    if (status != STATUS_OK) return status;
    struct child_wait wait = child_wait_start(child->what);
    while ((ended = waitpid(pid, &end, WNOHANG)) != pid) {
        if (ended < 0 && errno != EINTR) return error_set_errno(error, "cannot wait for a process");
        child_wait_tick(&wait);
        (void)nanosleep(&pause, NULL);
    }
    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) return STATUS_OK;
    child_describe_end(end, text, sizeof text);
    const char *slash = strrchr(child->program, '/');
    return error_set(error, STATUS_UNAVAILABLE, "%s ended with %s", slash != NULL ? slash + 1 : child->program, text);
}
