/* attribution_numbers.h: what the quantizations of a list measured, a row each, kept in the work directory between
 * attempts. For attribution_run.c and attribution_plan.c. */
#ifndef ATTRIBUTION_ATTRIBUTION_NUMBERS_H
#define ATTRIBUTION_ATTRIBUTION_NUMBERS_H

#include "jobs/attribution/attribution_list.h"
#include "jobs/saved_table.h"

/* Opens the rows; those that an earlier attempt measured for the same list and texts are there. The caller resets *out
 * (saved_table_reset), also after a failure. Statuses of saved_table_open. */
MUST_CHECK enum status attribution_numbers_open(const struct attribution_list *list, struct saved_table *out,
                                                struct error *error);

/* Adds to a plan the memory of all rows, and the disk where they are kept. */
void attribution_numbers_plan(const struct attribution_list *list, struct run_plan *plan);

/* Adds the next row and saves it at once, because a measurement takes far longer than that. Statuses of
 * saved_table_save. */
MUST_CHECK enum status attribution_numbers_add(struct saved_table *table, const struct quantize_result *found,
                                               struct error *error);

/* Whether `row` was measured. True for rows below 0, so that an entry that no row needs is never run. */
bool attribution_numbers_has(const struct saved_table *table, int64_t row);
struct attribution_number attribution_numbers_at(const struct saved_table *table, int64_t row);

/* Fills loss_fp, calibration_tokens, alone, left_out and whole of *out, once all rows but the allocation's are
 * there. */
void attribution_numbers_gather(const struct saved_table *table, const struct attribution_list *list,
                                struct attribution_result *out);

#endif
