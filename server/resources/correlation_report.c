#include "resources/correlation_report.h"

/* ---- The correlations of some pairs ---- */

#define PART(field) offsetof(struct correlation, field)

static const struct result_field part_fields[] = {
    {.name = "n", .type = RESULT_INTEGER, .offset = PART(n), .help = "Pairs, or differences"},
    {.name = "pearson",
     .type = RESULT_NUMBER,
     .offset = PART(pearson),
     .help = "Covariance over the root of the product of variances, from −1 to 1"},
    {.name = "spearman",
     .type = RESULT_NUMBER,
     .offset = PART(spearman),
     .help = "Pearson of the ranks, from −1 to 1; ties share the mean of theirs"},
    {.name = "interval", .type = RESULT_INTERVAL, .offset = PART(low), .high = PART(high), .help = "95 %, of pearson"},
    {.name = "spearman_interval",
     .type = RESULT_INTERVAL,
     .offset = PART(spearman_low),
     .high = PART(spearman_high),
     .help = "95 %, of spearman"},
    {.name = "units",
     .type = RESULT_INTEGER,
     .offset = PART(units),
     .help = "Independent units of the n: tags `seed`, else trajectories without their branches and averages"},
    {0},
};
static const struct result_shape part_shape = {.name = "CorrelationPart", .fields = part_fields};

#define NUMBERS(field) offsetof(struct correlation_numbers, field)

static const struct result_field numbers_fields[] = {
    {.type = RESULT_MERGED, .offset = NUMBERS(values), .shape = &part_shape},
    {.name = "within",
     .type = RESULT_OBJECT,
     .offset = NUMBERS(within),
     .shape = &part_shape,
     .help = "Of what is left about the means of each trajectory and of each shared budget of tokens"},
    {.name = "differences",
     .type = RESULT_OBJECT,
     .offset = NUMBERS(differences),
     .shape = &part_shape,
     .help = "Of the changes from a checkpoint to the next of its trajectory"},
    {.name = "note",
     .type = RESULT_TEXT,
     .offset = NUMBERS(note),
     .absence = RESULT_LEFT_OUT,
     .help = "Why numbers are missing, or mean less"},
    {0},
};
static const struct result_shape numbers_shape = {.fields = numbers_fields};

/* ---- Series and pairs ---- */

#define IDENTITY(field) offsetof(struct correlation_identity, field)

static const struct result_field identity_fields[] = {
    {.name = "label", .type = RESULT_TEXT, .offset = IDENTITY(label), .help = "Of y, as in curves"},
    {.name = "label_x", .type = RESULT_TEXT, .offset = IDENTITY(label_x), .help = "Of x; empty for full precision"},
    {.name = "method",
     .type = RESULT_TEXT,
     .offset = IDENTITY(method),
     .absence = RESULT_NULL,
     .help = "Quantizer of y; null without one"},
    {.name = "bits",
     .type = RESULT_INTEGER,
     .offset = IDENTITY(bits),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = IDENTITY(has_bits),
     .help = "Width of y; null without one"},
    {.name = "dataset",
     .type = RESULT_TEXT,
     .offset = IDENTITY(dataset),
     .absence = RESULT_NULL,
     .help = "That y was measured on"},
    {.name = "protocol_id",
     .type = RESULT_TEXT,
     .offset = IDENTITY(protocol),
     .absence = RESULT_NULL,
     .help = "The evaluation of y"},
    {.name = "calibration_id",
     .type = RESULT_TEXT,
     .offset = IDENTITY(calibration),
     .absence = RESULT_NULL,
     .help = "The calibration of y"},
    {.name = "calibrated_on",
     .type = RESULT_TEXT,
     .offset = IDENTITY(calibrated_on),
     .absence = RESULT_NULL,
     .help = "The same in words"},
    {.name = "dataset_x",
     .type = RESULT_TEXT,
     .offset = IDENTITY(dataset_x),
     .absence = RESULT_NULL,
     .help = "That x was measured on"},
    {.name = "protocol_id_x",
     .type = RESULT_TEXT,
     .offset = IDENTITY(protocol_x),
     .absence = RESULT_NULL,
     .help = "The evaluation of x"},
    {.name = "calibration_id_x",
     .type = RESULT_TEXT,
     .offset = IDENTITY(calibration_x),
     .absence = RESULT_NULL,
     .help = "The calibration of x"},
    {0},
};
static const struct result_shape identity_shape = {.fields = identity_fields};

static const struct result_field series_fields[] = {
    {.type = RESULT_MERGED, .offset = offsetof(struct correlation_series, identity), .shape = &identity_shape},
    {.type = RESULT_MERGED, .offset = offsetof(struct correlation_series, numbers), .shape = &numbers_shape},
    {0},
};
static const struct result_shape series_shape = {.fields = series_fields, .size = sizeof(struct correlation_series)};
static const struct result_field series_item = {.type = RESULT_OBJECT, .shape = &series_shape};

/* The store makes the pairs as JSON: these rows only describe them, so that offsets are of no use. */
static const struct result_field point_fields[] = {
    {.name = "trajectory", .type = RESULT_TEXT, .help = "Its name"},
    {.name = "checkpoint", .type = RESULT_TEXT, .help = "Its id"},
    {.name = "checkpoint_name", .type = RESULT_TEXT},
    {.name = "step", .type = RESULT_INTEGER, .absence = RESULT_NULL},
    {.name = "tokens", .type = RESULT_INTEGER, .absence = RESULT_NULL},
    {.name = "unit", .type = RESULT_TEXT, .help = "The independent unit that it belongs to"},
    {.name = "series", .type = RESULT_INTEGER, .help = "Its place in `series`"},
    {.type = RESULT_MERGED, .shape = &identity_shape},
    {.name = "x", .type = RESULT_NUMBER, .finite = true},
    {.name = "y", .type = RESULT_NUMBER, .finite = true},
    {.name = "run_x",
     .type = RESULT_TEXT,
     .absence = RESULT_NULL,
     .help = "That measured x; null for a number of the checkpoint"},
    {.name = "run_y", .type = RESULT_TEXT, .absence = RESULT_NULL, .help = "That measured y; null likewise"},
    {0},
};
static const struct result_shape point_shape = {.fields = point_fields};
static const struct result_field point_item = {.type = RESULT_OBJECT, .shape = &point_shape};

/* ---- The answer ---- */

#define REPORT(field) offsetof(struct correlation_report, field)

static const struct result_field report_fields[] = {
    {.name = "x", .type = RESULT_TEXT, .offset = REPORT(x), .help = "As it was asked for"},
    {.name = "y", .type = RESULT_TEXT, .offset = REPORT(y), .help = "As it was asked for"},
    {.type = RESULT_MERGED, .offset = REPORT(numbers), .shape = &numbers_shape},
    {.name = "left_out",
     .type = RESULT_INTEGER,
     .offset = REPORT(left_out),
     .help = "Pairs that the numbers of all do not count, because their series have fewer than three and others have "
             "more: one pair says nothing of a correlation within its series, and two always give 1 or −1"},
    {.name = "series",
     .type = RESULT_LIST,
     .offset = REPORT(series),
     .count = REPORT(series_count),
     .item = &series_item,
     .help = "Each one's own correlations, of its pairs alone"},
    {.name = "points",
     .type = RESULT_DOCUMENT,
     .offset = REPORT(points),
     .item = &point_item,
     .help = "The pairs, by series, trajectory and step"},
    {0},
};
const struct result_shape correlation_report_shape = {.name = "Correlation", .fields = report_fields};
