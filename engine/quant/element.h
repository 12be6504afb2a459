/* element.h: small floating-point numbers for weights, as tables for codings (backend/coding.h): the magnitudes in the
 * order of their codes, whose highest bit is the sign. OCP 8-bit Floating Point Specification v1.0 and OCP Microscaling
 * Formats v1.0, section 5.3. */
#ifndef QUANT_ELEMENT_H
#define QUANT_ELEMENT_H

#include "backend/backend.h"
#include "base/error.h"

enum { ELEMENT_E2M1_VALUES = 8, ELEMENT_E4M3_VALUES = 127 }; /* the last code of E4M3 is NaN */
extern const float element_e2m1[ELEMENT_E2M1_VALUES];        /* 0, 0.5 … 6 */
extern const float element_e4m3[ELEMENT_E4M3_VALUES];        /* 0, 2^-9 … 448 */

/* Codings with these tables, ties to even, without scales and layout. */
struct coding element_coding_e2m1(void);
struct coding element_coding_e4m3(void);

/* The largest magnitude of a matrix. Late errors of the backend, STATUS_NO_MEMORY. */
MUST_CHECK enum status element_largest(struct backend *backend, struct matrix weight, float *out, struct error *error);

/* The codings of MXFP4 and NVFP4 (mxfp4.c, nvfp4.c). element_nvfp4_factor computes NVFP4's factor from a matrix; it is
 * stored with so many bits. Statuses of element_largest. */
enum { ELEMENT_NVFP4_BITS = 32 };
struct coding element_mxfp4(void);
struct coding element_nvfp4(void);
MUST_CHECK enum status element_nvfp4_factor(struct backend *backend, struct matrix weight, struct coding *coding,
                                            struct error *error);

#endif
