#include "jobs/train/train_curve.h"

#include "base/integer.h"
#include "base/memory.h"
#include "eval/losses_table.h"
#include "jobs/train/train_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define ROW_BYTES 90 /* about those of a row of the file */

static int64_t every_of(int64_t total)
{
    return total > TRAIN_CURVE_ROWS ? ceil_divide(total, TRAIN_CURVE_ROWS) : 1;
}

/* The last step may be none of every k-th. */
static int64_t capacity_of(int64_t total)
{
    return ceil_divide(total, every_of(total));
}

enum status train_curve_init(struct train_curve *curve, int64_t total, struct error *error)
{
    *curve = (struct train_curve){.capacity = capacity_of(total), .every = every_of(total), .total = total};
    return memory_new(curve->capacity, sizeof *curve->points, "training curve", &curve->points, error);
}

void train_curve_reset(struct train_curve *curve)
{
    memory_free(curve->points);
    *curve = (struct train_curve){0};
}

int64_t train_curve_bytes(int64_t total)
{
    return capacity_of(total) * (int64_t)sizeof(struct state_point);
}

int64_t train_curve_disk_bytes(int64_t total)
{
    return train_curve_bytes(total) + capacity_of(total) * ROW_BYTES;
}

enum status train_curve_continue(struct train_curve *curve, const struct state_point *points, int64_t count,
                                 struct error *error)
{
    if (count > curve->capacity)
        return error_set(error, STATUS_INPUT_CHANGED,
                         "the saved training curve has %" PRId64 " points, this run can have %" PRId64, count,
                         curve->capacity);
    if (count > 0) memcpy(curve->points, points, (size_t)count * sizeof *points);
    curve->count = count;
    return STATUS_OK;
}

void train_curve_note(struct train_curve *curve, const struct trainer *trainer)
{
    const int64_t step = trainer->step;
    if (step % curve->every != 0 && step != curve->total) return;
    assert(curve->count < curve->capacity);
    curve->points[curve->count++] = (struct state_point){step, trainer->loss, trainer->gradient_norm};
}

void train_curve_head(struct buffer *text)
{
    buffer_puts(text, "step,tokens,learning_rate,loss,gradient_norm\n");
}

enum status train_curve_rows(struct buffer *text, const struct train_params *params, const struct state_point *points,
                             int64_t count, struct error *error)
{
    const struct schedule schedule = train_plan_schedule(params);
    for (int64_t i = 0; i < count; i++) {
        const struct state_point *point = &points[i];
        buffer_printf(text, "%" PRId64 ",%" PRId64, point->step,
                      point->step * params->batch_sequences * params->sequence_length);
        losses_table_number(text, schedule_rate(&schedule, point->step - 1));
        losses_table_number(text, point->loss);
        losses_table_number(text, point->gradient_norm);
        buffer_puts(text, "\n");
    }
    return buffer_status(text, "the training curve", error);
}
