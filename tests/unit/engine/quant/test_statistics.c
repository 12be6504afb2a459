/* What calibration collects, of all tokens or of those that visit an expert. */
#include "backend/backend.h"
#include "quant/statistics.h"
#include "unit.h"

#include <math.h>

enum { COLUMNS = 3, ROWS = 8 };

static const float inputs[ROWS * COLUMNS] = {1, 2,  3, -1, 0, 2, 4, 1,  1, 0, 0, -2,
                                             3, -3, 1, 2,  2, 2, 1, -1, 5, 0, 1, 0};

static void collect(int64_t tokens, int64_t rows, void (*hold)(const struct statistics *found, int64_t rows))
{
    struct error error;
    struct backend *backend = NULL;
    struct statistics_collector collector;
    float x[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = inputs[i];
    assert_int_equal(backend_cpu_new(NULL, &backend, &error), STATUS_OK);
    const unsigned needs = NEED_INPUT_HESSIAN | NEED_INPUT_MAGNITUDE | NEED_INPUT_SAMPLE;
    assert_int_equal(statistics_init(&collector, backend, needs, 5, tokens, &error), STATUS_OK);
    for (int again = 0; again < 2; again++) { /* nothing is left of the first */
        statistics_begin(&collector, COLUMNS);
        if (rows > 0) statistics_add(&collector, matrix_of(x, rows / 2, COLUMNS, sizeof(float)));
        if (rows > 0)
            statistics_add(&collector, matrix_of(x + rows / 2 * COLUMNS, rows - rows / 2, COLUMNS, sizeof(float)));
        assert_int_equal(collector.seen, rows);
        hold(statistics_finish(&collector), rows);
    }
    statistics_reset(&collector);
    backend_free(backend);
}

/* 2/n XᵀX, mean and largest |x| over the n rows seen, however many tokens there are. */
static void hold_rows(const struct statistics *found, int64_t rows)
{
    const float *h = found->hessian.data;
    for (int r = 0; r < COLUMNS; r++) {
        double mean = 0, largest = 0;
        for (int c = 0; c <= r; c++) {
            double sum = 0;
            for (int64_t t = 0; t < rows; t++) sum += (double)(inputs[t * COLUMNS + r] * inputs[t * COLUMNS + c]);
            assert_true(fabs((double)h[r * COLUMNS + c] - 2 * sum / (double)rows) < 1e-5);
        }
        for (int64_t t = 0; t < rows; t++) {
            mean += fabs((double)inputs[t * COLUMNS + r]) / (double)rows;
            largest = fmax(largest, fabs((double)inputs[t * COLUMNS + r]));
        }
        assert_true(fabs(found->mean[r] - mean) < 1e-12 && fabs((double)found->largest[r] - largest) < 1e-12);
    }
    assert_int_equal(found->sample.rows, rows); /* few tokens: all of them */
    assert_memory_equal(found->sample.data, inputs, (size_t)rows * COLUMNS * sizeof(float));
}

/* Of many tokens those at equal distances: every third of 3 * 512 - 1. */
static void test_the_sample_is_of_tokens_at_equal_distances(void **state)
{
    (void)state;
    enum { MANY = 3 * STATISTICS_SAMPLE - 1 };
    static float x[MANY];
    struct error error;
    struct backend *backend = NULL;
    struct statistics_collector collector;
    for (int i = 0; i < MANY; i++) x[i] = (float)i;
    assert_int_equal(backend_cpu_new(NULL, &backend, &error), STATUS_OK);
    assert_int_equal(statistics_init(&collector, backend, NEED_INPUT_HESSIAN | NEED_INPUT_SAMPLE, 1, MANY, &error),
                     STATUS_OK);
    statistics_begin(&collector, 1);
    statistics_add(&collector, matrix_of(x, 700, 1, sizeof(float)));
    statistics_add(&collector, matrix_of(x + 700, MANY - 700, 1, sizeof(float)));
    const struct matrix sample = statistics_finish(&collector)->sample;
    assert_int_equal(sample.rows, STATISTICS_SAMPLE);
    for (int i = 0; i < STATISTICS_SAMPLE; i++) assert_true(((const float *)sample.data)[i] == (float)(3 * i));
    statistics_reset(&collector);
    backend_free(backend);
}

static void hold_nothing(const struct statistics *found, int64_t rows)
{
    (void)rows;
    assert_null(found->hessian.data);
    assert_null(found->mean);
    assert_null(found->largest);
    assert_int_equal(found->sample.rows, 0);
}

static void test_statistics_are_those_of_the_rows_seen(void **state)
{
    (void)state;
    collect(ROWS, ROWS, hold_rows);
    collect(100, ROWS, hold_rows);
    collect(100, 3, hold_rows);
}

static void test_nothing_seen_is_nothing_collected(void **state)
{
    (void)state;
    collect(100, 0, hold_nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics_are_those_of_the_rows_seen),
        cmocka_unit_test(test_the_sample_is_of_tokens_at_equal_distances),
        cmocka_unit_test(test_nothing_seen_is_nothing_collected),
    };
    return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
