#include "store/workers.h"

enum status worker_register(struct connection *connection, const struct worker_identity *identity, struct error *error)
{
    return connection_execute(
        connection,
        "insert into workers (id, host, pid, boot_id, slurm_job, device, threads) values ($1, $2, $3, $4, $5, $6, $7)"
        " on conflict (id) do update set seen_at = clock_timestamp()",
        VALUES(value_text(identity->id.text), value_text(identity->host), value_integer(identity->pid),
               value_text(identity->boot_id), value_text(identity->slurm_job), value_text(identity->device),
               value_integer(identity->threads)),
        NULL, error);
}

enum status worker_seen(struct connection *connection, const struct store_id *id, struct error *error)
{
    return connection_execute(connection, "update workers set seen_at = clock_timestamp() where id = $1",
                              VALUES(value_text(id->text)), NULL, error);
}

enum status worker_gone(struct connection *connection, const struct store_id *id, struct error *error)
{
    return connection_execute(connection, "delete from workers where id = $1", VALUES(value_text(id->text)), NULL, error);
}

enum status worker_list(struct connection *connection, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "select json_build_object('items', coalesce(json_agg(json_build_object('id', w.id, 'host', w.host, 'pid', w.pid, 'boot_id', w.boot_id,"
        " 'slurm_job', nullif(w.slurm_job, ''), 'device', w.device, 'threads', w.threads, 'started_at', rfc3339(w.started_at),"
        " 'seen_at', rfc3339(w.seen_at), 'run', (select r.id from runs r where r.owner = w.id and r.state = 'running' limit 1))"
        " order by w.started_at desc), '[]'), 'next', null) from workers w where w.seen_at > clock_timestamp() - interval '1 minute'",
        NO_VALUES, document, error);
}
