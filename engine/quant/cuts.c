#include "quant/cuts.h"

static bool quantizable(const struct program *program, int step)
{
    const struct step *linear = &program->steps[step];
    return linear->op == &op_experts || (linear->op == &op_linear && program->parameters[linear->parameter[0]].linear);
}

/* Products that are not quantized are tiny: a router's. */
static bool step_cheap(const struct program *program, int step)
{
    return !quantizable(program, step) && program->steps[step].op != &op_attention &&
           program->steps[step].op != &op_scan;
}

static bool writes_hidden(const struct program *program, const struct program_plan *plan, int from, int to)
{
    for (int i = from; i < to; i++)
        if (plan->offset[program->steps[i].output] < 0) return true;
    return false;
}

static bool produced(const struct program *program, int slot, int before)
{
    const int written = program->slots[slot].of == NO_SLOT ? slot : program->slots[slot].of;
    for (int i = 0; i < before; i++)
        if (program->steps[i].output == written || program->steps[i].saved == written) return true;
    return false;
}

static void set_live(const struct program *program, const struct program_plan *plan, int at, struct cut *cut)
{
    cut->resume = at;
    cut->live_count = 0;
    cut->live_width = 0;
    for (int s = 0; s < program->slot_count; s++) {
        if (plan->offset[s] < 0 || !produced(program, s, at) || !program_live(program, s, at)) continue;
        cut->live[cut->live_count++] = s;
        cut->live_width += program->slots[s].width;
    }
}

/* Sets the step to resume from, in [from, cut->step]: the one that holds least, the latest of equals. */
static void set_resume(const struct program *program, const struct program_plan *plan, int from, struct cut *cut)
{
    struct cut best = *cut;
    set_live(program, plan, cut->step, &best);
    for (int at = cut->step - 1; at >= from && step_cheap(program, at) && !writes_hidden(program, plan, at, cut->step);
         at--) {
        struct cut candidate = *cut;
        set_live(program, plan, at, &candidate);
        if (candidate.live_width < best.live_width) best = candidate;
    }
    *cut = best;
}

void cuts_plan(const struct program *program, int64_t budget_width, struct cuts *out)
{
    struct program_plan plan;
    int from = 0;
    program_plan(program, false, &plan);
    out->count = 0;
    for (int i = 0; i < program->step_count; i++) {
        if (!quantizable(program, i)) continue;
        struct cut *cut = &out->cuts[out->count++];
        *cut = (struct cut){.step = i, .count = 1};
        while (i + 1 < program->step_count && quantizable(program, i + 1) &&
               program->steps[i + 1].input[0] == program->steps[cut->step].input[0]) {
            i++;
            cut->count++;
        }
        set_resume(program, &plan, from, cut);
        cut->held = cut->live_width <= budget_width || writes_hidden(program, &plan, from, cut->step);
        if (cut->held) from = cut->resume;
    }
}
