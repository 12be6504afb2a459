/* backup_lock.h: while a backup is made no artifact's bytes are removed. The backup's snapshot names artifacts whose
 * rows may be deleted before their files are copied. An advisory lock of the database says so to the workers of every
 * machine; it ends with the session that holds it, also when the backup is killed. Backups share it. */
#ifndef STORE_BACKUP_LOCK_H
#define STORE_BACKUP_LOCK_H

#include "postgres/connection.h"

/* Called before the snapshot is taken, and outside of a transaction. Waits a minute at most for a clean-up that is at
 * work. STATUS_UNAVAILABLE. */
MUST_CHECK enum status backup_lock_hold(struct connection *connection, struct error *error);
void backup_lock_let_go(struct connection *connection);

enum backup_lock_found {
    BACKUP_LOCK_TAKEN,   /* no backup begins before the end of the caller's transaction */
    BACKUP_LOCK_BACKUP,  /* a backup is made, or is about to be */
    BACKUP_LOCK_CLEANING /* another clean-up is at work */
};

/* For a clean-up, without waiting; called in a transaction, before it asks what is recorded. */
MUST_CHECK enum status backup_lock_try(struct connection *connection, enum backup_lock_found *out, struct error *error);

#endif
