/* Slots that quantizers have for inputs and for books of values: the plain loops in both types and the fast backend.
 * What is defined operation by operation must be the same bits in every backend of floats; the double loops are held to
 * equations. */
#include "engine/backend/quartet.h"

enum { ROWS = 9, COLUMNS = 300, GAP = 3 };

/* One kind of rounding: what a row has. */
struct rounding {
    int bits;
    double threshold;
    bool exact, smoothed, spared;
};

static void round_run(struct world *world, const struct rounding *kind)
{
    float smoothing[COLUMNS];
    uint8_t spared[COLUMNS];
    const struct matrix x = world_random(world, ROWS, COLUMNS, GAP, 1), to = world_zeros(world, ROWS, COLUMNS, 1);
    const struct matrix outliers = world_zeros(world, ROWS, COLUMNS, 2);
    for (int c = 0; c < COLUMNS; c++) smoothing[c] = 0.1f + (float)(c % 17) / 9, spared[c] = c % 41 == 3;
    world->backend->ops->fill(world->backend, matrix_rows(x, 4, 1), 0);
    struct round_rows_args args = {
        .bits = kind->bits, .threshold = kind->threshold, .exact = kind->exact, .x = x, .to = to};
    if (kind->smoothed) args.smoothing = bytes_new(world, smoothing, sizeof smoothing);
    if (kind->spared) args.spared = bytes_new(world, spared, sizeof spared);
    if (kind->threshold > 0) args.left = bytes_new(world, NULL, COLUMNS);
    if (kind->exact) args.outliers = outliers;
    world->backend->ops->round_rows(world->backend, &args);
    world_put(world, "x", world_read(world, x), ROWS * COLUMNS, 0);
    world_put(world, "rounded", world_read(world, to), ROWS * COLUMNS, 0);
    world_put(world, "outliers", world_read(world, outliers), ROWS * COLUMNS, 0);
}

/* Every number is as it was, 0, or within half a step of the row's own grid. */
static void round_check(const struct rounding *kind, const struct world *world)
{
    const double *x = world->outputs[0].values, *to = world->outputs[1].values, *outliers = world->outputs[2].values;
    const double top = (1 << (kind->bits - 1)) - 1;
    bool left[COLUMNS] = {false};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (kind->threshold > 0 && fabs(x[i]) >= kind->threshold) left[i % COLUMNS] = true;
    for (int r = 0; r < ROWS; r++) {
        double most = 0;
        for (int c = 0; c < COLUMNS; c++) {
            const double s = kind->smoothed ? (double)(0.1f + (float)(c % 17) / 9) : 1, v = x[r * COLUMNS + c] / s;
            const bool out = kind->exact ? left[c] : kind->threshold > 0 && fabs(v) >= kind->threshold;
            if (!out && !(kind->spared && c % 41 == 3)) most = fmax(most, fabs(v));
        }
        for (int c = 0; c < COLUMNS; c++) {
            const double s = kind->smoothed ? (double)(0.1f + (float)(c % 17) / 9) : 1;
            const double was = x[r * COLUMNS + c], is = to[r * COLUMNS + c], code = most > 0 ? is / s * top / most : 0;
            const bool spared = kind->spared && c % 41 == 3, out = left[c] && !spared;
            assert_true(outliers[r * COLUMNS + c] == (out && kind->exact ? was : 0));
            if (spared || out) {
                assert_true(is == (out && kind->exact ? 0 : was));
                continue;
            }
            /* a whole number of steps (five roundings), and none is nearer */
            assert_true(fabs(code - rint(code)) <= 8 * ROUNDOFF * fabs(code));
            assert_true(most == 0 ? is == 0 : fabs(code - was / s * top / most) <= 0.5 + 8 * ROUNDOFF * (top + 1));
        }
    }
}

static void test_rows_are_rounded_with_the_same_bits(void **state)
{
    const struct quartet *q = *state;
    const struct rounding kinds[] = {{8, 0, false, false, false},   {4, 0, false, true, true},
                                     {8, 2.5, false, false, false}, {8, 2.5, true, false, true},
                                     {4, 2.5, false, true, true},   {8, 0, false, true, false}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct world worlds[BACKENDS] = {0};
        for (int b = 0; b < BACKENDS; b++) {
            worlds[b].backend = q->all[b];
            worlds[b].seed = 40 + i;
            round_run(&worlds[b], &kinds[i]);
            round_check(&kinds[i], &worlds[b]);
        }
        for (int b = 2; b < BACKENDS; b++)
            for (int k = 0; k < 3; k++)
                assert_memory_equal(worlds[b].outputs[k].values, worlds[0].outputs[k].values,
                                    ROWS * COLUMNS * sizeof(double));
        for (int b = 0; b < BACKENDS; b++) world_clear(&worlds[b]);
    }
}

