#include "postgres/tools.h"

#include "postgres/child.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BINARIES "/usr/lib/postgresql"
enum { ARGUMENTS_MOST = 10, SAID_MOST = 4096 };
/* pg_restore has set it since PostgreSQL 17, whatever the server's version; older servers do not know it. */
#define NEWER_SETTING "transaction_timeout"

static bool has_program(const char *directory, const char *program)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", directory, program);
    return access(path, X_OK) == 0;
}

bool tools_newest(const char *program, char out[512])
{
    static const char *const elsewhere[] = {"/usr/local/bin", "/usr/bin"};
    long newest = 0;
    DIR *directory = opendir(BINARIES);
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[512];
        const long version = strtol(entry->d_name, NULL, 10);
        (void)snprintf(path, sizeof path, BINARIES "/%ld/bin", version);
        if (version > newest && has_program(path, program)) newest = version;
    }
    if (directory != NULL) (void)closedir(directory);
    (void)snprintf(out, 512, BINARIES "/%ld/bin", newest);
    for (size_t i = 0; newest == 0 && i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        (void)snprintf(out, 512, "%s", elsewhere[i]);
        if (has_program(out, program)) return true;
    }
    return newest > 0;
}

/* ---- how the program finds the database ---- */

static enum status write_settings(const PQconninfoOption *options, FILE *file, struct error *error)
{
    (void)fputs("[deltaq]\n", file);
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (option->val == NULL) continue; /* what is empty is there so that the environment does not give it */
        if (strcmp(option->keyword, "service") == 0 || strpbrk(option->val, "\r\n") != NULL)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "the database's URL has a service or a line break, which pg_dump cannot be given: write out"
                " host, user and password");
        (void)fprintf(file, "%s=%s\n", option->keyword, option->val);
    }
    return fflush(file) == 0 ? STATUS_OK : error_set_errno(error, "cannot write the connection's settings");
}

/* A service file in memory, which becomes the program's stdin, so that the password is neither in its arguments, which
 * every user sees, nor in a file on disk. */
static enum status make_service(const char *conninfo, FILE **out, struct error *error)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &why);
    const int fd = memfd_create("deltaq-service", MFD_CLOEXEC);
    enum status status = STATUS_OK;
    *out = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (options == NULL)
        status = error_set(error, STATUS_INVALID, "the database's URL: %.200s", why != NULL ? why : "no memory");
    else if (*out == NULL)
        status = error_set_errno(error, "cannot make a file in memory");
    else
        status = write_settings(options, *out, error);
    PQfreemem(why);
    PQconninfoFree(options);
    if (*out == NULL && fd >= 0) (void)close(fd);
    return status;
}

/* Our environment, with the variables that libpq reads, and the place of the settings. */
static const char **make_environment(void)
{
    static const char *const added[] = {"PGSERVICEFILE=/proc/self/fd/0", "PGSERVICE=deltaq", "LC_ALL=C"};
    enum { ADDED = sizeof added / sizeof added[0] };
    size_t count = 0, used = ADDED;
    while (environ[count] != NULL) count++;
    const char **out = calloc(count + ADDED + 1, sizeof *out);
    if (out == NULL) return NULL;
    memcpy(out, added, sizeof added);
    for (size_t i = 0; i < count; i++) {
        bool again = false;
        for (size_t j = 0; j < ADDED; j++)
            again = again || strncmp(environ[i], added[j], (size_t)(strchr(added[j], '=') - added[j]) + 1) == 0;
        if (!again) out[used++] = environ[i];
    }
    return out;
}

/* ---- running it ---- */

