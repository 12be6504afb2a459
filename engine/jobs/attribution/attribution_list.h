/* attribution_list.h: the quantizations that an attribution asks for. Two drivers take the list from its first entry to
 * its last: attribution_run.c executes them, attribution_plan.c adds up what they need. Neither decides what is
 * quantized, from which streams, or what is measured: the list says it.
 *
 * Measurements have rows, in the order in which they are made: each unit alone at each width, each unit left out, the
 * whole model at the method's own width, at the other widths, and the allocation. */
#ifndef ATTRIBUTION_ATTRIBUTION_LIST_H
#define ATTRIBUTION_ATTRIBUTION_LIST_H

#include "jobs/attribution/attribution.h"
#include "jobs/quantize/quantize_plan.h"

/* What is quantized. */
enum attribution_target {
    ATTRIBUTION_FULL_PRECISION, /* nothing; every other entry reads its hidden states after the last block */
    ATTRIBUTION_UNQUANTIZED,    /* nothing, by the method with its calibration and options; the units alone begin at its
                                   streams */
    ATTRIBUTION_ALONE,          /* one unit */
    ATTRIBUTION_LEFT_OUT,       /* all but one unit */
    ATTRIBUTION_ALL,
    ATTRIBUTION_ALLOCATION /* all, each unit at the width that the measurements before chose for it */
};

/* A quantization, or (several widths) one after another that differ in nothing but the width. */
struct attribution_entry {
    enum attribution_target target;
    int64_t unit;               /* which is alone or left out; -1: none */
    int64_t width, width_count; /* run at widths [width, width + width_count) of the result */
    int64_t row;                /* of its measurement at the first of them; -1: it is run for its streams only */
    int64_t last;               /* the last row that needs it: once that is there the entry is not run again */
    int64_t children;           /* so many entries behind it begin at its streams, before the blocks of their units */
};

struct attribution_list {
    const struct attribution_request *request; /* lent */
    const struct attribution_result *units;    /* lent: units, widths, and once it is there the allocation */
    struct attribution_entry *entries;         /* [count], an entry's children right behind it; owned */
    int64_t count;
    int64_t left_out, whole, others, allocation, rows; /* where rows of each sort begin; alone: at 0 */
};

/* Checks the request, and fills units, widths and room for their numbers into *out, and the list. The caller resets
 * both, also after a failure. Statuses of attribution_check and evaluate_check; STATUS_UNSUPPORTED for models that
 * overrides cannot name; STATUS_NO_MEMORY. */
MUST_CHECK enum status attribution_list_new(const struct attribution_request *request, struct attribution_result *out,
                                            struct attribution_list *list, struct error *error);
void attribution_list_reset(struct attribution_list *list); /* {0} is fine */

/* What is handed to an entry's quantizations, and whether others read their streams. */
struct quantize_handover attribution_list_handover(const struct attribution_list *list,
                                                   const struct attribution_entry *entry);

/* An entry's request, and the overrides that it points to. Stays where it is. */
struct attribution_quantization {
    struct quantize_request request;
    struct quantize_override items[2];
    char pattern[ATTRIBUTION_PATTERN];
};

/* Of an entry at one of its widths, except for what only a run has: streams, visitor, monitor. An allocation that is
 * not chosen yet is the whole model at the method's own width, which has the same plan. */
void attribution_list_quantization(const struct attribution_list *list, const struct attribution_entry *entry,
                                   int64_t width, struct attribution_quantization *out);

#endif
