/* renewal.h: a certificate that was renewed is taken without a restart. Its files are looked at once a second, by
 * name, so that links which are moved (certbot) and files that are renamed over others count as well, and at once
 * after SIGHUP. A pair that cannot be used leaves the server with the one that it has, and a line of the log says
 * why. Used by one thread. */
#ifndef CLI_RENEWAL_H
#define CLI_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

struct http_server;

/* A file's state, as far as its directory tells. All zero: it is not there. */
struct renewal_stamp {
    uint64_t device, inode, size;
    int64_t changed[4]; /* seconds and nanoseconds of its bytes and of its inode */
};

struct renewal {
    const char *certificate, *key; /* lent paths; NULL: there is no HTTPS */
    struct renewal_stamp taken[2]; /* what was read last, of either file */
    struct renewal_stamp seen[2];  /* at the last look */
};

/* Before the files are read for the first time. */
void renewal_begin(struct renewal *renewal, const char *certificate, const char *key);

/* Reads the files when they have changed and were the same at the look before, since the two are written one after the
 * other; with `now` whatever they are. A pair that is sound is the server's from then on. */
void renewal_look(struct renewal *renewal, struct http_server *server, bool now);

#endif
