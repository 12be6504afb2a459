/* Views into a file: every span of every view is what indexing says. */
#include "engine/files/scratch.h"
#include "unit.h"

#include "formats/pytorch/strided.h"

enum { NUMBERS = 60000 };

/* Number i of the file is i, so that a value names its place. */
static struct file *open_numbers(struct scratch *scratch, enum dtype dtype)
{
    struct file *file = NULL;
    struct error error;
    float *numbers = malloc(NUMBERS * sizeof *numbers);
    double *wide = malloc(NUMBERS * sizeof *wide);
    assert_true(numbers != NULL && wide != NULL);
    for (int i = 0; i < NUMBERS; i++) wide[i] = (double)(numbers[i] = (float)i);
    if (dtype == DTYPE_F64)
        scratch_write(scratch, "numbers", wide, NUMBERS * sizeof *wide);
    else
        scratch_write(scratch, "numbers", numbers, NUMBERS * sizeof *numbers);
    assert_int_equal(file_open(AT_FDCWD, scratch_path(scratch, "numbers"), FILE_FOLLOW_LINKS, INT64_MAX, &file, &error),
                     STATUS_OK);
    free(numbers);
    free(wide);
    return file;
}

static int64_t place(const struct strided *view, int64_t flat)
{
    int64_t at = 0;
    for (int axis = view->rank; axis-- > 0; flat /= view->shape[axis])
        at += flat % view->shape[axis] * view->stride[axis];
    return at;
}

static void check(const struct file *file, const struct strided *view, int64_t first, int64_t count)
{
    struct error error;
    const int64_t width = (int64_t)dtype_info(view->dtype)->bits / 8;
    float *out = malloc((size_t)(count + 1) * sizeof *out);
    assert_non_null(out);
    out[count] = -1;
    assert_int_equal(strided_read_f32(file, view, first, count, out, &error), STATUS_OK);
    for (int64_t i = 0; i < count; i++)
        if (out[i] != (float)(view->offset / width + place(view, first + i)))
            fail_msg("element %lld of a view of rank %d is %g", (long long)(first + i), view->rank, (double)out[i]);
    assert_true(out[count] == -1);
    free(out);
}

static const struct {
    int rank;
    int64_t shape[4], stride[4], offset;
} views[] = {
    {0, {0}, {0}, 5},
    {1, {50000}, {1}, 7},
    {1, {20000}, {3}, 0},            /* every third */
    {1, {5}, {12000}, 11},           /* gaps wider than a chunk */
    {2, {200, 300}, {300, 1}, 0},    /* plain */
    {2, {200, 300}, {1, 200}, 0},    /* transposed */
    {2, {100, 100}, {600, 2}, 1},    /* every other column of a wider matrix */
    {2, {1, 40000}, {1, 1}, 3},      /* an axis of one element, whose stride says nothing */
    {3, {7, 9, 11}, {99, 11, 1}, 0}, /* plain */
    {3, {7, 9, 11}, {1, 7, 63}, 2},  /* the other way round */
    {3, {7, 9, 11}, {11, 77, 1}, 4}, /* the first two exchanged */
    {4, {3, 4, 5, 6}, {6, 18, 360, 1}, 9},
    {4, {2, 1, 3, 2}, {1, 4000, 2, 30000}, 0},
};

static void test_every_span_of_a_view_is_what_indexing_says(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64};
    uint32_t random = 1;
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        struct scratch scratch;
        scratch_open(&scratch);
        struct file *file = open_numbers(&scratch, dtypes[d]);
        for (size_t v = 0; v < sizeof views / sizeof views[0]; v++) {
            const struct strided view = {.dtype = dtypes[d],
                                         .rank = views[v].rank,
                                         .shape = views[v].shape,
                                         .stride = views[v].stride,
                                         .offset = views[v].offset * (dtypes[d] == DTYPE_F64 ? 8 : 4)};
            int64_t elements = 1;
            for (int axis = 0; axis < view.rank; axis++) elements *= view.shape[axis];
            bool contiguous = true;
            for (int64_t i = 1; i < elements; i++) contiguous = contiguous && place(&view, i) == place(&view, 0) + i;
            assert_int_equal(strided_contiguous(&view), contiguous);
            check(file, &view, 0, elements);
            for (int i = 0; i < 20; i++) {
                random = random * 1664525u + 1013904223u;
                const int64_t first = random / 3 % elements;
                random = random * 1664525u + 1013904223u;
                check(file, &view, first, random / 3 % (elements - first + 1));
            }
        }
        file_close(file);
        scratch_close(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_span_of_a_view_is_what_indexing_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
