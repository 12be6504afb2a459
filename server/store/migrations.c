#include "store/migrations.h"

#include <string.h>

struct migration {
    int number;
    const char *name, *sql;
};

static const struct migration migrations[] = {
#include "store/migrations_list.h" /* made from sql/ by the Makefile */
};

enum { MIGRATIONS = sizeof migrations / sizeof migrations[0], DEADLINE_MS = 10 * 60 * 1000 };

/* "deltaq" in ASCII: the advisory lock of all processes that migrate one database. A transaction holds it, so a killed
 * process releases it. */
#define LOCK "select pg_advisory_xact_lock(110386775454065)"

static const char bookkeeping[] =
    "create table if not exists schema_migrations (number integer primary key, name text not null,"
    " sha256 text not null, applied_at timestamptz not null default clock_timestamp())";

int migrations_latest(void)
{
    return migrations[MIGRATIONS - 1].number;
}

enum status migrations_number(struct connection *connection, int *number, struct error *error)
{
    bool exists;
    int64_t latest;
    enum status status = connection_query_boolean(
        connection, "select to_regclass('public.schema_migrations') is not null", NO_VALUES, &exists, error);
    *number = 0;
    if (status != STATUS_OK || !exists) return status;
    status = connection_query_integer(connection, "select coalesce(max(number), 0) from schema_migrations", NO_VALUES,
                                      &latest, error);
    *number = (int)latest;
    return status;
}

static enum status newer(int number, struct error *error)
{
    return error_set(error, STATUS_CONFLICT, "the database has schema %d, this deltaq knows %d: use a newer deltaq",
                     number, migrations_latest());
}

/* Whether `migration` was applied. STATUS_CONFLICT when the text that was applied differs from this binary's. */
static enum status already_applied(struct connection *connection, const struct migration *migration, bool *applied,
                                   struct error *error)
{
    struct rows *rows;
    enum status status =
        connection_query(connection,
                         "select sha256 = encode(sha256(convert_to($2, 'UTF8')), 'hex') from schema_migrations"
                         " where number = $1",
                         VALUES(value_integer(migration->number), value_text(migration->sql)), &rows, error);
    if (status != STATUS_OK) return status;
    *applied = rows_count(rows) == 1;
    if (*applied && !rows_boolean(rows, 0, 0))
        status = error_set(error, STATUS_CONFLICT,
                           "step %s was applied with other text than this deltaq has: released steps are never edited",
                           migration->name);
    rows_free(rows);
    return status;
}

struct step {
    const struct migration *migration;
    bool applied; /* out: the step had been applied before */
};

static enum status apply_step(struct connection *connection, void *context, struct error *error)
{
    enum status status;
    struct step *step = context;
    int number;
    if ((status = connection_script(connection, "set local lock_timeout = 0; set local statement_timeout = 0;" LOCK,
                                    error)) != STATUS_OK)
        return status;
    if ((status = connection_script(connection, bookkeeping, error)) != STATUS_OK) return status;
    if ((status = migrations_number(connection, &number, error)) != STATUS_OK) return status;
    if (number > migrations_latest()) return newer(number, error);
    if ((status = already_applied(connection, step->migration, &step->applied, error)) != STATUS_OK || step->applied)
        return status;
    if ((status = connection_script(connection, step->migration->sql, error)) != STATUS_OK) return status;
    return connection_execute(connection,
                              "insert into schema_migrations (number, name, sha256)"
                              " values ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))",
                              VALUES(value_integer(step->migration->number), value_text(step->migration->name),
                                     value_text(step->migration->sql)),
                              NULL, error);
}

static enum status newer_revision(int revision, struct error *error)
{
    return error_set(error, STATUS_CONFLICT,
                     "the database has engine revision %d, this deltaq has %d: use a newer deltaq", revision,
                     ENGINE_REVISION);
}

/* Reads the engine revision of the database; 0: none was recorded. */
static enum status read_revision(struct connection *connection, int *revision, struct error *error)
{
    struct rows *rows;
    const enum status status =
        connection_query(connection, "select revision from engine_revision", NO_VALUES, &rows, error);
    *revision = 0;
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 1) *revision = (int)rows_integer(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

static enum status note_revision(struct connection *connection, struct error *error)
{
    int revision;
    enum status status = read_revision(connection, &revision, error);
    if (status != STATUS_OK || revision == ENGINE_REVISION) return status;
    status = connection_execute(connection,
                                "insert into engine_revision (revision) values ($1) on conflict (one)"
                                " do update set revision = greatest(engine_revision.revision, excluded.revision)",
                                VALUES(value_integer(ENGINE_REVISION)), NULL, error);
    if (status == STATUS_OK) status = read_revision(connection, &revision, error);
    return status == STATUS_OK && revision > ENGINE_REVISION ? newer_revision(revision, error) : status;
}

/* *all: every step was applied. A role that may change no table can find this out. */
static enum status all_applied(struct connection *connection, bool *all, struct error *error)
{
    int number;
    enum status status = migrations_number(connection, &number, error);
    *all = status == STATUS_OK && number == migrations_latest();
    for (int i = 0; i < MIGRATIONS && status == STATUS_OK && *all; i++)
        status = already_applied(connection, &migrations[i], all, error);
    return status;
}

enum status migrations_apply(struct connection *connection, int *applied, struct error *error)
{
    bool all;
    int count = 0;
    enum status status = all_applied(connection, &all, error);
    if (applied != NULL) *applied = 0;
    if (status != STATUS_OK || all) return status == STATUS_OK ? note_revision(connection, error) : status;
    connection_set_deadline(connection, DEADLINE_MS);
    for (int i = 0; i < MIGRATIONS && status == STATUS_OK; i++) {
        struct step step = {.migration = &migrations[i]};
        status = connection_transaction(connection, apply_step, &step, NULL, error);
        count += status == STATUS_OK && !step.applied;
    }
    if (status == STATUS_OK) status = note_revision(connection, error);
    connection_set_deadline(connection, 0);
    if (applied != NULL) *applied = count;
    return status;
}

enum status migrations_compare(struct connection *connection, enum migrations_age *age, struct error *error)
{
    int number, revision;
    enum status status = migrations_number(connection, &number, error);
    *age = MIGRATIONS_EQUAL;
    if (status != STATUS_OK) return status;
    *age = number > migrations_latest() ? MIGRATIONS_OLDER : MIGRATIONS_NEWER;
    if (number > migrations_latest()) return newer(number, error);
    if (number < migrations_latest())
        return error_set(error, STATUS_CONFLICT,
                         "the database has schema %d, this deltaq needs %d: run `deltaq migrate`", number,
                         migrations_latest());
    if ((status = read_revision(connection, &revision, error)) != STATUS_OK) return status;
    *age = revision > ENGINE_REVISION ? MIGRATIONS_OLDER : MIGRATIONS_NEWER;
    if (revision > ENGINE_REVISION) return newer_revision(revision, error);
    if (revision < ENGINE_REVISION)
        return error_set(error, STATUS_CONFLICT,
                         "the database has engine revision %d, this deltaq has %d: run `deltaq migrate`", revision,
                         ENGINE_REVISION);
    *age = MIGRATIONS_EQUAL;
    return STATUS_OK;
}

enum status migrations_check(struct connection *connection, struct error *error)
{
    enum migrations_age age;
    return migrations_compare(connection, &age, error);
}
