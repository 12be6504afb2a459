/* Names of objects come out of a bucket that others may write to: only those of one form are ours. */
#include "unit.h"

#include "kinds/resume_object.h"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_files_and_lists_are_read(void **state)
{
    struct resume_object object;
    (void)state;
    assert_true(resume_object_read("0000000003/" DIGEST, &object));
    assert_int_equal(object.epoch, 3);
    assert_int_equal(object.number, 0);
    assert_string_equal(object.sha256, DIGEST);
    assert_true(resume_object_read("0000000012/0000000045-" DIGEST, &object));
    assert_int_equal(object.epoch, 12);
    assert_int_equal(object.number, 45);
    assert_string_equal(object.sha256, DIGEST);
}

static void test_other_names_are_not_ours(void **state)
{
    static const char *const names[] = {
        "",
        "0000000003",
        "0000000003/",
        "3/" DIGEST,
        "000000003x/" DIGEST,
        "0000000003-" DIGEST,
        "0000000003/" DIGEST "0",
        "0000000003/0000000000-" DIGEST,
        "0000000003/000000001-" DIGEST,
        "0000000003/0000000001_" DIGEST,
        "0000000003/0000000001-" DIGEST "/a",
        "0000000003/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "0000000003/../" DIGEST,
    };
    struct resume_object object;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (resume_object_read(names[i], &object)) fail_msg("\"%s\"", names[i]);
}

static void test_names_are_read_as_they_are_written(void **state)
{
    char name[RESUME_OBJECT_NAME];
    struct resume_object object;
    (void)state;
    resume_object_name("run", 7, DIGEST, name);
    assert_string_equal(name, "resume/run/0000000007/" DIGEST);
    assert_true(resume_object_read(name + sizeof "resume/run", &object));
    assert_int_equal(object.epoch, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_and_lists_are_read),
        cmocka_unit_test(test_other_names_are_not_ours),
        cmocka_unit_test(test_names_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
