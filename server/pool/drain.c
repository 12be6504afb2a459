#include "pool/drain.h"

static const double STOP_LEAD = 10, LEASE_LEAD = 60, LEASE_PART = 0.1;

void drain_init(struct drain *drain, double now, double limit_seconds, double idle_seconds)
{
    const double part = limit_seconds * LEASE_PART, lead = part < LEASE_LEAD ? part : LEASE_LEAD;
    *drain = (struct drain){.idle_seconds = idle_seconds, .busy_at = now};
    if (limit_seconds <= 0) return;
    const double stop_lead = limit_seconds / 2 < STOP_LEAD ? limit_seconds / 2 : STOP_LEAD;
    drain->ends_at = now + limit_seconds - stop_lead;
    drain->last_lease = drain->ends_at - lead;
}

bool drain_may_lease(const struct drain *drain, double now)
{
    return drain->ends_at <= 0 || now < drain->last_lease;
}

enum drain_reason drain_due(struct drain *drain, double now, bool busy)
{
    if (busy) drain->busy_at = now;
    if (drain->ends_at > 0 && (now >= drain->ends_at || (!busy && now >= drain->last_lease))) return DRAIN_LIMIT;
    return drain->idle_seconds > 0 && now - drain->busy_at >= drain->idle_seconds ? DRAIN_IDLE : DRAIN_NOT;
}

const char *drain_words(enum drain_reason reason)
{
    static const char *const words[] = {
        [DRAIN_NOT] = "", [DRAIN_LIMIT] = "its time limit is near", [DRAIN_IDLE] = "there is nothing to do"};
    return words[reason];
}
