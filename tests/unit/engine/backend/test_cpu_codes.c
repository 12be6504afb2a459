/* The slots that quantizers are made of: the plain loops in both types and the fast backend. Grids and codes are
 * defined bit by bit, and must be equal; what follows from sums is checked against its own equations in double, with
 * the backend's own earlier results put in, so that a weight that is rounded the other way is not taken for a fault. */
#include "engine/backend/quartet.h"
#include "quant/element.h"

enum { ROWS = 70, COLUMNS = 150, GAP = 3, MOST = 192 };

static struct codes codes_new(struct world *world, struct coding coding)
{
    struct codes codes = {.coding = coding, .rows = ROWS, .columns = COLUMNS};
    codes.groups = (COLUMNS + coding.group_size - 1) / coding.group_size;
    codes.codes = bytes_new(world, NULL, ROWS * COLUMNS);
    codes.scales = bytes_new(world, NULL, ROWS * codes.groups * 4);
    codes.zeros = bytes_new(world, NULL, ROWS * codes.groups);
    return codes;
}

struct found {
    uint8_t codes[ROWS * COLUMNS], zeros[ROWS * COLUMNS];
    float scales[ROWS * COLUMNS];
    double scale[COLUMNS * MOST], zero[COLUMNS * MOST];
};

static void find_all(struct world *world, struct coding coding, struct found *out)
{
    const struct matrix weight = world_random(world, ROWS, COLUMNS, GAP, 0.3);
    struct codes codes = codes_new(world, coding), found = codes;
    const int64_t bytes = codes.groups * MOST * 8;
    const struct grids grids = {bytes_new(world, NULL, bytes), bytes_new(world, NULL, bytes), MOST};
    found.grids = grids;
    memset(out, 0, sizeof *out);
    world->backend->ops->fill(world->backend, matrix_rows(weight, 3, 1), 0);
    world->backend->ops->encode(world->backend, weight, &codes);
    world->backend->ops->encode(world->backend, weight, &found);
    bytes_read(world, codes.codes, out->codes, ROWS * COLUMNS);
    bytes_read(world, codes.scales, out->scales, ROWS * codes.groups * 4);
    bytes_read(world, codes.zeros, out->zeros, ROWS * codes.groups);
    bytes_read(world, grids.scales, out->scale, bytes);
    bytes_read(world, grids.zeros, out->zero, bytes);
    world_clear(world);
}

static void test_grids_and_codes_are_the_same_everywhere(void **state)
{
    const struct quartet *q = *state;
    struct coding codings[] = {{.bits = 4, .sym = true},
                               {.bits = 3},
                               {.bits = 4, .rule = SCALE_RANGE},
                               {.bits = 8, .sym = true, .rule = SCALE_ABSMAX}};
    const int64_t sizes[] = {1, 16, 33, 128, COLUMNS};
    struct found *found = calloc(2, sizeof *found);
    assert_non_null(found);
    for (int i = 0; i < 20; i++)
        for (int b = 0; b < BACKENDS; b++) {
            struct world world = {.backend = q->all[b], .seed = 3};
            codings[i % 4].group_size = sizes[i / 4];
            find_all(&world, codings[i % 4], &found[b > 0]);
            if (b > 0) assert_memory_equal(&found[1], &found[0], sizeof *found);
        }
    for (int64_t r = 0; r < ROWS; r++) assert_true((float)found[0].scale[r] == found[0].scales[r]);
    free(found);
}

/* A coding in a table over a matrix with zeros: scales that were found, codes, and values. */
struct tabled {
    float scales[ROWS * COLUMNS];
    uint8_t codes[ROWS * COLUMNS];
    double values[ROWS * COLUMNS];
};

