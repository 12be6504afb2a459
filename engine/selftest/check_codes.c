/* check_codes.c: what quantizers are made of. Grids, codes, rounded rows and transforms are defined operation by
 * operation (backend/coding.h), so a device has the bits of the plain loops in float. What follows from sums of floats
 * is held to its own equations, with the device's earlier results put in, so that a weight that is rounded the other
 * way is not taken for a fault. */
#include "quant/element.h"
#include "selftest/check.h"

#include <math.h>
#include <string.h>

enum { ROWS = 37, COLUMNS = 150, GAP = 3, PADDED = 64, BITS_TOP = 15 };

/* Numbers of both signs below `scale`, in no order. */
static void scatter(float *to, int64_t count, double scale)
{
    for (int64_t i = 0; i < count; i++) to[i] = (float)(scale * ((double)(i * 7919 % 10007) / 5003.5 - 1));
}

static struct codes codes_new(struct exam *exam, struct coding coding)
{
    struct codes codes = {.coding = coding, .rows = ROWS, .columns = COLUMNS};
    codes.groups = (COLUMNS + coding.group_size - 1) / coding.group_size;
    codes.codes = exam_bytes(exam, NULL, ROWS * COLUMNS);
    codes.scales = exam_bytes(exam, NULL, ROWS * codes.groups * 4);
    return codes;
}

/* Four rules and three sizes of groups in turn; the same grids in double, as GPTQ uses them; the values and the
 * differences. */
static void run_grids(struct exam *exam, int64_t shape)
{
    static const struct coding rules[] = {{.bits = 4, .sym = true},
                                          {.bits = 3},
                                          {.bits = 4, .rule = SCALE_RANGE},
                                          {.bits = 8, .sym = true, .rule = SCALE_ABSMAX}};
    static const int64_t sizes[] = {1, 33, COLUMNS};
    struct backend *backend = exam->backend;
    struct coding coding = rules[shape % 4];
    coding.group_size = sizes[shape % 3];
    const struct matrix weight = exam_random(exam, ROWS, COLUMNS, GAP, 0.3),
                        values = exam_target(exam, ROWS, COLUMNS, 1, false),
                        left = exam_target(exam, ROWS - 5, COLUMNS, 2, false);
    struct codes codes = codes_new(exam, coding), grids = codes;
    const int64_t bytes = codes.groups * PADDED * (int64_t)sizeof(double);
    codes.zeros = exam_bytes(exam, NULL, ROWS * codes.groups);
    grids.grids = (struct grids){exam_bytes(exam, NULL, bytes), exam_bytes(exam, NULL, bytes), PADDED};
    backend->ops->fill(backend, matrix_rows(weight, 3, 1), 0);
    backend->ops->encode(backend, weight, &codes);
    backend->ops->encode(backend, weight, &grids);
    exam_record_bytes(exam, "codes", codes.codes, ROWS * COLUMNS);
    exam_record_bytes(exam, "scales", codes.scales, ROWS * codes.groups * 4);
    exam_record_bytes(exam, "zero points", codes.zeros, ROWS * codes.groups);
    exam_record_bytes(exam, "scales in double", grids.grids.scales, bytes);
    exam_record_bytes(exam, "zero points in double", grids.grids.zeros, bytes);
    backend->ops->decode(backend, &codes, 0, values, (struct matrix){0});
    backend->ops->decode(backend, &codes, 5, left, matrix_rows(weight, 5, ROWS - 5));
    exam_record(exam, "values", values, 2.1, 0);
    exam_record(exam, "what is left", left, 3.2, 1);
}

