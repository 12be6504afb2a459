#include "kinds/average_report.h"

#include "kinds/metric.h"

#define CANDIDATE(field) offsetof(struct average_candidate, field)

static const struct result_field candidate_fields[] = {
    {.name = "window",
     .type = RESULT_INTEGER,
     .offset = CANDIDATE(window),
     .unit = "checkpoints",
     .help = "How many of the last of each trajectory are averaged"},
    {.name = "loss", .type = RESULT_NUMBER, .offset = CANDIDATE(point.loss), .metric = &metric_loss, .unkept = true},
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .offset = CANDIDATE(point.loss_q),
     .metric = &metric_loss_q,
     .unkept = true,
     .help = "Mean next-token cross-entropy of the quantized average; null without a method"},
    {.name = "delta",
     .type = RESULT_NUMBER,
     .offset = CANDIDATE(point.delta),
     .metric = &metric_delta,
     .unkept = true,
     .help = "loss_q / loss − 1; null without a method"},
    {.name = "delta_interval",
     .type = RESULT_INTERVAL,
     .offset = CANDIDATE(point.delta_low),
     .high = CANDIDATE(point.delta_high),
     .help = "95 % interval over sequences, made like delta_interval of a quantize run; null without a method"},
    {0},
};
static const struct result_shape candidate_shape = {.fields = candidate_fields,
                                                    .size = sizeof(struct average_candidate)};
static const struct result_field candidate_item = {.type = RESULT_OBJECT, .shape = &candidate_shape};
static const struct result_field id_item = {.type = RESULT_TEXT};

#define REPORT(field) offsetof(struct average_report, field)

static const struct result_field report_fields[] = {
    {.name = "trajectory", .type = RESULT_TEXT, .offset = REPORT(trajectory), .help = "Where the averages are"},
    {.name = "checkpoints", .type = RESULT_DOCUMENT, .offset = REPORT(ids), .item = &id_item, .help = "Their ids"},
    {.name = "checkpoint",
     .type = RESULT_TEXT,
     .offset = REPORT(checkpoint),
     .absence = RESULT_LEFT_OUT,
     .help = "The one average, without a window"},
    {.name = "window",
     .type = RESULT_INTEGER,
     .offset = REPORT(best),
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = REPORT(searched),
     .unit = "checkpoints",
     .help = "Of the lowest loss; no test tells it from others"},
    {.name = "windows",
     .type = RESULT_LIST,
     .offset = REPORT(candidates),
     .count = REPORT(candidate_count),
     .absence = RESULT_LEFT_OUT,
     .item = &candidate_item,
     .help = "Measurements of a search, in the order of the parameter"},
    {0},
};

const struct result_shape average_report_shape = {.name = "AverageResult", .fields = report_fields};
