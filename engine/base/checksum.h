/* checksum.h: a fast 64-bit hash. It detects torn and damaged files and tells runs apart; it does not resist
 * attackers. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Four lanes of 64 bits, so that it runs at memory speed. The bytes may come in chunks of any size. */
struct checksum {
    uint64_t lane[4];
    uint8_t rest[32];
    size_t held;    /* bytes in rest */
    uint64_t bytes; /* in all */
};

void checksum_init(struct checksum *sum);
void checksum_add(struct checksum *sum, const void *bytes, size_t size);
uint64_t checksum_value(const struct checksum *sum); /* of what was added so far; more may follow */

#endif
