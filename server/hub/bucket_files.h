/* bucket_files.h: a directory of a bucket treated as a repository. Its commit is a hash of names, ETags and sizes of
 * the files that are used from it; other objects may come and go. */
#ifndef HUB_BUCKET_FILES_H
#define HUB_BUCKET_FILES_H

#include "hub/repository.h"

/* Lists the files at `place` ("s3://bucket/prefix"): those directly there, or of all directories when `deep`;
 * STATUS_NOT_FOUND when there are none. Their expected hashes are not known yet. Statuses of listing_make. *out is
 * malloc'ed and the caller's. */
MUST_CHECK enum status bucket_files_list(const struct repository_caller *caller, const char *place, bool deep,
                                         struct repository_file **out, size_t *count, struct error *error);

/* The two halves of bucket_files_list, for callers that list many directories at once: the objects at `place`; and the
 * files of one directory, `place`, whose names begin after `skipped` bytes. */
MUST_CHECK enum status bucket_files_listing(const struct repository_caller *caller, const char *place, bool deep,
                                            struct listing *out, struct error *error);
MUST_CHECK enum status bucket_files_take(const struct repository_caller *caller, const char *place,
                                         const struct listing_item *items, size_t item_count, size_t skipped,
                                         struct repository_file **out, size_t *count, struct error *error);

/* Writes 40 hexadecimal digits, which do not depend on the order of the files. */
MUST_CHECK enum status bucket_files_commit(const struct repository_file *files, size_t count, char out[NAMES_COMMIT],
                                           struct error *error);

/* Asks for the checksum that the server keeps of the file: SHA-256 or CRC-64/NVME over the whole object, else its ETag
 * where that is an MD5 (32 digits, and not encrypted with a key of a key service). "" when it has none of them.
 * STATUS_INPUT_CHANGED: the object has been replaced. Statuses of bucket_ask. */
MUST_CHECK enum status bucket_files_ask_check(const struct repository_caller *caller, const char *place,
                                              struct repository_file *file, struct error *error);

#endif
