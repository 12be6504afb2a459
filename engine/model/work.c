#include "model/work.h"

#include "model/config.h"

/* The number of pairs of a token and one that it attends to, over all sequences. Without a window (0) it attends to all
 * before it. */
static double pairs(const struct chunks *chunks, int64_t window)
{
    double sum = 0;
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct batch *batch = &chunks->chunks[i].batch;
        for (int64_t s = 0; s < batch->sequences; s++) {
            const int64_t past = batch->branches == NULL ? 0 : batch->branches->pasts[s];
            const int64_t length = batch->starts[s + 1] - batch->starts[s], left = window > past ? window - past : 0;
            const double whole =
                (double)(window > 0 && left < length ? left : length); /* tokens that see all before them */
            sum += whole * ((double)past + (whole + 1) / 2) + ((double)length - whole) * (double)window;
        }
    }
    return sum;
}

static double step_work(const struct program *program, const struct step *step, const struct chunks *chunks)
{
    const double tokens = (double)chunks->tokens;
    if (step->op == &op_linear || step->op == &op_experts) {
        if (step->parameter[0] == NO_PARAMETER) return 0;
        const struct parameter *weight = &program->parameters[step->parameter[0]];
        const double visits = step->op == &op_experts ? (double)step->attributes.experts.per_token : 1;
        return 2 * tokens * visits * (double)weight->rows * (double)weight->columns;
    }
    if (step->op == &op_attention) {
        const struct attention_attributes *a = &step->attributes.attention;
        return 4 * pairs(chunks, a->window) * (double)a->heads * (double)a->head_dim;
    }
    if (step->op == &op_convolution)
        return 2 * tokens * (double)step->attributes.convolution.columns * (double)step->attributes.convolution.taps;
    if (step->op == &op_scan)
        return 6 * tokens * (double)step->attributes.scan.channels * (double)step->attributes.scan.states;
    return 0;
}

double work_steps(const struct program *program, int from, int to, const struct chunks *chunks)
{
    double sum = 0;
    for (int i = from; i < to; i++) sum += step_work(program, &program->steps[i], chunks);
    return sum;
}

double work_blocks(const struct model_config *config, const struct program *programs, const struct chunks *chunks)
{
    double sum = 0;
    for (int64_t layer = 0; layer < config->layers; layer++)
        sum += work_steps(&programs[layer], 0, programs[layer].step_count, chunks);
    return sum;
}

double work_head(const struct model_config *config, int64_t tokens)
{
    const double width = (double)config->hidden_size, narrow = (double)config->embedding_size;
    const double projection = config->embedding_size != config->hidden_size ? width * narrow : 0;
    return 2 * (double)tokens * (projection + narrow * (double)config->vocabulary_size);
}
