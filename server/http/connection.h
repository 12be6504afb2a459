/* connection.h: the callbacks of libmicrohttpd's threads: a connection opens or closes; a request line, a head or a
 * part of a body was read; an answer was sent. None of them blocks. Private to server/http. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/exchange.h"

/* MHD_NotifyConnectionCallback. The closure of all these callbacks is a struct front. */
void connection_notify(void *front, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The URI-log callback: makes the exchange and keeps the request target as it was sent. */
void *connection_request_line(void *front, const char *target, struct MHD_Connection *connection);

/* Leaves escapes unchanged, because the router decodes them once. */
size_t connection_unescape(void *front, struct MHD_Connection *connection, char *text);

/* MHD_AccessHandlerCallback and MHD_RequestCompletedCallback. */
enum MHD_Result connection_access(void *front, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **exchange);
void connection_completed(void *front, struct MHD_Connection *connection, void **exchange,
                          enum MHD_RequestTerminationCode code);

/* The connection's socket; -1 when it is not known. */
int connection_descriptor(struct MHD_Connection *connection);

/* Whether the client of a suspended connection has closed its socket, or its sending half. libmicrohttpd notices that
 * only when the connection is resumed. False for descriptor -1. */
bool connection_left(int descriptor);

#endif
