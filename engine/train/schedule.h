/* schedule.h: learning rates as pure functions of the step. A schedule is a line in SCHEDULES, its row in schedule.c
 * and its parameters in the job's table (jobs/train/train_params.c). */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Every schedule, by its name in the API. New ones go to the end, because saved states of interrupted runs contain the
 * number. */
#define SCHEDULES(X)      \
    X(WSD, wsd)           \
    X(COSINE, cosine)     \
    X(LINEAR, linear)     \
    X(CONSTANT, constant) \
    X(SGDR, sgdr)         \
    X(OSCILLATING, oscillating)

enum schedule_kind {
#define SCHEDULE_ID(id, name) SCHEDULE_##id,
    SCHEDULES(SCHEDULE_ID)
#undef SCHEDULE_ID
        SCHEDULE_COUNT
};
enum schedule_shape { SCHEDULE_SHAPE_LINEAR, SCHEDULE_SHAPE_SQRT, SCHEDULE_SHAPE_COUNT };

/* By enum schedule_kind; "linear", "1-sqrt". Each ends with NULL. */
extern const char *const schedule_names[];
extern const char *const schedule_shape_names[];

/* Lengths in optimizer steps. */
struct schedule {
    enum schedule_kind kind;
    double peak;
    double final;              /* rate after the last step, as a share of the peak: 0 to 1 */
    int64_t warmup;            /* steps; rates peak / warmup, 2 peak / warmup, ..., peak */
    int64_t decay;             /* wsd: the last steps */
    enum schedule_shape shape; /* wsd: of the decay */
    int64_t start;             /* sgdr, oscillating: the rate stays at its peak until then */
    int64_t period;            /* sgdr: of the first cycle; oscillating: of all */
    double growth;             /* sgdr: each cycle is so many times as long as the one before it, at least 1 */
    int64_t total;             /* steps of the whole run, counted from the very first one */
};

/* STATUS_INVALID when the lengths do not fit into `total`, peak or final are out of range, or cycles are too short to
 * fall (sgdr: 2 steps) or to fall and rise (oscillating: 4). What is wrong with cycles is told at its field. */
MUST_CHECK enum status schedule_check(const struct schedule *schedule, struct error *error);

/* Whether the schedule lowers the rate at any step after the warm-up. */
bool schedule_falls(const struct schedule *schedule);

/* Whether it falls and rises in cycles. */
bool schedule_cycles(const struct schedule *schedule);

/* The step at which the schedule begins to fall: the rate is still at its peak there, and lower from the next step on.
 * `total` when it does not fall. */
int64_t schedule_bend(const struct schedule *schedule);

/* The rate of update `step`, counted from 0; 0 <= step <= total, where `total` stands for an update after the last one.
 * With s steps done before it:
 *   warm-up   peak (s + 1) / warmup                                              s < warmup
 *   wsd       peak until total - decay, then with x = (s - (total - decay)) / decay:  linear 1 - x, 1-sqrt 1 - sqrt(x)
 *             (Haegele et al., arXiv 2405.18392, eq. 1)
 *   cosine    (1 + cos(pi x)) / 2, linear 1 - x;  x = (s - warmup) / (total - warmup)
 *   constant  peak
 *   sgdr      (1 + cos(pi x)) / 2, x the part of its cycle that has passed: warm restarts (Loshchilov and Hutter,
 *             arXiv 1608.03983, eq. 5); cycles begin at max(warmup, start) and last period, period growth, ... steps
 *   oscillating  (1 + cos(2 pi x)) / 2: down and up again in each period
 * where a decaying factor f becomes peak (final + (1 - final) f): it would reach `final` at the step after the last. */
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
