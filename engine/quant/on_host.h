/* on_host.h: for quantizers that work on floats in host memory alone (quantizer.h, `anywhere`): what lies on a device is copied
 * there, quantized with the backend that the device keeps for it (backend.h, `host`), and the dequantized weights copied back. */
#ifndef QUANT_ON_HOST_H
#define QUANT_ON_HOST_H

#include "quant/quantizer.h"

struct on_host {
    struct backend *device;           /* lent */
    const struct quantize_task *from; /* lent */
    struct backend *backend;          /* lent: what works on the copies */
    struct quantize_task task;        /* the copies; without a device the very task that came in */
    struct quantize_linear *linears;  /* owned, like the two below; NULL without a device */
    float *weights, *hessian;
};

/* Copies, and waits until they are there. STATUS_NO_MEMORY, and what went wrong on the device so far. on_host_reset is due in any
 * case. */
MUST_CHECK enum status on_host_init(struct on_host *copy, struct backend *backend, const struct quantize_task *task,
                                    struct error *error);
/* The weights as they are now, back to the device. */
void on_host_return(const struct on_host *copy);
void on_host_reset(struct on_host *copy);

#endif
