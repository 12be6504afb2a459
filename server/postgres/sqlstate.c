#include "postgres/sqlstate.h"

#include <string.h>

/* Longer prefixes before shorter ones. */
static const struct sqlstate_row rows[] = {
    {"23505", STATUS_CONFLICT, false, false},    /* unique_violation */
    {"23503", STATUS_CONFLICT, false, false},    /* foreign_key_violation */
    {"25006", STATUS_UNAVAILABLE, false, false}, /* read_only_sql_transaction: a standby after a failover */
    {"25P03", STATUS_UNAVAILABLE, false, true},  /* idle_in_transaction_session_timeout */
    {"40001", STATUS_UNAVAILABLE, true, false},  /* serialization_failure */
    {"40P01", STATUS_UNAVAILABLE, true, false},  /* deadlock_detected */
    {"53100", STATUS_DISK_FULL, false, false},   /* disk_full */
    {"53200", STATUS_NO_MEMORY, false, false},   /* out_of_memory */
    {"55P03", STATUS_UNAVAILABLE, true, false},  /* lock_not_available: lock_timeout */
    {"57014", STATUS_UNAVAILABLE, false, false}, /* query_canceled: statement_timeout */
    {"58P01", STATUS_CORRUPT, false, false},     /* undefined_file: a relation's file is missing */
    {"XX001", STATUS_CORRUPT, false, false},     /* data_corrupted */
    {"XX002", STATUS_CORRUPT, false, false},     /* index_corrupted */
    {"57P", STATUS_UNAVAILABLE, false, true},    /* shutting down, crash recovery, cannot connect now */
    {"08", STATUS_UNAVAILABLE, false, true},     /* connection exceptions */
    {"22", STATUS_INVALID, false, false},        /* data exceptions */
    {"23", STATUS_INVALID, false, false},        /* not null, check */
    {"28", STATUS_UNAVAILABLE, false, true},     /* invalid authorization */
    {"3D", STATUS_UNAVAILABLE, false, true},     /* no such database */
    {"40", STATUS_UNAVAILABLE, true, false},     /* other rollbacks */
    {"53", STATUS_UNAVAILABLE, false, false},    /* too many connections, other resources */
    {"58", STATUS_IO, false, false},             /* system errors */
    {"", STATUS_INTERNAL, false, false},         /* anything else is a mistake of ours */
};

const struct sqlstate_row *sqlstate_find(const char *code)
{
    static const struct sqlstate_row lost = {"", STATUS_UNAVAILABLE, false, true};
    if (code == NULL || code[0] == '\0') return &lost;
    const struct sqlstate_row *row = rows;
    while (strncmp(code, row->prefix, strlen(row->prefix)) != 0) row++;
    return row;
}
