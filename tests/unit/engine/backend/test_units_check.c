/* The check of the processor's bf16 units, on units of plain C that are right, and wrong in one way each. They stand in
 * place of tiles.c and bf16_units.c, so that this runs on every processor; what cuts a product into strips
 * (tile_product.c, bf16.c) is the engine's own. */
#include "backend/cpu/blas_check.h"
#include "backend/cpu/blas_choice.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum fault {
    NONE,
    LAST_ELEMENT,     /* of a block of 17 rows and 15 columns */
    TRUNCATED,        /* factors in place of rounded ones */
    FORGOTTEN,        /* the earlier stretch of the depth */
    READ_FOR_NOTHING, /* c, though beta is 0 */
    TILES_WITHOUT_LOW,
    TILES_ABOVE_DIAGONAL,
    TILES_LAST_LINE,
    CRASH
};
static enum fault fault;

/* ---- bf16 ---- */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint16_t rounded(float x)
{
    const uint32_t bits = bits_of(x);
    return (uint16_t)((fault == TRUNCATED ? bits : bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* A strip is 32 lines of the depth, which is a multiple of 32. */
static int64_t padded(int64_t depth)
{
    return (depth + 31) / 32 * 32;
}

static float element(const float *from, int64_t stride, bool along, int64_t lines, int64_t depth, int64_t line,
                     int64_t k)
{
    return line >= lines || k >= depth ? 0 : from[along ? line * stride + k : k * stride + line];
}

void bf16_pack(enum bf16_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
               int64_t depth)
{
    uint16_t *to = strip;
    (void)side;
    for (int64_t line = 0; line < BF16_STRIP; line++)
        for (int64_t k = 0; k < padded(depth); k++)
            to[line * padded(depth) + k] = rounded(element(from, stride, along, lines, depth, line, k));
}

static bool always(void)
{
    return true;
}

static bool never(void)
{
    return false;
}

static void nothing(void)
{
}

static void multiply(const void *left, const void *right, int64_t depth, const struct bf16_block *to)
{
    const uint16_t *l = left, *r = right;
    if (fault == CRASH) abort();
    for (int64_t i = 0; i < to->rows; i++)
        for (int64_t j = 0; j < to->columns; j++) {
            float sum = 0, *const c = to->c + i * to->stride + j;
            for (int64_t k = 0; k < padded(depth); k++)
                sum += from_bits((uint32_t)l[i * padded(depth) + k] << 16) *
                       from_bits((uint32_t)r[j * padded(depth) + k] << 16);
            sum *= to->alpha;
            if (to->beta != 0 || fault == READ_FOR_NOTHING) sum += (fault == FORGOTTEN ? 0 : to->beta) * *c;
            *c = sum;
        }
    if (fault == LAST_ELEMENT && to->rows == 17 && to->columns == 15) to->c[16 * to->stride + 14] *= 1.01F;
}

static const struct bf16_unit absent = {"absent", never, nothing, nothing, NULL},
                              plain = {"plain C", always, nothing, nothing, multiply};
const struct bf16_unit *const bf16_units[] = {&absent, &plain, NULL};

/* ---- Tiles ---- */

bool tiles_available(void)
{
    return true;
}

void tiles_begin(void)
{
}

void tiles_end(void)
{
}

void tiles_pack(enum tiles_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
                int64_t depth)
{
    float *to = strip;
    (void)side;
    for (int64_t line = 0; line < TILES_STRIP; line++)
        for (int64_t k = 0; k < padded(depth); k++)
            to[line * padded(depth) + k] = element(from, stride, along, lines, depth, line, k);
}

/* x = parts[0] + parts[1] + parts[2], each the truncation of what the ones before leave. */
static void split(float x, float parts[3])
{
    for (int i = 0; i < 3; i++) {
        parts[i] = from_bits(bits_of(x) & 0xffff0000U);
        x -= parts[i];
    }
}

/* Zeros, most of them from around a small matrix, add nothing. */
void tiles_multiply(const void *left, const void *right, int64_t depth, float *sums)
{
    const float *l = left, *r = right;
    for (int64_t i = 0; i < TILES_STRIP; i++) {
        float high[TILES_STRIP] = {0}, rest[TILES_STRIP] = {0}, a[3], b[3];
        for (int64_t k = 0; k < padded(depth); k++) {
            if (l[i * padded(depth) + k] == 0) continue;
            split(l[i * padded(depth) + k], a);
            for (int64_t j = 0; j < TILES_STRIP; j++) {
                if (r[j * padded(depth) + k] == 0) continue;
                split(r[j * padded(depth) + k], b);
                if (fault != TILES_WITHOUT_LOW) rest[j] += a[0] * b[2] + a[2] * b[0];
                rest[j] += a[1] * b[1];
                rest[j] += a[0] * b[1] + a[1] * b[0];
                high[j] += a[0] * b[0];
            }
        }
        for (int64_t j = 0; j < TILES_STRIP; j++) sums[i * TILES_STRIP + j] = high[j] + rest[j];
    }
}

void tiles_fetch(const float *c, int64_t stride, int64_t rows)
{
    (void)c, (void)stride, (void)rows;
}

void tiles_put(const float *sums, float *c, int64_t stride, int64_t rows, int64_t columns, int64_t reach, float alpha,
               float beta)
{
    const int64_t more = fault == TILES_ABOVE_DIAGONAL ? 1 : 0, lost = fault == TILES_LAST_LINE && rows == 31 ? 1 : 0;
    for (int64_t i = 0; i < rows - lost; i++)
        for (int64_t j = 0; j < columns && j < reach + i + more; j++) {
            float *const to = c + i * stride + j;
            *to = alpha * sums[i * TILES_STRIP + j] + (beta != 0 ? beta * *to : 0);
        }
}

/* ---- The tests ---- */

static void test_right_units_pass(void **state)
{
    struct error error = {0};
    struct trial_progress progress = {0};
    (void)state;
    fault = NONE;
    const enum status status = blas_check_units(&progress, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_true(progress.steps > 300); /* of both kinds */
}

static void test_each_wrong_unit_is_found_and_its_product_named(void **state)
{
    static const struct {
        enum fault fault;
        const char *named;
    } cases[] = {
        {LAST_ELEMENT, "in bf16 by plain C of 17 x 15 x 33"},
        {TRUNCATED, "in bf16 by plain C of 1 x 1 x"},
        {FORGOTTEN, "in bf16 by plain C of"},
        {READ_FOR_NOTHING, "in bf16 by plain C of"},
        {TILES_WITHOUT_LOW, "by tile units of"},
        {TILES_ABOVE_DIAGONAL, "the square by tile units of 2 from 7 rows"},
        {TILES_LAST_LINE, "the product by tile units of 31 x 33 x 32"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        struct trial_progress progress = {0};
        fault = cases[i].fault;
        assert_int_equal(blas_check_units(&progress, &error), STATUS_INTERNAL);
        if (strstr(error.detail, cases[i].named) == NULL) fail_msg("%s, expected %s", error.detail, cases[i].named);
    }
    fault = NONE;
}

static void choose_with(enum fault with, struct blas_choice *choice)
{
    struct error error = {0};
    fault = with;
    const enum status status = blas_choice_make(BLAS_CHOICE_SECONDS, choice, &error);
    fault = NONE;
    if (status != STATUS_OK) fail_msg("%s", error.detail);
}

static void test_wrong_units_are_left_out_and_told(void **state)
{
    static const struct {
        enum fault fault;
        const char *said;
    } cases[] = {{TRUNCATED, "plain loops give"}, {CRASH, "crash by signal 6"}};
    struct blas_choice choice;
    char text[BLAS_CHOICE_TEXT];
    (void)state;
    unsetenv(CPU_KERNELS_VARIABLE);
    choose_with(NONE, &choice);
    assert_string_equal(choice.units, "");
    assert_null(getenv(CPU_KERNELS_VARIABLE));
    const int64_t all = choice.products;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        choose_with(cases[i].fault, &choice);
        assert_non_null(strstr(choice.units, cases[i].said));
        assert_true(choice.products < all);
        assert_string_equal(getenv(CPU_KERNELS_VARIABLE), cpu_kernels()->name); /* a backend made now has no units */
        blas_choice_describe(&choice, text, sizeof text);
        assert_non_null(
            strstr(text, "; without the processor's bf16 units, because of the product in bf16 by plain C"));
        unsetenv(CPU_KERNELS_VARIABLE);
    }
}

static void test_units_that_nobody_uses_are_not_held_to_anything(void **state)
{
    struct blas_choice choice;
    (void)state;
    setenv(CPU_KERNELS_VARIABLE, cpu_kernels()->name, 1);
    choose_with(CRASH, &choice);
    assert_string_equal(choice.units, "");
    unsetenv(CPU_KERNELS_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_units_pass),
        cmocka_unit_test(test_each_wrong_unit_is_found_and_its_product_named),
        cmocka_unit_test(test_wrong_units_are_left_out_and_told),
        cmocka_unit_test(test_units_that_nobody_uses_are_not_held_to_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
