/* listing.h: the objects of a bucket below a prefix (ListObjectsV2). */
#ifndef OBJECTS_LISTING_H
#define OBJECTS_LISTING_H

#include "objects/bucket.h"

enum { LISTING_MOST = 200000, LISTING_ETAG = 140 };

struct listing_item {
    char *name; /* owned: the key behind the prefix; "sub/model.safetensors" */
    char etag[LISTING_ETAG];
    int64_t bytes;
    double modified; /* seconds since 1970; 0: not told */
};

struct listing {
    struct listing_item *items; /* owned, in the order of their keys */
    size_t count, capacity;
    double time; /* when it began by the server's clock, which `modified` goes by; this machine's where it tells none */
};

/* Lists the objects below `place` as a directory: only direct ones, or with `deep` those of all subdirectories. Objects
 * that stand for directories (keys that end with "/") and objects without an ETag are left out. An empty listing is
 * fine. STATUS_TOO_LARGE for more than LISTING_MOST. Statuses of bucket_ask. The caller resets *out in any case. */
MUST_CHECK enum status listing_make(const struct bucket *bucket, const struct asking *asking,
                                    const struct objects_place *place, bool deep, struct listing *out,
                                    struct error *error);
void listing_reset(struct listing *listing);

#endif
