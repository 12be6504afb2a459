/* tasks_report.h: the result of a run of tasks, its measurements, and its artifact items.jsonl. */
#ifndef KINDS_TASKS_REPORT_H
#define KINDS_TASKS_REPORT_H

#include "inputs/task_files.h"
#include "jobs/tasks/tasks.h"
#include "kinds/artifacts.h"
#include "kinds/protocol.h"

struct tasks_report {
    const struct tasks_result *result;
    const struct tasks_request *request;
    const struct task_param *tasks; /* [request->set_count] */
    int shots;
    int precision; /* of inputs_precisions */
    struct store_id checkpoint;
    char method[64], label[128]; /* of the quantized model; "" without */
    char protocol[24];           /* the protocol of all tasks together */
    int bits;
    struct protocol_calibration calibration; /* of the quantized model */
};

/* Fills report->protocol from the tasks; curves never mix two protocols. STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_report_protocol(struct tasks_report *report, struct error *error);

/* A new reference. STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_report_result(const struct tasks_report *report, json_t **out, struct error *error);
MUST_CHECK enum status tasks_report_measure(const struct tasks_report *report, struct measurements *out,
                                            struct error *error);
/* Lists every item, for the database. STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_report_list(const struct tasks_report *report, struct task_items *items,
                                         struct error *error);
/* Publishes items.jsonl. STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status tasks_report_items(const struct tasks_report *report, struct artifacts *artifacts,
                                          struct error *error);

#endif
