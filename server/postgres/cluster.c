#include "postgres/cluster.h"

#include "base/directory.h"
#include "postgres/child.h"
#include "postgres/recovery.h"
#include "postgres/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BINARIES "/usr/lib/postgresql"
/* sun_path has 108 bytes; "/.s.PGSQL.5432" and the final 0 take 15. */
#define PLAIN "/.-_+0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
enum { SOCKET_DIRECTORY_MOST = 92, LOG_MOST = 8 << 20, LOG_GIVEN_UP = 4 * LOG_MOST };

enum status cluster_check_filesystem(int64_t magic, struct error *error)
{
    static const struct {
        int64_t magic;
        const char *name;
    } refused[] = {
        {NFS_SUPER_MAGIC, "NFS"}, {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0xff534d42, "CIFS"},
        {0xfe534d42, "SMB"},      {0x00c36400, "Ceph"},   {0x19830326, "BeeGFS"}, {0x517b, "SMB"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].magic == (magic & 0xffffffff))
            return error_set(error, STATUS_UNSUPPORTED,
                             "the data directory is on %s, where PostgreSQL's locks and fsync cannot be relied on:"
                             " use a local --data-dir, or a database server through DATABASE_URL",
                             refused[i].name);
    return STATUS_OK;
}

static enum status choose_ids(int parent, struct cluster *cluster, struct error *error)
{
    struct stat home, data;
    const struct passwd *entry = NULL;
    cluster->uid = geteuid();
    cluster->gid = getegid();
    if (geteuid() != 0) {
        if (getpwuid(geteuid()) != NULL) return STATUS_OK;
        return error_set(
            error, STATUS_UNSUPPORTED,
            "user id %u has no entry in passwd, which PostgreSQL needs: add one (or preload libnss_wrapper),"
            " or use DATABASE_URL",
            (unsigned)geteuid());
    }
    if (fstat(parent, &data) != 0) return error_set_errno(error, "cannot look at the data directory");
    if (fstatat(parent, "pg", &home, AT_SYMLINK_NOFOLLOW) == 0 && home.st_uid != 0)
        entry = getpwuid(home.st_uid);
    else if (data.st_uid != 0)
        entry = getpwuid(data.st_uid);
    if (entry == NULL) entry = getpwnam("postgres");
    if (entry == NULL) entry = getpwnam("nobody");
    if (entry == NULL || entry->pw_uid == 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "PostgreSQL does not run as root, and there is no user postgres or nobody: use DATABASE_URL");
    cluster->uid = entry->pw_uid;
    cluster->gid = entry->pw_gid;
    return STATUS_OK;
}

static enum status make_directory(int at, const char *name, const struct cluster *cluster, int *fd, struct error *error)
{
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, "cannot make the database directory");
    *fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0) return error_set_errno(error, "cannot open the database directory");
    struct stat now;
    if (fstat(*fd, &now) == 0 && now.st_uid == cluster->uid && (now.st_mode & 0777) == 0700) return STATUS_OK;
    if (fchmod(*fd, 0700) == 0 && (geteuid() != 0 || fchown(*fd, cluster->uid, cluster->gid) == 0)) return STATUS_OK;
    return error_set_errno(error, "cannot take over the database directory");
}

/* For a path that is too long for a socket's address, or has characters with a meaning in a connection string (a comma
 * separates hosts): a private directory in /tmp gets a link to the real one. */
