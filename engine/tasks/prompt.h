/* prompt.h: a record in the words of its task's row: contexts, continuations, and the right choice. */
#ifndef TASKS_PROMPT_H
#define TASKS_PROMPT_H

#include "tasks/record.h"
#include "tasks/task.h"

struct prompt_span {
    size_t start, end; /* in text */
};

struct prompt {
    struct phrase text; /* owned */
    int choices;        /* 2 or more */
    int contexts;       /* 1, or one for each choice */
    int continuations;  /* 1, or one for each choice; without the delimiter */
    struct prompt_span context[TASK_CHOICES], continuation[TASK_CHOICES], description;
    int gold;
    int64_t characters[TASK_CHOICES]; /* by choice: divisor of the normalised accuracy */
};

/* The caller owns *out (prompt_reset), also after a failure. STATUS_INVALID (a field is missing or of another type, an
 * answer that is not among the choices, too few or too many choices; names file and line), STATUS_MALFORMED,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status prompt_read(const struct task *task, const struct record *record, struct prompt *out,
                                   struct error *error);
void prompt_reset(struct prompt *prompt); /* {0} is fine */

/* The record as a solved example: context, delimiter, right continuation; appended to `out`. */
MUST_CHECK enum status prompt_solved(const struct task *task, const struct prompt *prompt, struct phrase *out,
                                     struct error *error);

/* The context (the continuation) of a choice. */
static inline struct prompt_span prompt_context(const struct prompt *prompt, int choice)
{
    return prompt->context[prompt->contexts == 1 ? 0 : choice];
}
static inline struct prompt_span prompt_continuation(const struct prompt *prompt, int choice)
{
    return prompt->continuation[prompt->continuations == 1 ? 0 : choice];
}

#endif
