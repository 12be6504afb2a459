/* measurements.h: the numbers that curves are drawn from, one in each row. A kind lists them beside its result. They
 * are committed in the transaction that ends the run, and only those of its last epoch are visible. */
#ifndef STORE_MEASUREMENTS_H
#define STORE_MEASUREMENTS_H

#include "store/store.h"

/* Bytes of a calibration's description: a dataset's name and two numbers. */
enum { MEASUREMENT_CALIBRATED_ON = STORE_NAME + 96 };

struct measurement {
    struct store_id checkpoint;
    char metric[64]; /* "delta": the field's name in the result */
    double value;
    double low, high;         /* 95 % interval; NaN: none */
    char method[64];          /* "gptq", "" for full precision */
    int bits;                 /* 0: none */
    char label[128];          /* names the series for a person: "gptq 4-bit g128"; "" for full precision */
    char dataset[STORE_NAME]; /* name of the dataset that it was measured on, or "" */
    /* id of the evaluation (kinds/protocol.h), "" where there is none; one curve never joins numbers of different
     * ids */
    char protocol[24];
    /* id and description of the calibration sequences (kinds/protocol.h), "" where the method reads none; one curve
     * never joins numbers of different ids */
    char calibration[24], calibrated_on[MEASUREMENT_CALIBRATED_ON];
};

struct measurements { /* start with {0} */
    struct measurement *items;
    size_t count, capacity;
};

/* Copies *item; an item whose value is not finite is dropped. STATUS_NO_MEMORY, STATUS_TOO_LARGE above 100,000. */
MUST_CHECK enum status measurements_add(struct measurements *list, const struct measurement *item, struct error *error);
void measurements_reset(struct measurements *list);

/* Inserts the whole list for (run, epoch) inside the caller's transaction. */
MUST_CHECK enum status measurements_insert(struct connection *connection, const char *run, int64_t epoch,
                                           const struct measurements *list, struct error *error);

#endif
