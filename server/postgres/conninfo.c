#include "postgres/conninfo.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define SOCKET_NAME "/.s.PGSQL."
#define PORT        "5432"
enum { SOCKET_PATH_MOST = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

/* libpq takes any other text for the name of a database. */
static bool is_connection_string(const char *text)
{
    return strncmp(text, "postgresql://", 13) == 0 || strncmp(text, "postgres://", 11) == 0 ||
           strchr(text, '=') != NULL;
}

/* NULL: not given. `options` may be NULL. */
static const char *given(const PQconninfoOption *options, const char *keyword)
{
    for (; options != NULL && options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0 && options->val != NULL && options->val[0] != '\0')
            return options->val;
    return NULL;
}

/* The given value, else the variable's, else `fallback`. */
static const char *value_of(const PQconninfoOption *options, const char *keyword, const char *variable,
                            const char *fallback)
{
    const char *value = given(options, keyword), *named = getenv(variable);
    if (value != NULL) return value;
    return named != NULL && named[0] != '\0' ? named : fallback;
}

/* libpq tries the hosts in turn; a single port applies to all of them. */
static enum status check_sockets(const char *hosts, const char *ports, struct error *error)
{
    for (const char *host = hosts, *port = ports;;) {
        const size_t name = strcspn(host, ","), number = strcspn(port, ","),
                     length = name + strlen(SOCKET_NAME) + (number > 0 ? number : strlen(PORT));
        const bool is_socket = host[0] == '/' || host[0] == '@';
        if (!is_socket || length <= SOCKET_PATH_MOST) return STATUS_OK;
        if (host[name] == '\0')
            return error_set(error, STATUS_INVALID,
                             "the database's unix socket in %.*s would have a path of %zu bytes, and the system takes "
                             "%d at most: give a shorter directory (a symbolic link to it does), or a host's name",
                             (int)(name > 200 ? 200 : name), host, length, (int)SOCKET_PATH_MOST);
        host += name + 1;
        if (port[number] == ',') port += number + 1;
    }
}

enum status conninfo_check(const char *conninfo, struct error *error)
{
    PQconninfoOption *options = NULL;
    char *message = NULL;
    enum status status = STATUS_OK;
    if (is_connection_string(conninfo) && (options = PQconninfoParse(conninfo, &message)) == NULL)
        status = message != NULL
                     ? error_set(error, STATUS_INVALID,
                                 "the database's place cannot be read: expected a URL like "
                                 "postgresql://USER@HOST:5432/DATABASE, or words like host=HOST dbname=DATABASE")
                     : error_set(error, STATUS_NO_MEMORY, "no memory for the database's place");
    if (status == STATUS_OK && value_of(options, "hostaddr", "PGHOSTADDR", NULL) == NULL)
        status =
            check_sockets(value_of(options, "host", "PGHOST", ""), value_of(options, "port", "PGPORT", PORT), error);
    PQfreemem(message);
    PQconninfoFree(options);
    return status;
}

bool conninfo_find(const char *conninfo, const char *keyword, char *out, size_t size)
{
    PQconninfoOption *options = is_connection_string(conninfo) ? PQconninfoParse(conninfo, NULL) : NULL;
    const char *value = given(options, keyword);
    const bool found = value != NULL && snprintf(out, size, "%s", value) < (int)size;
    PQconninfoFree(options);
    return found;
}
