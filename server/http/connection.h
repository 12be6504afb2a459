/* connection.h: the callbacks of libmicrohttpd's threads: a connection is opened or closed; a request line, a head, a
 * part of a body is read; an answer is sent. None of them blocks. Private to server/http. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/exchange.h"

/* MHD_NotifyConnectionCallback: `server` as closure. */
void connection_notify(void *server, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The URI-log callback: makes the exchange, and keeps the request target as it was sent. */
void *connection_request_line(void *server, const char *target, struct MHD_Connection *connection);

/* Changes nothing, because the router decodes escapes, once. */
size_t connection_unescape(void *server, struct MHD_Connection *connection, char *text);

/* MHD_AccessHandlerCallback and MHD_RequestCompletedCallback. */
enum MHD_Result connection_access(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **exchange);
void connection_completed(void *server, struct MHD_Connection *connection, void **exchange,
                          enum MHD_RequestTerminationCode code);

#endif
