#include "store/checkpoint_names.h"

#include "store/run_unfinished.h"

#include <stdio.h>

/* The step in a name, as train_checkpoint_name writes it; null: a name of another form. */
#define STEP \
    "substring(c.name from case when t.name = $1 then '^step([0-9]{7,15})$' else '^step([0-9]{7,15})-ema$' end)"

enum status checkpoint_names_find(struct connection *connection, const struct checkpoint_names *names, const char *run,
                                  struct checkpoint_names_found *out, struct error *error)
{
    char averages[STORE_NAME];
    struct rows *rows;
    *out = (struct checkpoint_names_found){.name = ""};
    store_name_extend(names->trajectory, "-ema", averages);
    const enum status status = connection_query(
        connection,
        "select t.name || '/' || c.name, coalesce(c.derived_from ->> 'run', '')"
        " from trajectories t join checkpoints c on c.trajectory = t.id"
        " where (t.name = $1 or ($2 and t.name = $3)) and ($4::text is null"
        " or c.derived_from ->> 'run' is distinct from $4)"
        " and (($5 and not exists (select from trajectories o join checkpoints p on p.trajectory = o.id"
        " where o.name = $1 and p.derived_from ->> 'run' = $4))"
        " or (" STEP "::bigint > $6 and (" STEP "::bigint = $8 or (" STEP "::bigint < $8 and " STEP
        "::bigint % $7 = 0))))"
        " order by coalesce(c.step, 9223372036854775807), c.number limit 1",
        VALUES(value_text(names->trajectory), value_boolean(names->averages), value_text(averages), value_text(run),
               value_boolean(names->fresh), value_integer(names->after), value_integer(names->every),
               value_integer(names->last)),
        &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 1) {
        (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, 0, 0));
        (void)snprintf(out->run.text, sizeof out->run.text, "%s", rows_text(rows, 0, 1));
    }
    rows_free(rows);
    return STATUS_OK;
}

enum status checkpoint_names_unfinished(struct connection *connection, const char *kind, const char *trajectory,
                                        json_t **out, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(json_build_object('id', u.id, 'params', s.params) order by r.number), '[]')"
        " from" RUN_UNFINISHED "u join runs r on r.id = u.id join run_specs s on s.run = u.id"
        " join run_inputs i on i.run = u.id join trajectories t on t.id = i.trajectory"
        " where u.kind = $1 and t.name = $2",
        VALUES(value_text(kind), value_text(trajectory)), out, error);
}
