/* Draws against CPython: a few worked out with it by hand, which run everywhere, and all of the reference's. */
#include "tasks/sampler.h"

#include "files/file.h"
#include "files/json_reader.h"
#include "shared.h"

static void test_words_are_those_of_python(void **state)
{
    (void)state;
    struct sampler sampler;
    sampler_seed(&sampler, 0);
    assert_int_equal(sampler_word(&sampler), 3626764237u);
    sampler_seed(&sampler, 1234);
    assert_int_equal(sampler_word(&sampler), 4150886329u);
    assert_int_equal(sampler_word(&sampler), 3342196574u);
    sampler_seed(&sampler, UINT64_C(1) << 32); /* two words of key */
    assert_int_equal(sampler_word(&sampler), 485306839u);
}

static void test_draws_are_those_of_python(void **state)
{
    (void)state;
    static const uint32_t few[] = {3, 0, 4, 2, 1}, many[] = {989, 796, 451, 119, 7, 92};
    struct sampler sampler;
    uint32_t drawn[6];
    sampler_seed(&sampler, 1234);
    sampler_draw(&sampler, 5, 5, drawn);
    assert_memory_equal(drawn, few, sizeof few);
    sampler_seed(&sampler, 1234);
    sampler_draw(&sampler, 1000, 6, drawn);
    assert_memory_equal(drawn, many, sizeof many);
}

/* random.Random(seed).sample(range(population), count): from a list of what is left where that is small (21, and from
 * six draws on 64 or 256 more), else anew while a number was drawn before, which most of these seeds do. */
static void test_small_and_large_populations_are_drawn_as_python_does(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t population;
        int count;
        uint32_t expected[12];
    } rows[] = {
        {0, 9, 4, {6, 8, 0, 2}},
        {1, 9, 4, {2, 1, 8, 0}},
        {2, 9, 4, {0, 1, 8, 2}},
        {2, 30, 5, {27, 1, 2, 11, 26}},
        {10, 30, 5, {18, 1, 13, 15, 0}},
        {11, 30, 5, {14, 27, 17, 29, 24}},
        {12, 30, 5, {15, 8, 21, 16, 11}},
        {0, 50, 6, {24, 48, 26, 2, 16, 32}},
        {1, 50, 6, {8, 36, 4, 16, 7, 31}},
        {2, 50, 6, {3, 5, 48, 23, 10, 42}},
        {5, 100, 7, {79, 32, 94, 45, 88, 83, 67}},
        {10, 100, 7, {73, 4, 54, 61, 1, 26, 59}},
        {11, 100, 7, {57, 71, 99, 59, 65, 75, 24}},
        {12, 100, 7, {60, 34, 84, 67, 85, 44, 18}},
        {9, 300, 12, {237, 191, 136, 70, 95, 3, 173, 257, 41, 171, 283, 20}},
        {10, 300, 12, {292, 16, 219, 247, 295, 7, 105, 236, 251, 142, 82, 17}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sampler sampler;
        uint32_t drawn[12];
        sampler_seed(&sampler, rows[i].seed);
        sampler_draw(&sampler, rows[i].population, rows[i].count, drawn);
        for (int k = 0; k < rows[i].count; k++)
            if (drawn[k] != rows[i].expected[k]) fail_msg("row %d: draw %d is %u", (int)i, k, drawn[k]);
    }
}

static void check_words(struct json_reader *reader, struct sampler *sampler)
{
    struct json_reader_text key;
    uint64_t seed = 0, word = 0;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key)) {
        if (json_reader_is(key, "seed")) {
            json_reader_uint64(reader, UINT64_MAX, &seed);
            sampler_seed(sampler, seed);
        } else {
            json_reader_array(reader);
            while (json_reader_next_item(reader)) {
                json_reader_uint64(reader, UINT32_MAX, &word);
                assert_int_equal(sampler_word(sampler), word);
            }
        }
    }
}

static void check_draws(struct json_reader *reader, struct sampler *sampler, int *checked)
{
    struct json_reader_text key;
    uint64_t seed = 0, population = 0, count = 0, index = 0;
    uint32_t drawn[SAMPLER_DRAWS_MAX];
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key)) {
        if (json_reader_is(key, "seed")) json_reader_uint64(reader, UINT64_MAX, &seed);
        if (json_reader_is(key, "n")) json_reader_uint64(reader, UINT32_MAX, &population);
        if (json_reader_is(key, "k")) json_reader_uint64(reader, SAMPLER_DRAWS_MAX, &count);
        if (!json_reader_is(key, "draws")) continue;
        sampler_seed(sampler, seed);
        json_reader_array(reader);
        while (json_reader_next_item(reader)) {
            int at = 0;
            sampler_draw(sampler, (uint32_t)population, (int)count, drawn);
            json_reader_array(reader);
            while (json_reader_next_item(reader)) {
                json_reader_uint64(reader, UINT32_MAX, &index);
                assert_int_equal(drawn[at++], index);
            }
            assert_int_equal(at, count);
            ++*checked;
        }
    }
}

static void test_all_goldens(void **state)
{
    (void)state;
    char path[512], *text = NULL;
    size_t size = 0;
    int checked = 0;
    struct error error;
    struct json_reader reader;
    struct json_reader_text key;
    struct sampler sampler;
    shared_require("data/tasks/sampler_goldens.json", path, sizeof path);
    assert_int_equal(file_read_all(AT_FDCWD, path, 1 << 24, &text, &size, &error), STATUS_OK);
    json_reader_init(&reader, "goldens", text, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        const bool words = json_reader_is(key, "u32");
        if (!words && !json_reader_is(key, "sample")) continue;
        json_reader_array(&reader);
        while (json_reader_next_item(&reader))
            if (words)
                check_words(&reader, &sampler);
            else
                check_draws(&reader, &sampler, &checked);
    }
    if (json_reader_finish(&reader) != STATUS_OK) fail_msg("%s", error.detail);
    assert_true(checked > 200);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_those_of_python),
        cmocka_unit_test(test_draws_are_those_of_python),
        cmocka_unit_test(test_small_and_large_populations_are_drawn_as_python_does),
        cmocka_unit_test(test_all_goldens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
