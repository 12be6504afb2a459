/* digest.h: the expected hash of a file: "sha256-…", "git-…" (SHA-1 of git's header and the bytes), "md5-…" or
 * "crc64nvme-…", followed by lower-case hexadecimal digits; "" accepts any bytes. */
#ifndef HUB_DIGEST_H
#define HUB_DIGEST_H

#include "base/error.h"

#include <stdint.h>

enum { DIGEST_TEXT = 80 };

struct digest;

/* For a file of `bytes` bytes. The caller owns *out (digest_free). STATUS_NO_MEMORY; STATUS_INTERNAL for a name that is
 * none of these. */
MUST_CHECK enum status digest_new(const char *expected, int64_t bytes, struct digest **out, struct error *error);
void digest_free(struct digest *digest); /* NULL is fine */

/* Forgets the bytes that were added. STATUS_NO_MEMORY. */
MUST_CHECK enum status digest_restart(struct digest *digest, struct error *error);
MUST_CHECK enum status digest_add(struct digest *digest, const void *bytes, size_t length, struct error *error);
/* *right: the bytes have the expected hash; nothing may be added afterwards. STATUS_NO_MEMORY. */
MUST_CHECK enum status digest_matches(struct digest *digest, bool *right, struct error *error);

#endif
