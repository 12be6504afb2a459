/* renewal.h: takes over a renewed certificate without a restart. The files are looked at once a second, and at once
 * after SIGHUP. They are looked up by name, so that moved links (certbot) and files renamed over others are noticed.
 * When a pair cannot be used, the server keeps the one that it has, and a line of the log says why. Used by one
 * thread. */
#ifndef CLI_RENEWAL_H
#define CLI_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

struct http_server;

/* The state of a file, from its directory entry. All zero: the file does not exist. */
struct renewal_stamp {
    uint64_t device, inode, size;
    int64_t changed[4]; /* seconds and nanoseconds of the last change of its bytes and of its inode */
};

struct renewal {
    const char *certificate, *key; /* lent paths; NULL: there is no HTTPS */
    struct renewal_stamp taken[2]; /* state of both files when they were last read */
    struct renewal_stamp seen[2];  /* state of both files at the last look */
};

/* Call it before the files are read for the first time. */
void renewal_begin(struct renewal *renewal, const char *certificate, const char *key);

/* Reads the files when they have changed since the last reading and not since the last look, because the two are
 * written one after the other; with `now` in any case. A valid pair becomes the server's. */
void renewal_look(struct renewal *renewal, struct http_server *server, bool now);

#endif
