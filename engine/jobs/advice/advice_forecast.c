#include "jobs/advice/advice_forecast.h"

#include "eval/leverage.h"
#include "eval/student.h"

#include <math.h>

static const double *row_of(const struct advice_measured *measured, int64_t row)
{
    return measured->values + row * (ADVICE_NUMBERS + measured->request->evaluation->count);
}

static struct extrapolation exactly(double value)
{
    const double known = isfinite(value) ? value : NAN;
    return (struct extrapolation){known, known, known};
}

/* Position of a row on the axis of its act's trend, in steps; 0: not on it. */
static double place_of(const struct advice_measured *measured, enum advice_act act, const struct advice_row *row)
{
    if (act == ADVICE_DECAY) return row->act == ADVICE_DECAY ? (double)row->amount : 0;
    if (row->act == ADVICE_CONTINUE) return (double)(measured->list->start + row->amount);
    return row->act == ADVICE_MEMBER ? (double)measured->request->steps[row->amount] : 0;
}

static struct extrapolation trend(const struct advice_measured *measured, enum advice_act act, int number, double at)
{
    double x[ADVICE_ROWS], y[ADVICE_ROWS];
    int64_t count = 0;
    for (int64_t i = 0; i < measured->list->count; i++) {
        x[count] = place_of(measured, act, &measured->list->rows[i]);
        y[count] = row_of(measured, i)[number];
        count += x[count] > 0;
    }
    return extrapolate(number == ADVICE_DELTA ? EXTRAPOLATE_DAMAGE : EXTRAPOLATE_LOSS, x, y, count, at);
}

static void forecast(const struct advice_measured *measured, struct advice_forecast *out)
{
    const struct advice_list *list = measured->list;
    int64_t amount;
    const enum advice_act act = advice_list_act(list, &out->option, &amount);
    const int64_t row = advice_list_find(list, act, amount);
    out->tokens = (list->start + (act == ADVICE_AVERAGE ? 0 : amount)) * list->step_tokens;
    out->measured = row >= 0;
    if (out->measured) {
        out->fp = exactly(row_of(measured, row)[ADVICE_FP]);
        out->q = exactly(row_of(measured, row)[ADVICE_Q]);
        out->delta = exactly(row_of(measured, row)[ADVICE_DELTA]);
        return;
    }
    const double at = (double)(amount + (act == ADVICE_CONTINUE ? list->start : 0));
    out->fp = trend(measured, act, ADVICE_FP, at);
    out->delta = trend(measured, act, ADVICE_DELTA, at);
    out->q = extrapolate_product(&out->fp, &out->delta);
}

/* The row most like the option: its own, or the longest branch of its act. */
static int64_t nearest(const struct advice_list *list, const struct advice_option *option)
{
    int64_t amount, found;
    const enum advice_act act = advice_list_act(list, option, &amount);
    if ((found = advice_list_find(list, act, amount)) >= 0) return found;
    for (found = list->count - 1; list->rows[found].act != act;) found--;
    return found;
}

/* Half the width of Student's interval of the mean difference of the quantized losses of two rows over sequences. */
static double sequences_half(const struct advice_measured *measured, int64_t a, int64_t b)
{
    const struct sequences *evaluation = measured->request->evaluation;
    const double *losses_a = row_of(measured, a) + ADVICE_NUMBERS, *losses_b = row_of(measured, b) + ADVICE_NUMBERS;
    const struct leverage leverage = leverage_of_starts(evaluation->starts, evaluation->count);
    double total = 0, mean = 0, squares = 0;
    for (int64_t i = 0; i < evaluation->count; i++) {
        const double weight = (double)(evaluation->starts[i + 1] - evaluation->starts[i] - 1);
        total += weight;
        mean += weight * (losses_b[i] - losses_a[i]);
    }
    mean /= total;
    for (int64_t i = 0; i < evaluation->count; i++) {
        const int64_t weight = evaluation->starts[i + 1] - evaluation->starts[i] - 1;
        const double residual = (double)weight / total * (losses_b[i] - losses_a[i] - mean);
        squares += pow(leverage_residual(&leverage, residual, weight), 2);
    }
    if (evaluation->count < 2) return NAN;
    return student_quantile(leverage.degrees) * sqrt(squares * leverage.over / leverage.under);
}

static struct extrapolation behind(const struct advice_measured *measured, const struct advice_forecast *lowest,
                                   const struct advice_forecast *other)
{
    const int64_t a = nearest(measured->list, &lowest->option), b = nearest(measured->list, &other->option);
    const double sequences = sequences_half(measured, a, b), value = other->q.value - lowest->q.value;
    const double down = hypot(lowest->q.high - lowest->q.value, other->q.value - other->q.low);
    const double up = hypot(lowest->q.value - lowest->q.low, other->q.high - other->q.value);
    return (struct extrapolation){value, value - hypot(down, sequences), value + hypot(up, sequences)};
}

/* Lower bound of an option's distance to the lowest; an unknown distance may be negative. */
static double surely(const struct advice_forecast *option)
{
    return isfinite(option->behind.low) ? option->behind.low : -INFINITY;
}

static void compare(const struct advice_measured *measured, struct advice_result *out)
{
    out->lowest = out->next = -1;
    for (int64_t i = 0; i < out->forecast_count; i++) {
        const double q = out->forecasts[i].q.value;
        if (isfinite(q) && (out->lowest < 0 || q < out->forecasts[out->lowest].q.value)) out->lowest = i;
    }
    out->told_apart = out->lowest >= 0;
    for (int64_t i = 0; i < out->forecast_count; i++) {
        struct advice_forecast *option = &out->forecasts[i];
        option->behind = (struct extrapolation){NAN, NAN, NAN};
        if (out->lowest < 0 || i == out->lowest) continue;
        option->behind = behind(measured, &out->forecasts[out->lowest], option);
        if (!(option->behind.low > 0)) out->told_apart = false;
        if (out->next < 0 || !(surely(option) > surely(&out->forecasts[out->next]))) out->next = i;
    }
    if (out->lowest >= 0) out->forecasts[out->lowest].behind = exactly(0);
}

void advice_forecast_make(const struct advice_measured *measured, struct advice_result *out)
{
    const struct advice_request *request = measured->request;
    out->forecast_count = request->option_count;
    out->trained = measured->list->trained * measured->list->step_tokens;
    for (int64_t i = 0; i < request->option_count; i++) {
        out->forecasts[i] = (struct advice_forecast){.option = request->options[i]};
        forecast(measured, &out->forecasts[i]);
    }
    compare(measured, out);
}
