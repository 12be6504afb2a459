/* attribution_list.h: the quantizations that an attribution asks for. Two drivers take the list from its first entry to
 * its last: attribution_run.c executes the entries, attribution_plan.c adds up what they need. The list alone says what
 * is quantized, from which streams, and what is measured.
 *
 * Each measurement has a row, in the order in which they are made: each unit alone at each width, each unit left out,
 * the whole model at the method's own width, the whole model at the other widths, the allocation. */
#ifndef ATTRIBUTION_ATTRIBUTION_LIST_H
#define ATTRIBUTION_ATTRIBUTION_LIST_H

#include "jobs/attribution/attribution.h"
#include "jobs/quantize/quantize_plan.h"

/* The part of the model that is quantized. */
enum attribution_target {
    ATTRIBUTION_FULL_PRECISION, /* nothing; all other entries use its hidden states behind the last block */
    ATTRIBUTION_UNQUANTIZED, /* nothing, with the method's calibration and options: units alone start at its streams */
    ATTRIBUTION_ALONE,       /* one unit */
    ATTRIBUTION_LEFT_OUT,    /* all but one unit */
    ATTRIBUTION_ALL,         /* all units */
    ATTRIBUTION_ALLOCATION   /* all units, each at the width that the earlier measurements chose for it */
};

/* One quantization, or one at each of several widths. */
struct attribution_entry {
    enum attribution_target target;
    int64_t unit;               /* the one that is alone or left out; -1: none */
    int64_t width, width_count; /* it is quantized at widths [width, width + width_count) of the result */
    int64_t row;                /* of the measurement at the first width; -1: only its streams are wanted */
    int64_t last;               /* the last row that needs this entry; an attempt that finds that row skips the entry */
    int64_t children;           /* so many entries after it start at its streams, before the blocks of their units */
};

struct attribution_list {
    const struct attribution_request *request; /* lent */
    const struct attribution_result *units;    /* lent: units, widths, and the allocation as soon as it is chosen */
    struct attribution_entry *entries;         /* [count], an entry's children right behind it; owned */
    int64_t count;
    /* the first row of each sort (alone: 0), and the number of rows */
    int64_t left_out, whole, others, allocation, rows;
};

/* Checks the request, and fills units, widths and space for their numbers into *out, and the list. The caller resets
 * both, also after a failure. Statuses of attribution_check and evaluate_check; STATUS_UNSUPPORTED for models that
 * overrides cannot name; STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_list_new(const struct attribution_request *request, struct attribution_result *out,
                                            struct attribution_list *list, struct error *error);
void attribution_list_reset(struct attribution_list *list); /* {0} is fine */

/* The streams that an entry's quantizations receive, and whether others read theirs. */
struct quantize_handover attribution_list_handover(const struct attribution_list *list,
                                                   const struct attribution_entry *entry);

/* An entry's request, and the overrides that it points to. It must not be moved. */
struct attribution_quantization {
    struct quantize_request request;
    struct quantize_override items[2];
    char pattern[ATTRIBUTION_PATTERN];
};

/* Makes the request of an entry at one of its widths. The caller adds what only a run has: streams, visitor, monitor.
 * An allocation that is not chosen yet becomes the whole model at the method's own width, because that has the same
 * plan. */
void attribution_list_quantization(const struct attribution_list *list, const struct attribution_entry *entry,
                                   int64_t width, struct attribution_quantization *out);

#endif
