#include "http/static_files.h"

#include "http/encoding.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Level 9 makes Plotly.js 1 % smaller than level 6 in three times the time. */
enum { FILE_MAX = 64 << 20, PATH_SIZE = 512, DEPTH_MAX = 8, GZIP_LEVEL = 6, SEAL_LENGTH = 16 };

static const struct {
    const char *extension, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".ico", "image/x-icon"},
    {".png", "image/png"},
    {".txt", "text/plain; charset=utf-8"},
    {".woff2", "font/woff2"},
};

struct static_packing {
    pthread_mutex_t lock; /* guards the members below */
    bool tried;
    char *bytes; /* NULL: not compressed yet, or not smaller */
    size_t length;
};

struct static_files {
    struct static_file *files;
    size_t count, capacity;
    char seal[SEAL_LENGTH + 2]; /* "/0123456789abcdef"; empty: not sealed */
};

static const char *type_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(dot, types[i].extension) == 0) return types[i].type;
    return NULL;
}

/* "app.3f9a1c22.js": eight or more hex digits between the last two dots, or after a dash before the last dot */
static bool name_has_hash(const char *path)
{
    const char *end = strrchr(path, '.');
    const char *start = end;
    if (end == NULL) return false;
    while (start > path && strchr("0123456789abcdef", start[-1]) != NULL) start--;
    return end - start >= 8 && start > path && (start[-1] == '.' || start[-1] == '-');
}

static enum status read_whole(int descriptor, size_t length, char **out, struct error *error)
{
    char *bytes = malloc(length + 1);
    *out = NULL;
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for a static file");
    for (size_t done = 0; done < length;) {
        const ssize_t got = read(descriptor, bytes + done, length - done);
        if (got <= 0) {
            free(bytes);
            if (got == 0) return error_set(error, STATUS_INPUT_CHANGED, "a static file shrank while it was read");
            return error_set_errno(error, "cannot read a static file");
        }
        done += (size_t)got;
    }
    bytes[length] = '\0';
    *out = bytes;
    return STATUS_OK;
}

static enum status reserve(struct static_files *files, struct error *error)
{
    if (files->count < files->capacity) return STATUS_OK;
    const size_t capacity = files->capacity ? files->capacity * 2 : 16;
    struct static_file *grown = realloc(files->files, capacity * sizeof *grown);
    if (grown == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for static files");
    files->files = grown;
    files->capacity = capacity;
    return STATUS_OK;
}

static void file_reset(struct static_file *file)
{
    free(file->path);
    free(file->bytes);
    if (file->packing == NULL) return;
    (void)pthread_mutex_destroy(&file->packing->lock);
    free(file->packing->bytes);
    free(file->packing);
}

static struct static_packing *packing_new(void)
{
    struct static_packing *packing = calloc(1, sizeof *packing);
    if (packing == NULL || pthread_mutex_init(&packing->lock, NULL) == 0) return packing;
    free(packing);
    return NULL;
}

/* Adds the regular file `name` below the open directory (AT_FDCWD: a path). */
static enum status add(struct static_files *files, const char *path, int directory, const char *name,
                       struct error *error)
{
    enum status status;
    struct stat info;
    struct static_file file = {.content_type = type_of(path), .hashed = name_has_hash(path)};
    const int descriptor = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 || fstat(descriptor, &info) != 0) {
        status = error_set_errno(error, "cannot open a static file");
        goto done;
    }
    if (file.content_type == NULL || !S_ISREG(info.st_mode)) {
        status = error_set(error, STATUS_INVALID, "%.80s: not a regular file of a type that is served", path);
        goto done;
    }
    if (info.st_size > FILE_MAX) {
        status = error_set(error, STATUS_TOO_LARGE, "%.80s: %lld bytes, at most %d are served", path,
                           (long long)info.st_size, FILE_MAX);
        goto done;
    }
    file.length = (size_t)info.st_size;
    if ((status = reserve(files, error)) != STATUS_OK) goto done;
    if ((status = read_whole(descriptor, file.length, &file.bytes, error)) != STATUS_OK) goto done;
    if ((status = encoding_etag(file.bytes, file.length, file.etag, error)) != STATUS_OK) goto done;
    const bool compressible = encoding_compressible(file.content_type);
    if ((file.path = strdup(path)) == NULL || (compressible && (file.packing = packing_new()) == NULL)) {
        status = error_set(error, STATUS_NO_MEMORY, "out of memory for static files");
        goto done;
    }
    files->files[files->count++] = file;
    file = (struct static_file){0};
done:
    file_reset(&file);
    if (descriptor >= 0) (void)close(descriptor);
    return status;
}

/* Reads the directory `descriptor` (taken) whose files are served below `prefix`. */
static enum status walk(struct static_files *files, int descriptor, const char *prefix, int depth, struct error *error)
{
    enum status status = STATUS_OK;
    DIR *directory = fdopendir(descriptor);
    if (directory == NULL) {
        status = error_set_errno(error, "cannot read the static files' directory");
        (void)close(descriptor);
        return status;
    }
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        char path[PATH_SIZE];
        struct stat info;
        if (entry->d_name[0] == '.') continue;
        const int length = snprintf(path, sizeof path, "%s/%s", prefix, entry->d_name);
        if (length < 0 || length >= PATH_SIZE || fstatat(dirfd(directory), entry->d_name, &info, 0) != 0) continue;
        if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX) {
            const int inner = openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (inner >= 0)
                status = walk(files, inner, path, depth + 1, error);
            else
                status = error_set_errno(error, "cannot open a directory of static files");
        } else if (S_ISREG(info.st_mode) && type_of(path) != NULL) {
            status = add(files, path, dirfd(directory), entry->d_name, error);
        }
    }
    (void)closedir(directory);
    return status;
}

