/* advice_measure.h: trains, averages, quantizes and measures one row of an advice, or plans that. For advice.c. */
#ifndef ADVICE_ADVICE_MEASURE_H
#define ADVICE_ADVICE_MEASURE_H

#include "jobs/advice/advice_list.h"
#include "jobs/quantize/quantize.h"

struct advice_work {
    const struct advice_request *request;
    const struct advice_list *list;
    const struct monitor *monitor; /* gets the progress of the current step */
};

/* A branch or an average is written into the work directory and removed when nothing needs it any more; files of an
 * earlier attempt are continued. The caller owns *out (quantize_result_reset). */
MUST_CHECK enum status advice_measure_row(const struct advice_work *work, int64_t row, struct quantize_result *out,
                                          struct error *error);
/* Removes what no later row needs, once the row's numbers are safe. It may be called again: a killed attempt may have
 * saved the numbers and removed nothing. */
void advice_measure_done(const struct advice_work *work, int64_t row);

/* Plan for making the row's model (nothing for an existing checkpoint); files that stay until advice_measure_done are
 * live on the disk. */
MUST_CHECK enum status advice_measure_plan_making(const struct advice_work *work, int64_t row, int64_t token_count,
                                                  struct run_plan *making, struct error *error);
/* Plan for measuring a row: the same for every row, because all models have one shape. */
MUST_CHECK enum status advice_measure_plan_measuring(const struct advice_work *work, const struct plan_budget *budget,
                                                     struct run_plan *measuring, struct error *error);

#endif
