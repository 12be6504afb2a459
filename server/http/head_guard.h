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
    int state;         /* what is being read (enum state of the .c file) */
    unsigned messages; /* whose first byte has come */
    unsigned heads;    /* that have ended well */
    const char *fault; /* why the last message is refused; NULL: it is not */
    const char *end;   /* what the library is still to be given of that message's end */
    size_t at;         /* characters read of a name, a number, a version */
    uint64_t left;     /* bytes of the body, or of the chunk, that are still to come */
    unsigned names;    /* those of the names looked for that the name may still become, a bit each */
    bool has_length, chunked, trailer, has_host;
};

/* Checks `size` bytes as they came. The first so many of them, which is what it returns, are to be passed on; fewer
 * than `size` when a message was refused (head_guard_end), none ever after. Two things are changed in place, which
 * nobody here reads through the library and which 0.9.75 has too little memory for: the "?" of a target becomes a "#"
 * (head_guard_restore), and a header "Cookie" gets another name. */
size_t head_guard_pass(struct head_guard *guard, char *bytes, size_t size);

/* Writes what is to follow the passed bytes of a refused message, at most `room`; 0: all of it was taken, or no message
 * was refused. */
size_t head_guard_end(struct head_guard *guard, char *bytes, size_t room);

/* Why the message with this number (the first is 1), whose head the library has read, may not be served. NULL: its head
 * was checked and is clean, and so is what has come of its body. */
const char *head_guard_fault(const struct head_guard *guard, unsigned message);

/* Gives a request target its "?" back. */
void head_guard_restore(char *target);

#endif