static void run_tables(struct exam *exam, int64_t shape)
{
    struct backend *backend = exam->backend;
    struct coding coding = shape < 2 ? element_coding_e2m1() : element_coding_e4m3();
    coding.rule = SCALE_ABSMAX, coding.type = SCALE_TYPE_F32, coding.group_size = COLUMNS;
    if (shape == 0) coding.rule = SCALE_POWER, coding.type = SCALE_TYPE_E8M0, coding.group_size = 32;
    if (shape == 1) coding.type = SCALE_TYPE_E4M3, coding.factor = 0.003F, coding.group_size = 16;
    if (shape == 3) coding.layout = LAYOUT_TILES, coding.group_size = 64, coding.group_rows = 24;
    const struct matrix weight = exam_random(exam, ROWS, COLUMNS, GAP, 0.3),
                        values = exam_target(exam, ROWS, COLUMNS, 1, false);
    struct codes codes = codes_new(exam, coding);
    codes.coding.values = exam_bytes(exam, coding.values, coding.count * (int64_t)sizeof *coding.values);
    backend->ops->fill(backend, matrix_rows(weight, 3, 1), 0);
    backend->ops->encode(backend, weight, &codes);
    backend->ops->decode(backend, &codes, 0, values, (struct matrix){0});
    exam_record_bytes(exam, "codes", codes.codes, ROWS * COLUMNS);
    exam_record_bytes(exam, "scales", codes.scales, codes_all_groups(&codes) * 4);
    exam_record(exam, "values", values, 2.1, 0);
}

/* No choice depends on rounding here: all stay the same if every entry of the Hessian changes by up to 3e-4 of
 * itself. */
static void run_clip_search(struct exam *exam, int64_t shape)
{
    enum { WIDE = 40, TALL = 7 };
    struct backend *backend = exam->backend;
    const struct coding coding = {.bits = shape == 0 ? 4 : 3,
                                  .sym = shape == 1,
                                  .rule = shape == 0 ? SCALE_RANGE : SCALE_ABSMAX,
                                  .group_size = shape == 0 ? 16 : WIDE};
    const struct matrix weight = exam_random(exam, TALL, WIDE, GAP, 0.3), scales = exam_filled(exam, 1, WIDE, 0, 1.25),
                        x = exam_random(exam, 60, WIDE, 0, 1), hessian = exam_filled(exam, WIDE, WIDE, 1, 0),
                        scratch = exam_filled(exam, 2 * CLIP_SEARCH_ROWS, coding.group_size, 0, 0);
    backend->ops->syrk(backend, hessian, x, 0.01, 0);
    backend->ops->mirror(backend, hessian);
    backend->ops->fill(backend, matrix_columns(scales, 3, 20), 0.5);
    backend->ops->clip_search(backend, &(struct clip_search_args){coding, weight, scales, hessian, 10, 20, scratch});
    exam_record(exam, "clipped weights", weight, 0, 0);
}

struct block {
    int64_t width, position, group_size;
};
static const struct block blocks[] = {{128, 0, 32}, {33, 40, 24}, {1, 0, 1}};

struct block_data {
    float weights[ROWS * GPTQ_BLOCK], upper[GPTQ_BLOCK * GPTQ_BLOCK], errors[GPTQ_BLOCK * PADDED];
    double scales[8 * PADDED], zeros[8 * PADDED];
    int32_t from[GPTQ_BLOCK];
    uint8_t codes[ROWS * GPTQ_BLOCK];
};

/* Number of columns of a row that differ from the equations with the errors found to their left. A sum of j + 1 terms
 * has as many roundings of its terms' sizes; where these reach a half the code may be either neighbour. */
static int64_t unequal(const struct block *b, const struct block_data *d, int64_t r)
{
    int64_t wrong = 0;
    for (int64_t j = 0; j < b->width; j++) {
        double w = (double)d->weights[r * b->width + j], size = fabs(w);
        for (int64_t i = 0; i < j; i++) {
            const double term = (double)d->errors[i * PADDED + r] * (double)d->upper[i * b->width + j];
            w -= term;
            size += fabs(term);
        }
        const int64_t at = (b->position + j) / b->group_size * PADDED + r;
        const double scale = d->scales[at], zero = d->zeros[at], code = d->codes[r * GPTQ_BLOCK + d->from[j]];
        const double bound = (double)(j + 2) * EXAM_ROUNDOFF * size;
        const double steps = fmin(fmax(w / scale, -zero), BITS_TOP - zero),
                     divisor = (double)d->upper[j * b->width + j];
        const double value = (code - zero) * (double)(float)scale, error = (w - value) / divisor;
        const double found = (double)d->errors[j * PADDED + r];
        wrong += !(fabs(steps - (code - zero)) <= 0.5 + bound / scale) ||
                 !(fabs(found - error) <= (bound + 3 * EXAM_ROUNDOFF * (fabs(w) + fabs(value))) / divisor);
    }
    return wrong;
}