static void encode_table(struct world *world, struct coding coding, struct tabled *out)
{
    const struct backend_ops *ops = world->backend->ops;
    const struct matrix weight = world_random(world, ROWS, COLUMNS, GAP, 0.3),
                        to = world_zeros(world, ROWS, COLUMNS, 1);
    float given[ROWS * COLUMNS];
    memset(out, 0, sizeof *out);
    for (int i = 0; i < ROWS * COLUMNS; i++) given[i] = 0.0005f * (float)(1 + i % 7);
    struct codes codes = codes_new(world, coding);
    const int64_t bytes = codes_all_groups(&codes) * (int64_t)sizeof *codes.scales;
    codes.coding.values = bytes_new(world, coding.values, coding.count * (int64_t)sizeof *coding.values);
    codes.zeros = NULL;
    if (coding.given) ops->write_bytes(world->backend, codes.scales, given, (size_t)bytes);
    ops->fill(world->backend, matrix_rows(weight, 3, 1), 0);
    ops->fill(world->backend, matrix_columns(weight, 90, 2), 0x1.08p-7);
    ops->encode(world->backend, weight, &codes);
    ops->decode(world->backend, &codes, 0, to, (struct matrix){0});
    bytes_read(world, codes.scales, out->scales, bytes);
    bytes_read(world, codes.codes, out->codes, ROWS * COLUMNS);
    double *values = world_read(world, to);
    memcpy(out->values, values, sizeof out->values);
    free(values);
    world_clear(world);
}

static void test_tables_have_the_same_codes_everywhere(void **state)
{
    const struct quartet *q = *state;
    struct coding codings[] = {element_coding_e2m1(), element_coding_e2m1(), element_coding_e4m3(),
                               element_coding_e4m3(), element_coding_e4m3()};
    struct tabled *found = calloc(2, sizeof *found);
    assert_non_null(found);
    for (int i = 0; i < 5; i++) codings[i].rule = SCALE_ABSMAX, codings[i].type = SCALE_TYPE_F32;
    codings[0].rule = SCALE_POWER, codings[0].type = SCALE_TYPE_E8M0, codings[0].group_size = 32;
    codings[1].type = SCALE_TYPE_E4M3, codings[1].factor = 0.003f, codings[1].group_size = 16;
    codings[2].group_size = COLUMNS;
    codings[3].layout = LAYOUT_TILES, codings[3].group_size = 64, codings[3].group_rows = 48;
    codings[4].given = true, codings[4].group_size = 20;
    for (int i = 0; i < 5; i++)
        for (int b = 0; b < BACKENDS; b++) {
            struct world world = {.backend = q->all[b], .seed = 4};
            encode_table(&world, codings[i], &found[b > 0]);
            if (b > 0) {
                assert_memory_equal(found[1].scales, found[0].scales, sizeof found->scales);
                assert_memory_equal(found[1].codes, found[0].codes, sizeof found->codes);
            }
            for (int k = 0; k < ROWS * COLUMNS; k++) {
                const struct coding c = codings[i];
                const int down = c.layout == LAYOUT_TILES ? 48 : 1,
                          groups = (int)((COLUMNS + c.group_size - 1) / c.group_size);
                const int group = k / COLUMNS / down * groups + k % COLUMNS / (int)c.group_size;
                const double value =
                    (double)coding_value(c, found[b > 0].codes[k], 0) * (double)found[b > 0].scales[group];
                assert_true(fabs(found[b > 0].values[k] - value) <= ROUNDOFF * fabs(value));
            }
        }
    free(found);
}

