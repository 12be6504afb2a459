#include "http/tls_current.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tls_credentials {
    gnutls_certificate_credentials_t pair;
    int users; /* number of connections, plus one while the pair is the current one */
};

struct tls_current {
    pthread_mutex_t mutex;
    struct tls_credentials *credentials;
};

static void drop(struct tls_credentials *credentials)
{
    if (credentials == NULL || --credentials->users > 0) return;
    gnutls_certificate_free_credentials(credentials->pair);
    free(credentials);
}

static enum status make(const struct tls_identity *identity, struct tls_credentials **out, struct error *error)
{
    const gnutls_datum_t certificate = {(unsigned char *)identity->certificate,
                                        (unsigned)strlen(identity->certificate)},
                         key = {(unsigned char *)identity->key, (unsigned)strlen(identity->key)};
    *out = calloc(1, sizeof **out);
    if (*out == NULL || gnutls_certificate_allocate_credentials(&(*out)->pair) < 0) {
        free(*out);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a certificate");
    }
    (*out)->users = 1;
    const int code = gnutls_certificate_set_x509_key_mem((*out)->pair, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (code >= 0) return STATUS_OK;
    drop(*out);
    return error_set(error, STATUS_NO_MEMORY, "a certificate that was checked cannot be used: %s",
                     gnutls_strerror(code));
}

enum status tls_current_new(const struct tls_identity *identity, struct tls_current **out, struct error *error)
{
    struct tls_credentials *first = NULL;
    const enum status status = make(identity, &first, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    if ((*out = calloc(1, sizeof **out)) == NULL) {
        drop(first);
        return error_set(error, STATUS_NO_MEMORY, "no memory for a certificate");
    }
    (void)pthread_mutex_init(&(*out)->mutex, NULL);
    (*out)->credentials = first;
    return STATUS_OK;
}

void tls_current_free(struct tls_current *current)
{
    if (current == NULL) return;
    drop(current->credentials);
    (void)pthread_mutex_destroy(&current->mutex);
    free(current);
}

enum status tls_current_replace(struct tls_current *current, const struct tls_identity *identity, struct error *error)
{
    struct tls_credentials *next = NULL;
    const enum status status = make(identity, &next, error);
    if (status != STATUS_OK) return status;
    (void)pthread_mutex_lock(&current->mutex);
    struct tls_credentials *const before = current->credentials;
    current->credentials = next;
    drop(before);
    (void)pthread_mutex_unlock(&current->mutex);
    return STATUS_OK;
}

struct tls_credentials *tls_current_lend(struct tls_current *current, gnutls_session_t session)
{
    if (session == NULL) return NULL;
    (void)pthread_mutex_lock(&current->mutex);
    struct tls_credentials *lent = current->credentials;
    if (gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, lent->pair) < 0)
        lent = NULL;
    else
        lent->users++;
    (void)pthread_mutex_unlock(&current->mutex);
    return lent;
}

void tls_current_return(struct tls_current *current, struct tls_credentials *credentials)
{
    if (credentials == NULL) return;
    (void)pthread_mutex_lock(&current->mutex);
    drop(credentials);
    (void)pthread_mutex_unlock(&current->mutex);
}
