/* advice_list.h: the measurements of an advice, in order. For advice.c and its neighbours. */
#ifndef ADVICE_ADVICE_LIST_H
#define ADVICE_ADVICE_LIST_H

#include "jobs/advice/advice.h"

enum { ADVICE_ROWS = 1 + ADVICE_HISTORY + 2 * ADVICE_OPTIONS + ADVICE_DECAYS + ADVICE_STOPS };

enum advice_act { ADVICE_MEMBER, ADVICE_AVERAGE, ADVICE_DECAY, ADVICE_CONTINUE, ADVICE_ACTS };

struct advice_row {
    enum advice_act act;
    int64_t amount; /* checkpoints that are averaged; steps of a branch; for a member its index in the family */
    int64_t before; /* ADVICE_CONTINUE: steps of it that the previous row has trained already */
};

/* Decays and continuations by rising length; each continuation goes on where the one before it ended. */
struct advice_list {
    int64_t count;
    struct advice_row rows[ADVICE_ROWS];
    int64_t step_tokens, start; /* tokens of a step; steps of the last checkpoint */
    int64_t trained;            /* steps of all branches */
};

/* Statuses of advice_check. */
MUST_CHECK enum status advice_list_make(const struct advice_request *request, int64_t members, struct advice_list *out,
                                        struct error *error);

/* The act that an option asks for, and *amount checkpoints or steps. */
enum advice_act advice_list_act(const struct advice_list *list, const struct advice_option *option, int64_t *amount);

/* Index of the row that measures exactly this, -1: none. */
int64_t advice_list_find(const struct advice_list *list, enum advice_act act, int64_t amount);

#endif
