/* pickle_steps.h: the opcodes of a pickle, each a function over the machine. */
#ifndef PYTORCH_PICKLE_STEPS_H
#define PYTORCH_PICKLE_STEPS_H

#include "formats/pytorch/pickle_machine.h"

/* Executes the opcode `code`, whose byte has been read. STATUS_UNSUPPORTED for an opcode that checkpoints do not
 * use. */
MUST_CHECK enum status pickle_steps_run(struct pickle *pickle, uint8_t code);

#endif
