/* gptq.c: GPTQ inside one block of columns (backend/codes.h has the equations). */
#include "backend/reference/real.h"

static void solve_row(const struct gptq_block_args *args, int64_t r)
{
    real *weights = row_of(args->weights, r);
    double values[CODING_VALUES];
    coding_table(args->coding, values);
    for (int64_t j = 0; j < args->weights.columns; j++) {
        const int64_t at = (args->position + j) / args->coding.group_size * args->grids.stride + r;
        const double scale = args->grids.scales[at], zero = args->grids.zeros[at];
        real w = weights[j];
        for (int64_t i = 0; i < j; i++) w -= row_of(args->errors, i)[r] * row_of(args->upper, i)[j];
        const int code = args->coding.values != NULL
                             ? coding_look_up(args->coding, values, (float)w, scale)
                             : (int)coding_step((float)w, scale, zero, coding_top(args->coding));
        const real value = (real)coding_value(args->coding, code, (int)zero) * (real)(float)scale;
        row_of(args->errors, j)[r] = (w - value) / row_of(args->upper, j)[j];
        args->codes[r * args->codes_stride + args->from[j]] = (uint8_t)code;
    }
}

void REFERENCE(gptq_block)(struct backend *backend, const struct gptq_block_args *args)
{
    (void)backend;
    for (int64_t r = 0; r < args->weights.rows; r++) solve_row(args, r);
}
