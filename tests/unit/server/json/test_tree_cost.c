#include "unit.h"
#include "json/tree_cost.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Half a mebibyte of `part`, again and again between brackets. */
static char *repeat(const char *open, const char *part, const char *close, size_t *length)
{
    const size_t size = strlen(part), times = (512 << 10) / size;
    char *text = malloc(strlen(open) + times * size + strlen(close) + 1), *at = text;
    assert_non_null(text);
    at = stpcpy(at, open);
    for (size_t i = 0; i < times; i++) at = stpcpy(at, part);
    at = stpcpy(at, close);
    *length = (size_t)(at - text);
    return text;
}

static void test_a_tree_takes_no_more_than_its_cost(void **state)
{
    (void)state;
    static const char *const shapes[][3] = {
        {"[", "0,", "0]"},
        {"[", "[],", "[]]"},
        {"[", "[0],", "[0]]"},
        {"[", "\"\",", "\"\"]"},
        {"[", "\"a long string without end\",", "\"\"]"},
        {"[", "{ \"a\": 0 , \"b\": [1.5, null] },", "{}]"},
        {"[", "{\"a\":{\"b\":{\"c\":{}}},\"d\":\"\",\"e\":\"\",\"f\":\"\",\"g\":0,\"h\":0,\"i\":0,\"j\":0},", "{}]"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        size_t length;
        char *text = repeat(shapes[i][0], shapes[i][1], shapes[i][2], &length);
        const size_t before = mallinfo2().uordblks;
        json_t *tree = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(tree);
        const size_t taken = mallinfo2().uordblks - before; /* 0 under sanitizers, which have their own allocator */
        const size_t cost = tree_cost(text, length);
        if (taken > cost || (taken > 0 && cost > 4 * taken))
            fail_msg("%s takes %zu bytes for %zu, said to be %zu", shapes[i][1], taken, length, cost);
        json_decref(tree);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_takes_no_more_than_its_cost),
    };
    return cmocka_run_group_tests_name("tree_cost", tests, NULL, NULL);
}
