/* members.h: which members of a batch are still live. Members work together but end one by one: each fails, is stopped
 * or finishes without the others, and its end is reported once. Used by one thread; allocates nothing. */
#ifndef BASE_MEMBERS_H
#define BASE_MEMBERS_H

#include "base/monitor.h"

struct members;

/* Lies in the caller's struct while the batch works. */
struct member {
    void *owner; /* the caller's struct */
    bool live;
    /* For work of this member alone. It also checks the other members, which would not be asked during that time. */
    struct monitor monitor;

    const struct monitor *own; /* lent; may be NULL */
    struct members *members;
    struct member *next;
};

struct members {
    void *owner; /* the caller's struct */
    /* Called once for each member when it ends. `error` says why, unless `status` is STATUS_OK. */
    void (*ended)(struct member *member, enum status status, const struct error *error);
    int64_t live;
    /* For work that all members share: progress and log lines go to each member, stopped members end, and the work
     * itself stops only when no member is live. */
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

/* Calls `step` for each live member. A member whose step fails ends; the others go on. */
void members_each(struct members *members, enum status (*step)(struct member *member, struct error *error));
/* Ends the members whose monitors ask to stop, except `except` (may be NULL). */
void members_check(struct members *members, const struct member *except);

#endif
