/* quantize_keep.h: when the streams of a batch are kept, and the full-precision stream among them. For quantize.c. */
#ifndef QUANTIZE_QUANTIZE_KEEP_H
#define QUANTIZE_QUANTIZE_KEEP_H

#include "jobs/quantize/quantize_member.h"

enum { QUANTIZE_KEEP_MOST = 64 }; /* members of one batch that are kept; others begin again */

struct quantize_keep {
    double saved, took; /* when streams were kept last, and how long that took */
};
void quantize_keep_begin(struct quantize_keep *keep);

/* Between two blocks: keeps the streams of the members that ask for it, if it is time. Whoever of them is asked again
 * alone needs the full-precision stream `fp` (NULL: it is elsewhere) too: it is written once and has a name beside each
 * member's file. A failure costs a later attempt time, and goes into the log. */
void quantize_keep_write(struct quantize_keep *keep, struct quantize_member_state *const *members, int64_t count,
                         struct hidden *fp, int64_t fp_layer);

/* Fills `fp` with the full-precision stream that was kept beside this member's, if there is one (*found); *layer is its
 * next block. STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_keep_fp_read(const struct quantize_member_state *member, struct hidden *fp, bool *found,
                                             int64_t *layer, struct error *error);

#endif
