#include "store/migrations.h"
#include "store/queue.h"

#include <stdio.h>
#include <string.h>

/* How a worker gets runs. docs/queue.md ("Shares", "Affinity") has the rules of queue_lease. */

/* A pause is at most the hour that a server may ask for (transfer/backoff.c) and a minute: a retry that is due in more
 * than two hours was scheduled before the clock was set back. */
#define DUE " (run_at <= clock_timestamp() or run_at > clock_timestamp() + interval '2 hours') "

/* Leases the rows of `candidate`. $1: owner; $2: seconds; $3 (worker) and $4 (device) are shown to people. */
#define LEASE_CANDIDATES                                                                                             \
    " leased as (update runs r set state = 'running', epoch = r.epoch + 1, owner = $1, beat_at = clock_timestamp()," \
    " lease_until = clock_timestamp() + $2 * interval '1 second', leased_at = clock_timestamp(),"                    \
    " started_at = coalesce(r.started_at, clock_timestamp()),"                                                       \
    " worker = $3, device = $4 from candidate c where r.id = c.id returning r.*),"                                   \
    " event as (insert into run_events (run, epoch, type, data) select id, epoch, 'state',"                          \
    " json_build_object('from', 'queued'"                                                                            \
    ", 'to', 'running', 'owner', owner, 'worker', worker, 'device', device) from leased)"                            \
    " select l.id, l.epoch, l.kind, l.attempts, s.params from leased l join run_specs s"                             \
    " on s.run = l.id"                                                                                               \
    " order by l.number"

/* Whether the asking worker may take run r. $4 is the worker's device. */
#define MIGRATED MIGRATIONS_FIT("$8")
#define FITS_HERE \
    RUN_FITS("r", "$4", "coalesce($6::jsonb, '[]')", "nullif($7::bigint, 0)", "nullif($11::bigint, 0)", "$9")
#define FITS_AS_MEMBER \
    RUN_FITS("r", "$4", "coalesce($11::jsonb, '[]')", "nullif($12::bigint, 0)", "nullif($15::bigint, 0)", "$14")

static void worker_name(const struct worker_identity *worker, char out[128])
{
    (void)snprintf(out, 128, "%s/%d", worker->host, worker->pid);
}

/* Reads the leased rows. A row that cannot be read returns to the queue when its lease expires. */
static enum status leased_read(const struct worker_identity *worker, struct rows *rows, size_t most,
                               struct leased_run *out, size_t *count, struct error *error)
{
    enum status status = STATUS_OK;
    *count = 0;
    for (int row = 0; row < rows_count(rows) && *count < most && status == STATUS_OK; row++) {
        struct leased_run *run = &out[*count];
        memset(run, 0, sizeof *run);
        (void)snprintf(run->lease.run.text, sizeof run->lease.run.text, "%s", rows_text(rows, row, 0));
        run->lease.owner = worker->id;
        run->lease.epoch = rows_integer(rows, row, 1);
        (void)snprintf(run->kind, sizeof run->kind, "%s", rows_text(rows, row, 2));
        run->attempt = (int)rows_integer(rows, row, 3);
        status = rows_json(rows, row, 4, &run->params, error);
        *count += status == STATUS_OK;
    }
    rows_free(rows);
    return status;
}

/* ---- which run comes next ---- */

/* Above this length a line has work for every worker, and no run is left to the nodes that have its files. */
#define LONG_LINE "32"
/* How much younger than the first waiting run a run may be to go before it because its files are here. */
#define HEAD_START "interval '1 minute'"
/* How many checkpoints of the worker's node are considered, most recently used first. */
#define HERE_MOST "64"

