#include "train/schedule.h"

#include <math.h>

const char *const schedule_names[] = {
#define NAME(id, name) [SCHEDULE_##id] = #name,
    SCHEDULES(NAME)
#undef NAME
        [SCHEDULE_COUNT] = NULL,
};
const char *const schedule_shape_names[] = {"linear", "1-sqrt", NULL};
_Static_assert(sizeof schedule_shape_names / sizeof schedule_shape_names[0] == SCHEDULE_SHAPE_COUNT + 1,
               "a name for each shape");

/* Factors that fall from 1 (x = 0) to 0 (x = 1). */
static double fall_linear(double x)
{
    return 1 - x;
}

static double fall_sqrt(double x)
{
    return 1 - sqrt(x);
}

static double fall_cosine(double x)
{
    return 0.5 * (1 + cos(M_PI * x));
}

static double (*const shapes[])(double x) = {
    [SCHEDULE_SHAPE_LINEAR] = fall_linear,
    [SCHEDULE_SHAPE_SQRT] = fall_sqrt,
};

static double fall_and_rise(double x)
{
    return 0.5 * (1 + cos(2 * M_PI * x));
}

/* The part of the present cycle that has passed, `steps` after the first cycle began. A length that is a whole number
 * may come out slightly above it (100 * 1.1): a step so close to the end of its cycle begins the next one. */
static double part_of_cycle(const struct schedule *schedule, int64_t steps)
{
    static const double nearly_one = 1 - 1e-12;
    double length = (double)schedule->period, passed = (double)steps;
    if (schedule->growth <= 1) return fmod(passed, length) / length;
    for (; passed >= length * nearly_one; length *= schedule->growth) passed = fmax(passed - length, 0);
    return passed / length;
}

/* How a schedule falls: over its last `decay` steps, over all steps after the warm-up, or in each of its cycles. `fall`
 * NULL: with the requested shape. */
struct row {
    bool falls, over_all, cycles;
    int64_t least_period; /* steps of a cycle */
    double (*fall)(double x);
};
static const struct row wsd = {.falls = true};
static const struct row cosine = {.falls = true, .over_all = true, .fall = fall_cosine};
static const struct row linear = {.falls = true, .over_all = true, .fall = fall_linear};
static const struct row constant = {.falls = false};
static const struct row sgdr = {
    .falls = true, .over_all = true, .cycles = true, .least_period = 2, .fall = fall_cosine};
static const struct row oscillating = {
    .falls = true, .over_all = true, .cycles = true, .least_period = 4, .fall = fall_and_rise};

static const struct row *const rows[] = {
#define ROW(id, name) [SCHEDULE_##id] = &name,
    SCHEDULES(ROW)
#undef ROW
};

/* In a shorter cycle there is no step at which the rate is lower, or none at which it rises. */
static enum status cycles_check(const struct schedule *schedule, struct error *error)
{
    const int64_t least = rows[schedule->kind]->least_period;
    if (schedule->period < least)
        return error_set_at(error, STATUS_INVALID, "/params/schedule/period",
                            "a cycle of %s needs at least %lld steps, the period has %lld",
                            schedule_names[schedule->kind], (long long)least, (long long)schedule->period);
    if (schedule->start < 0 || schedule->start >= schedule->total)
        return error_set_at(error, STATUS_INVALID, "/params/schedule/start",
                            "cycles that start at step %lld do not begin within %lld steps", (long long)schedule->start,
                            (long long)schedule->total);
    if (schedule->kind == SCHEDULE_SGDR && !(schedule->growth >= 1))
        return error_set_at(error, STATUS_INVALID, "/params/schedule/growth", "is %g; it must be at least 1",
                            schedule->growth);
    return STATUS_OK;
}

enum status schedule_check(const struct schedule *schedule, struct error *error)
{
    if (!(schedule->peak > 0) || !isfinite(schedule->peak))
        return error_set(error, STATUS_INVALID, "the peak learning rate is %g; it must be positive", schedule->peak);
    if (!(schedule->final >= 0 && schedule->final <= 1))
        return error_set(error, STATUS_INVALID, "the final share of the learning rate is %g; it must be in 0 to 1",
                         schedule->final);
    if (schedule->total < 1 || schedule->warmup < 0 || schedule->decay < 0)
        return error_set(error, STATUS_INVALID, "the schedule has no step, or a negative length");
    const enum status status = rows[schedule->kind]->cycles ? cycles_check(schedule, error) : STATUS_OK;
    if (status != STATUS_OK) return status;
    const int64_t decay = schedule->kind == SCHEDULE_WSD ? schedule->decay : 0;
    if (decay > schedule->total || schedule->warmup > schedule->total - decay)
        return error_set(error, STATUS_INVALID, "warm-up (%lld steps) and decay (%lld) do not fit into %lld steps",
                         (long long)schedule->warmup, (long long)decay, (long long)schedule->total);
    return STATUS_OK;
}

bool schedule_falls(const struct schedule *schedule)
{
    const struct row *row = rows[schedule->kind];
    return row->falls && (row->over_all || schedule->decay > 0);
}

bool schedule_cycles(const struct schedule *schedule)
{
    return rows[schedule->kind]->cycles;
}

int64_t schedule_bend(const struct schedule *schedule)
{
    const struct row *row = rows[schedule->kind];
    if (!row->falls) return schedule->total;
    if (!row->over_all) return schedule->total - schedule->decay;
    return row->cycles && schedule->start > schedule->warmup ? schedule->start : schedule->warmup;
}

double schedule_rate(const struct schedule *schedule, int64_t step)
{
    const struct row *row = rows[schedule->kind];
    if (step < schedule->warmup) return schedule->peak * (double)(step + 1) / (double)schedule->warmup;
    const int64_t start = schedule_bend(schedule);
    if (step < start || start == schedule->total) return schedule->peak;
    const double x = row->cycles ? part_of_cycle(schedule, step - start)
                                 : (double)(step - start) / (double)(schedule->total - start);
    const double factor = row->fall != NULL ? row->fall(x) : shapes[schedule->shape](x);
    return schedule->peak * (schedule->final + (1 - schedule->final) * factor);
}
