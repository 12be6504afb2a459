#include "backend/cpu/bf16.h"

#include "base/integer.h"

/* Blocks of rows of the left factor stay in the second-level cache while strips of the right factor pass, a few
 * stretches of the depth at once, so that a strip's columns of the output stay there too. A stretch of a strip stays in
 * the first-level cache with a strip of the block. */
enum { STRETCH = 256, STRETCHES = 3, ROWS = 512, STRIPS = ROWS / BF16_STRIP, STRIP_BYTES = STRETCH * BF16_STRIP * 2 };

/* A block of rows over a stretch of the depth. */
struct part {
    const struct gemm_args *args;
    int64_t row, rows, k, depth;
    float beta;
};

static struct part part_of(const struct gemm_args *args, int64_t row, int64_t k)
{
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    return (struct part){
        .args = args,
        .row = row,
        .rows = smaller(ROWS, args->c.rows - row),
        .k = k,
        .depth = smaller(STRETCH, depth - k),
        .beta = k == 0 ? (float)args->beta : 1,
    };
}

static void pack_left(const struct part *part, char *to)
{
    const struct matrix a = part->args->a;
    const bool along = !part->args->transpose_a;
    for (int64_t i = 0; i < part->rows; i += BF16_STRIP) {
        const int64_t row = part->row + i;
        bf16_pack(BF16_LEFT, to + i / BF16_STRIP * STRIP_BYTES,
                  (const float *)a.data + (along ? row * a.stride + part->k : part->k * a.stride + row), a.stride,
                  along, smaller(BF16_STRIP, part->rows - i), part->depth);
    }
}

static void pack_right(const struct part *part, int64_t column, char *to)
{
    const struct matrix b = part->args->b;
    const bool along = part->args->transpose_b;
    bf16_pack(BF16_RIGHT, to,
              (const float *)b.data + (along ? column * b.stride + part->k : part->k * b.stride + column), b.stride,
              along, smaller(BF16_STRIP, part->args->c.columns - column), part->depth);
}

/* The block of rows by a strip of columns. */
static void multiply_part(const struct bf16_unit *unit, const struct part *part, const char *left, int64_t column)
{
    char right[STRIP_BYTES] __attribute__((aligned(64)));
    const struct matrix c = part->args->c;
    pack_right(part, column, right);
    for (int64_t i = 0; i < part->rows; i += BF16_STRIP) {
        const struct bf16_block block = {
            .c = (float *)c.data + (part->row + i) * c.stride + column,
            .stride = c.stride,
            .rows = smaller(BF16_STRIP, part->rows - i),
            .columns = smaller(BF16_STRIP, c.columns - column),
            .alpha = (float)part->args->alpha,
            .beta = part->beta,
        };
        unit->multiply(left + i / BF16_STRIP * STRIP_BYTES, right, part->depth, &block);
    }
}

static void multiply_block(const struct bf16_unit *unit, const struct part *parts, int64_t count)
{
    char left[STRETCHES][STRIPS * STRIP_BYTES] __attribute__((aligned(64)));
    for (int64_t i = 0; i < count; i++) pack_left(&parts[i], left[i]);
    for (int64_t column = 0; column < parts->args->c.columns; column += BF16_STRIP)
        for (int64_t i = 0; i < count; i++) multiply_part(unit, &parts[i], left[i], column);
}

void bf16_multiply(const struct bf16_unit *unit, const struct gemm_args *args)
{
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    const int64_t stretches = larger(1, ceil_divide(depth, STRETCH));
    /* a narrow output is small beside the factors: it stays in the cache by itself */
    const int64_t together = args->c.columns >= depth ? STRETCHES : 1;
    unit->begin();
    for (int64_t row = 0; row < args->c.rows; row += ROWS)
        for (int64_t first = 0; first < stretches; first += together) {
            struct part parts[STRETCHES];
            const int64_t count = smaller(together, stretches - first);
            for (int64_t i = 0; i < count; i++) parts[i] = part_of(args, row, (first + i) * STRETCH);
            multiply_block(unit, parts, count);
        }
    unit->end();
}
