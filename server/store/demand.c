#include "store/demand.h"

#include "store/queue.h"

#include <stdio.h>

enum { GONE_MOST = 64 };

enum status demand_claim(struct connection *connection, const char *name, const struct store_id *owner, double seconds,
                         int64_t memory_bytes, bool *ours, struct error *error)
{
    int64_t affected = 0;
    const enum status status = connection_execute(
        connection,
        "insert into launchers (name, owner, memory_bytes) values ($1, $2, nullif($4::bigint, 0))"
        " on conflict (name) do update set owner = $2, memory_bytes = excluded.memory_bytes,"
        " seen_at = clock_timestamp() where launchers.owner = $2"
        " or launchers.seen_at < clock_timestamp() - $3 * interval '1 second'",
        VALUES(value_text(name), value_text(owner->text), value_double(seconds), value_integer(memory_bytes)),
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
        "with needs as (select coalesce(requires ->> 'device', device_wanted) as device,"
        " coalesce(requires -> 'labels', '[]') as labels,"
        " greatest(memory_wanted, (requires ->> 'memory_bytes')::bigint) as memory_bytes, planned_seconds"
        " from runs where state = 'queued'),"
        " groups as (select device, labels, memory_bytes, count(*) as runs,"
        " case when count(*) = count(planned_seconds) then max(planned_seconds) end as seconds"
        " from needs group by 1, 2, 3),"
        " mine as (select w.slurm_job as job, extract(epoch from clock_timestamp() - w.seen_at)::float8 as silent,"
        " exists (select from runs r where r.owner = w.id and r.state = 'running') as busy from workers w"
        " where w.slurm_job <> '' and w.labels @> jsonb_build_array($1::text))"
        " select json_build_object('groups', (select coalesce(json_agg(json_build_object('device', device, 'labels',"
        " labels, 'memory_bytes', memory_bytes, 'seconds', seconds, 'runs', runs)"
        " order by memory_bytes desc nulls last, runs desc, labels::text), '[]') from groups),"
        " 'workers', (select coalesce(json_agg(json_build_object('job', job, 'busy', busy, 'silent', silent)), '[]')"
        " from mine), 'time', extract(epoch from clock_timestamp())::float8)",
        VALUES(value_text(label)), document, error);
}

enum status demand_unplanned(struct connection *connection, int most, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(json_build_object('id', q.id, 'kind', q.kind, 'params', s.params)), '[]') from"
        " (select id, kind from runs where state = 'queued' and planned_at is null"
        " order by priority desc, run_at, number limit $1) q join run_specs s on s.run = q.id",
        VALUES(value_integer(most)), document, error);
}

enum status demand_planned(struct connection *connection, const char *run, int64_t memory_bytes, double seconds,
                           struct error *error)
{
    return connection_execute(connection,
                              "update runs set planned_at = clock_timestamp(), planned_seconds = $3,"
                              " memory_wanted = greatest(memory_wanted, nullif($2::bigint, 0))"
                              " where id = $1 and state = 'queued'",
                              VALUES(value_text(run), value_integer(memory_bytes), value_double(seconds)), NULL, error);
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
        " and w.seen_at < clock_timestamp() - $3 * interval '1 second' limit $4",
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
