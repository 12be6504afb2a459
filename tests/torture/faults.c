#include "faults.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <expat.h>
#include <fcntl.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

const char *const fault_names[FAULT_KINDS] = {"memory", "reading", "writing", "full", "query"};

static atomic_bool armed, shown, happened;
static _Thread_local bool spared; /* this thread's calls are not counted */
static atomic_int wanted;
static atomic_llong calls, target;

void fault_arm(enum fault_kind kind, int64_t at)
{
    atomic_store(&wanted, kind);
    atomic_store(&calls, 0);
    atomic_store(&target, at);
    atomic_store(&happened, false);
    atomic_store(&armed, true);
}

int64_t fault_disarm(void)
{
    atomic_store(&armed, false);
    return atomic_load(&calls);
}

void fault_show(bool wish)
{
    atomic_store(&shown, wish);
}

bool fault_happened(void)
{
    return atomic_load(&happened);
}

static bool fails(enum fault_kind kind)
{
    const int asked = atomic_load(&wanted);
    if (spared || !atomic_load(&armed) ||
        (kind != (enum fault_kind)asked && !(kind == FAULT_WRITING && asked == FAULT_FULL)))
        return false;
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&target)) return false;
    atomic_store(&happened, true);
    if (atomic_exchange(&shown, false)) {
        atomic_store(&armed, false); /* what prints allocates */
        __sanitizer_print_stack_trace();
        atomic_store(&armed, true);
    }
    errno = kind == FAULT_MEMORY ? ENOMEM : asked == FAULT_FULL ? ENOSPC : EIO;
    return true;
}

#pragma GCC visibility push(default) /* the linker binds references of shared objects to them, too */
/* clang-format off */
#define FAULT(kind, type, failed, name, parameters, arguments) \
    type __real_##name parameters;                             \
    type __wrap_##name parameters;                             \
    type __wrap_##name parameters                              \
    {                                                          \
        if (fails(kind)) return failed;                        \
        return __real_##name arguments;                        \
    }

