#include "jobs/advice/advice_list.h"

#include "base/integer.h"
#include "jobs/train/train_plan.h"

#include <stdio.h>

/* Shortest branches, in steps: a decay of fewer steps is none. */
enum { LEAST_STEPS = 2, SHARES = (1 << ADVICE_DECAYS) - 1, LONGEST_SHARE = 1 << (ADVICE_DECAYS - 1) };

/* The lengths that branches of one act must reach: those of its options, in steps, ascending, without duplicates. */
struct wanted {
    int64_t lengths[ADVICE_OPTIONS];
    int64_t count, needed; /* needed: steps that train all of them to their ends */
};

enum advice_act advice_list_act(const struct advice_list *list, const struct advice_option *option, int64_t *amount)
{
    *amount = option->average;
    if (option->average > 0) return ADVICE_AVERAGE;
    *amount = ceil_divide(option->decay > 0 ? option->decay : option->continue_, list->step_tokens);
    return option->decay > 0 ? ADVICE_DECAY : ADVICE_CONTINUE;
}

int64_t advice_list_find(const struct advice_list *list, enum advice_act act, int64_t amount)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->rows[i].act == act && list->rows[i].amount == amount) return i;
    return -1;
}

static void list_add(struct advice_list *list, enum advice_act act, int64_t amount, int64_t before)
{
    list->rows[list->count++] = (struct advice_row){act, amount, before};
    if (act == ADVICE_DECAY || act == ADVICE_CONTINUE) list->trained += amount - before;
}

/* Refuses to branch from a rate that falls or still rises, because the effect of a decay depends on the rate. */
static enum status check_schedule(const struct advice_request *request, int64_t start, struct error *error)
{
    const struct schedule schedule = train_plan_schedule(request->train);
    bool constant = start > schedule.warmup && start <= schedule.total;
    for (int64_t step = schedule.warmup; step < start && constant; step++)
        constant = schedule_rate(&schedule, step) == schedule.peak;
    if (constant) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, "/params/trajectory",
                        "the learning rate of its run (schedule \"%s\") is not constant up to its last checkpoint;"
                        " branches are made of a stable run",
                        schedule_names[schedule.kind]);
}

static enum status check_option(const struct advice_request *request, int64_t i, int64_t members, struct error *error)
{
    const struct advice_option *option = &request->options[i];
    const int given = (option->decay > 0) + (option->average > 0) + (option->continue_ > 0);
    char pointer[48];
    (void)snprintf(pointer, sizeof pointer, "/params/options/%lld", (long long)i);
    if (given != 1) return error_set_at(error, STATUS_INVALID, pointer, "must have one of decay, average and continue");
    for (int64_t k = 0; k < i; k++) {
        const struct advice_option *other = &request->options[k];
        if (option->decay == other->decay && option->average == other->average && option->continue_ == other->continue_)
            return error_set_at(error, STATUS_INVALID, pointer, "is option %lld again", (long long)k);
    }
    if (option->average > members)
        return error_set_at(error, STATUS_INVALID, pointer, "the trajectory has %lld checkpoints to average, not %lld",
                            (long long)members, (long long)option->average);
    if (option->decay > 0 && optimizer_kinds[request->train->optimizer.name]->keeps_rate)
        return error_set_at(error, STATUS_INVALID, pointer, "%s averages instead of lowering the learning rate",
                            optimizer_kinds[request->train->optimizer.name]->name);
    return STATUS_OK;
}

static void want(struct wanted *wanted, int64_t length)
{
    int64_t at = 0;
    while (at < wanted->count && wanted->lengths[at] < length) at++;
    if (at < wanted->count && wanted->lengths[at] == length) return;
    for (int64_t i = wanted->count++; i > at; i--) wanted->lengths[i] = wanted->lengths[i - 1];
    wanted->lengths[at] = length;
}

/* Fewest steps with which the longest of the decays has a length from which all are forecast, or all reach their
 * ends. */
static int64_t decays_least(const struct wanted *wanted)
{
    const int64_t farthest = wanted->count > 0 ? wanted->lengths[wanted->count - 1] : 0;
    const int64_t longest = larger(LEAST_STEPS * LONGEST_SHARE, ceil_divide(farthest, ADVICE_REACH));
    if (longest > farthest) return wanted->needed;
    return smaller(wanted->needed, ceil_divide(longest * SHARES, LONGEST_SHARE));
}

