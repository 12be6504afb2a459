#include "postgres/archive.h"

#include "base/hex.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDENTITY "deltaq-archive"
#define WAL      "/proc/self/fd/11" /* ARCHIVE_FD */
enum { TEXT = 2 * ARCHIVE_PATH };

/* A segment gets its name when it is whole and durable, by a link, which never takes another's place. One that is there
 * already, because a crash came before PostgreSQL had noted it, must be the same. What these programs say is in
 * postgres.log. */
const char *const archive_settings[] = {
    "wal_level=replica",
    "max_wal_senders=4",
    "archive_mode=on",
    "archive_timeout=60s",
    "archive_command=w=" WAL "; if test -e $w/%f.gz; then"
    " gzip -dc $w/%f.gz | cmp -s - %p || { echo 'deltaq: the archive has another %f' >&2; exit 1; };"
    " rm -f $w/%f.part && sync $w/.; else"
    " gzip -1nc <%p >$w/%f.part && sync $w/%f.part && ln $w/%f.part $w/%f.gz && rm $w/%f.part && sync $w/.; fi",
    NULL,
};

/* An exit status above 125 ends the recovery, 1 says that the archive ends there: so it is for segments behind the last
 * one alone. One that is there and cannot be looked at (a mount that breaks away) would else end it early, and well. */
void archive_restore_command(const char *last, char *out, size_t size)
{
    (void)snprintf(out, size,
                   "w=" WAL
                   "; test -x $w/. || exit 200; if test -e $w/%%f.gz; then gzip -dc $w/%%f.gz >%%p || exit 200;"
                   " else case %%f in *.history) exit 1;; esac; test %%f '>' '%.24s' && exit 1; exit 200; fi",
                   last);
}

static enum status failed(const char *action, const char *directory, struct error *error)
{
    char text[ARCHIVE_PATH + 64];
    const int cause = errno;
    (void)snprintf(text, sizeof text, "%s %.300s", action, directory);
    errno = cause;
    return error_set_errno(error, text);
}

/* ---- the two small files ---- */

