#include "kinds/sharpness_report.h"

#include "kinds/measure.h"
#include "kinds/metric.h"
#include "kinds/protocol.h"
#include "kinds/sharpness_ends.h"
#include "kinds/sharpness_metrics.h"
#include "schema/result_render.h"

#include <math.h>
#include <stdio.h>

/* --- What is told ---- */

struct group_report {
    const char *name;
    int64_t parameters;
    struct sharpness_ends ends;
};

/* The findings of a run, and which of them were asked for. Lends from its sources. */
struct report {
    struct sharpness_result found;
    struct sharpness_ends ends, preconditioned;
    double spectral_norm, relative_largest, relative_largest_error, relative_trace, relative_trace_error;
    double trace_per_parameter, trace_per_parameter_error;
    bool in_range;
    int method; /* enum sharpness_method */
    double critical, critical_low, critical_high;
    bool has_critical; /* it was asked for, and found */
    bool has_ends, has_preconditioned, has_trace, has_spectrum, has_groups, has_direction;
    int64_t group_count;
    struct group_report groups[GROUPS]; /* the groups that the model has */
};

/* --- Its table ---- */

#define UNITS_HELP " over the sequences, the quantization being as it is" SHARPNESS_STUDENT_HELP

#define GROUP(field) offsetof(struct group_report, field)

static const struct result_field group_fields[] = {
    {.name = "name", .type = RESULT_TEXT, .offset = GROUP(name), .choices = groups_names},
    {.name = "parameters", .type = RESULT_INTEGER, .offset = GROUP(parameters), .help = "Trainable numbers"},
    {.type = RESULT_MERGED, .offset = GROUP(ends), .shape = &sharpness_ends_shape},
    {0},
};
static const struct result_shape group_shape = {.fields = group_fields, .size = sizeof(struct group_report)};
static const struct result_field group_item = {.type = RESULT_OBJECT, .shape = &group_shape};

#define TRACE(field) offsetof(struct trace_estimate, field)

static const struct result_field trace_fields[] = {
    {.name = "trace",
     .type = RESULT_NUMBER,
     .offset = TRACE(trace),
     .metric = &sharpness_metric_trace,
     .spread = RESULT_STDERR,
     .spread_low = TRACE(standard_error),
     .spread_count = TRACE(samples)},
    {.name = "trace_stderr",
     .type = RESULT_NUMBER,
     .offset = TRACE(standard_error),
     .help = "Standard error of the trace over the probes: 0 when exact, null from one probe. What other sequences "
             "would change is not in it"},
    {.name = "probes",
     .type = RESULT_INTEGER,
     .offset = TRACE(probes),
     .help = "Hessian-vector products for the trace"},
    {0},
};
static const struct result_shape trace_shape = {.fields = trace_fields};

static const struct result_field number_item = {.type = RESULT_NUMBER};

static const struct result_field spectrum_fields[] = {
    {.name = "nodes",
     .type = RESULT_LIST,
     .offset = offsetof(struct spectrum, nodes),
     .count = offsetof(struct spectrum, count),
     .item = &number_item,
     .help = "Ascending"},
    {.name = "weights",
     .type = RESULT_LIST,
     .offset = offsetof(struct spectrum, weights),
     .count = offsetof(struct spectrum, count),
     .item = &number_item,
     .help = "They sum to 1"},
    {0},
};
static const struct result_shape spectrum_shape = {
    .help = "Stochastic Lanczos quadrature of the spectral density: the sum of weights × f(nodes) estimates tr f(H) /"
            " parameters",
    .fields = spectrum_fields};

#define PART(field) offsetof(struct sharpness_part, field)

static const struct result_field part_fields[] = {
    {.name = "name",
     .type = RESULT_CHARS,
     .offset = PART(name),
     .help = "Of a linear without \".weight\"; of a block its number"},
    {.name = "gradient_term",
     .type = RESULT_NUMBER,
     .offset = PART(gradient_term),
     .metric = &sharpness_metric_gradient_term,
     .unkept = true},
    {.name = "curvature_term",
     .type = RESULT_NUMBER,
     .offset = PART(curvature_term),
     .metric = &sharpness_metric_curvature_term,
     .unkept = true},
    {0},
};
static const struct result_shape part_shape = {
    .name = "SharpnessPart", .fields = part_fields, .size = sizeof(struct sharpness_part)};
