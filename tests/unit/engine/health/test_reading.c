#include "engine/files/scratch.h"
#include "unit.h"

#include "formats/safetensors/safetensors_writer.h"
#include "health/reading.h"

#include <math.h>

enum { LONG = (1 << 21) + 70001, SHORT = 1000 };

/* A stand-in for a hash: it only has to see the same bytes in the same order. */
struct sum {
    uint64_t value;
    int begun, finished;
};

static enum status sum_begin(void *owner, struct error *error)
{
    struct sum *sum = owner;
    (void)error;
    sum->value = 1469598103934665603u;
    sum->begun++;
    return STATUS_OK;
}

static enum status sum_add(void *owner, const void *bytes, size_t size, struct error *error)
{
    struct sum *sum = owner;
    (void)error;
    for (size_t i = 0; i < size; i++) sum->value = (sum->value ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return STATUS_OK;
}

static enum status sum_finish(void *owner, unsigned char digest[READING_DIGEST], struct error *error)
{
    struct sum *sum = owner;
    (void)error;
    memcpy(digest, &sum->value, sizeof sum->value);
    sum->finished++;
    return STATUS_OK;
}

static float value_at(int64_t i, unsigned seed)
{
    uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + seed;
    x ^= x >> 31;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 29;
    const float small = (float)(x % 2000001) / 1e6f - 1;
    return i % 100003 == 7 ? 40 * small + 9 : small + 0.25f;
}

static void write_one(struct scratch *scratch, const char *file, unsigned seed, bool broken)
{
    static const int64_t matrix[] = {1, LONG}, vector[] = {SHORT}, nothing[] = {0};
    const struct safetensors_entry entries[] = {{"model.layers.0.empty", DTYPE_F32, 1, nothing},
                                                {"model.layers.3.weight", DTYPE_F32, 2, matrix},
                                                {"norm.bias", DTYPE_BF16, 1, vector}};
    struct safetensors_writer *writer = NULL;
    struct error error;
    float *values = malloc(LONG * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < LONG; i++) values[i] = value_at(i, seed);
    if (broken) {
        values[5] = NAN;
        values[LONG - 1] = INFINITY;
        values[LONG - 2] = -INFINITY;
    }
    assert_int_equal(safetensors_writer_open(scratch_path(scratch, file), entries, 3, &writer, &error), STATUS_OK);
    assert_int_equal(safetensors_writer_f32(writer, 1, values, LONG, &error), STATUS_OK);
    assert_int_equal(safetensors_writer_f32(writer, 2, values, SHORT, &error), STATUS_OK);
    if (safetensors_writer_commit(writer, &error) != STATUS_OK) fail_msg("%s", error.detail);
    safetensors_writer_close(writer);
    free(values);
}

static struct reading read_all(const struct weights *weights, const struct weights *previous, int threads,
                               struct sum *sum)
{
    struct reading reading;
    struct error error;
    struct team *team = NULL;
    const struct reading_hash hash = {sum, sum_begin, sum_add, sum_finish};
    assert_int_equal(team_new(threads, &team, &error), STATUS_OK);
    const struct reading_request request = {.weights = weights, .previous = previous, .team = team, .hash = &hash};
    if (reading_make(&request, &reading, &error) != STATUS_OK) fail_msg("%s", error.detail);
    team_free(team);
    return reading;
}

static void close_to(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-11 * fabs(wanted))) fail_msg("%.17g, wanted %.17g", found, wanted);
}

/* Two plain passes in long double. */
static void check_against_plain(const struct tensor_reading *tensor)
{
    long double sum = 0, l1 = 0, squares = 0, m2 = 0, m4 = 0, difference = 0, other = 0;
    int64_t outliers = 0;
    for (int64_t i = 0; i < LONG; i++) {
        const long double x = (long double)value_at(i, 1), y = (long double)value_at(i, 2);
        sum += x;
        l1 += fabsl(x);
        squares += x * x;
        difference += (x - y) * (x - y);
        other += y * y;
    }
    for (int64_t i = 0; i < LONG; i++) {
        const long double x = (long double)value_at(i, 1), d = x - sum / LONG;
        m2 += d * d;
        m4 += d * d * d * d;
        outliers += fabsl(x) > 6 * sqrtl(squares / LONG) * 1.0078125L;
    }
    close_to(tensor->moments.l1, (double)l1);
    close_to(moments_l2(&tensor->moments), (double)sqrtl(squares));
    close_to(tensor->moments.mean, (double)(sum / LONG));
    close_to(moments_kurtosis(&tensor->moments), (double)(LONG * m4 / (m2 * m2)));
    close_to(distance_relative(&tensor->distance), (double)sqrtl(difference / other));
    assert_in_range(tensor->outliers, outliers, outliers + 2); /* within a bin of the threshold */
    assert_true(outliers > 3);
}

