/* static_files.h: the dashboard's files, read once at the start. Only names that were found then are served, so no
 * request's text becomes a path. */
#ifndef HTTP_STATIC_FILES_H
#define HTTP_STATIC_FILES_H

#include "base/error.h"

struct static_files;

struct static_file {
    char *path; /* "/index.html" */
    const char *content_type;
    char *bytes;
    size_t length;
    struct static_packing *packing; /* NULL: a type that is not compressed */
    char etag[33];                  /* hex */
    bool hashed;                    /* its name contains a hash: app.3f9a1c22.js */
};

/* Reads every regular file below `directory` (html css js svg json yaml yml ico png txt woff2; others are left out,
 * hidden ones too) of at most 64 MiB each. "/" gives index.html. NULL: an empty set, for static_files_add. The caller
 * owns *out. STATUS_NOT_FOUND, STATUS_IO, STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status static_files_load(const char *directory, struct static_files **out, struct error *error);

/* Adds one more file, served as `path` ("/openapi.yaml"). */
MUST_CHECK enum status static_files_add(struct static_files *files, const char *path, const char *file_name,
                                        struct error *error);

/* Gives every file a second address, /HASH/PATH, where the hash covers all files. The content of such an address never
 * changes, so browsers may keep it without asking again. Links of index.html (href="/PATH", src="/PATH") are changed to
 * it; modules and stylesheets name others relative to themselves and so stay within it. Call it once, after the last
 * file was added. STATUS_NO_MEMORY. */
MUST_CHECK enum status static_files_seal(struct static_files *files, struct error *error);

/* The file of a request path, compared byte by byte; NULL: none. Lent. *immutable (may be NULL): the path contains the
 * content's hash, so it will never name another content. */
const struct static_file *static_files_find(const struct static_files *files, const char *path, bool *immutable);

/* The file compressed with gzip, *length bytes, lent; NULL when that would not be smaller, or memory is short. A file
 * is compressed at its first request, because Plotly.js alone would delay the start of every server by a quarter of a
 * second. Any thread may call it. */
char *static_file_gzip(const struct static_file *file, size_t *length);

void static_files_free(struct static_files *files); /* NULL is fine */

#endif
