/* compare_report.h: the result and the artifacts of a run of the kind compare. */
#ifndef KINDS_COMPARE_REPORT_H
#define KINDS_COMPARE_REPORT_H

#include "kinds/artifacts.h"
#include "kinds/compared.h"

struct compare_report_side {
    const char *run, *checkpoint, *recipe, *calibration; /* lent; NULL: none */
};

struct compare_report {
    struct compare_report_side a, b;
    struct compared_numbers numbers;
    struct compared_tokens tokens;
    bool has_tokens;
    const char *note; /* NULL: none */
};
extern const struct result_shape compare_report_shape;

/* Compares: fills the numbers, the tokens (when both measurements have them) and the note. The sides, kind and protocol
 * of `report` must be set. STATUS_NO_MEMORY, STATUS_CORRUPT. */
MUST_CHECK enum status compare_report_fill(const struct compared_losses *a, const struct compared_losses *b,
                                           uint64_t seed, struct compare_report *report, struct error *error);

/* Publishes differences.csv: sequence and tokens as in losses.csv, then b - a of each number of the sequence. When both
 * measurements have tokens, also token_differences.csv: sequence, position (of the predicted token in the sequence,
 * from 1), then b - a of each loss. Statuses of artifact_open, artifact_write and artifact_publish;
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status compare_report_publish(const struct compared_losses *a, const struct compared_losses *b,
                                              struct artifacts *artifacts, struct error *error);

#endif
