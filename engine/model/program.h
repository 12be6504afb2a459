/* program.h: a decoder block as a list of steps over slots and parameters. The builder (decoder.c) writes one from a
 * configuration. */
#ifndef MODEL_PROGRAM_H
#define MODEL_PROGRAM_H

#include "model/op.h"

enum { PROGRAM_STEPS = 32, PROGRAM_SLOTS = 32, PROGRAM_PARAMETERS = 256, PARAMETER_NAME = 96 };

/* Initial values of a fresh model. Usual: matrices are drawn from N(0, initializer_range²) and vectors are `initial`.
 * The others follow the published code of state space models (column c of C): uniform in ± C^-1/2; log(c + 1), decays
 * from slow to fast; and the inverse softplus of a step size whose logarithm is uniform between 0.001 and 0.1. */
enum fresh { FRESH_USUAL, FRESH_UNIFORM, FRESH_DECAY, FRESH_STEP };

/* A tensor of the model: [rows, columns], vectors are [1, columns]. A matrix may have one row too. */
struct parameter {
    char name[PARAMETER_NAME]; /* full name in the checkpoint */
    int64_t rows, columns;
    bool matrix;     /* drawn at random when fresh, decays in training, two-dimensional in a file; vectors do neither */
    bool linear;     /* weight of a linear step that quantizers work on */
    bool transposed; /* [columns, rows] in the file (Conv1D); in memory always [rows, columns] */
    bool depthwise;  /* a convolution's: stored as [rows, 1, columns] */
    /* no gradient, not counted as a parameter; `initial` if a file lacks it; the file may store it as [] */
    bool constant;
    double initial;   /* of all elements of a vector in a fresh model */
    enum fresh fresh; /* decays do not count as a matrix in training: no weight decay acts on them */
};

/* A slot, or some columns of another slot (a view); a step takes either. The views of a slot do not overlap, together
 * they cover it, and no step reads the slot itself. So each view has its own gradient, in its columns of the slot's. */
struct slot {
    int64_t width; /* columns */
    int of;        /* the slot that this is a view of, or NO_SLOT */
    int64_t first; /* its first column there */
};

struct program {
    int step_count, slot_count, parameter_count;
    struct step steps[PROGRAM_STEPS];
    struct slot slots[PROGRAM_SLOTS];
    struct parameter parameters[PROGRAM_PARAMETERS];
    int input, output; /* slots of the block's hidden states, [T, hidden_size] */
};

/* Building: each function returns the number of what it added. Exceeding a limit is a bug (assert). */
int program_slot(struct program *program, int64_t width);
int program_view(struct program *program, int slot, int64_t first, int64_t width); /* of a slot that is no view */
int program_parameter(struct program *program, const char *name, int64_t rows, int64_t columns, bool linear);
struct step *program_step(struct program *program, const struct op *op, int input, int output);

/* True when a step at `from` or later reads `slot`, or when it is the block's output. A step that reads a view does not
 * read its slot. */
bool program_live(const struct program *program, int slot, int from);

/* Offset of each slot in a row of one buffer. Without `keep_all` a slot's memory is reused when no later step reads it;
 * the input slot lies outside (in the caller's hidden states), and a chain of residual additions works on it in place;
 * slots that are saved only for backward passes are absent. With `keep_all` (backward passes) every slot but the input
 * has its own columns. */
enum { PLAN_ABSENT = -2 };
struct program_plan {
    int64_t width; /* columns of the buffer in all */
    /* PLAN_ABSENT, or -1: the slot is (an alias of) the input slot's memory; a view's is its slot's */
    int64_t offset[PROGRAM_SLOTS];
};
void program_plan(const struct program *program, bool keep_all, struct program_plan *plan);

#endif
