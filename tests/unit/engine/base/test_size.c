/* Numbers of bytes as people write them. */
#include "base/size.h"
#include "unit.h"

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes; /* -1: no size */
    } rows[] = {{"0", 0},    {"4096", 4096}, {"1K", 1024}, {"1.5m", 3 << 19}, {"20G", 20LL << 30}, {"2T", 2LL << 40},
                {"", -1},    {"G", -1},      {"-1", -1},   {"20GB", -1},      {"20 G", -1},        {"1P", -1},
                {"nan", -1}, {"inf", -1},    {"9e18", -1}, {"8388608T", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t bytes = -1;
        if (size_read(rows[i].text, &bytes) != (rows[i].bytes >= 0) || bytes != rows[i].bytes)
            fail_msg("\"%s\": %lld", rows[i].text, (long long)bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