static void test_codes_become_values(void **state)
{
    const struct quartet *q = *state;
    float book[16], scales[ROWS * COLUMNS], columns[COLUMNS];
    uint8_t codes[ROWS * COLUMNS], zeros[ROWS * COLUMNS];
    int32_t groups[COLUMNS];
    for (int i = 0; i < 16; i++) book[i] = (float)(i - 7) / 8.1f;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        scales[i] = 0.01f + (float)(i % 91) / 777;
        codes[i] = (uint8_t)(i * 7 % 16);
        zeros[i] = (uint8_t)(i * 5 % 16);
    }
    for (int c = 0; c < COLUMNS; c++) columns[c] = 0.3f + (float)c / 100, groups[c] = c * 7 % 5;
    for (int kind = 0; kind < 8; kind++)
        for (int b = 0; b < BACKENDS; b++) {
            struct world world = {.backend = q->all[b], .seed = 5};
            const bool of_book = kind % 2 != 0, ordered = !of_book && kind / 2 % 2 != 0, scaled = kind / 4 != 0;
            struct codes c = {.coding = {.bits = 4, .group_size = 32},
                              .rows = ROWS,
                              .columns = COLUMNS,
                              .groups = 5,
                              .codes = bytes_new(&world, codes, sizeof codes),
                              .scales = bytes_new(&world, scales, sizeof scales),
                              .zeros = bytes_new(&world, zeros, sizeof zeros)};
            if (of_book) {
                c.groups = (ROWS * COLUMNS + 31) / 32;
                c.coding.layout = LAYOUT_RUNS;
                c.coding.count = 16;
                c.coding.values = bytes_new(&world, book, sizeof book);
            }
            if (ordered) c.g_idx = bytes_new(&world, groups, sizeof groups);
            if (scaled) c.column_scales = bytes_new(&world, columns, sizeof columns);
            const struct matrix from = world_random(&world, 41, COLUMNS, GAP, 1),
                                to = world_zeros(&world, 41, COLUMNS, 1);
            const struct matrix values = world_zeros(&world, ROWS, COLUMNS, 0);
            world.backend->ops->decode(world.backend, &c, 0, values, (struct matrix){0});
            world.backend->ops->decode(world.backend, &c, 29, to, from);
            double *all = world_read(&world, values), *rest = world_read(&world, to), *w = world_read(&world, from);
            for (int i = 0; i < ROWS * COLUMNS; i++) {
                const int row = i / COLUMNS, column = i % COLUMNS,
                          group = row * 5 + (ordered ? groups[column] : column / 32);
                const double value = of_book ? (double)book[codes[i]] * (double)scales[i / 32]
                                             : (double)(codes[i] - zeros[group]) * (double)scales[group];
                const double expected = scaled ? value / (double)columns[column] : value;
                /* a product and a division, each rounded once */
                assert_true(fabs(all[i] - expected) <= 2.1 * ROUNDOFF * fabs(expected));
                if (row < 29) continue;
                const int k = i - 29 * COLUMNS;
                assert_true(fabs(rest[k] - (w[k] - expected)) <=
                            ROUNDOFF * (2.1 * fabs(expected) + fabs(w[k] - expected)));
            }
            free(all), free(rest), free(w);
            world_clear(&world);
        }
}

static void test_copies_are_exact(void **state)
{
    const struct quartet *q = *state;
    enum { LARGE = (9 << 20) + 5 };
    uint8_t *bytes = malloc(LARGE), *back = malloc(LARGE);
    int32_t rows[20], columns[90];
    assert_true(bytes != NULL && back != NULL);
    for (int i = 0; i < LARGE; i++) bytes[i] = (uint8_t)(i * 31 + i / 251);
    for (int i = 0; i < 20; i++) rows[i] = i * 7 % 50;
    for (int i = 0; i < 90; i++) columns[i] = i * 13 % 50;
    for (int b = 0; b < BACKENDS; b++) {
        struct world world = {.backend = q->all[b], .seed = 7};
        const struct backend_ops *ops = world.backend->ops;
        void *there = bytes_new(&world, bytes, LARGE);
        bytes_read(&world, there, back, LARGE);
        assert_memory_equal(bytes, back, LARGE);
        const struct matrix from = world_random(&world, 50, 50, GAP, 1), by = world_random(&world, 1, 50, 0, 1);
        const struct matrix picked = world_zeros(&world, 20, 90, 1), half = world_zeros(&world, 50, 90, 0);
        double *before = world_read(&world, from), *s = world_read(&world, by);
        ops->select(world.backend, picked, from, rows, columns);
        ops->select(world.backend, half, from, NULL, columns);
        ops->mirror(world.backend, from);
        double *p = world_read(&world, picked), *h = world_read(&world, half), *mirrored = world_read(&world, from);
        ops->scale_columns(world.backend, from, from, by);
        double *scaled = world_read(&world, from);
        for (int i = 0; i < 20 * 90; i++) assert_true(p[i] == before[rows[i / 90] * 50 + columns[i % 90]]);
        for (int i = 0; i < 50 * 90; i++) assert_true(h[i] == before[i / 90 * 50 + columns[i % 90]]);
        for (int i = 0; i < 50 * 50; i++) {
            const int r = i / 50, c = i % 50;
            assert_true(mirrored[i] == before[c > r ? c * 50 + r : i]);
            assert_true(fabs(scaled[i] - mirrored[i] * s[c]) <= ROUNDOFF * fabs(scaled[i]) + 1e-30);
        }
        free(before), free(s), free(p), free(h), free(mirrored), free(scaled);
        world_clear(&world);
    }
    free(bytes), free(back);
}

