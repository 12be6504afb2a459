#include "cli/renewal.h"

#include "http/server.h"
#include "http/tls.h"
#include "log/log.h"

#include <string.h>
#include <sys/stat.h>

enum { DESCRIBED = 160 };

static void stamp(const char *path, struct renewal_stamp *out)
{
    struct stat found;
    *out = (struct renewal_stamp){0};
    if (stat(path, &found) != 0) return;
    *out = (struct renewal_stamp){
        .device = found.st_dev,
        .inode = found.st_ino,
        .size = (uint64_t)found.st_size,
        .changed = {found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_ctim.tv_sec, found.st_ctim.tv_nsec}};
}

static void stamp_both(const struct renewal *renewal, struct renewal_stamp out[2])
{
    stamp(renewal->certificate, &out[0]);
    stamp(renewal->key, &out[1]);
}

void renewal_begin(struct renewal *renewal, const char *certificate, const char *key)
{
    *renewal = (struct renewal){.certificate = certificate, .key = key};
    if (certificate == NULL || key == NULL) return;
    stamp_both(renewal, renewal->taken);
    memcpy(renewal->seen, renewal->taken, sizeof renewal->seen);
}

static void take(const struct renewal *renewal, struct http_server *server)
{
    struct tls_identity identity;
    struct error error;
    char described[DESCRIBED];
    enum status status = tls_identity_read(renewal->certificate, renewal->key, &identity, &error);
    if (status == STATUS_OK) status = http_server_renew(server, &identity, &error);
    if (status == STATUS_OK) {
        tls_identity_describe(&identity, described, sizeof described);
        log_info(LOG_COMPONENT_HTTP, "new connections get %s", described);
    } else {
        log_error(LOG_COMPONENT_HTTP, "the certificate stays as it was: %s", error.detail);
    }
    tls_identity_reset(&identity);
}

void renewal_look(struct renewal *renewal, struct http_server *server, bool now)
{
    struct renewal_stamp found[2];
    if (renewal->certificate == NULL || renewal->key == NULL) return;
    stamp_both(renewal, found);
    const bool still = memcmp(found, renewal->seen, sizeof found) == 0;
    memcpy(renewal->seen, found, sizeof found);
    if (!now && (!still || memcmp(found, renewal->taken, sizeof found) == 0)) return;
    memcpy(renewal->taken, found, sizeof found);
    take(renewal, server);
}
