/* measurements.h: the numbers from which curves are drawn, one a row. A kind lists them beside its result. They are
 * committed in the transaction that ends the run, and only those of its last epoch are visible. */
#ifndef STORE_MEASUREMENTS_H
#define STORE_MEASUREMENTS_H

#include "store/store.h"

struct measurement {
    struct store_id checkpoint;
    char metric[64]; /* "delta": the field's name in the result */
    double value;
    double low, high;  /* of its interval; NaN: none */
    char method[64];   /* "gptq", "" for full precision */
    int bits;          /* 0: none */
    char label[128];   /* names the series for a person: "gptq 4-bit g128"; "" for full precision */
    char dataset[128]; /* name of the data it was measured on, or "" */
    /* id of the evaluation (kinds/protocol.h): one curve never joins numbers of two; "" where there is none */
    char protocol[24];
    /* id of the sequences that the method was calibrated on (kinds/protocol.h), and words for it: one curve never joins
     * numbers of two; "" where the method reads none */
    char calibration[24], calibrated_on[192];
};

struct measurements { /* start with {0} */
    struct measurement *items;
    size_t count, capacity;
};

/* Copies *item; one whose value is not finite is left out. STATUS_NO_MEMORY, STATUS_TOO_LARGE above 100,000. */
MUST_CHECK enum status measurements_add(struct measurements *list, const struct measurement *item, struct error *error);
void measurements_reset(struct measurements *list);

/* Inserts all of them for (run, epoch) inside the caller's transaction. */
MUST_CHECK enum status measurements_insert(struct connection *connection, const char *run, int64_t epoch,
                                           const struct measurements *list, struct error *error);

#endif
