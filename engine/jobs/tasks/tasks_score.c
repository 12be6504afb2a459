#include "jobs/tasks/tasks_score.h"

#include "base/memory.h"
#include "eval/bootstrap.h"
#include "eval/paired.h"

#include <math.h>

/* Columns of an item: right or not, plain and normalised, of each model; then the differences. */
enum column {
    PLAIN_FULL,
    NORMALISED_FULL,
    PLAIN_QUANTIZED,
    NORMALISED_QUANTIZED,
    PLAIN_DIFFERENCE,
    NORMALISED_DIFFERENCE
};

int tasks_score_choice(const double *log_likelihoods, const int64_t *characters, int choices)
{
    double best = -INFINITY;
    int chosen = -1;
    for (int i = 0; i < choices; i++) {
        const double value = log_likelihoods[i] / (characters == NULL ? 1 : (double)characters[i]);
        if (!(value > best) && !(chosen < 0 && value == best)) continue;
        best = value;
        chosen = i;
    }
    return chosen;
}

static int column_count(int models)
{
    return models == 1 ? PLAIN_QUANTIZED : TASKS_SCORE_COLUMNS;
}

static void fill_row(const struct tasks_outcome *outcome, int models, double *row)
{
    for (int m = 0; m < models; m++) {
        row[2 * m] = outcome->choice[m] == outcome->gold;
        row[2 * m + 1] = outcome->choice_normalised[m] == outcome->gold;
    }
    if (models == 1) return;
    row[PLAIN_DIFFERENCE] = row[PLAIN_QUANTIZED] - row[PLAIN_FULL];
    row[NORMALISED_DIFFERENCE] = row[NORMALISED_QUANTIZED] - row[NORMALISED_FULL];
}

static struct tasks_accuracy accuracy_of(const double *values, int64_t count, int columns, int column)
{
    struct tasks_accuracy out = {NAN, NAN, NAN, NAN};
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i * columns + column];
    out.value = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double d = values[i * columns + column] - out.value;
        squares += d * d;
    }
    if (count > 1) out.error = sqrt(squares / (double)(count - 1) / (double)count);
    return out;
}

static struct tasks_accuracy *column_of(struct tasks_score *score, int column)
{
    struct tasks_measure *measure = column % 2 == 0 ? &score->plain : &score->normalised;
    return column >= PLAIN_DIFFERENCE ? &measure->difference : &measure->accuracy[column / 2];
}

static void count_flips(const double *values, int64_t count, int columns, int column, struct tasks_measure *out)
{
    for (int64_t i = 0; i < count; i++) {
        out->up += values[i * columns + column] > 0;
        out->down += values[i * columns + column] < 0;
    }
    out->mcnemar = paired_mcnemar(out->up, out->down);
}

/* The quantiles sort what they are given: a copy. */
static void interval(const double *draws, double *scratch, struct tasks_accuracy *out)
{
    for (int64_t i = 0; i < BOOTSTRAP_DRAWS; i++) scratch[i] = draws[i];
    bootstrap_interval(scratch, BOOTSTRAP_DRAWS, out->value, &out->low, &out->high);
}

enum status tasks_score_make(const struct tasks_outcome *outcomes, int64_t count, int models, uint64_t seed,
                             uint32_t stream, double *draws, struct tasks_score *out, struct error *error)
{
    const int columns = column_count(models);
    double *values = NULL, *scratch = NULL;
    enum status status;
    *out = (struct tasks_score){.items = count};
    if ((status = memory_new(count * columns, sizeof *values, "scores", &values, error)) != STATUS_OK) goto done;
    if ((status = memory_new(BOOTSTRAP_DRAWS, sizeof *scratch, "scores", &scratch, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < count; i++) fill_row(&outcomes[i], models, values + i * columns);
    if (draws != NULL) bootstrap_means(values, count, columns, seed, stream, draws);
    for (int c = 0; c < columns; c++) {
        *column_of(out, c) = accuracy_of(values, count, columns, c);
        if (draws != NULL) interval(draws + c * BOOTSTRAP_DRAWS, scratch, column_of(out, c));
    }
    if (models == 1) goto done;
    count_flips(values, count, columns, PLAIN_DIFFERENCE, &out->plain);
    count_flips(values, count, columns, NORMALISED_DIFFERENCE, &out->normalised);
done:
    memory_free(values);
    memory_free(scratch);
    return status;
}

static void mean_flips(struct tasks_measure *out, const struct tasks_measure *one)
{
    out->up += one->up;
    out->down += one->down;
}

void tasks_score_mean(const struct tasks_score *scores, double *draws, int64_t tasks, int models,
                      struct tasks_score *out)
{
    *out = (struct tasks_score){0};
    for (int64_t t = 0; t < tasks; t++) {
        out->items += scores[t].items;
        mean_flips(&out->plain, &scores[t].plain);
        mean_flips(&out->normalised, &scores[t].normalised);
    }
    out->plain.mcnemar = paired_mcnemar(out->plain.up, out->plain.down);
    out->normalised.mcnemar = paired_mcnemar(out->normalised.up, out->normalised.down);
    for (int c = 0; c < column_count(models); c++) {
        struct tasks_accuracy *mean = column_of(out, c);
        double value = 0, variance = 0, *first = draws + c * BOOTSTRAP_DRAWS;
        for (int64_t t = 0; t < tasks; t++) {
            struct tasks_score score = scores[t];
            const struct tasks_accuracy *one = column_of(&score, c);
            value += one->value / (double)tasks;
            variance += one->error * one->error / (double)(tasks * tasks);
            for (int64_t i = 0; t > 0 && i < BOOTSTRAP_DRAWS; i++) first[i] += first[t * TASKS_SCORE_DRAWS + i];
        }
        for (int64_t i = 0; i < BOOTSTRAP_DRAWS; i++) first[i] /= (double)tasks;
        *mean = (struct tasks_accuracy){value, sqrt(variance), NAN, NAN};
        bootstrap_interval(first, BOOTSTRAP_DRAWS, value, &mean->low, &mean->high);
    }
}
