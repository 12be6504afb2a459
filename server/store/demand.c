#include "store/demand.h"

#include "store/queue.h"

#include <inttypes.h>
#include <stdio.h>

enum { GONE_MOST = 64, MIB = 1 << 20 };

/* Whether a row was not seen for `span`. What was seen so far ahead was seen before the clock was set back: further
 * than a claim is made ahead. */
#define SILENT(seen_at, span)                                                                 \
    " (" seen_at " < clock_timestamp() - " span " or " seen_at " > clock_timestamp() + " span \
    " + interval '5 minutes') "

/* A run is due within a minute, so a worker takes it before it ends for want of work. A job for one that waits longer,
 * as when the hub asks for an hour, would end without a run, again and again. What is due in more than two hours counts
 * as due, for the reason that queue_lease.c has. */
#define DUE_SOON                                          \
    " (run_at <= clock_timestamp() + interval '1 minute'" \
    " or run_at > clock_timestamp() + interval '2 hours') "

enum status demand_claim(struct connection *connection, const char *name, const struct store_id *owner, double seconds,
                         double ahead_seconds, const struct demand_memory *most, bool *ours, struct error *error)
{
    int64_t affected = 0;
    const enum status status = connection_execute(
        connection,
        "insert into launchers (name, owner, memory_bytes, device_memory_bytes, seen_at)"
        " values ($1, $2, nullif($4::bigint, 0), nullif($6::bigint, 0), clock_timestamp() + $5 * interval '1 second')"
        " on conflict (name) do update set owner = $2, memory_bytes = excluded.memory_bytes,"
        " device_memory_bytes = excluded.device_memory_bytes, seen_at = excluded.seen_at"
        " where launchers.owner = $2 or" SILENT("launchers.seen_at", "$3 * interval '1 second'"),
        VALUES(value_text(name), value_text(owner->text), value_double(seconds), value_integer(most->host),
               value_double(ahead_seconds), value_integer(most->device)),
        &affected, error);
    *ours = status == STATUS_OK && affected == 1;
    return status;
}

enum status demand_disclaim(struct connection *connection, const char *name, const struct store_id *owner,
                            struct error *error)
{
    return connection_execute(connection, "delete from launchers where name = $1 and owner = $2",
                              VALUES(value_text(name), value_text(owner->text)), NULL, error);
}

enum status demand_read(struct connection *connection, const char *label, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "with needs as (select requires ->> 'device' as device,"
        " coalesce(requires -> 'labels', '[]') as labels,"
        " greatest(memory_wanted, (requires ->> 'memory_bytes')::bigint) as memory_bytes,"
        " greatest(device_memory_wanted, (requires ->> 'device_memory_bytes')::bigint) as device_memory_bytes,"
        " planned_seconds"
        " from runs where state = 'queued' and" DUE_SOON "),"
        " groups as (select device, labels, memory_bytes, device_memory_bytes, count(*) as runs,"
        " case when count(*) = count(planned_seconds) then max(planned_seconds) end as seconds"
        " from needs group by 1, 2, 3, 4),"
        " mine as (select w.slurm_job as job, abs(extract(epoch from clock_timestamp() - w.seen_at))::float8 as silent,"
        " exists (select from runs r where r.owner = w.id and r.state = 'running') as busy from workers w"
        " where w.slurm_job <> '' and w.labels @> jsonb_build_array($1::text))"
        " select json_build_object('groups', (select coalesce(json_agg(json_build_object('device', device, 'labels',"
        " labels, 'memory_bytes', memory_bytes, 'device_memory_bytes', device_memory_bytes, 'seconds', seconds, 'runs',"
        " runs) order by device_memory_bytes desc nulls last, memory_bytes desc nulls last, runs desc, labels::text),"
        " '[]') from groups),"
        " 'workers', (select coalesce(json_agg(json_build_object('job', job, 'busy', busy, 'silent', silent)), '[]')"
        " from mine), 'time', extract(epoch from clock_timestamp())::float8)",
        VALUES(value_text(label)), document, error);
}