static int64_t continuations_least(const struct wanted *wanted)
{
    return smaller(wanted->needed, larger(LEAST_STEPS * ADVICE_STOPS, ceil_divide(wanted->needed, ADVICE_REACH)));
}

/* Each length is half of the next, so that their logarithms are evenly spaced. */
static void add_decays(const struct wanted *wanted, int64_t share, struct advice_list *list)
{
    if (wanted->needed <= share) {
        for (int64_t i = 0; i < wanted->count; i++) list_add(list, ADVICE_DECAY, wanted->lengths[i], 0);
        return;
    }
    const int64_t longest = smaller(share * LONGEST_SHARE / SHARES, wanted->lengths[wanted->count - 1]);
    for (int i = ADVICE_DECAYS - 1; i >= 0; i--) list_add(list, ADVICE_DECAY, longest >> i, 0);
}

static void add_continuations(const struct advice_request *request, int64_t members, const struct wanted *wanted,
                              int64_t share, struct advice_list *list)
{
    int64_t before = 0;
    if (wanted->needed <= share) {
        for (int64_t i = 0; i < wanted->count; i++) {
            list_add(list, ADVICE_CONTINUE, wanted->lengths[i], before);
            before = wanted->lengths[i];
        }
        return;
    }
    for (int64_t i = larger(members - request->steady, members - 1 - ADVICE_HISTORY); i < members - 1; i++)
        list_add(list, ADVICE_MEMBER, i, 0);
    for (int64_t i = 1; i <= ADVICE_STOPS; i++) {
        list_add(list, ADVICE_CONTINUE, share * i / ADVICE_STOPS, before);
        before = share * i / ADVICE_STOPS;
    }
}

/* Each act gets half of the budget, and the part that the other does not need. */
static enum status add_branches(const struct advice_request *request, int64_t members, struct advice_list *list,
                                struct error *error)
{
    struct wanted decays = {.count = 0}, continuations = {.count = 0};
    const int64_t budget = request->budget / list->step_tokens;
    for (int64_t i = 0; i < request->option_count; i++) {
        int64_t amount;
        const enum advice_act act = advice_list_act(list, &request->options[i], &amount);
        if (act == ADVICE_AVERAGE) continue;
        want(act == ADVICE_DECAY ? &decays : &continuations, amount);
    }
    for (int64_t i = 0; i < decays.count; i++) decays.needed += decays.lengths[i];
    if (continuations.count > 0) continuations.needed = continuations.lengths[continuations.count - 1];
    const int64_t acts = (decays.count > 0) + (continuations.count > 0);
    if (acts > 0 && request->budget == 0)
        return error_set_at(error, STATUS_INVALID, "/params/budget",
                            "is missing: how many tokens the branches may train in all");
    const int64_t decaying = decays_least(&decays), going_on = continuations_least(&continuations);
    const int64_t least = larger(smaller(acts * decaying, decaying + continuations.needed),
                                 smaller(acts * going_on, going_on + decays.needed));
    if (budget < least)
        return error_set_at(error, STATUS_INVALID, "/params/budget",
                            "is too small to forecast these options from: give %lld tokens or more",
                            (long long)(least * list->step_tokens));
    const int64_t half = acts > 0 ? budget / acts : 0;
    add_decays(&decays, larger(half, budget - continuations.needed), list);
    add_continuations(request, members, &continuations, larger(half, budget - decays.needed), list);
    return STATUS_OK;
}

enum status advice_list_make(const struct advice_request *request, int64_t members, struct advice_list *out,
                             struct error *error)
{
    *out = (struct advice_list){.step_tokens = request->train->batch_sequences * request->train->sequence_length,
                                .start = request->steps[members - 1]};
    enum status status = check_schedule(request, out->start, error);
    for (int64_t i = 0; i < request->option_count && status == STATUS_OK; i++)
        status = check_option(request, i, members, error);
    if (status != STATUS_OK) return status;
    list_add(out, ADVICE_MEMBER, members - 1, 0);
    for (int64_t i = 0; i < request->option_count; i++)
        if (request->options[i].average > 0) list_add(out, ADVICE_AVERAGE, request->options[i].average, 0);
    return add_branches(request, members, out, error);
}

enum status advice_check(const struct advice_request *request, int64_t members, struct error *error)
{
    struct advice_list list;
    return advice_list_make(request, members, &list, error);
}
