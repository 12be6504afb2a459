#include "launch/command_output.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { DEADLINE_MS = 1000 * COMMAND_OUTPUT_SECONDS, ERRORS_BYTES = 4096 };

/* The output of one descriptor. */
struct stream {
    int descriptor;
    char *text;
    size_t length, most;
};

struct pipes {
    int input[2], output[2], errors[2];
};

static void close_one(int *descriptor)
{
    if (*descriptor >= 0) (void)close(*descriptor);
    *descriptor = -1;
}

static void close_pipes(struct pipes *pipes)
{
    for (int i = 0; i < 2; i++) {
        close_one(&pipes->input[i]);
        close_one(&pipes->output[i]);
        close_one(&pipes->errors[i]);
    }
}

static enum status open_pipes(struct pipes *pipes, struct error *error)
{
    *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(pipes->input, O_CLOEXEC) == 0 && pipe2(pipes->output, O_CLOEXEC) == 0 &&
        pipe2(pipes->errors, O_CLOEXEC) == 0)
        return STATUS_OK;
    (void)error_set_errno(error, "no pipe for a command");
    close_pipes(pipes);
    return error->status;
}

/* The child has the signal mask of a fresh process, because ours are blocked. */
static int spawn(const char *const *words, const struct pipes *pipes, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    union {
        const char *const *constant;
        char *const *plain;
    } arguments = {.constant = words};
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawn_file_actions_adddup2(&actions, pipes->input[0], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, pipes->output[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, pipes->errors[1], STDERR_FILENO);
    const int failed = posix_spawnp(pid, words[0], &actions, &attributes, arguments.plain, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Bytes that do not fit are read and dropped. */
static void read_some(struct stream *stream)
{
    char chunk[4096];
    const ssize_t length = read(stream->descriptor, chunk, sizeof chunk);
    if (length < 0 && errno == EINTR) return;
    if (length <= 0) {
        stream->descriptor = -1;
        return;
    }
    const size_t left = stream->most - stream->length;
    const size_t kept = (size_t)length < left ? (size_t)length : left;
    memcpy(stream->text + stream->length, chunk, kept);
    stream->length += kept;
}

/* Reads until both ends are closed; false when that takes too long. */
static bool read_all(struct stream streams[2])
{
    const int64_t end = clock_milliseconds() + DEADLINE_MS;
    while (streams[0].descriptor >= 0 || streams[1].descriptor >= 0) {
        struct pollfd descriptors[2] = {{.fd = streams[0].descriptor, .events = POLLIN},
                                        {.fd = streams[1].descriptor, .events = POLLIN}};
        const int64_t left = end - clock_milliseconds();
        if (left <= 0) return false;
        if (poll(descriptors, 2, (int)left) < 0 && errno != EINTR) return false;
        for (int i = 0; i < 2; i++)
            if (descriptors[i].revents != 0) read_some(&streams[i]);
    }
    return true;
}

static enum status wait_for(pid_t pid, const char *name, bool in_time, char *said, struct error *error)
{
    int end = 0;
    if (!in_time) (void)kill(pid, SIGKILL);
    while (waitpid(pid, &end, 0) < 0 && errno == EINTR) continue;
    said[strcspn(said, "\n")] = '\0';
    if (!in_time) return error_set(error, STATUS_UNAVAILABLE, "%s did not end within a minute", name);
    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE, "%s failed: %.300s", name,
                     said[0] != '\0' ? said : "it does not say why");
}

enum status command_output(const char *const *words, const char *input, char **out, struct error *error)
{
    struct pipes pipes;
    pid_t pid = 0;
    char *text = calloc(1, COMMAND_OUTPUT_BYTES + 1), *said = calloc(1, ERRORS_BYTES + 1);
    *out = NULL;
    enum status status =
        text == NULL || said == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a command") : STATUS_OK;
    if (status == STATUS_OK) status = open_pipes(&pipes, error);
    if (status != STATUS_OK) goto done;
    const int failed = spawn(words, &pipes, &pid);
    if (failed != 0) status = error_set(error, STATUS_UNAVAILABLE, "cannot run %.60s: %s", words[0], strerror(failed));
    if (failed == 0) {
        const size_t length = input != NULL ? strlen(input) : 0;
        struct stream streams[2] = {{pipes.output[0], text, 0, COMMAND_OUTPUT_BYTES},
                                    {pipes.errors[0], said, 0, ERRORS_BYTES}};
        close_one(&pipes.output[1]);
        close_one(&pipes.errors[1]);
        close_one(&pipes.input[0]);
        if (length > 0 && write(pipes.input[1], input, length) < 0) said[0] = '\0'; /* a pipe holds 64 KiB */
        close_one(&pipes.input[1]);
        status = wait_for(pid, words[0], read_all(streams), said, error);
        if (status == STATUS_OK && streams[0].length == COMMAND_OUTPUT_BYTES)
            status = error_set(error, STATUS_UNAVAILABLE, "%s wrote too much", words[0]);
    }
    close_pipes(&pipes);
done:
    free(said);
    if (status == STATUS_OK)
        *out = text;
    else
        free(text);
    return status;
}