/* One row for each requester and priority with waiting runs: one probe of runs_queued_shares finds the next. */
#define LINES                                                                                                    \
    " line (requester, priority) as ((select r.requester, r.priority from runs r where r.state = 'queued'"       \
    " and" MIGRATED "order by r.requester desc, r.priority desc limit 1) union all"                              \
    " select n.requester, n.priority from line l cross join lateral (select r.requester, r.priority from runs r" \
    " where r.state = 'queued' and (r.requester, r.priority) < (l.requester, l.priority)"                        \
    " order by r.requester desc, r.priority desc limit 1) n),"                                                   \
    " lines as (select *, count(*) over (partition by priority) > 1 as shared from line),"
/* The lines in the order in which they are served: by priority, then the requester with the fewest workers, then the
 * one served least recently. Nothing is counted when only one requester waits. */
#define SHARES                                                                                                     \
    " shares as materialized (select l.requester, l.priority, exists (select from runs q where q.state = 'queued'" \
    " and q.requester = l.requester and q.priority = l.priority offset " LONG_LINE ") as long from lines l"        \
    " order by l.priority desc,"                                                                                   \
    " case when l.shared then (select count(distinct b.owner) from runs b where b.state = 'running'"               \
    " and b.requester = l.requester) end,"                                                                         \
    " case when l.shared then (select max(b.leased_at) from runs b where b.requester = l.requester"                \
    " and b.leased_at is not null) end nulls first, l.requester),"
#define HERE                                                                                           \
    " here as materialized (select n.checkpoint from node_checkpoints n where n.node = nullif($9, '')" \
    " order by n.used_at desc limit " HERE_MOST "),"

/* Run r waits in line g, and the asking worker may take it. */
#define IN_LINE                                                                     \
    " r.state = 'queued' and r.requester = g.requester and r.priority = g.priority" \
    " and r.kind in (select json_array_elements_text($5::json)) and" FITS_HERE
#define FIRST "order by r.run_at, r.number limit 1"
#define TAKEN FIRST " for update of r skip locked"
/* The next run whose files are here: by most recent use of its checkpoint, then by age, if it is not much younger than
 * the line's first run. */
#define NEAR                                                                                          \
    "(select near.id from here h cross join lateral (select r.id from runs r where" IN_LINE "and" DUE \
    "and r.checkpoint = h.checkpoint and r.run_at <= (select r.run_at + " HEAD_START                  \
    " from runs r where" IN_LINE FIRST ") " TAKEN ") near)"
/* The line's first run, except a young run of a short line whose files another living node has. */
#define FAR                                                                                                \
    "(select far.id from (select r.id from runs r where" IN_LINE "and" DUE                                 \
    "and (g.long or r.run_at < clock_timestamp() - $10 * interval '1 second' or not exists"                \
    " (select from node_checkpoints n join workers w on w.node = n.node where n.checkpoint = r.checkpoint" \
    " and n.node <> nullif($9, '') and" WORKER_LIVES "and" WORKER_FITS ")) " TAKEN ") far)"
/* The lines are tried in their order until one gives a run; only that row is locked. Materialised, because a nested
 * loop could run the subselect again and take more than one. */
#define CANDIDATE                                                                                       \
    " candidate as materialized (select c.id from shares g cross join lateral (" NEAR " union all " FAR \
    " limit 1) c limit 1),"

/* Asked first, because idle workers ask every second, and this takes a tenth of what the statement above takes. */
static enum status anything(struct connection *connection, const struct worker_identity *worker, const json_t *kinds,
                            bool *any, struct error *error)
{
    return connection_query_boolean(
        connection,
        CONNECTION_KEEPS_PLAN
        "select exists (select from runs r where r.state = 'queued' and" DUE
        "and r.kind in (select json_array_elements_text($4::json)) and" RUN_FITS(
            "r", "$1", "coalesce($2::jsonb, '[]')", "nullif($3::bigint, 0)", "nullif($6::bigint, 0)", "$5") ")",
        VALUES(value_text(worker->device), value_json(worker->labels), value_integer(worker->memory_bytes),
               value_json(kinds), value_text(worker->node.text), value_integer(worker->device_state.memory_bytes)),
        any, error);
}

