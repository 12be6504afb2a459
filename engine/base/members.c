#include "base/members.h"

/* Ends the members that are stopped. Returns the status that stopped the last live one, or STATUS_OK. */
static enum status check(struct members *members, const struct member *except, struct error *error)
{
    enum status last = STATUS_OK;
    for (struct member *member = members_next(members, NULL); member != NULL; member = members_next(members, member)) {
        struct error own;
        const enum status status = member == except ? STATUS_OK : monitor_check(member->own, &own);
        if (status == STATUS_OK) continue;
        last = status;
        *error = own;
        members_end(member, status, &own);
    }
    return last;
}

/* ---- The monitor of the batch ---- */

static void all_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct members *members = owner;
    for (struct member *member = members_next(members, NULL); member != NULL; member = members_next(members, member))
        monitor_progress(member->own, done, total, unit);
}

static void all_log(void *owner, const char *line)
{
    const struct members *members = owner;
    for (struct member *member = members_next(members, NULL); member != NULL; member = members_next(members, member))
        monitor_log(member->own, "%s", line);
}

static enum status all_check(void *owner, struct error *error)
{
    struct members *members = owner;
    const enum status last = check(members, NULL, error);
    return members->live == 0 ? last : STATUS_OK;
}

/* ---- The monitor of one member ---- */

static void one_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct member *member = owner;
    monitor_progress(member->own, done, total, unit);
}

static void one_log(void *owner, const char *line)
{
    const struct member *member = owner;
    monitor_log(member->own, "%s", line);
}

static enum status one_check(void *owner, struct error *error)
{
    const struct member *member = owner;
    members_check(member->members, member);
    return monitor_check(member->own, error);
}

/* ---- The list of members ---- */

void members_init(struct members *members, void *owner,
                  void (*ended)(struct member *member, enum status status, const struct error *error))
{
    *members =
        (struct members){.owner = owner,
                         .ended = ended,
                         .monitor = {.owner = members, .progress = all_progress, .log = all_log, .check = all_check}};
}

void members_enter(struct members *members, struct member *member, void *owner, const struct monitor *own)
{
    *member = (struct member){
        .owner = owner,
        .live = true,
        .monitor = {.owner = member, .progress = one_progress, .log = one_log, .check = one_check},
        .own = own,
        .members = members,
    };
    if (members->last == NULL)
        members->first = member;
    else
        members->last->next = member;
    members->last = member;
    members->live++;
}

struct member *members_next(const struct members *members, const struct member *after)
{
    struct member *member = after == NULL ? members->first : after->next;
    while (member != NULL && !member->live) member = member->next;
    return member;
}

void members_end(struct member *member, enum status status, const struct error *error)
{
    struct members *members = member->members;
    if (!member->live) return;
    member->live = false;
    members->live--;
    members->ended(member, status, error);
}

void members_end_all(struct members *members, enum status status, const struct error *error)
{
    for (struct member *member = members_next(members, NULL); member != NULL; member = members_next(members, member))
        members_end(member, status, error);
}

void members_each(struct members *members, enum status (*step)(struct member *member, struct error *error))
{
    for (struct member *member = members_next(members, NULL); member != NULL; member = members_next(members, member)) {
        struct error error;
        const enum status status = step(member, &error);
        if (status != STATUS_OK) members_end(member, status, &error);
    }
}

void members_check(struct members *members, const struct member *except)
{
    struct error unused;
    (void)check(members, except, &unused);
}