FAULT(FAULT_MEMORY, void *, NULL, malloc, (size_t size), (size))
FAULT(FAULT_MEMORY, void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT(FAULT_MEMORY, void *, NULL, realloc, (void *block, size_t size), (block, size))
FAULT(FAULT_MEMORY, int, ENOMEM, posix_memalign, (void **out, size_t to, size_t size), (out, to, size))
FAULT(FAULT_MEMORY, char *, NULL, strdup, (const char *text), (text))
FAULT(FAULT_MEMORY, char *, NULL, strndup, (const char *text, size_t size), (text, size))
FAULT(FAULT_MEMORY, FILE *, NULL, open_memstream, (char **bytes, size_t *size), (bytes, size))
FAULT(FAULT_MEMORY, int, EAGAIN, pthread_create,
      (pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *of), (thread, how, body, of))
FAULT(FAULT_MEMORY, pcre2_compile_context *, NULL, pcre2_compile_context_create_8, (pcre2_general_context *g), (g))
FAULT(FAULT_MEMORY, pcre2_match_context *, NULL, pcre2_match_context_create_8, (pcre2_general_context *g), (g))
FAULT(FAULT_MEMORY, pcre2_match_data *, NULL, pcre2_match_data_create_8, (uint32_t n, pcre2_general_context *g), (n, g))
FAULT(FAULT_MEMORY, pcre2_match_data *, NULL, pcre2_match_data_create_from_pattern_8,
      (const pcre2_code *code, pcre2_general_context *g), (code, g))
FAULT(FAULT_MEMORY, int, Z_MEM_ERROR, inflateInit2_, (z_streamp z, int bits, const char *v, int size),
      (z, bits, v, size))
FAULT(FAULT_MEMORY, int, Z_MEM_ERROR, deflateInit2_,
      (z_streamp z, int level, int method, int bits, int memory, int strategy, const char *v, int size),
      (z, level, method, bits, memory, strategy, v, size))
FAULT(FAULT_MEMORY, ssize_t, -1, getline, (char **line, size_t *size, FILE *file), (line, size, file))
FAULT(FAULT_MEMORY, EVP_MD_CTX *, NULL, EVP_MD_CTX_new, (void), ())
FAULT(FAULT_MEMORY, XML_Parser, NULL, XML_ParserCreate, (const XML_Char *encoding), (encoding))
FAULT(FAULT_MEMORY, CURL *, NULL, curl_easy_init, (void), ())
FAULT(FAULT_MEMORY, struct curl_slist *, NULL, curl_slist_append, (struct curl_slist *l, const char *t), (l, t))

FAULT(FAULT_READING, ssize_t, -1, read, (int file, void *out, size_t size), (file, out, size))
FAULT(FAULT_READING, ssize_t, -1, pread, (int file, void *out, size_t size, off_t at), (file, out, size, at))
FAULT(FAULT_READING, int, -1, fstat, (int file, struct stat *out), (file, out))
FAULT(FAULT_READING, int, -1, stat, (const char *path, struct stat *out), (path, out))
FAULT(FAULT_READING, int, -1, lstat, (const char *path, struct stat *out), (path, out))
FAULT(FAULT_READING, int, -1, fstatat, (int in, const char *path, struct stat *out, int how), (in, path, out, how))
FAULT(FAULT_READING, DIR *, NULL, opendir, (const char *path), (path))
FAULT(FAULT_READING, DIR *, NULL, fdopendir, (int file), (file))
FAULT(FAULT_READING, char *, NULL, realpath, (const char *path, char *out), (path, out))
FAULT(FAULT_READING, ssize_t, -1, readlink, (const char *path, char *out, size_t size), (path, out, size))
FAULT(FAULT_READING, FILE *, NULL, fopen, (const char *path, const char *how), (path, how))

FAULT(FAULT_WRITING, ssize_t, -1, write, (int file, const void *of, size_t size), (file, of, size))
FAULT(FAULT_WRITING, ssize_t, -1, pwrite, (int file, const void *of, size_t size, off_t at), (file, of, size, at))
FAULT(FAULT_WRITING, int, -1, fsync, (int file), (file))
FAULT(FAULT_WRITING, int, -1, fdatasync, (int file), (file))
FAULT(FAULT_WRITING, int, -1, ftruncate, (int file, off_t size), (file, size))
FAULT(FAULT_WRITING, int, -1, fallocate, (int file, int how, off_t at, off_t size), (file, how, at, size))
FAULT(FAULT_WRITING, int, errno, posix_fallocate, (int file, off_t at, off_t size), (file, at, size))
FAULT(FAULT_WRITING, int, -1, rename, (const char *from, const char *to), (from, to))
FAULT(FAULT_WRITING, int, -1, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAULT(FAULT_WRITING, int, -1, renameat2, (int a, const char *from, int b, const char *to, unsigned how),
      (a, from, b, to, how))
FAULT(FAULT_WRITING, int, -1, linkat, (int a, const char *from, int b, const char *to, int how), (a, from, b, to, how))
FAULT(FAULT_WRITING, int, -1, link, (const char *from, const char *to), (from, to))
FAULT(FAULT_WRITING, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
FAULT(FAULT_WRITING, int, -1, mkdirat, (int in, const char *path, mode_t mode), (in, path, mode))

FAULT(FAULT_QUERY, int, 0, PQsendQueryParams,
      (PGconn *c, const char *sql, int n, const Oid *types, const char *const *values, const int *lengths,
       const int *formats, int format), (c, sql, n, types, values, lengths, formats, format))
FAULT(FAULT_QUERY, int, 0, PQsendPrepare,
      (PGconn *c, const char *name, const char *sql, int n, const Oid *types), (c, name, sql, n, types))
FAULT(FAULT_QUERY, int, 0, PQsendQueryPrepared,
      (PGconn *c, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
       int format), (c, name, n, values, lengths, formats, format))
FAULT(FAULT_QUERY, int, 0, PQsendQuery, (PGconn *c, const char *sql), (c, sql))
FAULT(FAULT_QUERY, int, 0, PQconsumeInput, (PGconn *c), (c))
/* clang-format on */

/* What is closed is closed, whatever it says. */
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    const bool failed = fileno(file) >= 0 && fails(FAULT_WRITING); /* not one in memory */
    const int error = errno, closed = __real_fclose(file);
    if (failed) errno = error;
    return failed ? EOF : closed;
}

int __real_fflush(FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fflush(FILE *file)
{
    return file != NULL && fileno(file) >= 0 && fails(FAULT_WRITING) ? EOF : __real_fflush(file);
}

pcre2_code *__real_pcre2_compile_8(PCRE2_SPTR text, PCRE2_SIZE size, uint32_t how, int *code, PCRE2_SIZE *at,
                                   pcre2_compile_context *context);
pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR text, PCRE2_SIZE size, uint32_t how, int *code, PCRE2_SIZE *at,
                                   pcre2_compile_context *context);
pcre2_code *__wrap_pcre2_compile_8(PCRE2_SPTR text, PCRE2_SIZE size, uint32_t how, int *code, PCRE2_SIZE *at,
                                   pcre2_compile_context *context)
{
    if (!fails(FAULT_MEMORY)) return __real_pcre2_compile_8(text, size, how, code, at, context);
    *code = PCRE2_ERROR_HEAP_FAILED;
    *at = 0;
    return NULL;
}

int __real_vasprintf(char **out, const char *format, va_list list);
int __wrap_vasprintf(char **out, const char *format, va_list list) __attribute__((format(printf, 2, 0)));
int __wrap_vasprintf(char **out, const char *format, va_list list)
{
    return fails(FAULT_MEMORY) ? -1 : __real_vasprintf(out, format, list);
}

int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list list;
    if (fails(FAULT_MEMORY)) return -1;
    va_start(list, format);
    const int length = __real_vasprintf(out, format, list);
    va_end(list);
    return length;
}

/* jansson 2.14 reads beyond a token for which it had no room: its parser fails as a whole. */
static json_t *no_memory(json_error_t *error)
{
    if (error == NULL) return NULL;
    *error = (json_error_t){.line = -1, .column = -1};
    error->text[sizeof error->text - 1] = (char)json_error_out_of_memory;
    return NULL;
}

json_t *__real_json_loadb(const char *bytes, size_t size, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *bytes, size_t size, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *bytes, size_t size, size_t flags, json_error_t *error)
{
    if (fails(FAULT_MEMORY)) return no_memory(error);
    spared = true;
    json_t *value = __real_json_loadb(bytes, size, flags, error);
    spared = false;
    return value;
}

json_t *__real_json_loads(const char *text, size_t flags, json_error_t *error);
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error);
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error)
{
    return __wrap_json_loadb(text, strlen(text), flags, error);
}

/* Opening to write is writing. */
static enum fault_kind kind_of(int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY ? FAULT_READING : FAULT_WRITING;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return fails(kind_of(flags)) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int in, const char *path, int flags, ...);
int __wrap_openat(int in, const char *path, int flags, ...);
int __wrap_openat(int in, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return fails(kind_of(flags)) ? -1 : __real_openat(in, path, flags, mode);
}