static void run_gptq_block(struct exam *exam, int64_t shape)
{
    const struct block *b = &blocks[shape];
    struct backend *backend = exam->backend;
    struct block_data d = {.codes = {0}};
    int64_t wrong = 0;
    scatter(d.weights, ROWS * b->width, 0.6);
    scatter(d.upper, b->width * b->width, 0.1);
    for (int64_t j = 0; j < b->width; j++) {
        d.upper[j * b->width + j] = 0.5F + (float)(j % 8) / 8;
        d.from[j] = (int32_t)(b->width - 1 - j);
    }
    for (int i = 0; i < 8 * PADDED; i++) d.scales[i] = 0.02 + (double)(i % 37) / 555, d.zeros[i] = 5 + i % 5;
    const struct matrix errors = exam_filled(exam, b->width, ROWS, PADDED - ROWS, 0);
    uint8_t *codes = exam_bytes(exam, NULL, sizeof d.codes);
    backend->ops->gptq_block(backend, &(struct gptq_block_args){
                                          .weights = exam_given(exam, ROWS, b->width, d.weights),
                                          .upper = exam_given(exam, b->width, b->width, d.upper),
                                          .grids = {exam_bytes(exam, d.scales, sizeof d.scales),
                                                    exam_bytes(exam, d.zeros, sizeof d.zeros), PADDED},
                                          .position = b->position,
                                          .coding = {.bits = 4, .group_size = b->group_size},
                                          .from = d.from,
                                          .codes = codes,
                                          .codes_stride = GPTQ_BLOCK,
                                          .errors = errors,
                                      });
    backend->ops->read_bytes(backend, codes, d.codes, sizeof d.codes);
    backend->ops->download(backend, errors, exam->staging, DTYPE_F32);
    exam_sync(exam);
    for (int64_t j = 0; j < b->width; j++)
        memcpy(d.errors + j * PADDED, exam->staging + j * ROWS, ROWS * sizeof(float));
    for (int64_t r = 0; r < ROWS; r++) wrong += unequal(b, &d, r);
    exam_record_number(exam, "weights against the equations", (double)wrong, 0);
    exam_record(exam, "errors", errors, INFINITY, 1); /* for repetitions */
}

static const struct rounding {
    int bits;
    double threshold;
    bool exact, smoothed, spared;
} roundings[] = {
    {8, 0, false, false, false}, {4, 0, false, true, true}, {8, 2.5, true, false, true}, {4, 2.5, false, true, true}};

static void run_round_rows(struct exam *exam, int64_t shape)
{
    const struct rounding *kind = &roundings[shape];
    float smoothing[COLUMNS];
    uint8_t spared[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) smoothing[c] = 0.1F + (float)(c % 17) / 9, spared[c] = c % 41 == 3;
    struct round_rows_args args = {.bits = kind->bits, .threshold = kind->threshold, .exact = kind->exact};
    args.x = exam_random(exam, 9, COLUMNS, GAP, 1), args.to = exam_target(exam, 9, COLUMNS, 1, false);
    if (kind->smoothed) args.smoothing = exam_bytes(exam, smoothing, sizeof smoothing);
    if (kind->spared) args.spared = exam_bytes(exam, spared, sizeof spared);
    if (kind->threshold > 0) args.left = exam_bytes(exam, NULL, COLUMNS);
    if (kind->exact) args.outliers = exam_target(exam, 9, COLUMNS, 2, false);
    exam->backend->ops->fill(exam->backend, matrix_rows(args.x, 4, 1), 0);
    exam->backend->ops->round_rows(exam->backend, &args);
    exam_record(exam, "rounded", args.to, 0, 0);
    if (kind->exact) exam_record(exam, "outliers", args.outliers, 0, 0);
}

static const int64_t transforms[][3] = {{1, 1, 1}, {64, 1, 64}, {96, 12, 8}, {60, 1, 4}}; /* numbers, order, power */