enum status static_files_load(const char *directory, struct static_files **out, struct error *error)
{
    struct static_files *files = calloc(1, sizeof *files);
    *out = NULL;
    if (files == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for static files");
    *out = files;
    if (directory == NULL) return STATUS_OK;
    *out = NULL;
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status status = descriptor < 0 ? error_set_errno(error, "cannot open the static files' directory")
                                        : walk(files, descriptor, "", 0, error);
    if (status != STATUS_OK) {
        static_files_free(files);
        return status;
    }
    *out = files;
    return STATUS_OK;
}

enum status static_files_add(struct static_files *files, const char *path, const char *file_name, struct error *error)
{
    return add(files, path, AT_FDCWD, file_name, error);
}

static int by_path(const void *one, const void *other)
{
    return strcmp(((const struct static_file *)one)->path, ((const struct static_file *)other)->path);
}

/* "/0123456789abcdef", a hash of the paths and tags of all files, in an order that does not depend on the directory */
static enum status seal_text(struct static_files *files, char out[SEAL_LENGTH + 2], struct error *error)
{
    char hash[SHA256_TEXT_SIZE];
    struct hash_part *parts = calloc(2 * files->count + 1, sizeof *parts);
    if (parts == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for static files");
    if (files->count > 0) qsort(files->files, files->count, sizeof *files->files, by_path);
    for (size_t i = 0; i < files->count; i++) {
        const struct static_file *file = &files->files[i];
        parts[2 * i] = (struct hash_part){file->path, strlen(file->path) + 1};
        parts[2 * i + 1] = (struct hash_part){file->etag, sizeof file->etag};
    }
    const enum status status = encoding_sha256(parts, 2 * files->count, NULL, hash, error);
    free(parts);
    if (status == STATUS_OK) (void)snprintf(out, SEAL_LENGTH + 2, "/%.*s", SEAL_LENGTH, hash);
    return status;
}

/* Puts the seal before the paths of all links of a page. */
static enum status seal_links(struct static_file *page, const char *seal, struct error *error)
{
    static const char link[] = "=\"/";
    const size_t before = strlen(link) - 1, added = strlen(seal);
    size_t links = 0, length = 0, from = 0;
    for (const char *at = page->bytes; (at = strstr(at, link)) != NULL; at++) links++;
    char *const bytes = malloc(page->length + links * added + 1);
    if (bytes == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for static files");
    for (const char *at = page->bytes; (at = strstr(at, link)) != NULL; at++) {
        const size_t to = (size_t)(at - page->bytes) + before;
        memcpy(bytes + length, page->bytes + from, to - from);
        memcpy(bytes + length + to - from, seal, added);
        length += to - from + added;
        from = to;
    }
    memcpy(bytes + length, page->bytes + from, page->length - from + 1);
    length += page->length - from;
    free(page->bytes);
    page->bytes = bytes;
    page->length = length;
    return encoding_etag(page->bytes, page->length, page->etag, error);
}

enum status static_files_seal(struct static_files *files, struct error *error)
{
    char seal[SEAL_LENGTH + 2];
    enum status status = seal_text(files, seal, error);
    for (size_t i = 0; status == STATUS_OK && i < files->count; i++)
        if (strcmp(files->files[i].path, "/index.html") == 0) status = seal_links(&files->files[i], seal, error);
    if (status == STATUS_OK) memcpy(files->seal, seal, sizeof seal);
    return status;
}

const struct static_file *static_files_find(const struct static_files *files, const char *path, bool *immutable)
{
    const size_t sealed = strlen(files->seal);
    const bool below = sealed > 0 && strncmp(path, files->seal, sealed) == 0 && path[sealed] == '/';
    if (below) path += sealed;
    if (strcmp(path, "/") == 0 && !below) path = "/index.html";
    for (size_t i = 0; i < files->count; i++) {
        const struct static_file *file = &files->files[i];
        if (strcmp(file->path, path) != 0) continue;
        if (immutable != NULL) *immutable = below || file->hashed;
        return file;
    }
    return NULL;
}

char *static_file_gzip(const struct static_file *file, size_t *length)
{
    struct static_packing *packing = file->packing;
    *length = 0;
    if (packing == NULL) return NULL;
    (void)pthread_mutex_lock(&packing->lock);
    if (!packing->tried) {
        struct error ignored; /* without memory the file is sent uncompressed, and the next request tries again */
        packing->tried = encoding_gzip(file->bytes, file->length, GZIP_LEVEL, &packing->bytes, &packing->length,
                                       &ignored) == STATUS_OK;
    }
    char *bytes = packing->bytes;
    *length = packing->length;
    (void)pthread_mutex_unlock(&packing->lock);
    return bytes;
}

void static_files_free(struct static_files *files)
{
    if (files == NULL) return;
    for (size_t i = 0; i < files->count; i++) file_reset(&files->files[i]);
    free(files->files);
    free(files);
}
