/* byte_range.h: the Range header of a GET (RFC 9110, 14.2): one part of a file, as a client asks for the rest of a
 * download that broke off. */
#ifndef HTTP_BYTE_RANGE_H
#define HTTP_BYTE_RANGE_H

#include <stdint.h>

struct byte_range {
    int64_t first, length; /* within the file; length at least 1 */
};

/* WHOLE: no header, another unit than bytes, several parts, or what is no range: such a header is ignored. OUTSIDE: the
 * file has no byte of it (416). */
enum byte_range_verdict { BYTE_RANGE_WHOLE, BYTE_RANGE_PART, BYTE_RANGE_OUTSIDE };

/* `header` may be NULL. Fills *out for BYTE_RANGE_PART. */
enum byte_range_verdict byte_range_of(const char *header, int64_t size, struct byte_range *out);

#endif
