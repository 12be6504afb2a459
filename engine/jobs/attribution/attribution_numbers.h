/* attribution_numbers.h: what the quantizations of a list measured, a row each, kept in the work directory between
 * attempts. For attribution_run.c and attribution_plan.c. */
#ifndef ATTRIBUTION_ATTRIBUTION_NUMBERS_H
#define ATTRIBUTION_ATTRIBUTION_NUMBERS_H

#include "jobs/attribution/attribution_list.h"
#include "jobs/tally.h"

/* What an attempt before left for the same list and texts, or nothing. The caller resets *out (tally_reset), also after
 * a failure. Statuses of tally_open. */
MUST_CHECK enum status attribution_numbers_open(const struct attribution_list *list, struct tally *out,
                                                struct error *error);

/* Onto a plan: the memory of all rows, and the disk where they are kept. */
void attribution_numbers_plan(const struct attribution_list *list, struct run_plan *plan);

/* Adds the next row and writes it at once: a measurement takes far longer. Statuses of tally_save. */
MUST_CHECK enum status attribution_numbers_add(struct tally *tally, const struct quantize_result *found,
                                               struct error *error);

/* Whether `row` was measured; rows below 0, which nobody measures, count as measured. */
bool attribution_numbers_has(const struct tally *tally, int64_t row);
struct attribution_number attribution_numbers_at(const struct tally *tally, int64_t row);

/* Into *out, from all rows but the allocation's: loss_fp, calibration_tokens, alone, left_out and whole. */
void attribution_numbers_gather(const struct tally *tally, const struct attribution_list *list,
                                struct attribution_result *out);

#endif
