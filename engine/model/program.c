#include "model/program.h"

#include <assert.h>
#include <stdio.h>

int program_slot(struct program *program, int64_t width)
{
    assert(program->slot_count < PROGRAM_SLOTS);
    program->slots[program->slot_count] = (struct slot){width, NO_SLOT, 0};
    return program->slot_count++;
}

int program_view(struct program *program, int slot, int64_t first, int64_t width)
{
    const int view = program_slot(program, width);
    assert(program->slots[slot].of == NO_SLOT && first + width <= program->slots[slot].width);
    program->slots[view].of = slot;
    program->slots[view].first = first;
    return view;
}

int program_parameter(struct program *program, const char *name, int64_t rows, int64_t columns, bool linear)
{
    assert(program->parameter_count < PROGRAM_PARAMETERS);
    struct parameter *parameter = &program->parameters[program->parameter_count];
    (void)snprintf(parameter->name, sizeof parameter->name, "%s", name);
    parameter->rows = rows;
    parameter->columns = columns;
    parameter->linear = linear;
    return program->parameter_count++;
}

struct step *program_step(struct program *program, const struct op *op, int input, int output)
{
    assert(program->step_count < PROGRAM_STEPS);
    struct step *step = &program->steps[program->step_count++];
    *step = (struct step){.op = op, .output = output, .saved = NO_SLOT};
    for (int i = 0; i < STEP_INPUTS; i++) step->input[i] = NO_SLOT;
    for (int i = 0; i < STEP_PARAMETERS; i++) step->parameter[i] = NO_PARAMETER;
    step->input[0] = input;
    return step;
}

bool program_live(const struct program *program, int slot, int from)
{
    if (slot == program->output) return true;
    for (int i = from; i < program->step_count; i++)
        for (int k = 0; k < STEP_INPUTS; k++)
            if (program->steps[i].input[k] == slot) return true;
    return false;
}

/* Whether the slot's memory is needed: for itself or for a view. */
static bool occupied(const struct program *program, int slot, int from)
{
    bool wanted = program_live(program, slot, from);
    for (int s = slot + 1; s < program->slot_count && !wanted; s++)
        wanted = program->slots[s].of == slot && program_live(program, s, from);
    return wanted;
}

/* Memory of a row is cut into regions; a region is free when no live slot lies in it. */
struct regions {
    int count;
    int64_t width[PROGRAM_SLOTS];
    int holder[PROGRAM_SLOTS]; /* slot, or NO_SLOT */
};

enum { REGION_INPUT = -2, REGION_ABSENT = -3 };

static void regions_release(const struct program *program, struct regions *regions, int from)
{
    for (int r = 0; r < regions->count; r++)
        if (regions->holder[r] != NO_SLOT && !occupied(program, regions->holder[r], from)) regions->holder[r] = NO_SLOT;
}

/* The narrowest free region that is wide enough, else the widest free one, grown; else a new one. */
static int regions_take(struct regions *regions, int slot, int64_t width)
{
    int best = -1;
    for (int r = 0; r < regions->count; r++) {
        if (regions->holder[r] != NO_SLOT) continue;
        const bool fits = regions->width[r] >= width, best_fits = best >= 0 && regions->width[best] >= width;
        const bool narrower = best >= 0 && regions->width[r] < regions->width[best];
        if (best < 0 || (fits && !best_fits) || (fits && narrower) || (!fits && !best_fits && !narrower)) best = r;
    }
    if (best < 0) {
        best = regions->count++;
        regions->width[best] = 0;
    }
    if (regions->width[best] < width) regions->width[best] = width;
    regions->holder[best] = slot;
    return best;
}

static void plan_shared(const struct program *program, struct program_plan *plan)
{
    struct regions regions = {0};
    int region_of[PROGRAM_SLOTS];
    for (int s = 0; s < program->slot_count; s++) region_of[s] = NO_SLOT;
    region_of[program->input] = REGION_INPUT;
    for (int i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];
        const int source = step->input[0], target = step->output;
        regions_release(program, &regions, i);
        if (step->saved != NO_SLOT)
            region_of[step->saved] = program_live(program, step->saved, i + 1)
                                         ? regions_take(&regions, step->saved, program->slots[step->saved].width)
                                         : REGION_ABSENT;
        if (target == source) continue;
        const bool reuse = step->op->may_reuse_input && source != program->output &&
                           !occupied(program, source, i + 1) && program->slots[source].of == NO_SLOT &&
                           program->slots[source].width == program->slots[target].width;
        if (!reuse) {
            region_of[target] = regions_take(&regions, target, program->slots[target].width);
            continue;
        }
        region_of[target] = region_of[source];
        if (region_of[target] >= 0) regions.holder[region_of[target]] = target;
    }
    int64_t start[PROGRAM_SLOTS];
    for (int r = 0; r < regions.count; r++) {
        start[r] = plan->width;
        plan->width += regions.width[r];
    }
    for (int s = 0; s < program->slot_count; s++) {
        const int region = region_of[program->slots[s].of == NO_SLOT ? s : program->slots[s].of];
        plan->offset[s] = region >= 0 ? start[region] : region == REGION_ABSENT ? PLAN_ABSENT : -1;
    }
}

void program_plan(const struct program *program, bool keep_all, struct program_plan *plan)
{
    plan->width = 0;
    if (!keep_all) {
        plan_shared(program, plan);
        return;
    }
    for (int s = 0; s < program->slot_count; s++) {
        const int of = program->slots[s].of;
        plan->offset[s] = s == program->input ? -1 : of == NO_SLOT ? plan->width : plan->offset[of];
        if (s != program->input && of == NO_SLOT) plan->width += program->slots[s].width;
    }
}
