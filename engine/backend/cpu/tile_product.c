#include "backend/cpu/tile_product.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/tiles.h"
#include "base/memory.h"

#include <sys/mman.h>

/* The depth is cut into stretches. Columns of the right operand are cut into slices, which all threads pack once and
 * which stay in shared caches. Rows of the left operand are cut into blocks, which a task packs into its thread's
 * second-level cache. If there are few blocks, several tasks share one (each takes a group of strips of the slice), and
 * all blocks are packed before. */
enum {
    STRETCH = 1024,
    SLICE_BYTES = 8 << 20,
    BLOCK_BYTES = 1 << 20,
    BLOCK_ROWS = 256,
    TASKS = 8,
    LARGE_PAGE = 2 << 20
};

struct tile_scratch {
    char *slice, *blocks; /* aligned parts of memory: SLICE_BYTES, and BLOCK_BYTES per thread or shared block */
    char *memory;
};

enum status tile_scratch_new(int threads, struct tile_scratch **out, struct error *error)
{
    struct tile_scratch *scratch = NULL;
    enum status status;
    *out = NULL;
    if (!tiles_available()) return STATUS_OK;
    if ((status = memory_new(1, sizeof *scratch, "scratch for products", &scratch, error)) != STATUS_OK) return status;
    const int64_t bytes = SLICE_BYTES + larger(threads, TASKS) * BLOCK_BYTES;
    if ((status = memory_new(bytes + LARGE_PAGE, 1, "scratch for products", &scratch->memory, error)) != STATUS_OK) {
        memory_free(scratch);
        return status;
    }
    scratch->slice = scratch->memory + (LARGE_PAGE - (uintptr_t)scratch->memory % LARGE_PAGE) % LARGE_PAGE;
    scratch->blocks = scratch->slice + SLICE_BYTES;
    (void)madvise(scratch->slice, (size_t)bytes,
                  MADV_HUGEPAGE); /* the strips of a product span more pages than the TLB holds */
    *out = scratch;
    return STATUS_OK;
}

void tile_scratch_free(struct tile_scratch *scratch)
{
    if (scratch == NULL) return;
    memory_free(scratch->memory);
    memory_free(scratch);
}

bool tile_product_pays(int64_t rows, int64_t columns, int64_t depth)
{
    return rows >= 128 && columns >= 48 && depth >= 48 && (double)rows * (double)columns * (double)depth >= 4e6;
}

/* One slice of columns over one stretch of the depth. */
struct part {
    struct tile_scratch *scratch;
    const struct gemm_args *args;
    int64_t column, columns, k, depth; /* of the slice, of the stretch */
    int64_t block_rows, blocks, groups, group_strips;
    float beta;
    bool lower;
};

static void pack_slice(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct part *part = context;
    const struct matrix b = part->args->b;
    const bool along = part->args->transpose_b;
    const int64_t column = part->column + i * TILES_STRIP;
    const float *from = (const float *)b.data + (along ? column * b.stride + part->k : part->k * b.stride + column);
    tiles_pack(TILES_RIGHT, part->scratch->slice + (size_t)i * tiles_strip_bytes(part->depth), from, b.stride, along,
               smaller(TILES_STRIP, part->column + part->columns - column), part->depth);
}

/* A block of rows, packed, against the strips [first, end) of the slice. */
static void multiply_block(const struct part *part, const char *block, int64_t top, int64_t rows, int64_t first,
                           int64_t end)
{
    const struct matrix c = part->args->c;
    const size_t bytes = tiles_strip_bytes(part->depth);
    float sums[TILES_STRIP * TILES_STRIP] __attribute__((aligned(64)));
    tiles_begin();
    for (int64_t strip = first; strip < end; strip++) {
        const int64_t column = part->column + strip * TILES_STRIP;
        for (int64_t row = 0; row < rows; row += TILES_STRIP) {
            const int64_t height = smaller(TILES_STRIP, rows - row),
                          reach = part->lower ? top + row - column + 1 : TILES_STRIP;
            if (reach + height <= 1) continue; /* entirely above the diagonal */
            float *const to = float_row(c, top + row) + column;
            tiles_fetch(to, c.stride, height);
            tiles_multiply(block + (size_t)(row / TILES_STRIP) * bytes, part->scratch->slice + (size_t)strip * bytes,
                           part->depth, sums);
            tiles_put(sums, to, c.stride, height, smaller(TILES_STRIP, part->column + part->columns - column), reach,
                      (float)part->args->alpha, part->beta);
        }
    }
    tiles_end();
}