static const struct result_field part_item = {.type = RESULT_OBJECT, .shape = &part_shape};

#define DIRECTION(field) offsetof(struct sharpness_direction, field)
static const struct result_field direction_fields[] = {
    {.name = "predicted_delta",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(predicted_delta),
     .metric = &sharpness_metric_predicted_delta,
     .spread = RESULT_STDERR,
     .spread_low = DIRECTION(predicted_error),
     .spread_degrees = DIRECTION(degrees)},
    {.name = "predicted_delta_stderr",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(predicted_error),
     .later = true,
     .help = "Standard error of predicted_delta" UNITS_HELP},
    {.name = "gradient_term",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(gradient_term),
     .metric = &sharpness_metric_gradient_term,
     .spread = RESULT_STDERR,
     .spread_low = DIRECTION(gradient_error),
     .spread_degrees = DIRECTION(degrees)},
    {.name = "gradient_term_stderr",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(gradient_error),
     .unit = "nats",
     .later = true,
     .help = "Standard error of gradient_term" UNITS_HELP},
    {.name = "curvature_term",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(curvature_term),
     .metric = &sharpness_metric_curvature_term,
     .spread = RESULT_STDERR,
     .spread_low = DIRECTION(curvature_error),
     .spread_degrees = DIRECTION(degrees)},
    {.name = "curvature_term_stderr",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(curvature_error),
     .unit = "nats",
     .later = true,
     .help = "Standard error of curvature_term" UNITS_HELP},
    {.name = "prediction_units",
     .type = RESULT_INTEGER,
     .offset = DIRECTION(units),
     .later = true,
     .help = "What the standard errors are over: the sequences, of more than 32 as many groups of them"},
    {.name = "by_layer",
     .type = RESULT_LIST,
     .offset = DIRECTION(layers),
     .count = DIRECTION(layer_count),
     .item = &part_item,
     .help = "gᵢᵀδᵢ and ½ δᵢᵀ(Hδ)ᵢ of every linear; they sum to the terms"},
    {.name = "by_block",
     .type = RESULT_LIST,
     .offset = DIRECTION(blocks),
     .count = DIRECTION(block_count),
     .item = &part_item,
     .help = "The same of every block"},
    {.name = "measured_delta",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(measured_delta),
     .metric = &sharpness_metric_measured_delta},
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(measured_loss),
     .metric = &metric_loss_q,
     .unkept = true},
    {.name = "kl", .type = RESULT_NUMBER, .offset = DIRECTION(kl), .metric = &metric_kl, .unkept = true},
    {.name = "direction_norm", .type = RESULT_NUMBER, .offset = DIRECTION(norm), .help = "|δ|"},
    {.name = "random_directions",
     .type = RESULT_INTEGER,
     .offset = DIRECTION(random.directions),
     .later = true,
     .help = "Random changes r of the weights that were tried: in each linear random signs of one magnitude, as large "
             "as δ there"},
    {.name = "random_curvature_term",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(random.curvature_term),
     .absence = RESULT_NULL,
     .later = true,
     .metric = &sharpness_metric_random_curvature_term,
     .spread = RESULT_STDERR,
     .spread_low = DIRECTION(random.curvature_error),
     .spread_count = DIRECTION(random.directions)},
    {.name = "random_curvature_term_stderr",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(random.curvature_error),
     .absence = RESULT_NULL,
     .unit = "nats",
     .later = true,
     .help = "Standard error of random_curvature_term over the changes; null of a single one"},
    {.name = "curvature_ratio",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(random.ratio),
     .absence = RESULT_NULL,
     .later = true,
     .metric = &sharpness_metric_curvature_ratio},
    {.name = "random_delta",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(random.delta),
     .absence = RESULT_NULL,
     .later = true,
     .metric = &sharpness_metric_random_delta,
     .spread = RESULT_STDERR,
     .spread_low = DIRECTION(random.delta_error),
     .spread_count = DIRECTION(random.directions)},
    {.name = "random_delta_stderr",
     .type = RESULT_NUMBER,
     .offset = DIRECTION(random.delta_error),
     .absence = RESULT_NULL,
     .later = true,
     .help = "Standard error of random_delta over the changes; null of a single one"},
    {0},
};
static const struct result_shape direction_shape = {.fields = direction_fields};

#define REPORT(field) offsetof(struct report, field)

