/* quantize_save.h: when the streams of a batch are saved, and the files of its full-precision stream. For
 * quantize.c. */
#ifndef QUANTIZE_QUANTIZE_SAVE_H
#define QUANTIZE_QUANTIZE_SAVE_H

#include "jobs/quantize/quantize_member.h"

enum { QUANTIZE_SAVE_MOST = 64 }; /* members of one batch whose streams are saved; others begin again */

struct quantize_save {
    double saved, took; /* seconds: when streams were saved last, and how long that took */
};
void quantize_save_begin(struct quantize_save *keep);

/* Between two blocks: saves the streams of the members that ask for it, if it is time. A member that is run again on
 * its own also needs the full-precision stream `fp`, which is written once and linked beside each member's file; NULL:
 * a baseline has it, or it is lent. A failure goes into the log, because it costs a later attempt only time. */
void quantize_save_write(struct quantize_save *keep, struct quantize_member_state *const *members, int64_t count,
                         struct hidden *fp, int64_t fp_layer);

/* Fills `fp` with the full-precision stream that was saved beside this member's, if there is one (*found); *layer is
 * its next block. STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_save_fp_read(const struct quantize_member_state *member, struct hidden *fp, bool *found,
                                             int64_t *layer, struct error *error);

#endif