/* The first line of its output is the cause; later lines are consequences. */
static enum status explain(int said, enum status status, struct error *error)
{
    char text[SAID_MOST] = "";
    const struct error cause = *error;
    const ssize_t length = pread(said, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    const bool full = strstr(text, "No space left on device") != NULL || strstr(text, "Disk quota exceeded") != NULL;
    text[strcspn(text, "\n")] = '\0';
    if (text[0] == '\0') return status;
    return error_set(error, full ? STATUS_DISK_FULL : status, "%.100s: %.300s", cause.detail, text);
}

/* `beside` is the next descriptor after the directory's; -1: none. */
static enum status run(const char *conninfo, const char *const *arguments, int directory, int beside, const char *what,
                       struct error *error)
{
    FILE *service = NULL;
    const char **environment = NULL;
    const int said = memfd_create("deltaq-said", MFD_CLOEXEC);
    enum status status =
        said >= 0 ? make_service(conninfo, &service, error) : error_set_errno(error, "cannot make a file in memory");
    if (status == STATUS_OK && (environment = make_environment()) == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory to start a program of PostgreSQL");
    if (status == STATUS_OK) {
        const struct child child = {.program = arguments[0],
                                    .arguments = arguments,
                                    .environment = environment,
                                    .uid = geteuid(),
                                    .gid = getegid(),
                                    .input = fileno(service),
                                    .output = said,
                                    .directory = directory,
                                    .beside = beside,
                                    .death_signal = SIGTERM,
                                    .what = what};
        status = child_run(&child, error);
        if (status != STATUS_OK) status = explain(said, status, error);
    }
    free(environment);
    if (service != NULL) (void)fclose(service);
    if (said >= 0) (void)close(said);
    return status;
}

static enum status find_program(const char *name, char out[600], struct error *error)
{
    char directory[512];
    if (!tools_newest(name, directory))
        return error_set(error, STATUS_NOT_FOUND, "%s is not installed: install the package postgresql-client", name);
    (void)snprintf(out, 600, "%s/%s", directory, name);
    return STATUS_OK;
}

enum status tools_dump(const char *conninfo, const char *snapshot, int directory, const char *name, struct error *error)
{
    char program[600], file[300], seen[200];
    const enum status status = find_program("pg_dump", program, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(file, sizeof file, "--file=/proc/self/fd/%d/%s", CHILD_DIRECTORY_FD, name);
    (void)snprintf(seen, sizeof seen, "--snapshot=%s", snapshot);
    const char *const arguments[ARGUMENTS_MOST] = {program,
                                                   "--format=custom",
                                                   "--no-password",
                                                   "--no-owner",
                                                   "--no-privileges",
                                                   "--lock-wait-timeout=60s",
                                                   seen,
                                                   file,
                                                   NULL};
    return run(conninfo, arguments, directory, -1, "dumping the database", error);
}

/* ---- restoring ---- */

static const char restoring[] = "restoring the database";

/* Into the database, or with the descriptor `script`, which is not -1, as SQL to that. */
static enum status restore(const char *conninfo, int directory, const char *name, int script, struct error *error)
{
    char program[600], from[300], to[60] = "--dbname=service=deltaq"; /* needed to restore at all: names the settings */
    const enum status status = find_program("pg_restore", program, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(from, sizeof from, "/proc/self/fd/%d/%s", CHILD_DIRECTORY_FD, name);
    if (script >= 0) (void)snprintf(to, sizeof to, "--file=/proc/self/fd/%d", CHILD_DIRECTORY_FD + 1);
    const char *const arguments[ARGUMENTS_MOST] = {
        program, to,  "--no-password", "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction",
        from,    NULL};
    return run(conninfo, arguments, directory, script, restoring, error);
}

static enum status execute(const char *conninfo, int directory, int script, struct error *error)
{
    char program[600], from[60];
    const enum status status = find_program("psql", program, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(from, sizeof from, "--file=/proc/self/fd/%d", CHILD_DIRECTORY_FD + 1);
    const char *const arguments[ARGUMENTS_MOST] = {
        program,   "--dbname=service=deltaq", "--no-password",         "--no-psqlrc",
        "--quiet", "--output=/dev/null",      "--set=ON_ERROR_STOP=1", from,
        NULL};
    return run(conninfo, arguments, directory, script, restoring, error);
}

/* Turns the setting, one of those with which the script begins, into a comment. */
static enum status silence(int script, struct error *error)
{
    static const char setting[] = "\nSET " NEWER_SETTING " = 0;\n";
    char beginning[4096] = "";
    const ssize_t size = pread(script, beginning, sizeof beginning - 1, 0);
    const char *found = size > 0 ? strstr(beginning, setting) : NULL;
    if (found == NULL || pwrite(script, "-- ", 3, found + 1 - beginning) == 3) return STATUS_OK;
    return error_set_errno(error, "cannot write the database's SQL");
}

enum status tools_restore(const char *conninfo, int directory, const char *name, int script, struct error *error)
{
    enum status status = restore(conninfo, directory, name, -1, error);
    if (status == STATUS_OK || strstr(error->detail, "\"" NEWER_SETTING "\"") == NULL) return status;
    if ((status = restore(conninfo, directory, name, script, error)) != STATUS_OK) return status;
    if ((status = silence(script, error)) != STATUS_OK) return status;
    return execute(conninfo, directory, script, error);
}

enum status tools_copy(const char *conninfo, int directory, struct error *error)
{
    char program[600], place[60];
    const enum status status = find_program("pg_basebackup", program, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(place, sizeof place, "--pgdata=/proc/self/fd/%d", CHILD_DIRECTORY_FD);
    const char *const arguments[ARGUMENTS_MOST] = {
        program,  "--dbname=service=deltaq", "--no-password",     place, "--format=tar",
        "--gzip", "--wal-method=stream",     "--checkpoint=fast", NULL};
    return run(conninfo, arguments, directory, -1, "copying the database into the archive", error);
}