enum status queue_lease(struct connection *connection, const struct worker_identity *worker, const char *const *kinds,
                        size_t kind_count, double lease_seconds, bool *found, struct leased_run *out,
                        struct error *error)
{
    struct rows *rows;
    char name[128];
    size_t count = 0;
    bool any = false;
    json_t *wanted = NULL;
    *found = false;
    memset(out, 0, sizeof *out);
    worker_name(worker, name);
    enum status status = store_texts(kinds, kind_count, &wanted, error);
    if (status == STATUS_OK) status = anything(connection, worker, wanted, &any, error);
    if (status == STATUS_OK && any)
        status = connection_query(connection,
                                  CONNECTION_KEEPS_PLAN "with recursive" LINES SHARES HERE CANDIDATE LEASE_CANDIDATES,
                                  VALUES(value_text(worker->id.text), value_double(lease_seconds), value_text(name),
                                         value_text(worker->device), value_json(wanted), value_json(worker->labels),
                                         value_integer(worker->memory_bytes), value_integer(migrations_latest()),
                                         value_text(worker->node.text), value_double(worker->grace_seconds),
                                         value_integer(worker->device_state.memory_bytes)),
                                  &rows, error);
    json_decref(wanted);
    if (status != STATUS_OK || !any) return status;
    status = leased_read(worker, rows, 1, out, &count, error);
    *found = count == 1;
    return status;
}

/* ---- the members of a batch ---- */

enum status queue_lease_members(struct connection *connection, const struct worker_identity *worker,
                                const struct lease *lease, double lease_seconds, size_t most, struct leased_run *out,
                                size_t *count, struct error *error)
{
    struct rows *rows;
    char name[128];
    *count = 0;
    worker_name(worker, name);
    const enum status status = connection_query(
        connection,
        "with held as (select batch_key, kind from runs"
        " where id = $5 and epoch = $6 and owner = $1 and state = 'running'"
        " and crashes < $8 - 1 and stalls < $9 - 1 and expiries < $10 - 1 and tries < $13 - 1),"
        " idle as (select count(*) as workers from workers w where" WORKER_LIVES "and" WORKER_TAKES
        " and not exists (select 1 from runs b where b.owner = w.id and b.state = 'running')),"
        " waiting as materialized (select r.id from runs r"
        " join held h on r.batch_key = h.batch_key and r.kind = h.kind"
        " where r.state = 'queued' and r.crashes < $8 - 1 and r.stalls < $9 - 1 and r.expiries < $10 - 1"
        " and r.tries < $13 - 1 and" DUE " and" FITS_AS_MEMBER "),"
        " candidate as materialized (select r.id from runs r where r.id in (select id from waiting)"
        " and r.state = 'queued'"
        " order by r.priority desc, r.run_at, r.number limit least($7, (select ceil((count(*) + 1)"
        " / (select workers + 1.0 from idle)) - 1 from waiting))::bigint"
        " for update of r skip locked)," LEASE_CANDIDATES,
        VALUES(value_text(worker->id.text), value_double(lease_seconds), value_text(name), value_text(worker->device),
               value_text(lease->run.text), value_integer(lease->epoch), value_integer((int64_t)most),
               value_integer(QUEUE_CRASH_BUDGET), value_integer(QUEUE_STALL_BUDGET), value_integer(QUEUE_EXPIRY_BUDGET),
               value_json(worker->labels), value_integer(worker->memory_bytes), value_integer(QUEUE_ERROR_BUDGET),
               value_text(worker->node.text), value_integer(worker->device_state.memory_bytes)),
        &rows, error);
    return status == STATUS_OK ? leased_read(worker, rows, most, out, count, error) : status;
}

void leased_run_reset(struct leased_run *run)
{
    json_decref(run->params);
    memset(run, 0, sizeof *run);
}