/* Rows there and back, and columns. */
static void run_hadamard(struct exam *exam, int64_t shape)
{
    enum { VECTORS = 11 };
    const int64_t size = transforms[shape][0], order = transforms[shape][1], power = transforms[shape][2];
    struct backend *backend = exam->backend;
    int8_t paley[12 * 12];
    float signs[96];
    for (int i = 0; i < 144; i++) paley[i] = (int8_t)(i * 7 % 3 == 0 ? -1 : 1); /* any matrix: it is a product */
    for (int i = 0; i < 96; i++) signs[i] = i * 5 % 7 < 3 ? 1 : -1;
    struct hadamard_args args = {.order = order, .power = power, .centred = shape % 2 != 0};
    args.x = exam_random(exam, VECTORS, size, GAP, 1), args.to = exam_target(exam, VECTORS, size, 0, false);
    args.sign = exam_bytes(exam, signs, (int64_t)sizeof signs);
    if (order > 1) args.paley = exam_bytes(exam, paley, sizeof paley);
    if (backend->ops->host)
        args.scratch = exam_bytes(exam, NULL, size * HADAMARD_PANEL * (int64_t)sizeof *args.scratch);
    struct hadamard_args back = args, columns = args;
    back.x = args.to, back.to = exam_target(exam, VECTORS, size, 1, false), back.inverse = true, back.centred = false;
    columns.x = columns.to = exam_random(exam, size, VECTORS, 2, 1), columns.columns = true;
    backend->ops->hadamard(backend, &args);
    backend->ops->hadamard(backend, &back);
    backend->ops->hadamard(backend, &columns);
    exam_record(exam, "rows", args.to, 0, 0);
    exam_record(exam, "rows and back", back.to, 0, 0);
    exam_record(exam, "columns", columns.to, 0, 0);
}

/* Sums are in double: orders of 500 terms differ. */
static void run_columns(struct exam *exam, int64_t shape)
{
    enum { TALL = 500, WIDE = 30 };
    struct backend *backend = exam->backend;
    const int64_t wide = shape == 0 ? WIDE : 1;
    int32_t rows[20], columns[45];
    double sums[WIDE] = {0};
    for (int i = 0; i < 20; i++) rows[i] = (int32_t)(i * 7 % wide);
    for (int i = 0; i < 45; i++) columns[i] = (int32_t)(i * 13 % wide);
    const struct matrix square = exam_random(exam, wide, wide, GAP, 1), by = exam_random(exam, 1, wide, 0, 1),
                        picked = exam_target(exam, 20, 45, 1, false), x = exam_random(exam, TALL, wide, GAP, 1),
                        largest = exam_filled(exam, 1, wide, 0, 0), products = exam_random(exam, 1, TALL, 0, 1);
    double *there = exam_bytes(exam, sums, sizeof sums);
    backend->ops->select(backend, picked, square, rows, columns);
    exam_record(exam, "selected", picked, 0, 0);
    backend->ops->mirror(backend, square);
    exam_record(exam, "mirrored", square, 0, 0);
    backend->ops->scale_columns(backend, square, square, by);
    exam_record(exam, "scaled columns", square, 1, 0);
    backend->ops->add_magnitudes(backend, there, largest, matrix_rows(x, 0, 300));
    backend->ops->add_magnitudes(backend, there, largest, matrix_rows(x, 300, 200));
    backend->ops->read_bytes(backend, there, sums, sizeof sums);
    exam_sync(exam);
    exam_record_doubles(exam, "sums of magnitudes", sums, WIDE, 500 * 0x1p-53 * 500);
    exam_record(exam, "largest magnitudes", largest, 0, 0);
    backend->ops->add_products(backend, products, x, by);
    exam_record(exam, "sums of products", products, 1.01, 0);
}

const struct check check_codes[] = {
    {"grids", run_grids, 6, CHECK_FLOATS, NULL},
    {"tables of values", run_tables, 4, CHECK_FLOATS, NULL},
    {"clipping", run_clip_search, 2, CHECK_FLOATS, NULL},
    {"a block of gptq", run_gptq_block, CHECK_COUNT(blocks), CHECK_FLOATS, NULL},
    {"rounded inputs", run_round_rows, CHECK_COUNT(roundings), CHECK_FLOATS, NULL},
    {"transforms", run_hadamard, CHECK_COUNT(transforms), CHECK_FLOATS, NULL},
    {"columns", run_columns, 2, CHECK_FLOATS, NULL},
    {0},
};
