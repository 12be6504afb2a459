#include "kinds/advice_report.h"

#include "base/memory.h"
#include "kinds/metric.h"
#include "schema/result_render.h"

#include <math.h>
#include <stdio.h>

enum { REASON = 400, CALLED = 80 };

struct point_report {
    struct advice_point point;
    const char *checkpoint;
    bool decays, averages, continues;
};

struct option_report {
    struct advice_forecast forecast;
    bool decays, averages, continues;
};

struct report {
    int64_t tokens, trained;
    const char *checkpoint, *method, *recipe, *protocol, *calibration;
    struct option_report options[ADVICE_OPTIONS];
    int64_t option_count;
    struct point_report *points; /* owned */
    int64_t point_count;
    int64_t recommended;
    bool told_apart;
    char reason[REASON];
};

/* The action of an option: one of the three members, the others are null. `of` is the struct that has the option. */
/* clang-format off */
#define ACT_FIELDS(of, option) \
    {.name = "decay", .type = RESULT_INTEGER, .offset = offsetof(struct of, option.decay), .absence = RESULT_NULL, \
     .has_when = true, .when = offsetof(struct of, decays), .unit = "tokens", \
     .help = "Over which the learning rate falls from its constant value"}, \
    {.name = "average", .type = RESULT_INTEGER, .offset = offsetof(struct of, option.average), \
     .absence = RESULT_NULL, .has_when = true, .when = offsetof(struct of, averages), .unit = "checkpoints", \
     .help = "The mean of so many of the last checkpoints"}, \
    {.name = "continue", .type = RESULT_INTEGER, .offset = offsetof(struct of, option.continue_), \
     .absence = RESULT_NULL, .has_when = true, .when = offsetof(struct of, continues), .unit = "tokens", \
     .help = "At the constant rate"}
/* clang-format on */

#define POINT(field) offsetof(struct point_report, field)

static const struct result_field point_fields[] = {
    ACT_FIELDS(point_report, point.option),
    {.name = "checkpoint",
     .type = RESULT_TEXT,
     .offset = POINT(checkpoint),
     .absence = RESULT_NULL,
     .help = "Id of the checkpoint, or of the last one that is averaged; null of a branch, which is not kept"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = POINT(point.tokens), .help = "Trained on in all"},
    {.name = "loss_fp",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = POINT(point.losses.fp),
     .metric = &metric_loss_fp,
     .unkept = true},
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = POINT(point.losses.q),
     .metric = &metric_loss_q,
     .unkept = true},
    {.name = "delta",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = POINT(point.losses.delta),
     .metric = &metric_delta,
     .unkept = true},
    {0},
};
static const struct result_shape point_shape = {.fields = point_fields, .size = sizeof(struct point_report)};

#define OPTION(field) offsetof(struct option_report, field)

static const struct result_field option_fields[] = {
    ACT_FIELDS(option_report, forecast.option),
    {.name = "tokens",
     .type = RESULT_INTEGER,
     .offset = OPTION(forecast.tokens),
     .help = "Trained on in all when it is done"},
    {.name = "measured",
     .type = RESULT_BOOLEAN,
     .offset = OPTION(forecast.measured),
     .help = "The budget reached it: its numbers are measured, and their intervals have no width"},
    {.name = "loss_fp",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = OPTION(forecast.fp.value),
     .metric = &metric_loss_fp,
     .unkept = true},
    {.name = "loss_fp_interval",
     .type = RESULT_INTERVAL,
     .offset = OPTION(forecast.fp.low),
     .high = OPTION(forecast.fp.high),
     .unit = "nats",
     .help = "95 % prediction interval of what this evaluation would measure"},
    {.name = "loss_q",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = OPTION(forecast.q.value),
     .metric = &metric_loss_q,
     .unkept = true},
    {.name = "loss_q_interval",
     .type = RESULT_INTERVAL,
     .offset = OPTION(forecast.q.low),
     .high = OPTION(forecast.q.high),
     .unit = "nats",
     .help = "Likewise"},
    {.name = "delta",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = OPTION(forecast.delta.value),
     .metric = &metric_delta,
     .unkept = true},
    {.name = "delta_interval",
     .type = RESULT_INTERVAL,
     .offset = OPTION(forecast.delta.low),
     .high = OPTION(forecast.delta.high),
     .help = "Likewise"},
    {.name = "behind",
     .type = RESULT_NUMBER,
     .absence = RESULT_NULL,
     .offset = OPTION(forecast.behind.value),
     .unit = "nats",
     .help = "loss_q less that of the option with the lowest"},
    {.name = "behind_interval",
     .type = RESULT_INTERVAL,
     .offset = OPTION(forecast.behind.low),
     .high = OPTION(forecast.behind.high),
     .help = "95 %: forecasts of both and how their difference varies between sequences; null for one sequence"},
    {0},
};
static const struct result_shape option_shape = {.fields = option_fields, .size = sizeof(struct option_report)};
static const struct result_field option_item = {.type = RESULT_OBJECT, .shape = &option_shape},
                                 point_item = {.type = RESULT_OBJECT, .shape = &point_shape};

#define REPORT(field) offsetof(struct report, field)