/* Packs the strip of the left operand that begins with row `top`. */
static void pack_left(const struct part *part, int64_t top, char *to)
{
    const struct matrix a = part->args->a;
    const bool along = !part->args->transpose_a;
    const float *from = (const float *)a.data + (along ? top * a.stride + part->k : part->k * a.stride + top);
    tiles_pack(TILES_LEFT, to, from, a.stride, along, smaller(TILES_STRIP, part->args->c.rows - top), part->depth);
}

static void pack_shared(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct part *part = context;
    const int64_t strips = part->block_rows / TILES_STRIP;
    pack_left(part, i * TILES_STRIP,
              part->scratch->blocks + i / strips * BLOCK_BYTES + (size_t)(i % strips) * tiles_strip_bytes(part->depth));
}

static void block_task(void *context, int64_t i, int thread)
{
    const struct part *part = context;
    const bool shared = part->groups > 1;
    const int64_t top = i / part->groups * part->block_rows, rows = smaller(part->block_rows, part->args->c.rows - top);
    const int64_t strips = ceil_divide(part->columns, TILES_STRIP), first = i % part->groups * part->group_strips;
    char *block = part->scratch->blocks + (shared ? i / part->groups : thread) * BLOCK_BYTES;
    if (part->lower && top + rows <= part->column + first * TILES_STRIP) return;
    for (int64_t row = 0; !shared && row < rows; row += TILES_STRIP)
        pack_left(part, top + row, block + (size_t)(row / TILES_STRIP) * tiles_strip_bytes(part->depth));
    multiply_block(part, block, top, rows, first, smaller(strips, first + part->group_strips));
}

static void multiply_part(struct part *part, struct team *team)
{
    const int64_t rows = part->args->c.rows, strips = ceil_divide(part->columns, TILES_STRIP);
    const int64_t fit = BLOCK_BYTES / (int64_t)tiles_strip_bytes(part->depth) * TILES_STRIP;
    part->blocks = ceil_divide(rows, smaller(fit, BLOCK_ROWS));
    part->block_rows = ceil_divide(ceil_divide(rows, part->blocks), TILES_STRIP) * TILES_STRIP;
    part->blocks = ceil_divide(rows, part->block_rows);
    part->group_strips = ceil_divide(strips, part->blocks >= TASKS ? 1 : ceil_divide(TASKS, part->blocks));
    part->groups = ceil_divide(strips, part->group_strips);
    team_run(team, strips, pack_slice, part);
    if (part->groups > 1) team_run(team, ceil_divide(rows, TILES_STRIP), pack_shared, part);
    team_run(team, part->blocks * part->groups, block_task, part);
}

void tile_product(struct tile_scratch *scratch, struct team *team, const struct gemm_args *args, bool lower)
{
    const int64_t depth = args->transpose_a ? args->a.rows : args->a.columns;
    const int64_t width = SLICE_BYTES / (int64_t)tiles_strip_bytes(smaller(depth, STRETCH)) * TILES_STRIP;
    for (int64_t column = 0; column < args->c.columns; column += width)
        for (int64_t k = 0; k < depth; k += STRETCH) {
            struct part part = {.scratch = scratch, .args = args, .column = column, .k = k, .lower = lower};
            part.columns = smaller(width, args->c.columns - column);
            part.depth = smaller(STRETCH, depth - k);
            part.beta = k == 0 ? (float)args->beta : 1;
            multiply_part(&part, team);
        }
}