/* One block of GPTQ, and what came out of it. */
struct block {
    int64_t width, position, group_size;
    double *weights, *upper, *errors; /* [ROWS, width], [width, width], [width, ROWS] */
    double scales[16 * 96], zeros[16 * 96];
    int32_t from[GPTQ_BLOCK];
    uint8_t codes[ROWS * 140];
};

static void block_run(struct world *world, struct block *b)
{
    const struct backend_ops *ops = world->backend->ops;
    const struct matrix weights = world_random(world, ROWS, b->width, GAP, 0.3);
    const struct matrix upper = world_random(world, b->width, b->width, GAP, 0.05);
    const struct matrix errors = world_zeros(world, b->width, ROWS, 96 - ROWS), diagonal = matrix_diagonal(upper);
    double *ones = world_doubles(b->width);
    for (int64_t j = 0; j < b->width; j++)
        ones[j] = 0.5 + (double)(j % 8) / 8, b->from[j] = (int32_t)(j * 3 % b->width);
    ops->upload(world->backend, diagonal, ones, DTYPE_F64);
    for (int i = 0; i < 16 * 96; i++) b->scales[i] = 0.02 + (double)(i % 37) / 555, b->zeros[i] = 5 + i % 5;
    b->weights = world_read(world, weights);
    b->upper = world_read(world, upper);
    uint8_t *codes = bytes_new(world, NULL, sizeof b->codes);
    const struct gptq_block_args args = {
        .weights = weights,
        .upper = upper,
        .grids = {bytes_new(world, b->scales, sizeof b->scales), bytes_new(world, b->zeros, sizeof b->zeros), 96},
        .position = b->position,
        .coding = {.bits = 4, .group_size = b->group_size},
        .from = b->from,
        .codes = codes,
        .codes_stride = 140,
        .errors = errors};
    ops->gptq_block(world->backend, &args);
    b->errors = world_read(world, errors);
    show_bits(world, "errors of a block", b->errors, (size_t)(b->width * ROWS) * sizeof(double), b->width * ROWS);
    bytes_read(world, codes, b->codes, sizeof b->codes);
    free(ones);
    world_clear(world);
}

/* Column j is what the equations make of the errors that the backend found left of it. Its sum of j + 1 terms carries
 * as many roundings of its terms' sizes; where that reaches a half the code may be either neighbour. */
static void block_check(const struct block *b, int64_t r)
{
    for (int64_t j = 0; j < b->width; j++) {
        double w = b->weights[r * b->width + j], size = fabs(w);
        for (int64_t i = 0; i < j; i++) {
            const double term = b->errors[i * ROWS + r] * b->upper[i * b->width + j];
            w -= term;
            size += fabs(term);
        }
        const int64_t at = (b->position + j) / b->group_size * 96 + r;
        const double scale = b->scales[at], zero = b->zeros[at], code = b->codes[r * 140 + b->from[j]];
        const double bound = (double)(j + 2) * ROUNDOFF * size, steps = fmin(fmax(w / scale, -zero), 15 - zero);
        if (!(fabs(steps - (code - zero)) <= 0.5 + bound / scale))
            fail_msg("row %d, column %d: %g steps became %g", (int)r, (int)j, steps, code - zero);
        const double value = (code - zero) * (double)(float)scale, divisor = b->upper[j * b->width + j];
        const double error = (w - value) / divisor, found = b->errors[j * ROWS + r];
        if (!(fabs(found - error) <= (bound + 3 * ROUNDOFF * (fabs(w) + fabs(value))) / divisor))
            fail_msg("row %d, column %d: error %g, not %g", (int)r, (int)j, found, error);
    }
}