static const struct result_field report_fields[] = {
    {.name = "loss", .type = RESULT_NUMBER, .offset = REPORT(found.loss), .metric = &metric_loss, .unkept = true},
    {.name = "gradient_norm",
     .type = RESULT_NUMBER,
     .offset = REPORT(found.gradient_norm),
     .metric = &sharpness_metric_gradient_norm},
    {.name = "weight_norm",
     .type = RESULT_NUMBER,
     .offset = REPORT(found.weight_norm),
     .metric = &sharpness_metric_weight_norm},
    {.name = "parameters",
     .type = RESULT_INTEGER,
     .offset = REPORT(found.parameters),
     .later = true,
     .help = "Trainable numbers, a tied matrix counted once"},
    {.name = "sequences",
     .type = RESULT_INTEGER,
     .offset = REPORT(found.sequences),
     .later = true,
     .help = "Of the data"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = REPORT(found.tokens), .later = true, .help = "Of the data"},
    {.name = "products",
     .type = RESULT_INTEGER,
     .offset = REPORT(found.products),
     .later = true,
     .help = "Hessian-vector products made"},
    {.name = "method",
     .type = RESULT_CHOICE,
     .offset = REPORT(method),
     .choices = sharpness_methods,
     .later = true,
     .help = "Of the eigenvalues"},
    {.type = RESULT_MERGED,
     .offset = REPORT(ends),
     .shape = &sharpness_ends_shape,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_ends)},
    {.name = "spectral_norm",
     .type = RESULT_NUMBER,
     .offset = REPORT(spectral_norm),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_ends),
     .later = true,
     .metric = &sharpness_metric_spectral_norm},
    {.name = "relative_largest_eigenvalue",
     .type = RESULT_NUMBER,
     .offset = REPORT(relative_largest),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_ends),
     .later = true,
     .metric = &sharpness_metric_relative_largest,
     .spread = RESULT_STDERR,
     .spread_low = REPORT(relative_largest_error),
     .spread_degrees = REPORT(ends.largest_degrees)},
    {.name = "largest_algebraic_stderr",
     .type = RESULT_NUMBER,
     .offset = REPORT(ends.largest_error),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_ends),
     .later = true,
     .help = "Standard error of largest_algebraic over the sequences: of uᵀHu, u its vector, which is that of a simple "
             "eigenvalue to first order; null if u's residual is above 5 % of the top one" SHARPNESS_STUDENT_HELP},
    {.name = "largest_algebraic_units",
     .type = RESULT_INTEGER,
     .offset = REPORT(ends.largest_units),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_ends),
     .later = true,
     .help = SHARPNESS_UNITS_HELP},
    {.type = RESULT_MERGED,
     .offset = REPORT(found.trace),
     .shape = &trace_shape,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_trace)},
    {.name = "relative_trace",
     .type = RESULT_NUMBER,
     .offset = REPORT(relative_trace),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_trace),
     .later = true,
     .metric = &sharpness_metric_relative_trace,
     .spread = RESULT_STDERR,
     .spread_low = REPORT(relative_trace_error),
     .spread_count = REPORT(found.trace.samples)},
    {.name = "trace_per_parameter",
     .type = RESULT_NUMBER,
     .offset = REPORT(trace_per_parameter),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_trace),
     .later = true,
     .metric = &sharpness_metric_trace_per_parameter,
     .spread = RESULT_STDERR,
     .spread_low = REPORT(trace_per_parameter_error),
     .spread_count = REPORT(found.trace.samples)},
    {.name = "critical_sharpness",
     .type = RESULT_NUMBER,
     .offset = REPORT(critical),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_critical),
     .later = true,
     .metric = &sharpness_metric_critical},
    {.name = "critical_sharpness_interval",
     .type = RESULT_INTERVAL,
     .offset = REPORT(critical_low),
     .high = REPORT(critical_high),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_critical),
     .later = true,
     .help = "2 / η of the steps between which the loss begins to exceed, from losses of the sequences given"},
    {.type = RESULT_MERGED,
     .offset = REPORT(preconditioned),
     .shape = &sharpness_preconditioned_shape,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_preconditioned)},
    {.name = "spectrum",
     .type = RESULT_OBJECT,
     .offset = REPORT(found.spectrum),
     .shape = &spectrum_shape,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(has_spectrum)},
    {.name = "trace_exact",
     .type = RESULT_BOOLEAN,
     .offset = REPORT(found.trace.exact),
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = REPORT(has_trace),
     .help = "There were as many probes as parameters"},
    {.name = "groups",
     .type = RESULT_ARRAY,
     .offset = REPORT(groups),
     .count = REPORT(group_count),
     .item = &group_item,
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = REPORT(has_groups),
     .help = "The eigenvalues of the diagonal block of each kind of parameters"},
    {.type = RESULT_MERGED,
     .offset = REPORT(found.direction),
     .shape = &direction_shape,
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = REPORT(has_direction)},
    {.name = "prediction_in_range",
     .type = RESULT_BOOLEAN,
     .offset = REPORT(in_range),
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = REPORT(has_direction),
     .help = "|predicted_delta| is 0.2 at most: beyond, the second order was found 1.8 to 3.3 times too small"},
    {0},
};

