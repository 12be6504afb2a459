/* table.h: the two tables of the plain loops (table.c, compiled twice). */
#ifndef BACKEND_REFERENCE_TABLE_H
#define BACKEND_REFERENCE_TABLE_H

#include "backend/backend.h"

extern const struct backend_ops reference_ops_float, reference_ops_double;

#endif
