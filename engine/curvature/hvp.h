/* hvp.h: exact products of the Hessian of a model's mean next-token loss with vectors, forward over reverse
 * (Pearlmutter 1994): one walk forward carries values and their derivatives along the vector, one walk back the
 * gradient and its derivative, which is the product. Over many sequences, chunk after chunk. A tied matrix counts once;
 * constants of an architecture have no part.
 *
 * The values are the same for every vector: where memory allows they are kept. In units of one product of the blocks'
 * matrices (a gradient takes 3, or 4 with recomputation) a Hessian-vector product takes
 *   HVP_RECOMPUTE    11   memory: hidden states between blocks with tangents, and one block's activations, of one chunk
 *   HVP_KEEP_CHUNK    8   all blocks' activations and tangents, of one chunk
 *   HVP_KEEP_VALUES   7   the activations of all chunks besides the tangents of one
 * and every mode gives the same bits. */
#ifndef CURVATURE_HVP_H
#define CURVATURE_HVP_H

#include "base/monitor.h"
#include "curvature/operator.h"
#include "model/chunks.h"
#include "model/parameters.h"

struct hvp;

enum hvp_mode { HVP_RECOMPUTE, HVP_KEEP_CHUNK, HVP_KEEP_VALUES, HVP_MODES };

/* Bytes that hvp_new would allocate. */
int64_t hvp_bytes(const struct parameters_layout *layout, struct backend *backend, enum hvp_mode mode,
                  const struct chunks *chunks);

/* Parameters (whose values must not change), chunks and monitor are lent for life. Calls backend prepare. The caller
 * owns *out (hvp_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status hvp_new(const struct parameters *parameters, const struct chunks *chunks, enum hvp_mode mode,
                               const struct monitor *monitor, struct hvp **out, struct error *error);
void hvp_free(struct hvp *hvp); /* NULL is fine */

/* The Hessian as an operator over vectors in the layout of the parameters; lent. Its products may be cancelled between
 * blocks. */
const struct symmetric_operator *hvp_operator(const struct hvp *hvp);

/* The gradient of the mean loss into `out`, a vector of the operator's space, and the loss. Takes the memory of a
 * gradient with recomputation for the time of the call. STATUS_NOT_FINITE for a loss or gradient that is not finite,
 * STATUS_CANCELLED, STATUS_LEASE_LOST, STATUS_NO_MEMORY. */
MUST_CHECK enum status hvp_gradient(struct hvp *hvp, struct matrix out, double *loss, struct error *error);

#endif
