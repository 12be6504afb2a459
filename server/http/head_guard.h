/* head_guard.h: the grammar of requests, byte by byte, before the HTTP library sees them. libmicrohttpd 0.9.75 takes a
 * line that begins with a colon for the end of a head, joins folded lines, cuts values at a NUL, and answers some heads
 * twice; a proxy that shares its connections would give the second answer to somebody else. So the library is given
 * clean messages alone. One that breaks the grammar is cut before the byte that does, and ended with a few bytes of
 * ours, so that the library calls us with a message that is whole, and the usual way refuses it: in order with what was
 * pipelined before, with a problem document, and the connection is closed. What follows is never passed on.
 *
 * Bodies are counted here as the library counts them: by Content-Length, or by chunks. Only forms that can be read in
 * one way are passed, so both always agree where the next head begins. A guard belongs to one connection and one
 * thread, and holds no memory. Private to server/http. */
#ifndef HTTP_HEAD_GUARD_H
#define HTTP_HEAD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct head_guard {    /* {0} for a new connection */
    int state;         /* the part that is being read (enum state of the .c file) */
    unsigned messages; /* number of messages whose first byte was read */
    unsigned heads;    /* number of heads that ended without a fault */
    const char *fault; /* why the last message is refused; NULL: it is not refused */
    const char *end;   /* bytes that the library still has to get so that this message ends */
    size_t at;         /* characters read of the current name, number or version */
    uint64_t left;     /* bytes of the body or chunk that are still to come */
    unsigned names;    /* the names of interest that the current name may still become, a bit for each */
    bool has_length, chunked, trailer, has_host;
};

/* Checks `size` bytes as they were received. Returns how many of the first bytes may be passed on: fewer than `size`
 * when a message was refused (head_guard_end), and none ever after. Two things are changed in place, because 0.9.75 has
 * too little memory for them and nobody reads them through the library: the "?" of a target becomes a "#"
 * (head_guard_restore), and a header "Cookie" gets another name. */
size_t head_guard_pass(struct head_guard *guard, char *bytes, size_t size);

/* Writes the bytes that end a refused message after the passed ones, at most `space`. 0: all of them were written, or
 * no message was refused. */
size_t head_guard_end(struct head_guard *guard, char *bytes, size_t space);

/* Why the message of this number (the first is 1), whose head the library has read, may not be served. NULL: its head
 * and the received part of its body have no fault. */
const char *head_guard_fault(const struct head_guard *guard, unsigned message);

/* Restores the "?" of a request target. */
void head_guard_restore(char *target);

#endif
