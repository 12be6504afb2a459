/* doctor.h: the checks of `deltaq doctor`. They change nothing permanently: everything that a check makes is removed.
 * Each function prints one line for each finding: what was tried and, when it failed, what to do. It returns the number
 * of failures. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/options.h"

/* Prints one line; returns 1 when it is a failure. */
int doctor_say(bool good, const char *what, const char *detail);

/* Checks the data directory, or the place where it will be made: write, sync, rename and read files; locks; free
 * space. */
int doctor_directory(const struct options *options);

/* Checks the database: its schema, its clock, locks, and the rights of the role. */
int doctor_database(const struct options *options);

#endif
