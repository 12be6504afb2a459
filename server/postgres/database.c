#include "postgres/database.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_SECONDS = 5 };

struct database {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    char *conninfo;           /* owns */
    struct connection **idle; /* owns [size]: a stack of those not lent */
    int size, idle_count;
};

enum status database_new(const char *conninfo, const char *application, int size, struct database **out,
                         struct error *error)
{
    enum status status;
    pthread_condattr_t attributes;
    struct database *database = calloc(1, sizeof *database);
    *out = NULL;
    if (database == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for database connections");
    (void)pthread_mutex_init(&database->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&database->given, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    database->conninfo = strdup(conninfo);
    database->idle = calloc((size_t)size, sizeof(struct connection *));
    if (database->conninfo == NULL || database->idle == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for database connections");
        goto failed;
    }
    for (; database->size < size; database->size++, database->idle_count++)
        if ((status = connection_new(conninfo, application, &database->idle[database->size], error)) != STATUS_OK)
            goto failed;
    *out = database;
    return STATUS_OK;
failed:
    database_free(database);
    return status;
}

void database_free(struct database *database)
{
    if (database == NULL) return;
    for (int i = 0; i < database->idle_count; i++) connection_free(database->idle[i]);
    free(database->idle);
    free(database->conninfo);
    (void)pthread_cond_destroy(&database->given);
    (void)pthread_mutex_destroy(&database->mutex);
    free(database);
}

enum status database_take(struct database *database, struct connection **out, struct error *error)
{
    struct timespec end;
    int late = 0;
    *out = NULL;
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += WAIT_SECONDS;
    (void)pthread_mutex_lock(&database->mutex);
    while (database->idle_count == 0 && late == 0)
        late = pthread_cond_timedwait(&database->given, &database->mutex, &end);
    if (database->idle_count > 0) *out = database->idle[--database->idle_count];
    (void)pthread_mutex_unlock(&database->mutex);
    if (*out != NULL) return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE, "all %d database connections are busy; try again", database->size);
}

void database_give(struct database *database, struct connection *connection)
{
    if (connection == NULL) return;
    (void)pthread_mutex_lock(&database->mutex);
    database->idle[database->idle_count++] = connection;
    (void)pthread_cond_signal(&database->given);
    (void)pthread_mutex_unlock(&database->mutex);
}

const char *database_conninfo(const struct database *database)
{
    return database->conninfo;
}
