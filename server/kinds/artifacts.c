#include "kinds/artifacts.h"

#include "inputs/hash.h"
#include "kinds/artifact_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16 };

struct artifacts {
    int directory;
    char run[40];
    int64_t epoch;
    const struct artifact_store *store;
    const struct monitor *monitor;
    struct queue_artifact *items; /* owns */
    size_t count;
};

struct artifact_writer {
    struct artifacts *artifacts; /* lent */
    struct hash *hash;           /* owns */
    int fd;
    char temporary[128];
    struct queue_artifact item;
};

static enum status open_directory(const char *data_directory, int *fd, struct error *error)
{
    const int data = open(data_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *fd = -1;
    if (data < 0) return error_set_errno(error, "cannot open the data directory");
    if (mkdirat(data, "artifacts", 0700) == 0)
        (void)fsync(data);
    else if (errno != EEXIST) {
        (void)close(data);
        return error_set_errno(error, "cannot make the artifacts' directory");
    }
    *fd = openat(data, "artifacts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(data);
    return *fd >= 0 ? STATUS_OK : error_set_errno(error, "cannot open the artifacts' directory");
}

enum status artifacts_new(const char *data_directory, const char *run, int64_t epoch,
                          const struct artifact_store *store, const struct monitor *monitor, struct artifacts **out,
                          struct error *error)
{
    struct artifacts *artifacts = calloc(1, sizeof *artifacts);
    *out = NULL;
    if (artifacts == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for artifacts");
    (void)snprintf(artifacts->run, sizeof artifacts->run, "%s", run);
    artifacts->epoch = epoch;
    artifacts->store = store;
    artifacts->monitor = monitor;
    const enum status status = open_directory(data_directory, &artifacts->directory, error);
    if (status != STATUS_OK)
        artifacts_free(artifacts);
    else
        *out = artifacts;
    return status;
}

void artifacts_free(struct artifacts *artifacts)
{
    if (artifacts == NULL) return;
    if (artifacts->directory >= 0) (void)close(artifacts->directory);
    free(artifacts->items);
    free(artifacts);
}

const struct queue_artifact *artifacts_items(const struct artifacts *artifacts, size_t *count)
{
    *count = artifacts->count;
    return artifacts->items;
}

static bool name_is_plain(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strlen(name) < sizeof((struct queue_artifact *)0)->name &&
           name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] == '\0';
}

enum status artifact_open(struct artifacts *artifacts, const char *name, const char *media_type,
                          struct artifact_writer **out, struct error *error)
{
    enum status status;
    unsigned long long nonce = 0;
    *out = NULL;
    if (!name_is_plain(name)) return error_set(error, STATUS_INTERNAL, "\"%.100s\" is no name for an artifact", name);
    struct artifact_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for an artifact");
    writer->artifacts = artifacts;
    writer->fd = -1;
    (void)snprintf(writer->item.name, sizeof writer->item.name, "%s", name);
    (void)snprintf(writer->item.media_type, sizeof writer->item.media_type, "%s", media_type);
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) nonce = (unsigned long long)time(NULL);
    (void)snprintf(writer->temporary, sizeof writer->temporary, ARTIFACTS_TEMPORARY "%s-%lld-%016llx", artifacts->run,
                   (long long)artifacts->epoch, nonce);
    if ((status = hash_new(&writer->hash, error)) != STATUS_OK) goto failed;
    writer->fd = openat(artifacts->directory, writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (writer->fd < 0) {
        status = error_set_errno(error, "cannot make an artifact");
        goto failed;
    }
    *out = writer;
    return STATUS_OK;
failed:
    artifact_abandon(writer);
    return status;
}

enum status artifact_write(struct artifact_writer *writer, const void *bytes, size_t length, struct error *error)
{
    const unsigned char *next = bytes;
    hash_add(writer->hash, bytes, length);
    writer->item.bytes += (int64_t)length;
    while (length > 0) {
        const ssize_t written = write(writer->fd, next, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return error_set_errno(error, "cannot write an artifact");
        next += written;
        length -= (size_t)written;
    }
    return STATUS_OK;
}

static enum status note(struct artifacts *artifacts, const struct queue_artifact *item, struct error *error)
{
    for (size_t i = 0; i < artifacts->count; i++)
        if (strcmp(artifacts->items[i].name, item->name) == 0)
            return error_set(error, STATUS_INTERNAL, "two artifacts are called %s", item->name);
    struct queue_artifact *items = realloc(artifacts->items, (artifacts->count + 1) * sizeof *items);
    if (items == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for artifacts");
    items[artifacts->count++] = *item;
    artifacts->items = items;
    return STATUS_OK;
}

/* Opens the file again, because the writer's descriptor cannot be read. */
static enum status upload(const struct artifacts *artifacts, const struct queue_artifact *item, struct error *error)
{
    if (artifacts->store == NULL) return STATUS_OK;
    const int fd = openat(artifacts->directory, item->sha256, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return error_set_errno(error, "cannot open a finished artifact");
    const enum status status =
        artifact_store_put(artifacts->store, item->sha256, fd, item->bytes, artifacts->monitor, error);
    (void)close(fd);
    return status;
}

enum status artifact_publish(struct artifact_writer *writer, struct error *error)
{
    enum status status;
    struct artifacts *artifacts = writer->artifacts;
    struct hash *hash = writer->hash;
    writer->hash = NULL;
    if ((status = hash_finish(hash, writer->item.sha256, error)) != STATUS_OK) goto done;
    /* A failed fsync is never repeated, because a second one may succeed without writing the data: the object is given
     * up. */
    if (fsync(writer->fd) != 0) {
        status = error_set_errno(error, "cannot make an artifact durable");
        goto done;
    }
    /* An object of this name has the same bytes, so replacing it is harmless. */
    if (renameat(artifacts->directory, writer->temporary, artifacts->directory, writer->item.sha256) != 0) {
        status = error_set_errno(error, "cannot put an artifact in place");
        goto done;
    }
    /* When both names are links to one file, as when this step is repeated, rename leaves both. */
    (void)unlinkat(artifacts->directory, writer->temporary, 0);
    writer->temporary[0] = '\0';
    if (fsync(artifacts->directory) != 0) {
        status = error_set_errno(error, "cannot make the artifacts' directory durable");
        goto done;
    }
    if ((status = upload(artifacts, &writer->item, error)) != STATUS_OK) goto done;
    status = note(artifacts, &writer->item, error);
done:
    artifact_abandon(writer);
    return status;
}

void artifact_abandon(struct artifact_writer *writer)
{
    if (writer == NULL) return;
    if (writer->fd >= 0) {
        (void)close(writer->fd);
        if (writer->temporary[0] != '\0') (void)unlinkat(writer->artifacts->directory, writer->temporary, 0);
    }
    hash_free(writer->hash);
    free(writer);
}

static enum status hash_all(int fd, struct artifact_writer *writer, bool copy, const struct monitor *monitor,
                            struct error *error)
{
    char *buffer = malloc(BUFFER_BYTES);
    enum status status =
        buffer != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory to copy an artifact");
    while (status == STATUS_OK) {
        const ssize_t length = read(fd, buffer, BUFFER_BYTES);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) status = error_set_errno(error, "cannot read a finished file");
        if (length > 0) status = monitor_check(monitor, error);
        if (length <= 0 || status != STATUS_OK) break;
        if (copy) {
            status = artifact_write(writer, buffer, (size_t)length, error);
        } else {
            hash_add(writer->hash, buffer, (size_t)length);
            writer->item.bytes += (int64_t)length;
        }
    }
    free(buffer);
    return status;
}

/* Links the file itself under the temporary name, in place of the empty one, so that large files are not stored twice.
 * Its time is set to now, so that it does not count as old before the run ends. False: it is on another file system. */
static bool link_in(const struct artifact_writer *writer, int fd, const char *path)
{
    char name[sizeof writer->temporary + 2];
    const int directory = writer->artifacts->directory;
    (void)snprintf(name, sizeof name, "%s-l", writer->temporary);
    if (futimens(fd, NULL) != 0 || linkat(AT_FDCWD, path, directory, name, 0) != 0) return false;
    if (renameat(directory, name, directory, writer->temporary) == 0) return true;
    (void)unlinkat(directory, name, 0);
    return false;
}

enum status artifact_publish_file(struct artifacts *artifacts, const char *name, const char *media_type,
                                  const char *path, const struct monitor *monitor, struct error *error)
{
    struct artifact_writer *writer = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return error_set_errno(error, "cannot open a finished file");
    enum status status = artifact_open(artifacts, name, media_type, &writer, error);
    const bool linked = status == STATUS_OK && link_in(writer, fd, path);
    if (status == STATUS_OK) status = hash_all(fd, writer, !linked, monitor, error);
    if (linked) { /* it is the one to be made durable */
        const int empty = writer->fd;
        writer->fd = fd;
        fd = empty;
    }
    (void)close(fd);
    if (status == STATUS_OK) return artifact_publish(writer, error);
    artifact_abandon(writer);
    return status;
}
