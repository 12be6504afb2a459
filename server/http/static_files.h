/* static_files.h: the dashboard's files, read once at the start. Only the names that were found then are served, so no
 * request becomes a path. */
#ifndef HTTP_STATIC_FILES_H
#define HTTP_STATIC_FILES_H

#include "base/error.h"

struct static_files;

struct static_file {
    char *path; /* "/index.html" */
    const char *content_type;
    char *bytes;
    size_t length;
    struct static_packing *packing; /* NULL: of a type that is not worth compressing */
    char etag[33];                  /* hex */
    bool hashed;                    /* its name holds a hash: app.3f9a1c22.js */
};

/* Reads every regular file below `directory` (html css js svg json yaml yml ico png txt woff2; others are left out,
 * hidden ones too) of at most 64 MiB each. "/" gives index.html. NULL: an empty set, for static_files_add. The caller
 * owns *out. STATUS_NOT_FOUND, STATUS_IO, STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status static_files_load(const char *directory, struct static_files **out, struct error *error);

/* Adds one more file, served as `path` ("/openapi.yaml"). */
MUST_CHECK enum status static_files_add(struct static_files *files, const char *path, const char *file_name,
                                        struct error *error);

/* Gives every file a second address, /HASH/PATH, whose hash is over all files: what it names never changes, so browsers
 * may keep it and ask for nothing when a page is loaded again. The links of index.html (href="/PATH", src="/PATH") lead
 * there; modules and stylesheets name others relative to themselves and stay there. Once, after the last file was
 * added. STATUS_NO_MEMORY. */
MUST_CHECK enum status static_files_seal(struct static_files *files, struct error *error);

/* The file for a request path, compared byte by byte; NULL: none. Lent. *immutable (NULL: not asked): whether the path
 * holds a hash of it, so that it will never be another file's. */
const struct static_file *static_files_find(const struct static_files *files, const char *path, bool *immutable);

/* The file in gzip's format, *length bytes, lent; NULL when that would not be smaller or memory is short. It is
 * compressed at its first request, because Plotly.js alone would delay the start of every server by a quarter of a
 * second. Any thread may call it. */
char *static_file_gzip(const struct static_file *file, size_t *length);

void static_files_free(struct static_files *files); /* NULL is fine */

#endif