static enum status shorten(const char *path, struct cluster *cluster, struct error *error)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a: a name, not a secret */
    struct stat directory;
    char link[64];
    for (const char *c = path; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    (void)snprintf(link, sizeof link, "/tmp/deltaq-%u-%016llx", (unsigned)geteuid(), (unsigned long long)hash);
    if (mkdir(link, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, "cannot make a directory for the database's socket");
    if (lstat(link, &directory) != 0 || !S_ISDIR(directory.st_mode) || directory.st_uid != geteuid() ||
        (directory.st_mode & 077) != 0)
        return error_set(error, STATUS_FORBIDDEN,
                         "a directory for the database's socket in the temporary directory belongs to someone else");
    (void)snprintf(cluster->socket_directory, sizeof cluster->socket_directory, "%s/s", link);
    if (unlink(cluster->socket_directory) != 0 && errno != ENOENT)
        return error_set_errno(error, "cannot renew the database's socket link");
    if (symlink(path, cluster->socket_directory) != 0)
        return error_set_errno(error, "cannot link the database's socket directory");
    return STATUS_OK;
}

static enum status open_socket_directory(const char *data_directory, struct cluster *cluster, struct error *error)
{
    int fd = -1;
    char *real = realpath(data_directory, NULL), *path = NULL;
    enum status status = make_directory(cluster->home, "socket", cluster, &fd, error);
    if (fd >= 0) (void)close(fd);
    if (status == STATUS_OK && (real == NULL || asprintf(&path, "%s/pg/socket", real) < 0))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    if (status == STATUS_OK && strlen(path) <= SOCKET_DIRECTORY_MOST && strspn(path, PLAIN) == strlen(path))
        (void)snprintf(cluster->socket_directory, sizeof cluster->socket_directory, "%s", path);
    else if (status == STATUS_OK)
        status = shorten(path, cluster, error);
    free(path);
    free(real);
    return status;
}

/* Copies the whole log into postgres.log.1. */
static bool copy_log(const struct cluster *cluster)
{
    static const char unfinished[] = "postgres.log.unfinished", old[] = "postgres.log.1";
    off_t from = 0;
    ssize_t copied = -1;
    (void)unlinkat(cluster->home, unfinished, 0);
    const int to = openat(cluster->home, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0) return false;
    while ((copied = sendfile(to, cluster->log, &from, LOG_MOST)) > 0) {
    }
    const bool whole = close(to) == 0 && copied == 0;
    if (whole && renameat(cluster->home, unfinished, cluster->home, old) == 0) return true;
    (void)unlinkat(cluster->home, unfinished, 0);
    return false;
}

void cluster_rotate_log(struct cluster *cluster)
{
    struct stat now;
    if (fstat(cluster->log, &now) != 0 || now.st_size <= LOG_MOST) return;
    /* A log that cannot be copied, for example on a full disk, is kept for a while and then emptied. */
    if (!copy_log(cluster) && now.st_size <= LOG_GIVEN_UP) return;
    if (ftruncate(cluster->log, 0) == 0) cluster->log_start = 0;
}

/* The file is never replaced: another process may have it open (embedded_attach), and PostgreSQL keeps it open. */
static enum status open_log(struct cluster *cluster, struct error *error)
{
    cluster->log = openat(cluster->home, "postgres.log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (cluster->log < 0) return error_set_errno(error, "cannot open the database's log");
    return STATUS_OK;
}

/* "15" from PG_VERSION of the cluster, or "" when there is none. */
static void read_version(int data, char version[16])
{
    const int fd = data >= 0 ? openat(data, "PG_VERSION", O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    version[0] = '\0';
    if (fd < 0) return;
    const ssize_t length = read(fd, version, 15);
    (void)close(fd);
    version[length > 0 ? length : 0] = '\0';
    version[strcspn(version, "\r\n")] = '\0';
}

static bool has_server(const char *directory)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/postgres", directory);
    return access(path, X_OK) == 0;
}

/* The newest installed server. */
static enum status find_binaries(const char *given, char out[512], struct error *error)
{
    if (given != NULL) {
        (void)snprintf(out, 512, "%s", given);
        return has_server(out) ? STATUS_OK
                               : error_set(error, STATUS_NOT_FOUND, "there is no `postgres` in the given directory");
    }
    if (!tools_newest("postgres", out))
        return error_set(
            error, STATUS_NOT_FOUND,
            "no PostgreSQL server is installed: install the package postgresql (`make deps`), or give DATABASE_URL");
    return STATUS_OK;
}

enum status cluster_open(const char *data_directory, const char *binaries, struct cluster *cluster, struct error *error)
{
    enum status status;
    struct statfs filesystem;
    memset(cluster, 0, sizeof *cluster);
    cluster->home = cluster->data = cluster->log = cluster->archive.wal = -1;
    const int parent = open(data_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) return error_set_errno(error, "cannot open the data directory");
    if (fstatfs(parent, &filesystem) != 0) {
        status = error_set_errno(error, "cannot look at the data directory's file system");
        goto done;
    }
    if ((status = cluster_check_filesystem((int64_t)filesystem.f_type, error)) != STATUS_OK) goto done;
    if ((status = find_binaries(binaries, cluster->binaries, error)) != STATUS_OK) goto done;
    if ((status = choose_ids(parent, cluster, error)) != STATUS_OK) goto done;
    if ((status = make_directory(parent, "pg", cluster, &cluster->home, error)) != STATUS_OK) goto done;
    if ((status = open_socket_directory(data_directory, cluster, error)) != STATUS_OK) goto done;
    status = open_log(cluster, error);
done:
    (void)close(parent);
    return status;
}

void cluster_reset(struct cluster *cluster)
{
    if (cluster->log >= 0) (void)close(cluster->log);
    if (cluster->data >= 0) (void)close(cluster->data);
    if (cluster->home >= 0) (void)close(cluster->home);
    archive_close(&cluster->archive);
    cluster->log = cluster->data = cluster->home = -1;
}

/* ---- making it ---- */

static struct child server_child(const struct cluster *cluster, const char *program, const char *const *arguments,
                                 int directory)
{
    return (struct child){.program = program,
                          .arguments = arguments,
                          .uid = cluster->uid,
                          .gid = cluster->gid,
                          .input = -1,
                          .output = cluster->log,
                          .directory = directory,
                          .beside = cluster->archive.wal,
                          .death_signal = SIGINT};
}

/* The locale is C: it is always installed, and an upgrade of libc does not change the order of an index. `trust` over a
 * socket in a directory of mode 0700 admits those whom the kernel lets through that directory: PostgreSQL's own user,
 * ours, and root. `peer` would check the same by name, but it fails for ids without a passwd entry and would refuse
 * root's worker processes. */
static enum status initialise(struct cluster *cluster, int directory, struct error *error)
{
    enum status status;
    char initdb[600], postgres[600];
    static const char statement[] = "create database deltaq\n";
    (void)snprintf(initdb, sizeof initdb, "%s/initdb", cluster->binaries);
    (void)snprintf(postgres, sizeof postgres, "%s/postgres", cluster->binaries);
    /* Called by absolute paths, because initdb and postgres look for each other beside the path that they were called
     * by. */
    const char *const make[] = {initdb,
                                "-D",
                                "/proc/self/fd/10",
                                "--locale=C",
                                "--encoding=UTF8",
                                "--data-checksums",
                                "--username=deltaq",
                                "--auth-local=trust",
                                "--auth-host=reject",
                                NULL};
    const char *const single[] = {postgres, "--single", "-D", "/proc/self/fd/10", "postgres", NULL};
    struct child child = server_child(cluster, initdb, make, directory);
    child.what = "making the private database, once: on a slow disk this takes a minute or more";
    int pipe_ends[2];
    if ((status = child_run(&child, error)) != STATUS_OK) return status;
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) return error_set_errno(error, "cannot make a pipe");
    const ssize_t written = write(pipe_ends[1], statement, sizeof statement - 1); /* fits a pipe's buffer */
    (void)close(pipe_ends[1]);
    child = server_child(cluster, postgres, single, directory);
    child.input = pipe_ends[0];
    child.what = "making the private database: almost done";
    status = written == (ssize_t)sizeof statement - 1 ? child_run(&child, error)
                                                      : error_set(error, STATUS_IO, "a pipe took no data");
    (void)close(pipe_ends[0]);
    return status;
}

static enum status make_cluster(struct cluster *cluster, struct error *error)
{
    static const char unfinished[] = "data.unfinished";
    enum status status;
    int directory = -1;
    directory_remove(cluster->home, unfinished);
    if ((status = make_directory(cluster->home, unfinished, cluster, &directory, error)) != STATUS_OK) return status;
    struct stat log;
    cluster->log_start = fstat(cluster->log, &log) == 0 ? log.st_size : 0;
    const struct child child = server_child(cluster, NULL, NULL, directory);
    if (cluster->recovery != NULL)
        status = recovery_unpack(cluster->recovery, &child, error);
    else
        status = initialise(cluster, directory, error);
    if (status == STATUS_UNAVAILABLE) { /* the log may have a better reason */
        struct error why;
        if (cluster_diagnose(cluster, &why) == STATUS_DISK_FULL) status = (*error = why).status;
    }
    if (status == STATUS_OK &&
        (fsync(directory) != 0 || renameat(cluster->home, unfinished, cluster->home, "data") != 0 ||
         fsync(cluster->home) != 0))
        status = error_set_errno(error, "cannot put the new database in place");
    if (directory >= 0) (void)close(directory);
    if (status != STATUS_OK) directory_remove(cluster->home, unfinished);
    return status;
}

static enum status check_version(struct cluster *cluster, struct error *error)
{
    char version[16], path[512];
    read_version(cluster->data, version);
    const long major = strtol(version, NULL, 10);
    if (major <= 0)
        return error_set(
            error, STATUS_CORRUPT,
            "pg/data in the data directory is no PostgreSQL cluster (PG_VERSION is missing or empty): move it away"
            " or restore it;"
            " it is never made anew");
    (void)snprintf(path, sizeof path, BINARIES "/%ld/bin", major);
    if (strncmp(cluster->binaries, BINARIES "/", sizeof BINARIES) != 0) return STATUS_OK; /* chosen by the caller */
    if (has_server(path)) { /* the cluster's own version goes before a newer one */
        (void)snprintf(cluster->binaries, sizeof cluster->binaries, "%s", path);
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED,
                     "the database was made by PostgreSQL %s, which is not installed: install postgresql-%s; or"
                     " with both versions installed run `deltaq backup` and `deltaq restore` into a new data directory",
                     version, version);
}

/* Called before a cluster is made, because the requested archive may be impossible. */
static enum status choose_archive(struct cluster *cluster, const char *data_directory, const char *wanted,
                                  struct error *error)
{
    char owner[ARCHIVE_PATH], *real;
    struct stat data;
    if (cluster->recovery != NULL && fstatat(cluster->home, "data", &data, AT_SYMLINK_NOFOLLOW) == 0)
        return error_set(error, STATUS_CONFLICT, "there is a database in the data directory already");
    if (cluster->recovery != NULL) {
        const enum status status = archive_read(cluster->recovery->archive, owner, &cluster->archive, error);
        return status == STATUS_OK ? archive_check_reader(&cluster->archive, cluster->uid, error) : status;
    }
    if ((real = realpath(data_directory, NULL)) == NULL)
        return error_set_errno(error, "cannot open the data directory");
    const enum status status =
        archive_open(cluster->home, real, wanted, cluster->uid, cluster->gid, &cluster->archive, error);
    free(real);
    return status;
}

enum status cluster_ensure(struct cluster *cluster, const char *data_directory, const char *archive,
                           const struct recovery *recovery, struct error *error)
{
    enum status status;
    struct stat data;
    cluster->recovery = recovery;
    if ((status = choose_archive(cluster, data_directory, archive, error)) != STATUS_OK) return status;
    if (fstatat(cluster->home, "data", &data, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return error_set_errno(error, "cannot look at the database");
        if ((status = make_cluster(cluster, error)) != STATUS_OK) return status;
    }
    cluster->data = openat(cluster->home, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (cluster->data < 0) return error_set_errno(error, "cannot open the database");
    return check_version(cluster, error);
}

/* ---- running it ---- */

/* Small, and safe rather than fast. mmap, because containers often have no usable /dev/shm. */
static const char *const settings[] = {
    "listen_addresses=",
    "unix_socket_directories=../socket",
    "unix_socket_permissions=0700",
    "port=5432",
    "max_connections=120",
    "shared_buffers=64MB",
    "work_mem=8MB",
    "maintenance_work_mem=32MB",
    "max_parallel_workers_per_gather=0",
    "dynamic_shared_memory_type=mmap",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "min_wal_size=32MB",
    "jit=off",
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "data_sync_retry=off",
    "autovacuum_naptime=15s",
    "idle_in_transaction_session_timeout=10s",
    "log_timezone=UTC",
    "log_checkpoints=off",
    "logging_collector=off",
    "log_destination=stderr",
    "cluster_name=deltaq",
    "max_logical_replication_workers=0",
};
enum { SETTINGS = sizeof settings / sizeof settings[0], SETTINGS_MOST = SETTINGS + RECOVERY_SETTINGS + 3 };

/* Later settings override earlier ones. */
static size_t all_settings(const struct cluster *cluster, char texts[2][RECOVERY_TEXT], const char **out)
{
    size_t count = SETTINGS;
    memcpy(out, settings, sizeof settings);
    if (cluster->recovery != NULL) return count + recovery_settings(cluster->recovery, texts, out + count);
    for (size_t i = 0; cluster->archive.wal >= 0 && archive_settings[i] != NULL; i++)
        out[count++] = archive_settings[i];
    return count;
}

enum status cluster_start(struct cluster *cluster, pid_t *pid, struct error *error)
{
    char postgres[600], texts[2][RECOVERY_TEXT];
    struct stat log;
    const char *chosen[SETTINGS_MOST], *arguments[3 + 2 * SETTINGS_MOST + 1] = {postgres, "-D", "/proc/self/fd/10"};
    const size_t count = all_settings(cluster, texts, chosen);
    for (size_t i = 0; i < count; i++) {
        arguments[3 + 2 * i] = "-c";
        arguments[4 + 2 * i] = chosen[i];
    }
    (void)snprintf(postgres, sizeof postgres, "%s/postgres", cluster->binaries);
    cluster->log_start = fstat(cluster->log, &log) == 0 ? log.st_size : 0;
    const struct child child = server_child(cluster, postgres, arguments, cluster->data);
    return child_start(&child, pid, error);
}

/* The text after the last FATAL or PANIC, to the end of its line; NULL for none. Cuts `text` there. Messages to a
 * client (us) that the database is starting or stopping are ignored. */
static const char *last_complaint(char *text)
{
    static const char *const marks[] = {"PANIC:  ", "FATAL:  "}, polled[] = "the database system is ";
    char *last = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        for (char *mark = strstr(text, marks[i]); mark != NULL; mark = strstr(mark + 1, marks[i]))
            if (mark > last && strncmp(mark + strlen(marks[i]), polled, sizeof polled - 1) != 0) last = mark;
    if (last == NULL) return NULL;
    last += strlen(marks[0]);
    last[strcspn(last, "\n")] = '\0';
    return last;
}

enum status cluster_diagnose(const struct cluster *cluster, struct error *error)
{
    static const struct {
        const char *text;
        enum status status;
        const char *advice;
    } rows[] = {
        {"No space left on device", STATUS_DISK_FULL, "the disk is full: free some space"},
        {"Disk quota exceeded", STATUS_DISK_FULL, "the disk quota is used up: free some space"},
        {"pre-existing shared memory block", STATUS_UNAVAILABLE,
         "processes of an earlier PostgreSQL hold the database"},
        {"lock file", STATUS_UNAVAILABLE, "another PostgreSQL seems to hold the database"},
        {"incompatible with server", STATUS_UNSUPPORTED, "the database was made by another version of PostgreSQL"},
        {"could not create shared memory", STATUS_UNAVAILABLE, "the system gives PostgreSQL no shared memory"},
        {"could not locate a valid checkpoint", STATUS_CORRUPT, "the database is damaged: restore it from a backup"},
        {"before configured recovery target", STATUS_NOT_FOUND,
         "the archive ends before that time; without --until all that it has is restored"},
        {"invalid checksum", STATUS_CORRUPT, "the database is damaged: restore it from a backup"},
    };
    char text[16385] = "";
    struct stat log;
    off_t from = (off_t)cluster->log_start;
    if (fstat(cluster->log, &log) == 0 && log.st_size - from > (off_t)sizeof text - 1)
        from = log.st_size - (off_t)sizeof text + 1;
    const ssize_t length = pread(cluster->log, text, sizeof text - 1, from);
    text[length > 0 ? length : 0] = '\0';
    const char *complaint = last_complaint(text);
    for (size_t i = 0; complaint != NULL && i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(complaint, rows[i].text) != NULL)
            return error_set(error, rows[i].status, "the database does not run: %s", rows[i].advice);
    return error_set(error, STATUS_UNAVAILABLE, "the database does not run: %.200s",
                     complaint != NULL ? complaint : "it gave no reason (see pg/postgres.log)");
}
