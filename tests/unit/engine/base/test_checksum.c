/* The checksum does not depend on how its input is cut, and sees every bit, order and length. */
#include "base/checksum.h"
#include "unit.h"

static uint64_t of(const uint8_t *bytes, size_t size)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, bytes, size);
    return checksum_value(&sum);
}

static void test_cuts_do_not_matter(void **state)
{
    (void)state;
    uint8_t bytes[100];
    for (int i = 0; i < 100; i++) bytes[i] = (uint8_t)(i * 7);
    for (size_t a = 0; a <= 100; a++)
        for (size_t b = a; b <= 100; b += 9) {
            struct checksum sum;
            checksum_init(&sum);
            checksum_add(&sum, bytes, a);
            checksum_add(&sum, bytes + a, b - a);
            checksum_add(&sum, bytes + b, 100 - b);
            assert_true(checksum_value(&sum) == of(bytes, 100));
        }
}

static void test_every_bit_and_the_length_count(void **state)
{
    (void)state;
    uint8_t bytes[97] = {0};
    const uint64_t plain = of(bytes, 97);
    for (size_t i = 0; i < 97 * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_true(of(bytes, 97) != plain);
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t size = 0; size < 97; size++) assert_true(of(bytes, size) != plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_do_not_matter),
        cmocka_unit_test(test_every_bit_and_the_length_count),
    };
    return cmocka_run_group_tests_name("checksum", tests, NULL, NULL);
}
