/* members.h: who of a batch is still live. What is worked on together ends one by one: each member fails, is stopped or
 * finishes without the others, and is told so once. Used by one thread; nothing is allocated. */
#ifndef BASE_MEMBERS_H
#define BASE_MEMBERS_H

#include "base/monitor.h"

struct members;

/* Lies in the caller's struct for as long as the batch is worked on. */
struct member {
    void *owner; /* the caller's struct */
    bool live;
    /* To be given to work that is this member's alone: it checks the others too, who would not be asked otherwise. */
    struct monitor monitor;

    const struct monitor *own; /* lent; may be NULL */
    struct members *members;
    struct member *next;
};

struct members {
    void *owner; /* the caller's struct */
    /* Called once for each member, when it is not live any more. `error` says why unless `status` is STATUS_OK. */
    void (*ended)(struct member *member, enum status status, const struct error *error);
    int64_t live;
    /* To be given to work that is done for all: progress and lines go to each, those who are stopped end, and the work
     * is stopped only when nobody is left. */
    struct monitor monitor;

    struct member *first, *last;
};

void members_init(struct members *members, void *owner,
                  void (*ended)(struct member *member, enum status status, const struct error *error));
/* Adds a live member behind the others. Neither struct may move from here on. */
void members_enter(struct members *members, struct member *member, void *owner, const struct monitor *own);

/* The first live member behind `after` (NULL: of all), or NULL. Any of them may end between two calls. */
struct member *members_next(const struct members *members, const struct member *after);

void members_end(struct member *member, enum status status, const struct error *error); /* nothing when it has ended */
void members_end_all(struct members *members, enum status status, const struct error *error);

/* A step that each takes for itself: whoever fails ends, the others go on. */
void members_each(struct members *members, enum status (*step)(struct member *member, struct error *error));
/* Ends those whose monitors say so, but not `except` (may be NULL). */
void members_check(struct members *members, const struct member *except);

#endif
