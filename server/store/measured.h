/* measured.h: the names of all numbers that runs leave for curves and correlations. A run that measures under another
 * name fails. */
#ifndef STORE_MEASURED_H
#define STORE_MEASURED_H

#include <stdbool.h>

/* Ends with NULL. */
extern const char *const measured_names[];

bool measured_known(const char *name);

/* The known name that `name` most likely was meant to be, by the edits between them; NULL: none is near. */
const char *measured_nearest(const char *name);

#endif