static const struct result_field report_fields[] = {
    {.name = "checkpoint", .type = RESULT_TEXT, .offset = REPORT(checkpoint), .help = "That branches continue"},
    {.name = "tokens", .type = RESULT_INTEGER, .offset = REPORT(tokens), .help = "It was trained on"},
    {.name = "method", .type = RESULT_TEXT, .offset = REPORT(method), .help = "In short, as curves name it"},
    {.name = "options",
     .type = RESULT_ARRAY,
     .offset = REPORT(options),
     .count = REPORT(option_count),
     .item = &option_item,
     .help = "Forecasts, in the order of the parameter"},
    {.name = "recommended",
     .type = RESULT_INTEGER,
     .absence = RESULT_NULL,
     .offset = REPORT(recommended),
     .has_when = true,
     .when = REPORT(told_apart),
     .help = "Place of the option with the lowest loss_q, from 0; null where the options cannot be told apart"},
    {.name = "reason", .type = RESULT_CHARS, .offset = REPORT(reason), .help = "Of the recommendation, a sentence"},
    {.name = "points",
     .type = RESULT_LIST,
     .offset = REPORT(points),
     .count = REPORT(point_count),
     .item = &point_item,
     .help = "What was measured: the last checkpoint first, then averages, branches and earlier checkpoints"},
    {.name = "trained_tokens", .type = RESULT_INTEGER, .offset = REPORT(trained), .help = "By all branches"},
    {.name = "recipe_id", .type = RESULT_TEXT, .offset = REPORT(recipe), .help = "Hash of the method"},
    {.name = "protocol_id", .type = RESULT_TEXT, .offset = REPORT(protocol), .help = "Hash of the evaluation"},
    {.name = "calibration_id",
     .type = RESULT_TEXT,
     .offset = REPORT(calibration),
     .absence = RESULT_NULL,
     .help = "Hash of the calibration; null where the method reads none"},
    {0},
};
const struct result_shape advice_report_shape = {.name = "PlanResult", .fields = report_fields};

static void call(const struct advice_option *option, char out[CALLED])
{
    if (option->average > 0)
        (void)snprintf(out, CALLED, "the average of the last %lld checkpoints", (long long)option->average);
    else if (option->decay > 0)
        (void)snprintf(out, CALLED, "decaying over %lld tokens", (long long)option->decay);
    else
        (void)snprintf(out, CALLED, "going on for %lld tokens", (long long)option->continue_);
}

static void explain(const struct advice_result *found, char out[REASON])
{
    char lowest[CALLED], next[CALLED];
    if (found->lowest < 0) {
        (void)snprintf(out, REASON, "no option has a finite quantized loss, or enough places to forecast it from");
        return;
    }
    const struct advice_forecast *best = &found->forecasts[found->lowest];
    call(&best->option, lowest);
    if (found->next < 0) {
        (void)snprintf(out, REASON, "%s is the only option; its quantized loss is %.4f (%.4f to %.4f)", lowest,
                       best->q.value, best->q.low, best->q.high);
        return;
    }
    const struct advice_forecast *other = &found->forecasts[found->next];
    call(&other->option, next);
    if (!isfinite(other->behind.low))
        (void)snprintf(out, REASON, "the options cannot be told apart: the quantized loss of %s %s", next,
                       isfinite(other->q.value) ? "has no interval" : "is not finite, or cannot be forecast");
    else
        (void)snprintf(out, REASON,
                       "%s%s has the lowest quantized loss, %.4f (%.4f to %.4f); that of %s is %.4f above it"
                       " (95 %%: %.4f to %.4f)",
                       found->told_apart ? "" : "the options cannot be told apart: ", lowest, best->q.value,
                       best->q.low, best->q.high, next, other->behind.value, other->behind.low, other->behind.high);
}

enum status advice_report_render(const struct advice_result *found, const struct advice_subject *subject, json_t **out,
                                 struct error *error)
{
    struct report report = {
        .tokens = found->points[0].tokens,
        .trained = found->trained,
        .checkpoint = subject->ids[subject->members - 1],
        .method = subject->method,
        .recipe = subject->recipe,
        .protocol = subject->protocol,
        .calibration = subject->calibration[0] != '\0' ? subject->calibration : NULL,
        .option_count = found->forecast_count,
        .point_count = found->point_count,
        .recommended = found->lowest,
        .told_apart = found->told_apart,
    };
    enum status status = memory_new(found->point_count, sizeof *report.points, "a forecast", &report.points, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < found->point_count; i++) {
        const struct advice_point *point = &found->points[i];
        report.points[i] =
            (struct point_report){*point, point->member >= 0 ? subject->ids[point->member] : NULL,
                                  point->option.decay > 0, point->option.average > 0, point->option.continue_ > 0};
    }
    for (int64_t i = 0; i < found->forecast_count; i++) {
        const struct advice_option *option = &found->forecasts[i].option;
        report.options[i] =
            (struct option_report){found->forecasts[i], option->decay > 0, option->average > 0, option->continue_ > 0};
    }
    explain(found, report.reason);
    status = result_render(&advice_report_shape, &report, out, error);
    memory_free(report.points);
    return status;
}
