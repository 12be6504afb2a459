/* bucket_files.h: a directory of a bucket as if it were a repository. What stands for its commit is a hash of names,
 * ETags and sizes of the files that are taken of it: other objects may come and go. */
#ifndef HUB_BUCKET_FILES_H
#define HUB_BUCKET_FILES_H

#include "hub/repository.h"

/* The files at `place` ("s3://bucket/prefix"), at its top or of all directories when `deep`; none is STATUS_NOT_FOUND.
 * What they must be is not known yet. Statuses of listing_make. *out is malloc'ed and the caller's. */
MUST_CHECK enum status bucket_files_list(const struct repository_caller *caller, const char *place, bool deep,
                                         struct repository_file **out, size_t *count, struct error *error);

/* Its two halves, for who lists many directories at once: the objects at `place`; and files out of those of one
 * directory, `place`, whose names go on behind `skipped` bytes. */
MUST_CHECK enum status bucket_files_listing(const struct repository_caller *caller, const char *place, bool deep,
                                            struct listing *out, struct error *error);
MUST_CHECK enum status bucket_files_take(const struct repository_caller *caller, const char *place,
                                         const struct listing_item *items, size_t item_count, size_t skipped,
                                         struct repository_file **out, size_t *count, struct error *error);

/* 40 hexadecimal digits, whatever the order of the files. */
MUST_CHECK enum status bucket_files_commit(const struct repository_file *files, size_t count, char out[NAMES_COMMIT],
                                           struct error *error);

/* Asks what the file's bytes must be, by the checksum that the server keeps: SHA-256 or CRC-64/NVME over the whole
 * object, else its ETag where that is an MD5 (32 digits, and not encrypted with a key of a key service). "" when it has
 * none of them. STATUS_INPUT_CHANGED: the object is another one by now. Statuses of bucket_ask. */
MUST_CHECK enum status bucket_files_ask_check(const struct repository_caller *caller, const char *place,
                                              struct repository_file *file, struct error *error);

#endif