static void test_a_reading_is_what_plain_sums_say_with_any_number_of_threads(void **state)
{
    struct scratch scratch;
    struct weights *one = NULL, *two = NULL;
    struct error error;
    struct sum sum = {0};
    (void)state;
    scratch_open(&scratch);
    write_one(&scratch, "one.safetensors", 1, false);
    write_one(&scratch, "two.safetensors", 2, false);
    assert_int_equal(weights_open(scratch_path(&scratch, "one.safetensors"), &one, &error), STATUS_OK);
    assert_int_equal(weights_open(scratch_path(&scratch, "two.safetensors"), &two, &error), STATUS_OK);
    struct reading first = read_all(one, two, 1, &sum), second = read_all(one, two, 3, &sum);
    assert_int_equal(first.count, 3);
    assert_true(sum.begun == 6 && sum.finished == 6);
    for (int64_t i = 0; i < 3; i++) {
        const struct tensor_reading *a = &first.tensors[i], *b = &second.tensors[i];
        assert_memory_equal(&a->moments, &b->moments, sizeof a->moments);
        assert_memory_equal(&a->distance, &b->distance, sizeof a->distance);
        assert_memory_equal(a->digest, b->digest, sizeof a->digest);
        assert_int_equal(a->outliers, b->outliers);
    }
    struct sum whole = {0};
    float *values = malloc(LONG * sizeof *values);
    for (int64_t i = 0; i < LONG; i++) values[i] = value_at(i, 1);
    (void)sum_begin(&whole, &error);
    (void)sum_add(&whole, values, LONG * sizeof *values, &error);
    free(values);
    assert_memory_equal(first.tensors[1].digest, &whole.value, sizeof whole.value);
    check_against_plain(&first.tensors[1]);
    assert_int_equal(first.tensors[1].layer, 3);
    assert_int_equal(first.tensors[2].layer, -1);
    assert_int_equal(reading_layers(&first), 4);
    reading_reset(&first);
    reading_reset(&second);
    weights_close(one);
    weights_close(two);
    scratch_close(&scratch);
}

static void test_numbers_that_are_not_finite_are_counted_and_left_out(void **state)
{
    struct scratch scratch;
    struct weights *weights = NULL;
    struct error error;
    struct sum sum = {0};
    struct health health;
    (void)state;
    scratch_open(&scratch);
    write_one(&scratch, "one.safetensors", 1, true);
    assert_int_equal(weights_open(scratch_path(&scratch, "one.safetensors"), &weights, &error), STATUS_OK);
    struct reading reading = read_all(weights, weights, 2, &sum);
    assert_int_equal(reading.tensors[1].moments.nan, 1);
    assert_int_equal(reading.tensors[1].moments.infinite, 2);
    assert_int_equal(reading.tensors[1].moments.count, LONG - 3);
    reading_health(&reading, READING_ALL, &health);
    assert_int_equal(health.nan + health.infinite, 4); /* the bias has the NaN too */
    assert_int_equal(health.count, LONG - 3 + SHORT - 1);
    assert_true(isfinite(health.l2) && isfinite(health.kurtosis) && health.relative <= 0 && health.cosine > 1 - 1e-12);
    reading_health(&reading, 3, &health);
    assert_int_equal(health.count, LONG - 3);
    reading_health(&reading, 1, &health);
    assert_true(health.count == 0 && isnan(health.kurtosis) && health.outlier_share <= 0);
    reading_reset(&reading);
    weights_close(weights);
    scratch_close(&scratch);
}

static void test_what_stands_around_a_large_mean_does_not_cancel(void **state)
{
    float values[3000];
    struct moments all = {0}, whole;
    (void)state;
    for (int i = 0; i < 3000; i++) values[i] = 1000.0f + (i % 2 == 0 ? 0.0625f : -0.0625f);
    for (int i = 0; i < 3000; i += 1000) {
        struct moments chunk;
        moments_of(values + i, 1000, &chunk);
        moments_merge(&all, &chunk);
    }
    moments_of(values, 3000, &whole);
    close_to(moments_kurtosis(&all), 1);
    close_to(all.m2, 3000 * 0.0625 * 0.0625);
    close_to(all.m2, whole.m2);
    close_to(all.m4, whole.m4);
}

/* bf16 has 1.0078125 next to 1: what is at the threshold is not beyond it, infinities and NaN are nowhere. */
static void test_what_is_beyond_a_threshold_is_counted_exactly_for_bf16(void **state)
{
    static const float values[] = {1, -1, 1.0078125f, -2, 0.5f, 0, INFINITY, NAN, 3e38f};
    int64_t *bins = calloc(MAGNITUDE_BINS, sizeof *bins);
    (void)state;
    magnitude_add(bins, values, 9);
    assert_int_equal(magnitude_beyond(bins, 1), 3);
    assert_int_equal(magnitude_beyond(bins, 1.0078125), 2);
    assert_int_equal(magnitude_beyond(bins, 0.25), 6);
    free(bins);
}

static void test_distances_of_two_vectors_by_hand(void **state)
{
    static const float a[] = {3, 4, NAN, 1}, b[] = {8, 6, 5, INFINITY};
    struct distance distance, none = {0};
    (void)state;
    distance_of(a, b, 4, &distance);
    close_to(distance_relative(&distance), sqrt(29) / 10);
    close_to(distance_cosine(&distance), 0.96);
    assert_true(isnan(distance_relative(&none)) && isnan(distance_cosine(&none)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reading_is_what_plain_sums_say_with_any_number_of_threads),
        cmocka_unit_test(test_numbers_that_are_not_finite_are_counted_and_left_out),
        cmocka_unit_test(test_what_is_beyond_a_threshold_is_counted_exactly_for_bf16),
        cmocka_unit_test(test_distances_of_two_vectors_by_hand),
        cmocka_unit_test(test_what_stands_around_a_large_mean_does_not_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
