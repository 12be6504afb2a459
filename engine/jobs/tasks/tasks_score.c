#include "jobs/tasks/tasks_score.h"

#include "eval/paired.h"
#include "eval/proportion.h"

#include <math.h>

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

/* The mean of values that are each -1, 0 or 1, and its standard error. */
static struct tasks_accuracy mean_of(int64_t sum, int64_t squares, int64_t count)
{
    const double n = (double)count, value = (double)sum / n;
    const double deviations = (double)squares - (double)sum * value;
    return (struct tasks_accuracy){value, count > 1 ? sqrt(deviations / (n - 1) / n) : (double)NAN, NAN, NAN};
}

static struct tasks_accuracy accuracy_of(int64_t right, int64_t count)
{
    struct tasks_accuracy out = mean_of(right, right, count);
    proportion_wilson(right, count, &out.low, &out.high);
    return out;
}

static struct tasks_accuracy difference_of(int64_t up, int64_t down, int64_t count)
{
    struct tasks_accuracy out = mean_of(up - down, up + down, count);
    paired_change(up, down, count, &out.low, &out.high);
    return out;
}

static bool is_right(const struct tasks_outcome *outcome, int model, bool normalised)
{
    return (normalised ? outcome->choice_normalised : outcome->choice)[model] == outcome->gold;
}

static struct tasks_measure measure(const struct tasks_outcome *outcomes, int64_t count, int models, bool normalised)
{
    static const struct tasks_accuracy none = {NAN, NAN, NAN, NAN};
    struct tasks_measure out = {.accuracy = {none, none}, .difference = none, .mcnemar = NAN};
    int64_t right[TASKS_MODELS] = {0};
    for (int64_t i = 0; i < count; i++) {
        bool each[TASKS_MODELS] = {false};
        for (int m = 0; m < models; m++) right[m] += each[m] = is_right(&outcomes[i], m, normalised);
        if (models == 1) continue;
        out.up += each[TASKS_QUANTIZED] && !each[TASKS_FULL];
        out.down += each[TASKS_FULL] && !each[TASKS_QUANTIZED];
    }
    for (int m = 0; m < models && count > 0; m++) out.accuracy[m] = accuracy_of(right[m], count);
    if (models == 1 || count == 0) return out;
    out.difference = difference_of(out.up, out.down, count);
    out.mcnemar = paired_mcnemar(out.up, out.down);
    return out;
}

void tasks_score_make(const struct tasks_outcome *outcomes, int64_t count, int models, bool normalised,
                      struct tasks_score *out)
{
    *out = (struct tasks_score){.items = count,
                                .plain = measure(outcomes, count, models, false),
                                .harness_normalises = normalised,
                                .normalised = measure(outcomes, count, models, true)};
}

/* ---- The mean over tasks ---- */

/* Sums over tasks: of values, of squared errors and of squared distances to the ends. */
static void add(struct tasks_accuracy *sum, struct tasks_accuracy one)
{
    sum->value += one.value;
    sum->error += one.error * one.error;
    sum->low += (one.value - one.low) * (one.value - one.low);
    sum->high += (one.high - one.value) * (one.high - one.value);
}

static struct tasks_accuracy mean_over(struct tasks_accuracy sum, int64_t tasks)
{
    const double n = (double)tasks, value = sum.value / n;
    return (struct tasks_accuracy){value, sqrt(sum.error) / n, value - sqrt(sum.low) / n, value + sqrt(sum.high) / n};
}

static struct tasks_measure mean_measure(const struct tasks_score *scores, int64_t tasks, bool normalised)
{
    struct tasks_measure out = {.mcnemar = NAN};
    int64_t count = 0;
    for (int64_t t = 0; t < tasks; t++) {
        const struct tasks_measure *one = normalised ? &scores[t].normalised : &scores[t].plain;
        if (normalised && !scores[t].harness_normalises) continue;
        for (int m = 0; m < TASKS_MODELS; m++) add(&out.accuracy[m], one->accuracy[m]);
        add(&out.difference, one->difference);
        out.up += one->up;
        out.down += one->down;
        count++;
    }
    for (int m = 0; m < TASKS_MODELS; m++) out.accuracy[m] = mean_over(out.accuracy[m], count);
    out.difference = mean_over(out.difference, count);
    return out; /* no McNemar: a mean weighs tasks alike, and the flips of all together would weigh items alike */
}

void tasks_score_mean(const struct tasks_score *scores, int64_t tasks, struct tasks_score *out)
{
    *out = (struct tasks_score){.plain = mean_measure(scores, tasks, false),
                                .normalised = mean_measure(scores, tasks, true)};
    for (int64_t t = 0; t < tasks; t++) {
        out->items += scores[t].items;
        out->harness_normalises = out->harness_normalises || scores[t].harness_normalises;
    }
}