static void test_a_block_of_gptq_satisfies_its_equations(void **state)
{
    const struct quartet *q = *state;
    const int64_t shapes[][3] = {
        {128, 0, 32}, {128, 128, 1000}, {37, 40, 24}, {1, 0, 1}}; /* width, position, group_size */
    for (int i = 0; i < 4; i++) {
        struct block *blocks = calloc(BACKENDS, sizeof *blocks);
        assert_non_null(blocks);
        for (int b = 0; b < BACKENDS; b++) {
            struct world world = {.backend = q->all[b], .seed = (uint64_t)(11 + i)};
            blocks[b].width = shapes[i][0];
            blocks[b].position = shapes[i][1];
            blocks[b].group_size = shapes[i][2];
            block_run(&world, &blocks[b]);
            for (int64_t r = 0; r < ROWS; r++) block_check(&blocks[b], r);
        }
        assert_memory_equal(blocks[2].codes, blocks[3].codes, sizeof blocks[2].codes);
        assert_memory_equal(blocks[2].errors, blocks[3].errors, (size_t)(ROWS * shapes[i][0]) * sizeof(double));
        for (int b = 0; b < BACKENDS; b++) free(blocks[b].weights), free(blocks[b].upper), free(blocks[b].errors);
        free(blocks);
    }
}

/* A sum of 1100 magnitudes in double, whatever its order; the largest is one of them. */
static void test_magnitudes_add_up(void **state)
{
    const struct quartet *q = *state;
    enum { TOKENS = 1100, WIDE = 70 };
    for (int b = 0; b < BACKENDS; b++) {
        struct world world = {.backend = q->all[b], .seed = 31};
        const struct matrix x = world_random(&world, TOKENS, WIDE, GAP, 1), largest = world_zeros(&world, 1, WIDE, 0);
        double *values = world_read(&world, x), zeros[WIDE] = {0}, sums[WIDE];
        double *there = bytes_new(&world, zeros, sizeof zeros);
        world.backend->ops->add_magnitudes(world.backend, there, largest, matrix_rows(x, 0, 600));
        world.backend->ops->add_magnitudes(world.backend, there, largest, matrix_rows(x, 600, 500));
        bytes_read(&world, there, sums, sizeof sums);
        double *peaks = world_read(&world, largest);
        for (int c = 0; c < WIDE; c++) {
            double sum = 0, peak = 0;
            for (int t = 0; t < TOKENS; t++) {
                sum += fabs(values[t * WIDE + c]);
                peak = fmax(peak, fabs(values[t * WIDE + c]));
            }
            assert_true(fabs(sums[c] - sum) <= TOKENS * 0x1p-53 * sum && peaks[c] == peak);
        }
        free(values), free(peaks);
        world_clear(&world);
    }
}

enum { STEPS = 10, PARTS = 20 };

/* d H dᵀ of a group when it is clamped to `most`, and how far a float backend may be from it: d's own three roundings
 * and those of the sums, 2 count + 2 of their terms' sizes. */
static double clip_error(struct coding coding, const double *w, const double *s, const double *h, int64_t count,
                         float most, double *bound)
{
    double scale, zero, sum = 0, d[COLUMNS], size[COLUMNS];
    float lo = 0, hi = 0;
    for (int64_t c = 0; c < count; c++) {
        const float x = fminf(fmaxf((float)w[c], -most), most);
        lo = x < lo ? x : lo;
        hi = x > hi ? x : hi;
    }
    coding_scale(coding, (double)lo, (double)hi, &scale, &zero);
    for (int64_t c = 0; c < count; c++) {
        const float x = fminf(fmaxf((float)w[c], -most), most);
        const double value = (coding_step(x, scale, zero, coding_top(coding)) - zero) * (double)(float)scale;
        d[c] = (w[c] - value) / s[c];
        size[c] = (fabs(w[c]) + fabs(value)) / s[c];
    }
    *bound = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < count; k++) {
            const double entry = h[i * COLUMNS + k];
            sum += d[i] * entry * d[k];
            *bound += ROUNDOFF * fabs(entry) * ((double)(2 * count + 2) * fabs(d[i] * d[k]) + 6 * size[i] * fabs(d[k]));
        }
    return sum;
}

