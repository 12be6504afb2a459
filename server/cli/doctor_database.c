#include "cli/doctor.h"
#include "cli/place.h"
#include "postgres/tools.h"
#include "store/diagnosis.h"
#include "store/migrations.h"
#include "store/roles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A skew of seconds puts log lines and runs out of order; a skew of minutes makes object storage refuse signatures. */
static const double skew_most = 5;
enum { LINE = 1600, LACKING = 300 };

/* A machine where no server was started yet has no fault, if the database can be made. */
static int say_absent(void)
{
    char binaries[512], text[LINE];
    const bool installed = tools_newest("postgres", binaries) && tools_newest("initdb", binaries);
    if (installed)
        (void)snprintf(text, sizeof text,
                       "none yet: `deltaq serve` or `deltaq migrate` makes one with schema %d, by %s/postgres",
                       migrations_latest(), binaries);
    else
        (void)snprintf(text, sizeof text,
                       "none yet, and no PostgreSQL server (postgres, initdb) is installed to make one: install it, or"
                       " give --database-url");
    return doctor_say(installed, "database", text);
}

static int say_away(const struct error *error)
{
    char text[LINE];
    (void)snprintf(text, sizeof text,
                   "%s; look at the URL, at whether PostgreSQL runs there and lets this machine and user in",
                   error->detail);
    return doctor_say(false, "database", text);
}

/* Finds our role in the database, into `role`. */
static enum status check_answer(struct connection *connection, char role[DIAGNOSIS_TEXT], int *wrong)
{
    struct error error;
    char text[LINE], version[DIAGNOSIS_TEXT];
    const enum status status = diagnosis_who(connection, role, version, &error);
    if (status != STATUS_OK) {
        *wrong += say_away(&error);
        return status;
    }
    (void)snprintf(text, sizeof text, "PostgreSQL %s answers, to the role %s", version, role);
    *wrong += doctor_say(true, "database", text);
    return STATUS_OK;
}

/* *fits: this binary can use the existing tables. *number 0: there are none. */
static int check_schema(struct connection *connection, int *number, bool *fits)
{
    struct error error;
    char text[LINE];
    *fits = false;
    if (migrations_number(connection, number, &error) != STATUS_OK) {
        *number = -1;
        (void)snprintf(text, sizeof text, "cannot be read: %s", error.detail);
        return doctor_say(false, "schema", text);
    }
    if (*number == 0) {
        (void)snprintf(text, sizeof text, "none yet: `deltaq migrate`, or `deltaq serve` at its start, makes schema %d",
                       migrations_latest());
        return doctor_say(true, "schema", text);
    }
    *fits = migrations_check(connection, &error) == STATUS_OK;
    if (*fits)
        (void)snprintf(text, sizeof text, "%d, which this deltaq wants", *number);
    else if (*number < migrations_latest())
        (void)snprintf(text, sizeof text,
                       "%s (`deltaq serve` does it at its start, too; workers of the older deltaq then end)",
                       error.detail);
    else
        (void)snprintf(text, sizeof text, "%s", error.detail);
    return doctor_say(*fits, "schema", text);
}

static double wall_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The database answered at an unknown time between the question and its arrival. */
static int check_clock(struct connection *connection)
{
    struct error error;
    char text[LINE];
    double theirs;
    const double asked = wall_seconds();
    if (diagnosis_clock(connection, &theirs, &error) != STATUS_OK) return doctor_say(false, "clock", error.detail);
    const double answered = wall_seconds(), skew = theirs - (asked + answered) / 2, unsure = fabs(answered - asked) / 2;
    const bool good = fabs(skew) - unsure <= skew_most;
    (void)snprintf(text, sizeof text, "the database's is %.3f s %s this machine's, within %.3f s%s", fabs(skew),
                   skew < 0 ? "behind" : "ahead of", unsure,
                   good ? "" : "; more than 5 s are too much: set the clocks of both machines by NTP");
    return doctor_say(good, "clock", text);
}

struct lock_trial {
    struct connection *other;
    const char *key;
    bool held, shared; /* out: the first session got the lock; the second one got it as well */
};

static enum status lock_body(struct connection *connection, void *context, struct error *error)
{
    struct lock_trial *trial = context;
    const enum status status = diagnosis_lock(connection, trial->key, &trial->held, error);
    return status == STATUS_OK ? diagnosis_lock(trial->other, trial->key, &trial->shared, error) : status;
}