static void test_rounding_keeps_nan(void **state)
{
    const struct quartet *q = *state;
    double values[2 * 5] = {NAN, NAN, NAN, NAN, NAN, 1, NAN, 0.25, 0, -3};
    for (int b = 0; b < BACKENDS; b++) {
        struct world world = {.backend = q->all[b], .seed = 1};
        const struct matrix x = world_zeros(&world, 2, 5, 1), to = world_zeros(&world, 2, 5, 0);
        world.backend->ops->upload(world.backend, x, values, DTYPE_F64);
        world.backend->ops->round_rows(world.backend, &(struct round_rows_args){.bits = 8, .x = x, .to = to});
        double *rounded = world_read(&world, to);
        for (int i = 0; i < 10; i++) assert_int_equal(isnan(rounded[i]) != 0, isnan(values[i]) != 0);
        free(rounded);
        world_clear(&world);
    }
}

enum { VECTORS = 11, LONGEST = 5120 };

/* The same transform of rows and, of the transposed matrix, of columns, there and back. */
static void turn(struct world *world, int64_t size, int64_t order, int64_t power, bool centred)
{
    const struct matrix x = world_random(world, VECTORS, size, GAP, 1), across = world_zeros(world, size, VECTORS, 2);
    const struct matrix rows = world_zeros(world, VECTORS, size, 0), back = world_zeros(world, VECTORS, size, 1);
    const int64_t panels = size * HADAMARD_PANEL * team_size(world->backend->team);
    int8_t paley[12 * 12];
    float signs[LONGEST];
    for (int i = 0; i < 144; i++) paley[i] = (int8_t)(i * 7 % 3 == 0 ? -1 : 1); /* any matrix: the slot is a product */
    for (int64_t i = 0; i < size; i++) signs[i] = i * 5 % 7 < 3 ? 1 : -1;
    double *values = world_read(world, x), *turned = world_doubles(size * VECTORS);
    for (int64_t i = 0; i < size * VECTORS; i++) turned[i % size * VECTORS + i / size] = values[i];
    world->backend->ops->upload(world->backend, across, turned, DTYPE_F64);
    free(turned);
    struct hadamard_args args = {.x = x,
                                 .to = rows,
                                 .centred = centred,
                                 .order = order,
                                 .power = power,
                                 .paley = order > 1 ? bytes_new(world, paley, sizeof paley) : NULL,
                                 .sign = bytes_new(world, signs, size * (int64_t)sizeof *signs),
                                 .scratch = world->backend->ops->host ? bytes_new(world, NULL, panels * 8) : NULL};
    world->backend->ops->hadamard(world->backend, &args);
    struct hadamard_args inverse = args, columns = args;
    inverse.x = rows, inverse.to = back, inverse.inverse = true, inverse.centred = false;
    columns.x = columns.to = across, columns.columns = true;
    world->backend->ops->hadamard(world->backend, &inverse);
    world->backend->ops->hadamard(world->backend, &columns);
    world_put(world, "x", values, VECTORS * size, 0);
    world_put(world, "rows", world_read(world, rows), VECTORS * size, 0);
    world_put(world, "back", world_read(world, back), VECTORS * size, 0);
    world_put(world, "columns", world_read(world, across), VECTORS * size, 0);
}

/* Sylvester's matrix and its inverse: there and back is x, less its mean when centred. Two roundings to float, and
 * where there is a mean one more, of numbers as large as the vector's norm; order 1 only: the test's other matrix is
 * not orthogonal. */
static void turn_check(const struct world *world, int64_t size, bool centred)
{
    const double *x = world->outputs[0].values, *back = world->outputs[2].values;
    for (int64_t n = 0; n < VECTORS; n++) {
        double mean = 0, norm = 0;
        for (int64_t i = 0; i < size; i++) mean += x[n * size + i], norm += x[n * size + i] * x[n * size + i];
        mean = centred ? mean / (double)size : 0;
        for (int64_t i = 0; i < size; i++)
            assert_true(fabs(back[n * size + i] - (x[n * size + i] - mean)) <= 4 * ROUNDOFF * sqrt(norm));
    }
}

static void test_transforms_have_the_same_bits(void **state)
{
    const struct quartet *q = *state;
    const int64_t shapes[][3] = {{1, 1, 1},  {64, 1, 64},     {96, 12, 8},
                                 {60, 1, 4}, {5120, 1, 1024}, {24, 12, 2}}; /* n, order, power */
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *shape = shapes[i / 2], size = shape[0];
        const bool centred = i % 2 != 0;
        struct world worlds[BACKENDS] = {0};
        for (int b = 0; b < BACKENDS; b++) {
            worlds[b].backend = q->all[b];
            worlds[b].seed = 60 + i;
            turn(&worlds[b], size, shape[1], shape[2], centred);
            if (shape[1] == 1) turn_check(&worlds[b], size, centred);
            const struct output *o = worlds[b].outputs;
            for (int64_t k = 0; k < size * VECTORS; k++)
                assert_true(o[1].values[k] == o[3].values[k % size * VECTORS + k / size]);
        }
        for (int b = 2; b < BACKENDS; b++)
            for (int k = 1; k < 4; k++) {
                const struct output *here = &worlds[b].outputs[k], *there = &worlds[centred ? 3 : 0].outputs[k];
                assert_memory_equal(here->values, there->values, (size_t)(size * VECTORS) * sizeof(double));
            }
        for (int b = 0; b < BACKENDS; b++) world_clear(&worlds[b]);
    }
}

