/* roles.h: roles in the database with the least rights that each part of deltaq needs. They cannot log in: a user is
 * made a member of one ("create role gpu1 login in role deltaq_worker").
 *
 *   deltaq_server   reads and writes every row; changes no table
 *   deltaq_worker   executes runs: reads but tokens, webhooks and keys of requests; deletes what is written anew
 *   deltaq_reader   reads the same, writes nothing */
#ifndef STORE_ROLES_H
#define STORE_ROLES_H

#include "store/store.h"

/* Makes the roles that are missing and grants each its rights again, in one transaction. The caller must own the tables
 * and have the right to make roles. STATUS_UNSUPPORTED: it lacks that right. */
MUST_CHECK enum status roles_make(struct connection *connection, struct error *error);
/* Grants rights on new tables to the roles that exist; does nothing otherwise. */
MUST_CHECK enum status roles_renew(struct connection *connection, struct error *error);

/* Describes in `out` which rights of deltaq_server or deltaq_worker the user of the connection lacks ("insert on runs
 * and 30 more"); "" when none. The tables must exist. */
enum roles_part { ROLES_SERVER, ROLES_WORKER };
MUST_CHECK enum status roles_lacking(struct connection *connection, enum roles_part part, char *out, size_t size,
                                     struct error *error);

#endif