static int check_locks(struct connection *connection, const char *conninfo)
{
    struct error error;
    char text[LINE] = "an advisory lock that one session holds is refused to another, and free after its transaction";
    const struct store_id key = store_id_new();
    struct lock_trial trial = {.key = key.text};
    bool freed = false;
    enum status status = connection_new(conninfo, "deltaq doctor", &trial.other, &error);
    if (status == STATUS_OK) status = connection_transaction(connection, lock_body, &trial, NULL, &error);
    if (status == STATUS_OK) status = diagnosis_lock(trial.other, key.text, &freed, &error);
    connection_free(trial.other);
    const bool good = status == STATUS_OK && trial.held && !trial.shared && freed;
    if (status != STATUS_OK)
        (void)snprintf(text, sizeof text, "two sessions and an advisory lock: %s", error.detail);
    else if (!good)
        (void)snprintf(text, sizeof text,
                       "an advisory lock does not exclude another session: what stands between (a pooler) must keep"
                       " transactions whole");
    return doctor_say(good, "database locks", text);
}

/* A worker's role need not serve, and a user's role need not migrate: the check fails for a role that can do
 * neither. */
static int check_rights(struct connection *connection, const char *user)
{
    struct error error;
    char text[LINE], server[LACKING] = "", worker[LACKING] = "";
    enum status status = roles_lacking(connection, ROLES_SERVER, server, sizeof server, &error);
    if (status == STATUS_OK) status = roles_lacking(connection, ROLES_WORKER, worker, sizeof worker, &error);
    if (status != STATUS_OK) return doctor_say(false, "rights", error.detail);
    const bool serves = server[0] == '\0', works = worker[0] == '\0';
    if (!serves && !works) {
        (void)snprintf(text, sizeof text,
                       "the role %.100s may neither serve (it lacks %.280s) nor work (it lacks %.280s): `deltaq migrate"
                       " --roles` by the owner, then grant it deltaq_server or deltaq_worker",
                       user, server, worker);
        return doctor_say(false, "rights", text);
    }
    status = diagnosis_write(connection, &error);
    if (status != STATUS_OK) {
        (void)snprintf(text, sizeof text,
                       "an update that changes no row: %s; deltaq needs a database that takes writes", error.detail);
        return doctor_say(false, "rights", text);
    }
    (void)snprintf(text, sizeof text, "the role %.100s may serve: %s%.280s; work: %s%.280s; an update of no row passed",
                   user, serves ? "yes" : "no, it lacks ", server, works ? "yes" : "no, it lacks ", worker);
    return doctor_say(true, "rights", text);
}

/* For an empty database: checks whether its tables can be made. */
static int check_may_make(struct connection *connection, const char *user)
{
    struct error error;
    char text[LINE];
    bool may, read_only;
    if (diagnosis_may_make(connection, &may, &read_only, &error) != STATUS_OK)
        return doctor_say(false, "rights", error.detail);
    (void)snprintf(text, sizeof text, "the role %.100s %s%s", user,
                   may ? "may make tables in the schema public"
                       : "may not make tables in the schema public: let the database's owner run `deltaq migrate`",
                   read_only ? ", but the database is read only: use one that takes writes" : "");
    return doctor_say(may && !read_only, "rights", text);
}

/* False also while a restore is unfinished, because that gives another error. */
static bool is_absent(const struct options *options)
{
    char path[PLACE_PATH];
    bool there = true;
    struct error ignored;
    return options_text(options, "--database-url") == NULL &&
           place_has_database(options, &there, &ignored) == STATUS_OK && !there &&
           place_data_look(options, path, &there, &ignored) == STATUS_OK;
}

int doctor_database(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    char user[DIAGNOSIS_TEXT];
    int wrong = 0, number;
    bool fits;
    if (is_absent(options)) return say_absent();
    if (place_database_look(options, &database, &error) != STATUS_OK) return say_away(&error);
    connection_set_deadline(database.connection, 0);
    if (check_answer(database.connection, user, &wrong) == STATUS_OK) {
        wrong += check_schema(database.connection, &number, &fits);
        wrong += check_clock(database.connection) + check_locks(database.connection, database.conninfo);
        if (fits) wrong += check_rights(database.connection, user);
        if (number == 0) wrong += check_may_make(database.connection, user);
    }
    place_database_close(&database);
    return wrong;
}
