#include "store/backup_lock.h"

#define KEY "(1650549611, 0)" /* "back" in ASCII */

enum { WAIT_MILLISECONDS = 70 * 1000 };

/* The lock is the session's and stays after the transaction, which is for the settings. */
static enum status hold_body(struct connection *connection, void *context, struct error *error)
{
    (void)context;
    return connection_script(connection,
                             "set local lock_timeout = '60s'; set local statement_timeout = '60s';"
                             " select pg_advisory_lock_shared" KEY,
                             error);
}

enum status backup_lock_hold(struct connection *connection, struct error *error)
{
    bool unknown;
    connection_set_deadline(connection, WAIT_MILLISECONDS);
    const enum status status = connection_transaction(connection, hold_body, NULL, &unknown, error);
    connection_set_deadline(connection, 0);
    return status;
}

void backup_lock_let_go(struct connection *connection)
{
    struct error ignored;
    bool held;
    const enum status status =
        connection_query_boolean(connection, "select pg_advisory_unlock_shared" KEY, NO_VALUES, &held, &ignored);
    (void)status; /* a session that is lost has no lock */
}

/* One session alone may have the lock for a clean-up; backups share it. */
enum status backup_lock_try(struct connection *connection, enum backup_lock_found *out, struct error *error)
{
    int64_t found;
    const enum status status = connection_query_integer(
        connection,
        "select case when pg_try_advisory_xact_lock" KEY " then 0 when exists (select from pg_locks"
        " where locktype = 'advisory' and (classid, objid) = " KEY " and mode = 'ShareLock'"
        " and database = (select oid from pg_database where datname = current_database())) then 1 else 2 end",
        NO_VALUES, &found, error);
    *out = found == 0 ? BACKUP_LOCK_TAKEN : found == 1 ? BACKUP_LOCK_BACKUP : BACKUP_LOCK_CLEANING;
    return status;
}
