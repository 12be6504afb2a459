/* The order of the data: a permutation by epoch, a pure function of the index. */
#include "train/batches.h"
#include "unit.h"

#include <string.h>

static struct error error;

static void test_permutation_visits_everything_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        static uint8_t seen[5000];
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < counts[c]; i++) {
            const int64_t at = batches_permute(3, 9, i, counts[c]);
            assert_true(at >= 0 && at < counts[c] && !seen[at]);
            seen[at] = 1;
        }
    }
}

/* Neighbours are not kept, the order differs by seed and by epoch: few of 1000 places agree by chance (one on
 * average). */
static void test_orders_are_shuffled_and_differ(void **state)
{
    (void)state;
    int kept = 0, same_seed = 0, same_epoch = 0;
    for (int64_t i = 0; i + 1 < 1000; i++) {
        const int64_t at = batches_permute(1, 1, i, 1000);
        kept += batches_permute(1, 1, i + 1, 1000) == at + 1;
        same_seed += batches_permute(2, 1, i, 1000) == at;
        same_epoch += batches_permute(1, 2, i, 1000) == at;
    }
    assert_true(kept < 10 && same_seed < 10 && same_epoch < 10);
}

static void test_each_epoch_visits_every_block_once(void **state)
{
    (void)state;
    uint32_t tokens[107];
    struct batches batches;
    for (uint32_t t = 0; t < 107; t++) tokens[t] = t;
    assert_int_equal(batches_init(&batches, tokens, 107, 8, 4, 5, &error), STATUS_OK);
    assert_int_equal(batches.blocks, 13); /* the last three tokens are left out */
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[13] = {0};
        for (int64_t i = 0; i < 13; i++) seen[batches_block(&batches, epoch * 13 + i)]++;
        for (int i = 0; i < 13; i++) assert_int_equal(seen[i], 1);
    }
    int same = 0;
    for (int64_t i = 0; i < 13; i++) same += batches_block(&batches, i) == batches_block(&batches, 13 + i);
    assert_true(same < 13); /* the second epoch has an order of its own */
    batches_reset(&batches);
}

static void test_a_batch_holds_its_blocks_and_what_follows_each_token(void **state)
{
    (void)state;
    uint32_t tokens[64];
    struct batches batches;
    for (uint32_t t = 0; t < 64; t++) tokens[t] = 100 + t;
    assert_int_equal(batches_init(&batches, tokens, 64, 8, 3, 5, &error), STATUS_OK);
    const struct batch batch = batches_next(&batches, 6, 3); /* runs into the next epoch */
    assert_int_equal(batch.tokens, 24);
    assert_int_equal(batch.sequences, 3);
    assert_int_equal(batch.longest, 8);
    for (int64_t s = 0; s < 3; s++) {
        const uint32_t first = 100 + 8 * (uint32_t)batches_block(&batches, 6 + s);
        assert_int_equal(batch.starts[s], 8 * s);
        for (int64_t t = 0; t < 8; t++) {
            assert_int_equal(batch.ids[8 * s + t], first + t);
            assert_int_equal(batch.targets[8 * s + t], t < 7 ? first + t + 1 : TARGET_NONE);
            assert_int_equal(batch.positions[8 * s + t], t);
        }
    }
    batches_reset(&batches);
}

static void test_too_little_data_is_refused(void **state)
{
    (void)state;
    uint32_t tokens[7] = {0};
    struct batches batches;
    assert_int_equal(batches_init(&batches, tokens, 7, 8, 1, 0, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/params/dataset");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation_visits_everything_once),
        cmocka_unit_test(test_orders_are_shuffled_and_differ),
        cmocka_unit_test(test_each_epoch_visits_every_block_once),
        cmocka_unit_test(test_a_batch_holds_its_blocks_and_what_follows_each_token),
        cmocka_unit_test(test_too_little_data_is_refused),
    };
    return cmocka_run_group_tests_name("batches", tests, NULL, NULL);
}
