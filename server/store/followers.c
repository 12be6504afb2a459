#include "store/followers.h"

enum status follower_lock(struct connection *connection, const char *name, int64_t *after, struct error *error)
{
    return connection_query_integer(connection, "select after from followers where name = $1 for update",
                                    VALUES(value_text(name)), after, error);
}

enum status follower_advance(struct connection *connection, const char *name, int64_t after, struct error *error)
{
    return connection_execute(connection, CONNECTION_KEEPS_PLAN "update followers set after = $2 where name = $1",
                              VALUES(value_text(name), value_integer(after)), NULL, error);
}
