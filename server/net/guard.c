#include "net/guard.h"

#include "net/address.h"

#include <curl/curl.h>
#include <stdio.h>
#include <unistd.h>

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct guard *guard = context;
    (void)purpose;
    if (guard->allowed != NULL ? guard->allowed(guard->owner, &address->addr, address->addrlen)
                               : address_public(&address->addr, address->addrlen))
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (getnameinfo(&address->addr, address->addrlen, guard->refused, sizeof guard->refused, NULL, 0, NI_NUMERICHOST) !=
        0)
        (void)snprintf(guard->refused, sizeof guard->refused, "?");
    return CURL_SOCKET_BAD;
}

bool guard_set(void *easy, struct guard *guard)
{
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, guard) == CURLE_OK;
}
