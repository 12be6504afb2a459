/* faults.h: the calls of a program that may fail, counted, and one of them made to fail. The linker puts these
 * functions in place of the C library's and of a few others' in all that the program is made of (--wrap, see the
 * Makefile). Libraries that come as shared objects are not reached, so those calls of theirs that can fail are here,
 * too. */
#ifndef TORTURE_FAULTS_H
#define TORTURE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
    FAULT_MEMORY,  /* allocations, threads, and what libraries allocate: no memory */
    FAULT_READING, /* opening, reading, examining: EIO */
    FAULT_WRITING, /* writing, fsync, rename, link, mkdir, room: EIO */
    FAULT_FULL,    /* the same: ENOSPC */
    FAULT_QUERY,   /* statements to the database, and their results: the connection ends */
    FAULT_KINDS
};
extern const char *const fault_names[FAULT_KINDS];

/* From now on calls of `kind` are counted, from 1, and number `at` fails (0: none). */
void fault_arm(enum fault_kind kind, int64_t at);
/* Nothing fails any more. Returns how many calls there were. */
int64_t fault_disarm(void);
/* Prints where the call that fails next comes from. */
void fault_show(bool shown);
/* Whether a call failed since it was armed. */
bool fault_happened(void);

#endif
