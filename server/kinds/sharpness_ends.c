#include "kinds/sharpness_ends.h"

#include "kinds/sharpness_metrics.h"

#include <math.h>

#define ENDS(field)   offsetof(struct sharpness_ends, found.field)
#define BOUNDS(field) offsetof(struct sharpness_ends, field)

static const struct result_field ends_fields[] = {
    {.name = "top_eigenvalue", .type = RESULT_NUMBER, .offset = ENDS(top), .metric = &sharpness_metric_top_eigenvalue},
    {.name = "largest_algebraic",
     .type = RESULT_NUMBER,
     .offset = ENDS(largest),
     .later = true,
     .metric = &sharpness_metric_largest_algebraic,
     .spread = RESULT_STDERR,
     .spread_low = BOUNDS(largest_error),
     .spread_degrees = BOUNDS(largest_degrees)},
    {.name = "smallest_algebraic",
     .type = RESULT_NUMBER,
     .offset = ENDS(smallest),
     .later = true,
     .metric = &sharpness_metric_smallest_algebraic},
    {.name = "top_eigenvalue_interval",
     .type = RESULT_INTERVAL,
     .offset = BOUNDS(top_low),
     .high = BOUNDS(top_high),
     .later = true,
     .help = "An eigenvalue lies between: the value less and plus its vector's residual (Weinstein's bound); of the "
             "sequences given, without their sampling error; null in bf16, whose roundings it does not hold"},
    {.name = "largest_algebraic_interval",
     .type = RESULT_INTERVAL,
     .offset = BOUNDS(largest_low),
     .high = BOUNDS(largest_high),
     .later = true,
     .help = "The same of largest_algebraic"},
    {.name = "smallest_algebraic_interval",
     .type = RESULT_INTERVAL,
     .offset = BOUNDS(smallest_low),
     .high = BOUNDS(smallest_high),
     .later = true,
     .help = "The same of smallest_algebraic"},
    {.name = "iterations",
     .type = RESULT_INTEGER,
     .offset = ENDS(products),
     .help = "Hessian-vector products for both ends"},
    {.name = "converged",
     .type = RESULT_BOOLEAN,
     .offset = ENDS(converged),
     .help = "Both ends are within the tolerance"},
    {.name = "residual",
     .type = RESULT_NUMBER,
     .offset = ENDS(residual),
     .help = "|Hu − λu| / |λ| of the unit vector u found for the top eigenvalue λ"},
    {0},
};
const struct result_shape sharpness_ends_shape = {.fields = ends_fields};

static const struct result_field preconditioned_measured[] = {
    {.name = "preconditioned_sharpness",
     .type = RESULT_NUMBER,
     .offset = ENDS(largest),
     .metric = &sharpness_metric_preconditioned,
     .spread = RESULT_STDERR,
     .spread_low = BOUNDS(largest_error),
     .spread_degrees = BOUNDS(largest_degrees)},
    {0},
};
const struct result_shape sharpness_preconditioned_measured = {.fields = preconditioned_measured};

static const struct result_field preconditioned_fields[] = {
    {.name = "preconditioned_sharpness",
     .type = RESULT_NUMBER,
     .offset = ENDS(largest),
     .later = true,
     .metric = &sharpness_metric_preconditioned,
     .unkept = true},
    {.name = "preconditioned_sharpness_interval",
     .type = RESULT_INTERVAL,
     .offset = BOUNDS(largest_low),
     .high = BOUNDS(largest_high),
     .later = true,
     .help = "An eigenvalue of D^-1/2 H D^-1/2 lies between, as in largest_algebraic_interval"},
    {.name = "preconditioned_sharpness_stderr",
     .type = RESULT_NUMBER,
     .offset = BOUNDS(largest_error),
     .later = true,
     .help = "Standard error of preconditioned_sharpness over the sequences, D being as it is; null as"
             " largest_algebraic_stderr is" SHARPNESS_STUDENT_HELP},
    {.name = "preconditioned_sharpness_units",
     .type = RESULT_INTEGER,
     .offset = BOUNDS(largest_units),
     .later = true,
     .help = SHARPNESS_UNITS_HELP},
    {.name = "preconditioned_smallest",
     .type = RESULT_NUMBER,
     .offset = ENDS(smallest),
     .later = true,
     .help = "The smallest eigenvalue of D^-1/2 H D^-1/2; by power: null unless it is the top one"},
    {.name = "preconditioned_smallest_interval",
     .type = RESULT_INTERVAL,
     .offset = BOUNDS(smallest_low),
     .high = BOUNDS(smallest_high),
     .later = true,
     .help = "The same of preconditioned_smallest"},
    {.name = "preconditioned_iterations",
     .type = RESULT_INTEGER,
     .offset = ENDS(products),
     .later = true,
     .help = "Hessian-vector products for both ends of its spectrum"},
    {.name = "preconditioned_converged",
     .type = RESULT_BOOLEAN,
     .offset = ENDS(converged),
     .later = true,
     .help = "Both of its ends are within the tolerance"},
    {.name = "preconditioned_residual",
     .type = RESULT_NUMBER,
     .offset = ENDS(residual),
     .later = true,
     .help = "|Au − λu| / |λ| of A = D^-1/2 H D^-1/2 and the unit vector u found for its eigenvalue λ of largest "
             "magnitude"},
    {0},
};
const struct result_shape sharpness_preconditioned_shape = {.fields = preconditioned_fields};

struct sharpness_ends sharpness_ends_of(const struct spectrum_ends *ends, bool rounded)
{
    const double top = rounded ? NAN : ends->residual * (ends->top == 0 ? 1 : fabs(ends->top)),
                 largest = rounded ? NAN : ends->largest_bound, smallest = rounded ? NAN : ends->smallest_bound;
    return (struct sharpness_ends){
        .found = *ends,
        .top_low = ends->top - top,
        .top_high = ends->top + top,
        .largest_low = ends->largest - largest,
        .largest_high = ends->largest + largest,
        .smallest_low = ends->smallest - smallest,
        .smallest_high = ends->smallest + smallest,
        .largest_error = NAN,
        .largest_units = 1,
    };
}
