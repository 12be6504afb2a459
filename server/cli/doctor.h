/* doctor.h: what `deltaq doctor` tries. Nothing is changed for good: what a trial makes it removes. Each function
 * prints a line a finding, with what was tried and, where it failed, what to do; it returns how many are wrong. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/options.h"

/* One line; 1 when it is not good. */
int doctor_say(bool good, const char *what, const char *detail);

/* The data directory, or where it will be made: files written, synced, renamed and read, locks, free space. */
int doctor_directory(const struct options *options);

/* The database: its schema, its clock, locks, and what its role may do. */
int doctor_database(const struct options *options);

#endif
