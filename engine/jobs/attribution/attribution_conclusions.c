#include "jobs/attribution/attribution_conclusions.h"

#include "base/memory.h"

#include <math.h>

void attribution_conclusions_add_up(struct attribution_result *out)
{
    for (int64_t w = 0; w < out->width_count; w++) {
        struct attribution_additive *sum = &out->additive[w];
        *sum = (struct attribution_additive){.delta_marginal = w == out->own && out->left_out != NULL ? 0 : NAN};
        for (int64_t i = 0; i < out->unit_count; i++) {
            sum->delta_alone += out->alone[i * out->width_count + w].delta;
            sum->kl_alone += out->alone[i * out->width_count + w].kl;
            if (!isnan(sum->delta_marginal)) sum->delta_marginal += out->whole[w].delta - out->left_out[i].delta;
        }
        sum->share = sum->delta_alone / out->whole[w].delta;
    }
}

/* Prediction, from the measurements of units alone, for a model whose unit i has width picked[i]. */
static struct attribution_point predict(const struct attribution_result *out, const int64_t *picked)
{
    struct attribution_point point = {.unit = -1, .loss = out->loss_fp};
    int64_t bits = 0, weights = 0;
    for (int64_t i = 0; i < out->unit_count; i++) {
        const struct attribution_number *alone = &out->alone[i * out->width_count + picked[i]];
        point.loss += alone->loss - out->loss_fp;
        point.kl += alone->kl;
        bits += alone->bits;
        weights += alone->weights;
    }
    point.bits_per_weight = (double)bits / (double)weights;
    return point;
}

static enum status choices_new(const struct attribution_result *out, enum attribution_objective objective,
                               struct attribution_choice **choices, struct error *error)
{
    const int64_t count = out->unit_count * out->width_count;
    const enum status status = memory_new(count, sizeof **choices, "an allocation", choices, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct attribution_number *alone = &out->alone[i];
        const double harm = objective == ATTRIBUTION_KL ? alone->kl : alone->loss - out->loss_fp;
        (*choices)[i] = (struct attribution_choice){alone->bits, harm};
    }
    return status;
}

/* A point for all units at the least width, and one after each step. */
static void fill_frontier(struct attribution_result *out, const struct attribution_step *steps, int64_t count,
                          int64_t *picked)
{
    out->frontier[0] = predict(out, picked);
    out->frontier[0].bits = out->widths[0];
    for (int64_t i = 0; i < count; i++) {
        picked[steps[i].unit] = steps[i].width;
        out->frontier[i + 1] = predict(out, picked);
        out->frontier[i + 1].unit = steps[i].unit;
        out->frontier[i + 1].bits = out->widths[steps[i].width];
    }
    out->frontier_count = count + 1;
}

enum status attribution_conclusions_frontier(struct attribution_result *out, enum attribution_objective objective,
                                             struct error *error)
{
    const int64_t most = out->unit_count * (out->width_count - 1);
    struct attribution_choice *choices = NULL;
    struct attribution_step *steps = NULL;
    int64_t *picked = NULL, count = 0;
    enum status status;
    if ((status = choices_new(out, objective, &choices, error)) != STATUS_OK) goto done;
    if ((status = memory_new(most, sizeof *steps, "a frontier", &steps, error)) != STATUS_OK) goto done;
    if ((status = memory_new(out->unit_count, sizeof *picked, "a frontier", &picked, error)) != STATUS_OK) goto done;
    if ((status = memory_new(most + 1, sizeof *out->frontier, "a frontier", &out->frontier, error)) != STATUS_OK)
        goto done;
    status = attribution_allocation_frontier(choices, out->unit_count, out->width_count, steps, &count, error);
    if (status == STATUS_OK) fill_frontier(out, steps, count, picked);
done:
    memory_free(choices);
    memory_free(steps);
    memory_free(picked);
    return status;
}

enum status attribution_conclusions_allocate(struct attribution_result *out, enum attribution_objective objective,
                                             double budget, struct error *error)
{
    struct attribution_choice *choices = NULL;
    int64_t weights = 0, least = 0;
    enum status status;
    if ((status = choices_new(out, objective, &choices, error)) != STATUS_OK) goto done;
    if ((status = memory_new(out->unit_count, sizeof *out->picked, "an allocation", &out->picked, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(1, sizeof *out->overrides, "an allocation", &out->overrides, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < out->unit_count; i++) weights += out->alone[i * out->width_count].weights;
    const double most = floor(budget * (double)weights * (1 + 1e-12)); /* a decimal budget is met despite rounding */
    status = attribution_allocation_find(choices, out->unit_count, out->width_count, (int64_t)most, out->picked, &least,
                                         error);
    out->least = (double)least / (double)weights;
    if (status == STATUS_OK) {
        out->predicted = predict(out, out->picked);
        for (int64_t i = 0; i < out->unit_count; i++) out->picked[i] = out->widths[out->picked[i]];
        status = attribution_units_overrides(out->units, out->unit_count, out->picked, out->widths[out->own],
                                             out->overrides, error);
        out->allocated = status == STATUS_OK;
    } else if (status == STATUS_NOT_FOUND) {
        status = STATUS_OK;
    }
done:
    memory_free(choices);
    return status;
}
