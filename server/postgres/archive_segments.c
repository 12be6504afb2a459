#include "postgres/archive_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = ARCHIVE_SEGMENT - 1, TIMELINE = 8 };

static enum status failed(const char *action, const struct archive *archive, const char *name, struct error *error)
{
    char text[500];
    const int cause = errno;
    (void)snprintf(text, sizeof text, "%s %.300s/wal%s%.60s", action, archive->directory, name[0] != '\0' ? "/" : "",
                   name);
    errno = cause;
    return error_set_errno(error, text);
}

static bool is_of_segment(const char *name)
{
    return strspn(name, "0123456789ABCDEF") == NAME && name[NAME] == '.';
}

static int keep_segments(const struct dirent *entry)
{
    return is_of_segment(entry->d_name) && strcmp(entry->d_name + NAME, ".gz") == 0;
}

static int keep_all_of_segments(const struct dirent *entry)
{
    return is_of_segment(entry->d_name);
}

/* The locale has no say in the order. */
static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static enum status list(const struct archive *archive, int (*keep)(const struct dirent *entry), struct dirent ***out,
                        int *count, struct error *error)
{
    *out = NULL;
    *count = scandirat(archive->wal, ".", out, keep, by_name);
    if (*count >= 0) return STATUS_OK;
    *count = 0;
    return failed("cannot list", archive, "", error);
}

static void forget(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

/* The number of a segment: its name has 8 digits of the timeline, 8 of the upper and 8 of the lower half, which counts
 * to 256. */
static int64_t number_of(const char *name)
{
    char part[9];
    (void)snprintf(part, sizeof part, "%.8s", name + 8);
    const int64_t upper = strtoll(part, NULL, 16);
    (void)snprintf(part, sizeof part, "%.8s", name + 16);
    return 256 * upper + strtoll(part, NULL, 16);
}

static void name_of(const char *first, int64_t number, char out[ARCHIVE_SEGMENT])
{
    (void)snprintf(out, ARCHIVE_SEGMENT, "%.8s%08llX%08llX", first, (unsigned long long)(number / 256) & 0xffffffff,
                   (unsigned long long)(number % 256));
}

enum status archive_segments_look(const struct archive *archive, const char *first, struct archive_segments *out,
                                  struct error *error)
{
    struct dirent **entries;
    int64_t expected = number_of(first);
    int count;
    *out = (struct archive_segments){.last = ""};
    const enum status status = list(archive, keep_segments, &entries, &count, error);
    for (int i = 0; i < count && out->gap[0] == '\0'; i++) {
        const char *name = entries[i]->d_name;
        const int64_t number = number_of(name);
        if (strncmp(name, first, TIMELINE) != 0 || number < expected) continue;
        if (number == expected)
            name_of(first, expected++, out->last);
        else
            name_of(first, expected, out->gap);
    }
    forget(entries, count);
    return status;
}

static void add(const struct archive *archive, const char *name, struct archive_amount *out)
{
    struct stat file;
    out->files++;
    if (fstatat(archive->wal, name, &file, AT_SYMLINK_NOFOLLOW) == 0) out->bytes += file.st_size;
}

enum status archive_segments_count(const struct archive *archive, struct archive_amount *out, struct error *error)
{
    struct dirent **entries;
    int count;
    *out = (struct archive_amount){0};
    const enum status status = list(archive, keep_all_of_segments, &entries, &count, error);
    for (int i = 0; i < count; i++) add(archive, entries[i]->d_name, out);
    forget(entries, count);
    return status;
}

/* The oldest first, so that an interrupted removal leaves no gap. */
enum status archive_segments_before(const struct archive *archive, const char *first, bool remove,
                                    struct archive_amount *out, struct error *error)
{
    struct dirent **entries;
    int count;
    *out = (struct archive_amount){0};
    enum status status = list(archive, keep_all_of_segments, &entries, &count, error);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        const char *name = entries[i]->d_name;
        struct archive_amount one = {0};
        if (strncmp(name, first, TIMELINE) != 0 || number_of(name) >= number_of(first)) continue;
        add(archive, name, &one);
        if (remove && unlinkat(archive->wal, name, 0) != 0 && errno != ENOENT) {
            status = failed("cannot remove", archive, name, error);
            break;
        }
        out->files += one.files;
        out->bytes += one.bytes;
    }
    forget(entries, count);
    if (status == STATUS_OK && remove && fsync(archive->wal) != 0) status = failed("cannot sync", archive, "", error);
    return status;
}

int archive_segments_waiting(int data)
{
    const int fd = openat(data, "pg_wal/archive_status", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    int count = directory != NULL ? 0 : -1;
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        count += dot != NULL && strcmp(dot, ".ready") == 0;
    }
    if (directory != NULL)
        (void)closedir(directory);
    else if (fd >= 0)
        (void)close(fd);
    return count;
}
