/* advice_forecast.h: makes forecasts from measurements and compares them. For advice.c and its tests. */
#ifndef ADVICE_ADVICE_FORECAST_H
#define ADVICE_ADVICE_FORECAST_H

#include "jobs/advice/advice_list.h"

/* Values of a row of the list: the three losses, then the quantized loss of each sequence of the evaluation. */
enum { ADVICE_FP, ADVICE_Q, ADVICE_DELTA, ADVICE_NUMBERS };

struct advice_measured {
    const struct advice_request *request;
    const struct advice_list *list;
    const double *values; /* [list->count, ADVICE_NUMBERS + request->evaluation->count] */
};

/* Fills everything of *out but its points. */
void advice_forecast_make(const struct advice_measured *measured, struct advice_result *out);

#endif