static void test_paley_multiplies_within_places(void **state)
{
    const struct quartet *q = *state;
    for (int b = 0; b < BACKENDS; b++) {
        struct world world = {.backend = q->all[b], .seed = 8};
        turn(&world, 96, 12, 8, false);
        const double *x = world.outputs[0].values, *to = world.outputs[1].values;
        for (int n = 0; n < VECTORS; n++)
            for (int i = 0; i < 96; i++) {
                double sum = 0;
                for (int k = 0; k < 96; k++) { /* the Kronecker product's entry (k, i) */
                    const int p = (k / 8 * 12 + i / 8) * 7 % 3 == 0 ? -1 : 1,
                              s = __builtin_parity((unsigned)(k % 8 & i % 8)) ? -1 : 1;
                    sum += x[n * 96 + k] * (k * 5 % 7 < 3 ? 1 : -1) * p * s;
                }
                assert_true(fabs(to[n * 96 + i] - sum / sqrt(96)) <= 1.01 * ROUNDOFF * fabs(sum / sqrt(96)) + 1e-13);
            }
        world_clear(&world);
    }
}

static void test_products_are_added(void **state)
{
    const struct quartet *q = *state;
    for (int b = 0; b < BACKENDS; b++) {
        struct world world = {.backend = q->all[b], .seed = 9};
        const struct matrix x = world_random(&world, ROWS, COLUMNS, GAP, 1),
                            by = world_random(&world, 1, COLUMNS, 0, 1);
        const struct matrix to = world_random(&world, 1, ROWS, 0, 1);
        double *a = world_read(&world, x), *v = world_read(&world, by), *before = world_read(&world, to);
        world.backend->ops->add_products(world.backend, to, x, by);
        double *after = world_read(&world, to);
        for (int r = 0; r < ROWS; r++) {
            double sum = before[r], size = fabs(sum);
            for (int c = 0; c < COLUMNS; c++) sum += a[r * COLUMNS + c] * v[c], size += fabs(a[r * COLUMNS + c] * v[c]);
            assert_true(fabs(after[r] - sum) <= ROUNDOFF * fabs(sum) + COLUMNS * 0x1p-52 * size);
        }
        free(a), free(v), free(before), free(after);
        world_clear(&world);
    }
}

static void test_books_have_the_same_codes(void **state)
{
    const struct quartet *q = *state;
    const int64_t sizes[] = {1, 20, 64, 1000, ROWS * COLUMNS + 7};
    enum { VALUES = 16 };
    float book[VALUES];
    for (int i = 0; i < VALUES; i++) book[i] = (float)(i - 8) / 8 + (i == 8 ? 0 : 0.0625f);
    for (int i = 0; i < 5; i++) {
        uint8_t codes[2][ROWS * COLUMNS];
        float scales[2][ROWS * COLUMNS] = {0};
        for (int b = 0; b < BACKENDS; b++) {
            struct world world = {.backend = q->all[b], .seed = 70};
            const struct matrix weight = world_random(&world, ROWS, COLUMNS, GAP, 0.3);
            struct codes c = {.coding = {.bits = 4,
                                         .count = VALUES,
                                         .rule = SCALE_ABSMAX,
                                         .layout = LAYOUT_RUNS,
                                         .group_size = sizes[i]},
                              .rows = ROWS,
                              .columns = COLUMNS};
            c.groups = (ROWS * COLUMNS + sizes[i] - 1) / sizes[i];
            c.codes = bytes_new(&world, NULL, ROWS * COLUMNS);
            c.scales = bytes_new(&world, NULL, c.groups * 4);
            c.coding.values = bytes_new(&world, book, sizeof book);
            world.backend->ops->fill(world.backend, matrix_rows(weight, 3, 2), 0);
            world.backend->ops->encode(world.backend, weight, &c);
            bytes_read(&world, c.codes, codes[b > 0], ROWS * COLUMNS);
            bytes_read(&world, c.scales, scales[b > 0], c.groups * 4);
            double *w = world_read(&world, weight);
            for (int k = 0; k < ROWS * COLUMNS; k++) {
                const double scale = (double)scales[b > 0][k / sizes[i]], off = scale > 0 ? w[k] / scale : 0;
                for (int v = 0; v < VALUES; v++)
                    assert_true(fabs((double)book[codes[b > 0][k]] - off) <= fabs((double)book[v] - off) + 1e-15);
            }
            free(w);
            if (b > 0) assert_memory_equal(codes[1], codes[0], sizeof codes[0]);
            if (b > 0) assert_memory_equal(scales[1], scales[0], sizeof scales[0]);
            world_clear(&world);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_rounded_with_the_same_bits),
        cmocka_unit_test(test_rounding_keeps_nan),
        cmocka_unit_test(test_transforms_have_the_same_bits),
        cmocka_unit_test(test_paley_multiplies_within_places),
        cmocka_unit_test(test_products_are_added),
        cmocka_unit_test(test_books_have_the_same_codes),
    };
    return cmocka_run_group_tests(tests, quartet_setup, quartet_teardown);
}