enum status demand_unplanned(struct connection *connection, int most, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(json_build_object('id', q.id, 'kind', q.kind, 'params', s.params,"
        " 'device', q.requires ->> 'device', 'device_memory_bytes', (q.requires ->> 'device_memory_bytes')::bigint,"
        " 'labels', coalesce(q.requires -> 'labels', '[]'))), '[]') from"
        " (select id, kind, requires from runs where state = 'queued' and planned_at is null"
        " order by priority desc, run_at, number limit $1) q join run_specs s on s.run = q.id",
        VALUES(value_integer(most)), document, error);
}

enum status demand_planned(struct connection *connection, const char *run, const struct demand_memory *needed,
                           double seconds, struct error *error)
{
    return connection_execute(
        connection,
        "update runs set planned_at = clock_timestamp(), planned_seconds = $3,"
        " memory_wanted = greatest(memory_wanted, nullif($2::bigint, 0)),"
        " device_memory_wanted = greatest(device_memory_wanted, nullif($4::bigint, 0))"
        " where id = $1 and state = 'queued'",
        VALUES(value_text(run), value_integer(needed->host), value_double(seconds), value_integer(needed->device)),
        NULL, error);
}

enum status demand_job_gone(struct connection *connection, const char *label, const char *job, double silent_seconds,
                            int *released, struct error *error)
{
    struct rows *rows;
    char evidence[96];
    *released = 0;
    (void)snprintf(evidence, sizeof evidence, "the batch system has no job %.40s any more", job);
    enum status status = connection_query(
        connection,
        "select w.id from workers w where w.slurm_job = $2 and w.labels @> jsonb_build_array($1::text)"
        " and" SILENT("w.seen_at", "$3 * interval '1 second'") "limit $4",
        VALUES(value_text(label), value_text(job), value_double(silent_seconds), value_integer(GONE_MOST)), &rows,
        error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < rows_count(rows) && status == STATUS_OK; i++) {
        struct store_id owner;
        int count = 0;
        (void)snprintf(owner.text, sizeof owner.text, "%s", rows_text(rows, i, 0));
        status = queue_release_dead(connection, &owner, QUEUE_VANISHED, evidence, &count, error);
        if (status == STATUS_OK) status = worker_gone(connection, &owner, error);
        *released += count;
    }
    rows_free(rows);
    return status;
}

/* What worker $1 held, and what it held when its lease ended before the launcher looked. $2: more memory helps, and $3
 * is how much; $4 and $5 are the budgets, $6 why a run has failed, $7 the evidence. */
#define EXPIRED_HERE                                                                                                  \
    " exists (select from run_events e where e.run = r.id and e.epoch = r.epoch and e.data ->> 'reason' = 'expired')" \
    " and exists (select from run_events e where e.run = r.id and e.epoch = r.epoch and e.data ->> 'owner' = $1) "
#define OUT_OF_MEMORY                                                                                         \
    "with lost as materialized (select r.id, r.state as was, case when $2 then r.expiries + 1 >= $4"          \
    " else r.crashes + 1 >= $5 end as last from runs r where (r.state = 'running' and r.owner = $1)"          \
    " or (r.state = 'queued' and r.worker = (select host || '/' || pid from workers where id = $1)"           \
    " and" EXPIRED_HERE ") order by r.id for update skip locked),"                                            \
    " ends as (select id, was, last or (not $2 and (select count(*) from lost) = 1) as over from lost),"      \
    " changed as (update runs r set memory_wanted = case when $2 then greatest(r.memory_wanted, $3::bigint)"  \
    " else r.memory_wanted end, attempts = r.attempts + (was = 'running')::int,"                              \
    " expiries = r.expiries + ($2 and was = 'running')::int, crashes = r.crashes + (not $2)::int,"            \
    " state = case when r.cancel_requested_at is not null then 'cancelled' when over then 'failed'"           \
    " else 'queued' end,"                                                                                     \
    " finished_at = case when over or r.cancel_requested_at is not null then clock_timestamp() end,"          \
    " error = case when over and r.cancel_requested_at is null then $6::json end, owner = null,"              \
    " lease_until = null from ends where r.id = ends.id returning r.id, r.epoch, r.state, was),"              \
    " event as (insert into run_events (run, epoch, type, data) select id, epoch, 'state',"                   \
    " json_build_object('from', was, 'to', state, 'lease', epoch, 'reason',"                                  \
    " case when $2 then 'expired' else 'crashed' end, 'evidence', $7::text) from changed where was <> state)" \
    " select count(*) filter (where state = 'queued' and $2), count(*) filter (where state = 'failed') from changed"

/* Takes back the runs of one worker, which had `memory_bytes`. */
static enum status take_back(struct connection *connection, const struct store_id *owner, const char *job,
                             int64_t most_bytes, struct demand_out_of_memory *out, struct error *error)
{
    struct rows *rows;
    char evidence[160], detail[400];
    const int64_t had = out->memory_bytes, twice = had <= INT64_MAX / 2 ? 2 * had : INT64_MAX;
    const bool grows = most_bytes == 0 || had < most_bytes;
    (void)snprintf(evidence, sizeof evidence,
                   "the batch system killed job %.40s, which had %" PRId64 " MiB: out of memory", job, had / MIB);
    (void)snprintf(detail, sizeof detail,
                   "%s. %s: give the run fewer or shorter sequences, or start the launcher with a larger --most-memory",
                   evidence, grows ? "More has not helped" : "No job of this launcher may have more");
    json_t *document = queue_problem(STATUS_TOO_LARGE, "", detail);
    if (document == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to record why a run failed");
    const enum status status =
        connection_query_one(connection, OUT_OF_MEMORY,
                             VALUES(value_text(owner->text), value_boolean(grows),
                                    value_integer(most_bytes > 0 && twice > most_bytes ? most_bytes : twice),
                                    value_integer(QUEUE_EXPIRY_BUDGET), value_integer(QUEUE_CRASH_BUDGET),
                                    value_json(document), value_text(evidence)),
                             &rows, error);
    json_decref(document);
    if (status != STATUS_OK) return status;
    out->raised += (int)rows_integer(rows, 0, 0);
    out->failed += (int)rows_integer(rows, 0, 1);
    rows_free(rows);
    return STATUS_OK;
}

enum status demand_out_of_memory(struct connection *connection, const char *label, const char *job, int64_t most_bytes,
                                 struct demand_out_of_memory *out, struct error *error)
{
    struct rows *rows;
    *out = (struct demand_out_of_memory){0};
    enum status status =
        connection_query(connection,
                         "select id, coalesce(memory_bytes, 0) from workers"
                         " where slurm_job = $2 and labels @> jsonb_build_array($1::text) limit $3",
                         VALUES(value_text(label), value_text(job), value_integer(GONE_MOST)), &rows, error);
    if (status != STATUS_OK) return status;
    for (int i = 0; i < rows_count(rows) && status == STATUS_OK; i++) {
        struct store_id owner;
        (void)snprintf(owner.text, sizeof owner.text, "%s", rows_text(rows, i, 0));
        out->memory_bytes = rows_integer(rows, i, 1);
        status = take_back(connection, &owner, job, most_bytes, out, error);
        if (status == STATUS_OK) status = worker_gone(connection, &owner, error);
    }
    rows_free(rows);
    if (status == STATUS_OK && out->raised + out->failed > 0) store_notify(connection);
    return status;
}
