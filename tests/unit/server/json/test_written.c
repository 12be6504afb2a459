/* A document as text, when memory runs out on the way. */
#include "unit.h"

#include "json/written.h"

#include <stdlib.h>
#include <string.h>

static int left; /* the allocation of jansson that fails */

static void *take(size_t size)
{
    return --left == 0 ? NULL : malloc(size);
}

static json_t *make(void)
{
    json_t *document = json_object();
    char name[80] = "";
    for (size_t length = 1; length < sizeof name; length += 3) {
        memset(name, 'a', length);
        assert_int_equal(json_object_set_new(document, name, json_pack("[i, s]", 1, name)), 0);
    }
    return document;
}

static void test_a_text_is_whole_or_not_there(void **state)
{
    (void)state;
    json_set_alloc_funcs(take, free);
    left = 0;
    json_t *document = make();
    char *whole = written_json(document, JSON_COMPACT | JSON_SORT_KEYS);
    assert_non_null(whole);
    for (int at = 1; at < 200; at++) {
        left = at;
        char *text = written_json(document, JSON_COMPACT | JSON_SORT_KEYS);
        if (text != NULL) assert_string_equal(text, whole);
        free(text);
    }
    left = 0;
    free(whole);
    json_decref(document);
    json_set_alloc_funcs(malloc, free);
}

static void test_no_value_has_no_text(void **state)
{
    (void)state;
    assert_null(written_json(NULL, JSON_ENCODE_ANY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_whole_or_not_there),
        cmocka_unit_test(test_no_value_has_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
