/* series_filter.h: which series of measurements are meant. A series is a method with its bits and options, an
 * evaluation (dataset and protocol) and a calibration. */
#ifndef STORE_SERIES_FILTER_H
#define STORE_SERIES_FILTER_H

#include "postgres/value.h"
#include "store/store.h"

#include <stdint.h>

/* Lent texts; NULL, 0 and "": any. */
struct series_filter {
    const char *method, *protocol, *calibration;
    char dataset[STORE_NAME]; /* its name */
    int64_t bits;
};

/* Its values in a statement, and the condition that a row `s` of series, or with their columns, fits those that are
 * numbered so. */
#define SERIES_FILTER_VALUES(filter)                                                                      \
    value_text((filter).method), value_integer((filter).bits),                                            \
        value_text((filter).dataset[0] != '\0' ? (filter).dataset : NULL), value_text((filter).protocol), \
        value_text((filter).calibration)
#define SERIES_FILTER_FITS(s, method, bits, dataset, protocol, calibration)                                        \
    " (" method " is null or " s ".method = " method ") and (" bits " = 0 or " s ".bits = " bits ") and (" dataset \
    " is null or " s ".dataset = " dataset ") and (" protocol " is null or " s ".protocol = " protocol             \
    ") and (" calibration " is null or " s ".calibration = " calibration ")"

#endif
