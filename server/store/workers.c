#include "store/workers.h"

#include "base/machine.h"
#include "base/version.h"
#include "store/run_names.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status worker_register(struct connection *connection, const struct worker_identity *identity, struct error *error)
{
    return connection_execute(
        connection,
        "insert into workers (id, host, pid, boot_id, slurm_job, device, threads, blas, labels, memory_bytes, version,"
        " engine_revision, node, device_state)"
        " values ($1, $2, $3, $4, $5, $6, $7, case when $8::text <> '' then jsonb_build_object('verdict', $8::text,"
        " 'library', nullif($9::text, ''), 'core', nullif($10::text, ''), 'reason', nullif($11::text, '')) end,"
        " coalesce($12::jsonb, '[]'), nullif($13::bigint, 0), $14, $15, nullif($16, ''), case when $17::text <> '' then"
        " jsonb_build_object('state', $17::text, 'faults', $18::integer, 'reason', nullif($19::text, ''), 'name',"
        " nullif($20::text, ''), 'uuid', nullif($21::text, ''), 'bus_id', nullif($22::text, ''), 'selftest',"
        " $23::jsonb, 'memory_bytes', nullif($24::bigint, 0)) end)"
        " on conflict (id) do update set seen_at = clock_timestamp()",
        VALUES(value_text(identity->id.text), value_text(identity->host), value_integer(identity->pid),
               value_text(identity->boot_id), value_text(identity->slurm_job), value_text(identity->device),
               value_integer(identity->threads), value_text(identity->blas.verdict), value_text(identity->blas.library),
               value_text(identity->blas.core), value_text(identity->blas.reason), value_json(identity->labels),
               value_integer(identity->memory_bytes), value_text(DELTAQ_VERSION), value_integer(ENGINE_REVISION),
               value_text(identity->node.text), value_text(identity->device_state.state),
               value_integer(identity->device_state.faults), value_text(identity->device_state.reason),
               value_text(identity->device_state.name), value_text(identity->device_state.uuid),
               value_text(identity->device_state.bus), value_json(identity->device_state.selftest),
               value_integer(identity->device_state.memory_bytes)),
        NULL, error);
}

enum status worker_seen(struct connection *connection, const struct store_id *id, bool *listed, double *clock,
                        struct error *error)
{
    struct rows *rows;
    *listed = false;
    const enum status status = connection_query(connection,
                                                CONNECTION_KEEPS_PLAN "update workers set seen_at = clock_timestamp()"
                                                                      " where id = $1 returning"
                                                                      " extract(epoch from seen_at)::float8",
                                                VALUES(value_text(id->text)), &rows, error);
    if (status != STATUS_OK) return status;
    *listed = rows_count(rows) > 0;
    if (*listed) *clock = rows_double(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

enum status worker_gone(struct connection *connection, const struct store_id *id, struct error *error)
{
    return connection_execute(connection, "delete from workers where id = $1", VALUES(value_text(id->text)), NULL,
                              error);
}

enum status workers_prune(struct connection *connection, struct error *error)
{
    return connection_execute(connection,
                              "delete from workers w where seen_at not between clock_timestamp() - interval '1 day'"
                              " and clock_timestamp() + interval '1 day' and not exists"
                              " (select from runs r where r.owner = w.id and r.state = 'running')",
                              NO_VALUES, NULL, error);
}

enum status worker_dead_here(struct connection *connection, json_t **document, struct error *error)
{
    char host[64] = "", boot_id[40];
    struct rows *rows;
    *document = NULL;
    if (gethostname(host, sizeof host - 1) != 0) return error_set_errno(error, "cannot tell the host's name");
    machine_boot_id(boot_id, sizeof boot_id);
    enum status status = connection_query(connection, "select id, pid, boot_id = $2 from workers where host = $1",
                                          VALUES(value_text(host), value_text(boot_id)), &rows, error);
    if (status != STATUS_OK) return status;
    *document = json_array();
    for (int i = 0; *document != NULL && i < rows_count(rows); i++) {
        const pid_t pid = (pid_t)rows_integer(rows, i, 1);
        const bool alive = rows_boolean(rows, i, 2) && (kill(pid, 0) == 0 || errno == EPERM);
        if (!alive && json_array_append_new(*document, json_string(rows_text(rows, i, 0))) != 0)
            status = STATUS_NO_MEMORY;
    }
    rows_free(rows);
    if (*document != NULL && status == STATUS_OK) return STATUS_OK;
    json_decref(*document);
    *document = NULL;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a list of workers");
}

enum status worker_usual_device(struct connection *connection, char out[32], struct error *error)
{
    struct rows *rows = NULL;
    const enum status status = connection_query(connection,
                                                "select w.device from workers w where" WORKER_LIVES "and" WORKER_TAKES
                                                " order by w.device = 'cpu', w.device limit 1",
                                                NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(out, 32, "%s", rows_count(rows) > 0 ? rows_text(rows, 0, 0) : "cpu");
    rows_free(rows);
    return STATUS_OK;
}

enum status worker_list(struct connection *connection, json_t **document, struct error *error)
{
    return connection_query_json(
        connection,
        "select json_build_object('items', coalesce(json_agg(json_build_object('id', w.id, 'host', w.host, 'pid',"
        " w.pid, 'boot_id', w.boot_id,"
        " 'slurm_job', nullif(w.slurm_job, ''), 'device', w.device, 'device_state', w.device_state,"
        " 'labels', w.labels, 'threads', w.threads, 'memory_bytes', w.memory_bytes, 'blas', w.blas, 'version',"
        " w.version, 'engine_revision', w.engine_revision, 'started_at',"
        " rfc3339(w.started_at),"
        " 'seen_at', rfc3339(w.seen_at), 'run', r.id, 'run_kind', r.kind, 'run_checkpoint', r.checkpoint)"
        " order by w.started_at desc, w.id), '[]'), 'next', null) from workers w left join lateral"
        " (select r.id, r.kind, (select " RUN_CHECKPOINT_NAMED "s.params ->> 'checkpoint')"
        " from run_specs s where s.run = r.id) as checkpoint from runs r where r.owner = w.id"
        " and r.state = 'running' limit 1) r on true where" WORKER_LIVES,
        NO_VALUES, document, error);
}