static enum status put(int at, const char *name, const char *text, struct error *error)
{
    static const char unfinished[] = ".archive.unfinished";
    const size_t length = strlen(text);
    (void)unlinkat(at, unfinished, 0);
    const int fd = openat(at, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool written = fd >= 0 && write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    enum status status = written ? STATUS_OK : error_set_errno(error, "cannot write a file of the archive");
    if (fd >= 0) (void)close(fd);
    if (status == STATUS_OK && (renameat(at, unfinished, at, name) != 0 || fsync(at) != 0))
        status = error_set_errno(error, "cannot put a file of the archive in place");
    return status;
}

/* Two lines. False with errno: it cannot be read; EINVAL: it has another form. */
static bool get(int at, const char *name, char first[ARCHIVE_PATH], char second[ARCHIVE_PATH])
{
    char text[TEXT];
    const int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    const ssize_t length = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (length < 0) return false;
    text[length] = '\0';
    char *middle = strchr(text, '\n'), *end = middle != NULL ? strchr(middle + 1, '\n') : NULL;
    errno = EINVAL;
    if (end == NULL || middle - text >= ARCHIVE_PATH || end - middle > ARCHIVE_PATH) return false;
    *middle = *end = '\0';
    memcpy(first, text, (size_t)(middle - text) + 1);
    memcpy(second, middle + 1, (size_t)(end - middle));
    return true;
}

static enum status read_record(int home, struct archive *out, struct error *error)
{
    char name[ARCHIVE_PATH];
    if (get(home, ARCHIVE_RECORD, out->directory, name)) {
        (void)snprintf(out->name, sizeof out->name, "%.32s", name);
        return STATUS_OK;
    }
    out->directory[0] = '\0';
    if (errno == ENOENT) return STATUS_OK;
    return error_set_errno(error, "cannot read the record of the archive (pg/" ARCHIVE_RECORD ")");
}

enum status archive_recorded(const char *data_directory, char out[ARCHIVE_PATH], struct error *error)
{
    char path[ARCHIVE_PATH];
    struct archive archive;
    out[0] = '\0';
    if (snprintf(path, sizeof path, "%s/pg", data_directory) >= (int)sizeof path)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    const int home = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (home < 0 && errno == ENOENT) return STATUS_OK;
    if (home < 0) return failed("cannot open", path, error);
    const enum status status = read_record(home, &archive, error);
    (void)close(home);
    if (status == STATUS_OK) (void)snprintf(out, ARCHIVE_PATH, "%s", archive.directory);
    return status;
}

/* ---- opening one ---- */

static enum status open_wal(const char *directory, int at, int *wal, struct error *error)
{
    *wal = openat(at, "wal", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return *wal >= 0 ? STATUS_OK : failed("cannot open wal in the archive", directory, error);
}

/* Whether the data directory that the archive was begun with has another cluster, which archives there, too. One that
 * was moved has none any more. */
static bool is_copy(int home, const struct archive *archive, const char *owner)
{
    char path[ARCHIVE_PATH + 4];
    struct archive theirs;
    struct stat here, there;
    struct error ignored;
    (void)snprintf(path, sizeof path, "%s/pg", owner);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool another = fstat(home, &here) == 0 && fstat(fd, &there) == 0 &&
                         (here.st_dev != there.st_dev || here.st_ino != there.st_ino);
    const bool archives = another && read_record(fd, &theirs, &ignored) == STATUS_OK &&
                          strcmp(theirs.name, archive->name) == 0 && theirs.directory[0] != '\0';
    (void)close(fd);
    return archives;
}

/* The archive of the record. */
static enum status follow(int home, struct archive *archive, struct error *error)
{
    char name[ARCHIVE_PATH], owner[ARCHIVE_PATH];
    const int at = open(archive->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at >= 0 && get(at, IDENTITY, name, owner) && strcmp(name, archive->name) == 0) {
        const enum status status = is_copy(home, archive, owner)
                                       ? error_set(error, STATUS_FORBIDDEN,
                                                   "this data directory is a copy of %.150s, whose archive in %.150s "
                                                   "takes one database alone: `deltaq serve --archive off` ends "
                                                   "archiving here",
                                                   owner, archive->directory)
                                       : open_wal(archive->directory, at, &archive->wal, error);
        (void)close(at);
        return status;
    }
    if (at >= 0) (void)close(at);
    return error_set(
        error, STATUS_NOT_FOUND,
        "the archive of this database is not in %.300s: is that directory mounted? `deltaq serve --archive "
        "off` ends archiving there",
        archive->directory);
}

static bool is_empty(int at)
{
    const int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    int count = 0;
    while (directory != NULL && readdir(directory) != NULL) count++;
    if (directory != NULL) (void)closedir(directory);
    return count == 2;
}

static enum status make_name(char name[ARCHIVE_NAME], struct error *error)
{
    unsigned char bytes[(ARCHIVE_NAME - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return error_set_errno(error, "cannot name the archive");
    hex_write(bytes, sizeof bytes, name);
    return STATUS_OK;
}

/* The identity is written last: what was not finished is no archive. */
static enum status make(int at, const char *data_directory, uid_t uid, gid_t gid, struct archive *archive,
                        struct error *error)
{
    char text[TEXT];
    enum status status = make_name(archive->name, error);
    if (status != STATUS_OK) return status;
    if (mkdirat(at, "base", 0700) != 0 || mkdirat(at, "wal", 0700) != 0 ||
        (geteuid() == 0 && fchownat(at, "wal", uid, gid, AT_SYMLINK_NOFOLLOW) != 0))
        status = failed("cannot make the archive in", archive->directory, error);
    if (status == STATUS_OK) status = open_wal(archive->directory, at, &archive->wal, error);
    (void)snprintf(text, sizeof text, "%s\n%s\n", archive->name, data_directory);
    return status == STATUS_OK ? put(at, IDENTITY, text, error) : status;
}

/* So that the directory can be given again. */
static void unmake(int at)
{
    (void)unlinkat(at, IDENTITY, 0);
    (void)unlinkat(at, "wal", AT_REMOVEDIR);
    (void)unlinkat(at, "base", AT_REMOVEDIR);
}

static enum status begin(int home, const char *data_directory, uid_t uid, gid_t gid, struct archive *archive,
                         struct error *error)
{
    char text[TEXT];
    const int at = open(archive->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return failed("cannot open the archive", archive->directory, error);
    enum status status = STATUS_OK;
    const bool empty = is_empty(at);
    if (!empty)
        status = error_set(error, STATUS_CONFLICT,
                           "%.300s is not empty, and not the archive of this database: a new archive begins in a new "
                           "directory (--archive)",
                           archive->directory);
    if (status == STATUS_OK) status = make(at, data_directory, uid, gid, archive, error);
    (void)snprintf(text, sizeof text, "%s\n%s\n", archive->directory, archive->name);
    if (status == STATUS_OK) status = put(home, ARCHIVE_RECORD, text, error);
    if (status != STATUS_OK && empty) unmake(at);
    (void)close(at);
    return status;
}

/* What --archive names, without links and dots; made if it is missing. */
static enum status find(const char *wanted, char out[ARCHIVE_PATH], struct error *error)
{
    if (mkdir(wanted, 0700) != 0 && errno != EEXIST) return failed("cannot make the archive", wanted, error);
    char *real = realpath(wanted, NULL);
    if (real == NULL) return failed("cannot open the archive", wanted, error);
    const bool fits = snprintf(out, ARCHIVE_PATH, "%s", real) < ARCHIVE_PATH && strchr(real, '\n') == NULL;
    free(real);
    return fits ? STATUS_OK : error_set(error, STATUS_INVALID, "--archive: the path is too long or has a line break");
}

static enum status end(int home, struct archive *archive, struct error *error)
{
    archive->directory[0] = '\0';
    if ((unlinkat(home, ARCHIVE_RECORD, 0) == 0 || errno == ENOENT) && fsync(home) == 0) return STATUS_OK;
    return error_set_errno(error, "cannot end the archive");
}

enum status archive_open(int home, const char *data_directory, const char *wanted, uid_t uid, gid_t gid,
                         struct archive *out, struct error *error)
{
    char directory[ARCHIVE_PATH];
    *out = (struct archive){.wal = -1};
    if (wanted != NULL && strcmp(wanted, ARCHIVE_OFF) == 0) return end(home, out, error);
    enum status status = read_record(home, out, error);
    if (status != STATUS_OK) return status;
    if (wanted == NULL) return out->directory[0] != '\0' ? follow(home, out, error) : STATUS_OK;
    if ((status = find(wanted, directory, error)) != STATUS_OK) return status;
    if (strcmp(directory, out->directory) == 0) return follow(home, out, error);
    if (out->directory[0] != '\0')
        return error_set(error, STATUS_CONFLICT,
                         "this database has its archive in %.200s: `--archive off` ends it, after that another one can "
                         "begin",
                         out->directory);
    (void)snprintf(out->directory, sizeof out->directory, "%s", directory);
    return begin(home, data_directory, uid, gid, out, error);
}

void archive_close(struct archive *archive)
{
    if (archive->wal >= 0) (void)close(archive->wal);
    *archive = (struct archive){.wal = -1};
}

/* Kept with the file that says whose the archive is, which is never replaced. */
enum status archive_lock(const struct archive *archive, bool alone, int *lock, struct error *error)
{
    char path[ARCHIVE_PATH + sizeof IDENTITY];
    (void)snprintf(path, sizeof path, "%s/" IDENTITY, archive->directory);
    *lock = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*lock < 0) return failed("cannot open " IDENTITY " in", archive->directory, error);
    int cause;
    do {
        if (flock(*lock, alone ? LOCK_EX | LOCK_NB : LOCK_SH) == 0) return STATUS_OK;
        cause = errno;
    } while (cause == EINTR);
    if (!alone) return STATUS_OK; /* where there are no locks, nobody is alone either */
    (void)close(*lock);
    *lock = -1;
    errno = cause;
    if (cause != EWOULDBLOCK) return failed("cannot lock the archive", archive->directory, error);
    return error_set(error, STATUS_CONFLICT,
                     "a restore from the archive %.300s, or a copy into it, goes on: try again when it has ended",
                     archive->directory);
}

enum status archive_read(const char *directory, char data_directory[ARCHIVE_PATH], struct archive *out,
                         struct error *error)
{
    char name[ARCHIVE_PATH];
    *out = (struct archive){.wal = -1};
    const int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return failed("cannot open the archive", directory, error);
    const bool known = get(at, IDENTITY, name, data_directory);
    const int cause = errno;
    enum status status = STATUS_OK;
    if (!known && cause == ENOENT)
        status = error_set(error, STATUS_NOT_FOUND, "%.300s is no archive of `deltaq serve --archive`", directory);
    else if (!known)
        status = (errno = cause, failed("cannot read " IDENTITY " in", directory, error));
    (void)snprintf(out->name, sizeof out->name, "%.32s", known ? name : "");
    (void)snprintf(out->directory, sizeof out->directory, "%s", directory);
    if (status == STATUS_OK) status = open_wal(directory, at, &out->wal, error);
    (void)close(at);
    return status;
}

enum status archive_check_reader(const struct archive *archive, uid_t uid, struct error *error)
{
    struct stat wal;
    if (fstat(archive->wal, &wal) != 0) return failed("cannot look at wal in the archive", archive->directory, error);
    if (geteuid() != 0 || wal.st_uid == uid || (wal.st_mode & 5) == 5) return STATUS_OK;
    return error_set(
        error, STATUS_FORBIDDEN,
        "wal in the archive %.250s belongs to user %u, and PostgreSQL runs as user %u here, who cannot read "
        "it: chown -R %u that directory",
        archive->directory, (unsigned)wal.st_uid, (unsigned)uid, (unsigned)uid);
}
