#include "cli/first_token.h"

#include "cli/place.h"
#include "files/file_writer.h"
#include "log/log.h"
#include "postgres/connection.h"
#include "store/tokens.h"

#include <stdio.h>
#include <string.h>

enum { DEADLINE_MILLISECONDS = 60000 };

struct making {
    const char *path;
    bool made;
};

/* The file is written first: a token whose text is lost would close the server to everybody. */
static enum status make(struct connection *connection, void *context, struct error *error)
{
    struct making *making = context;
    char text[TOKEN_TEXT] = "", line[TOKEN_TEXT + 1];
    json_t *document = NULL;
    bool any = true;
    making->made = false;
    enum status status = token_any(connection, &any, error);
    if (status != STATUS_OK || any) return status;
    status = token_create(connection, TOKEN_ADMIN, "first", 0, text, &document, error);
    json_decref(document);
    if (status != STATUS_OK) return status;
    const int length = snprintf(line, sizeof line, "%s\n", text);
    status = file_writer_put(making->path, line, (size_t)length, error);
    making->made = status == STATUS_OK;
    return status;
}

enum status first_token_make(const char *conninfo, const char *data_directory, struct error *error)
{
    char path[PLACE_PATH + sizeof "/" FIRST_TOKEN_FILE];
    struct making making = {.path = path};
    struct connection *connection = NULL;
    (void)snprintf(path, sizeof path, "%s/" FIRST_TOKEN_FILE, data_directory);
    enum status status = connection_new(conninfo, "deltaq start", &connection, error);
    if (status == STATUS_OK) {
        connection_set_deadline(connection, DEADLINE_MILLISECONDS);
        status = connection_transaction(connection, make, &making, NULL, error);
    }
    connection_free(connection);
    if (status == STATUS_OK && making.made)
        log_info(LOG_COMPONENT_SERVE, "made the first token, for an admin; its text is in %s", path);
    return status;
}
