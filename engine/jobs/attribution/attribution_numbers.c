#include "jobs/attribution/attribution_numbers.h"

#include "base/checksum.h"

/* A row. */
enum { LOSS_FP, LOSS, DELTA, DELTA_LOW, DELTA_HIGH, KL, TOP1_AGREEMENT, BITS, WEIGHTS, CALIBRATION_TOKENS, NUMBERS };

static void add_texts(struct checksum *sum, const struct sequences *texts)
{
    checksum_add(sum, texts->tokens, (size_t)texts->starts[texts->count] * sizeof *texts->tokens);
}

/* Rows of other inputs have another fingerprint. */
static uint64_t fingerprint(const struct attribution_list *list)
{
    const struct attribution_request *request = list->request;
    const struct attribution_result *units = list->units;
    const struct sequences *calibration = request->calibration, *evaluation = request->evaluation;
    const int64_t numbers[] = {
        request->model->parameters, units->unit_count,         units->width_count, units->own,
        request->left_out,          request->method.quantizer, evaluation->count,  (int64_t)request->seed};
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, numbers, sizeof numbers);
    checksum_add(&sum, units->widths, sizeof units->widths);
    add_texts(&sum, evaluation);
    if (calibration != NULL && calibration->count > 0) add_texts(&sum, calibration);
    return checksum_value(&sum);
}

enum status attribution_numbers_open(const struct attribution_list *list, struct saved_table *out, struct error *error)
{
    return saved_table_open(list->request->work_directory, "attribution.table", fingerprint(list), list->rows, NUMBERS,
                            out, error);
}

void attribution_numbers_plan(const struct attribution_list *list, struct run_plan *plan)
{
    saved_table_plan(list->rows, NUMBERS, list->request->work_directory != NULL ? list->rows : 0, plan);
}

enum status attribution_numbers_add(struct saved_table *table, const struct quantize_result *found, struct error *error)
{
    double row[NUMBERS] = {
        [LOSS_FP] = found->fp.loss,
        [LOSS] = found->q.loss,
        [DELTA] = found->delta,
        [DELTA_LOW] = found->delta_low,
        [DELTA_HIGH] = found->delta_high,
        [KL] = found->kl,
        [TOP1_AGREEMENT] = found->top1_agreement,
        [CALIBRATION_TOKENS] = (double)found->calibration_tokens,
    };
    for (int64_t i = 0; i < found->layer_count; i++) {
        const struct layer_summary *layer = &found->layers[i];
        if (layer->skipped) continue;
        row[BITS] += (double)layer->bits;
        row[WEIGHTS] += (double)(layer->rows * layer->columns);
    }
    const enum status status = saved_table_add(table, row, error);
    return status == STATUS_OK ? saved_table_save(table, error) : status;
}

bool attribution_numbers_has(const struct saved_table *table, int64_t row)
{
    return row < table->done;
}

struct attribution_number attribution_numbers_at(const struct saved_table *table, int64_t row)
{
    const double *at = table->values + row * NUMBERS;
    return (struct attribution_number){.loss = at[LOSS],
                                       .delta = at[DELTA],
                                       .delta_low = at[DELTA_LOW],
                                       .delta_high = at[DELTA_HIGH],
                                       .kl = at[KL],
                                       .top1_agreement = at[TOP1_AGREEMENT],
                                       .bits = (int64_t)at[BITS],
                                       .weights = (int64_t)at[WEIGHTS]};
}

/* A run without a unit begins at the unit's block and counts what it stores from there: bits and weights are those of
 * the whole less the unit's. */
static void gather_left_out(const struct saved_table *table, const struct attribution_list *list,
                            struct attribution_result *out)
{
    const struct attribution_number *whole = &out->whole[out->own];
    for (int64_t i = 0; i < out->unit_count; i++) {
        const struct attribution_number *alone = &out->alone[i * out->width_count + out->own];
        out->left_out[i] = attribution_numbers_at(table, list->left_out + i);
        out->left_out[i].bits = whole->bits - alone->bits;
        out->left_out[i].weights = whole->weights - alone->weights;
    }
}

void attribution_numbers_gather(const struct saved_table *table, const struct attribution_list *list,
                                struct attribution_result *out)
{
    for (int64_t i = 0; i < list->left_out; i++) out->alone[i] = attribution_numbers_at(table, i);
    for (int64_t i = 0, row = list->others; i < out->width_count; i++)
        out->whole[i] = attribution_numbers_at(table, i == out->own ? list->whole : row++);
    if (out->left_out != NULL) gather_left_out(table, list, out);
    out->loss_fp = table->values[LOSS_FP];
    out->calibration_tokens = (int64_t)table->values[list->whole * NUMBERS + CALIBRATION_TOKENS];
}