/* What came out is one of the tried magnitudes, and none of them is better by more than rounding. */
static void clip_check(struct coding coding, const double *before, const double *after, const double *s,
                       const double *h, int64_t count)
{
    float most = 0;
    double least = (double)INFINITY, slack = 0, found = (double)INFINITY;
    for (int64_t c = 0; c < count; c++) most = fmaxf(most, fabsf((float)before[c]));
    for (int step = 0; step < STEPS; step++) {
        const float tried = most * (float)(1 - (double)step / PARTS);
        double bound;
        const double error = clip_error(coding, before, s, h, count, tried, &bound);
        bool same = true;
        for (int64_t c = 0; c < count; c++)
            same = same && after[c] == (double)fminf(fmaxf((float)before[c], -tried), tried);
        if (same) found = fmin(found, error - bound);
        if (error < least) least = error, slack = bound;
    }
    if (!(found <= least + slack)) fail_msg("a group's error is %g where %g was to be had", found, least);
}

static void clip_run(struct world *world, struct coding coding)
{
    const int64_t group_size = coding.group_size;
    const struct matrix weight = world_random(world, ROWS, COLUMNS, GAP, 0.3),
                        scales = world_random(world, 1, COLUMNS, 0, 1);
    const struct matrix x = world_random(world, 200, COLUMNS, 0, 1), h = world_zeros(world, COLUMNS, COLUMNS, 1);
    const int64_t threads = team_size(world->backend->team), widest = group_size < COLUMNS ? group_size : COLUMNS;
    const struct matrix scratch = world_zeros(world, 2 * CLIP_SEARCH_ROWS * threads, widest, 0);
    struct backend *backend = world->backend;
    backend->ops->syrk(backend, h, x, 0.01, 0);
    backend->ops->mirror(backend, h);
    backend->ops->fill(backend, scales, 1.25);
    backend->ops->fill(backend, matrix_columns(scales, 3, 20), 0.5);
    double *before = world_read(world, weight), *s = world_read(world, scales), *hessian = world_read(world, h);
    backend->ops->clip_search(backend, &(struct clip_search_args){coding, weight, scales, h, STEPS, PARTS, scratch});
    double *after = world_read(world, weight);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t first = 0; first < COLUMNS; first += group_size) {
            const int64_t at = r * COLUMNS + first, left = COLUMNS - first;
            clip_check(coding, before + at, after + at, s + first, hessian + first * COLUMNS + first,
                       left < group_size ? left : group_size);
        }
    world_put(world, "clamped", after, ROWS * COLUMNS, 0);
    free(before), free(s), free(hessian);
}

static void test_clipping_finds_the_best_magnitude(void **state)
{
    const struct quartet *q = *state;
    struct coding codings[] = {{.bits = 4, .rule = SCALE_RANGE}, {.bits = 3, .sym = true, .rule = SCALE_ABSMAX}};
    for (int i = 0; i < 4; i++) {
        struct world worlds[BACKENDS] = {0};
        for (int b = 0; b < BACKENDS; b++) {
            worlds[b].backend = q->all[b];
            worlds[b].seed = (uint64_t)(21 + i);
            codings[i % 2].group_size = i / 2 == 0 ? 32 : COLUMNS;
            clip_run(&worlds[b], codings[i % 2]);
        }
        assert_memory_equal(worlds[2].outputs[0].values, worlds[3].outputs[0].values, ROWS * COLUMNS * sizeof(double));
        for (int b = 0; b < BACKENDS; b++) world_clear(&worlds[b]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grids_and_codes_are_the_same_everywhere),
        cmocka_unit_test(test_tables_have_the_same_codes_everywhere),
        cmocka_unit_test(test_codes_become_values),
        cmocka_unit_test(test_copies_are_exact),
        cmocka_unit_test(test_a_block_of_gptq_satisfies_its_equations),
        cmocka_unit_test(test_magnitudes_add_up),
        cmocka_unit_test(test_clipping_finds_the_best_magnitude),
    };
    return cmocka_run_group_tests(tests, quartet_setup, quartet_teardown);
}
