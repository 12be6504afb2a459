#include "http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 20 };

static enum status fault(const char *option, const char *path, const char *what, struct error *error)
{
    return error_set(error, STATUS_INVALID, "%s %.200s: %.200s", option, path, what);
}

/* The file's bytes and a NUL, the caller's. */
static enum status read_file(const char *option, const char *path, char **out, size_t *size, struct error *error)
{
    struct stat found;
    char *bytes = NULL;
    size_t length = 0;
    ssize_t got = 1;
    enum status status = STATUS_OK;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &found) != 0) {
        status = fault(option, path, strerror(errno), error);
    } else if (!S_ISREG(found.st_mode) || found.st_size > FILE_MOST) {
        status = fault(option, path, "is no file of at most 1 MiB", error);
    } else if ((bytes = calloc(1, (size_t)found.st_size + 1)) == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %s", option);
    }
    while (status == STATUS_OK && got > 0 && length < (size_t)found.st_size) {
        got = read(file, bytes + length, (size_t)found.st_size - length);
        if (got > 0) length += (size_t)got;
    }
    if (got < 0) status = fault(option, path, strerror(errno), error);
    if (file >= 0) (void)close(file);
    *out = bytes;
    *size = length;
    return status;
}

static gnutls_datum_t datum(char *bytes)
{
    return (gnutls_datum_t){.data = (unsigned char *)bytes, .size = (unsigned)strlen(bytes)};
}

/* Each by itself, so that the fault is told of the file that has it. */
static enum status check(const char *certificate, const char *key, const struct tls_identity *identity,
                         struct error *error)
{
    gnutls_certificate_credentials_t together = NULL;
    gnutls_x509_crt_t *chain = NULL;
    gnutls_x509_privkey_t private = NULL;
    unsigned count = 0;
    enum status status = STATUS_OK;
    const gnutls_datum_t first = datum(identity->certificate), second = datum(identity->key);
    int code = gnutls_x509_crt_list_import2(&chain, &count, &first, GNUTLS_X509_FMT_PEM, 0);
    if (code < 0) status = fault("--tls-certificate", certificate, "holds no certificate in PEM", error);
    for (unsigned i = 0; code >= 0 && i < count; i++) gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    if (status == STATUS_OK && gnutls_x509_privkey_init(&private) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for --tls-key");
    if (status == STATUS_OK &&
        gnutls_x509_privkey_import2(private, &second, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN) < 0)
        status = fault("--tls-key", key, "holds no private key in PEM without a password", error);
    if (private != NULL) gnutls_x509_privkey_deinit(private);
    if (status != STATUS_OK) return status;
    if (gnutls_certificate_allocate_credentials(&together) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for --tls-key");
    code = gnutls_certificate_set_x509_key_mem(together, &first, &second, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(together);
    if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return fault("--tls-key", key, "is not the key of the first certificate in --tls-certificate", error);
    return code >= 0 ? STATUS_OK : fault("--tls-certificate", certificate, gnutls_strerror(code), error);
}

enum status tls_identity_read(const char *certificate, const char *key, struct tls_identity *out, struct error *error)
{
    size_t size;
    *out = (struct tls_identity){0};
    if (certificate == NULL && key == NULL) return STATUS_OK;
    if (certificate == NULL || key == NULL)
        return error_set(error, STATUS_INVALID, "--tls-certificate and --tls-key go together: give both");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return error_set(error, STATUS_UNSUPPORTED,
                         "--tls-certificate: this libmicrohttpd was built without TLS; put a proxy before the server");
    enum status status = read_file("--tls-certificate", certificate, &out->certificate, &size, error);
    if (status == STATUS_OK) status = read_file("--tls-key", key, &out->key, &out->key_size, error);
    if (status == STATUS_OK) status = check(certificate, key, out, error);
    if (status != STATUS_OK) tls_identity_reset(out);
    return status;
}

void tls_identity_describe(const struct tls_identity *identity, char *out, size_t size)
{
    const gnutls_datum_t text = datum(identity->certificate);
    gnutls_x509_crt_t certificate;
    unsigned char serial[64];
    size_t length = sizeof serial, at = 0;
    char day[24] = "?";
    struct tm parts;
    (void)snprintf(out, size, "a certificate");
    if (gnutls_x509_crt_init(&certificate) < 0) return;
    if (gnutls_x509_crt_import(certificate, &text, GNUTLS_X509_FMT_PEM) >= 0 &&
        gnutls_x509_crt_get_serial(certificate, serial, &length) >= 0) {
        const time_t end = gnutls_x509_crt_get_expiration_time(certificate);
        if (gmtime_r(&end, &parts) != NULL) (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%SZ", &parts);
        at = (size_t)snprintf(out, size, "a certificate that ends %s, serial number ", day);
        for (size_t i = 0; i < length && at + 3 < size; i++)
            at += (size_t)snprintf(out + at, size - at, "%02X", serial[i]);
    }
    gnutls_x509_crt_deinit(certificate);
}

void tls_identity_reset(struct tls_identity *identity)
{
    if (identity->key != NULL) explicit_bzero(identity->key, identity->key_size);
    free(identity->certificate);
    free(identity->key);
    *identity = (struct tls_identity){0};
}