const struct result_shape sharpness_report_shape = {
    .name = "SharpnessResult",
    .help = "Of the Hessian of the mean loss by every trainable number, a tied matrix counted once. What was not asked"
            " for is null.",
    .fields = report_fields};

/* --- Filling it ---- */

static const double prediction_range = 0.2; /* of predicted_delta */

static void fill_relative(struct report *report)
{
    const struct sharpness_result *found = &report->found;
    const double squares = found->weight_norm * found->weight_norm, each = 1 / (double)found->parameters;
    report->spectral_norm = fabs(found->ends.top);
    report->ends.largest_error = found->largest_error;
    report->ends.largest_units = found->largest_units;
    report->ends.largest_degrees = report->preconditioned.largest_degrees = found->degrees;
    report->relative_largest = found->ends.largest * squares;
    report->relative_largest_error = found->largest_error * squares;
    report->trace_per_parameter = found->trace.trace * each;
    report->trace_per_parameter_error = found->trace.standard_error * each;
    report->relative_trace = report->trace_per_parameter * squares;
    report->relative_trace_error = report->trace_per_parameter_error * squares;
    report->preconditioned.largest_error = found->preconditioned.largest_error;
    report->preconditioned.largest_units = found->preconditioned.largest_units;
    report->critical = critical_sharpness(&found->critical);
    report->critical_low = 2 / found->critical.high;
    report->critical_high = 2 / found->critical.low;
    report->in_range = fabs(found->direction.predicted_delta) <= prediction_range;
}

/* Numbers of another preconditioner are no points of the same curve. */
static enum status measure_preconditioned(const struct sharpness_preconditioner *given, const struct report *report,
                                          const struct measurement *series, struct measurements *out,
                                          struct error *error)
{
    struct measurement own = *series;
    char detail[200];
    (void)snprintf(detail, sizeof detail, "preconditioner 1: %d %.17g %.17g %.17g %lld", given->moments, given->beta1,
                   given->beta2, given->epsilon, (long long)given->batches);
    if (!report->has_preconditioned) return STATUS_OK;
    const enum status status = protocol_detailed(series->protocol, detail, own.protocol, error);
    return status == STATUS_OK
               ? measure_result(&sharpness_preconditioned_measured, &report->preconditioned, &own, out, error)
               : status;
}

enum status sharpness_report(const struct sharpness_settings *settings, const struct sharpness_result *found,
                             const struct measurement *series, bool rounded, json_t **result, struct measurements *out,
                             struct error *error)
{
    struct report report = {
        .found = *found,
        .ends = sharpness_ends_of(&found->ends, rounded),
        .preconditioned = sharpness_ends_of(&found->preconditioned.ends, rounded),
        .method = settings->method,
        .has_critical = settings->critical && found->critical.found,
        .has_ends = settings->top_eigenvalue,
        .has_preconditioned = settings->preconditioned,
        .has_trace = settings->trace,
        .has_spectrum = settings->spectrum,
        .has_groups = settings->groups,
        .has_direction = series->method[0] != '\0',
    };
    for (int i = 0; i < GROUPS; i++)
        if (found->groups[i].parameters > 0)
            report.groups[report.group_count++] = (struct group_report){
                groups_names[i], found->groups[i].parameters, sharpness_ends_of(&found->groups[i].ends, rounded)};
    fill_relative(&report);
    enum status status = measure_result(&sharpness_report_shape, &report, series, out, error);
    if (status == STATUS_OK) status = measure_preconditioned(&settings->preconditioner, &report, series, out, error);
    return status == STATUS_OK ? result_render(&sharpness_report_shape, &report, result, error) : status;
}
