/* connection.h: the callbacks of libmicrohttpd's threads: a connection is opened or closed; a request line, a head, a
 * part of a body is read; an answer is sent. None of them blocks. Private to server/http. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/exchange.h"

/* MHD_NotifyConnectionCallback: a struct front as closure, as for all of these. */
void connection_notify(void *front, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The URI-log callback: makes the exchange, and keeps the request target as it was sent. */
void *connection_request_line(void *front, const char *target, struct MHD_Connection *connection);

/* Leaves escapes as they are: the router decodes, once. */
size_t connection_unescape(void *front, struct MHD_Connection *connection, char *text);

/* MHD_AccessHandlerCallback and MHD_RequestCompletedCallback. */
enum MHD_Result connection_access(void *front, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **exchange);
void connection_completed(void *front, struct MHD_Connection *connection, void **exchange,
                          enum MHD_RequestTerminationCode code);

/* Its socket; -1 when that is not known. */
int connection_descriptor(struct MHD_Connection *connection);

/* Whether the client at the other end of a suspended connection's socket has left: closed it, or its sending half.
 * libmicrohttpd notices that only when the connection is resumed. False for -1. */
bool connection_left(int descriptor);

#endif
