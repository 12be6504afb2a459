#include "unit.h"

#include "inputs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* made/in/dir/file is below the base, made/out/file is not; links within made/in lead to both. */
static char made[64];
static int base;

static const char *at(const char *rest)
{
    static char paths[2][128];
    static int turn;
    turn = !turn;
    (void)snprintf(paths[turn], sizeof paths[turn], "%s/%s", made, rest);
    return paths[turn];
}

static void make_file(const char *rest)
{
    FILE *file = fopen(at(rest), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(made, sizeof made, "/tmp/deltaq-beneath-XXXXXX");
    assert_non_null(mkdtemp(made));
    assert_int_equal(mkdir(at("in"), 0700) + mkdir(at("in/dir"), 0700) + mkdir(at("in/dir/deep"), 0700) +
                         mkdir(at("out"), 0700) + symlink("../out", at("in/aside")) + symlink("dir", at("in/same")) +
                         symlink("../../out/file", at("in/dir/leak")),
                     0);
    make_file("in/dir/file");
    make_file("in/dir/deep/file");
    make_file("out/file");
    base = open(at("in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(base >= 0);
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"in/aside",    "in/same",          "in/dir/leak",
                                        "in/dir/file", "in/dir/deep/file", "out/file"};
    static const char *const directories[] = {"in/dir/deep", "in/dir", "in", "out", ""};
    (void)state;
    (void)close(base);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) (void)unlink(at(files[i]));
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) (void)rmdir(at(directories[i]));
    return 0;
}

/* What `path` opens is what lies at `wanted`, in made. */
static void expect(const char *path, const char *wanted)
{
    struct stat found, other;
    const int file = beneath_open(base, path);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &found) + lstat(at(wanted), &other), 0);
    assert_true(found.st_dev == other.st_dev && found.st_ino == other.st_ino);
    assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(close(file), 0);
}

static void refuse(const char *path, int cause)
{
    errno = 0;
    assert_int_equal(beneath_open(base, path), -1);
    assert_int_equal(errno, cause);
}

static void test_what_lies_below_is_opened(void **state)
{
    (void)state;
    expect(".", "in");
    expect("dir", "in/dir");
    expect("dir/file", "in/dir/file");
    expect("dir/deep/file", "in/dir/deep/file");
}

static void test_a_link_on_the_way_is_not_followed(void **state)
{
    (void)state;
    refuse("aside/file", ENOTDIR);
    refuse("same/file", ENOTDIR); /* nor one that stays below */
}

static void test_a_link_at_the_end_is_opened_itself(void **state)
{
    (void)state;
    expect("dir/leak", "in/dir/leak");
    expect("aside", "in/aside");
}

static void test_no_name_leads_out(void **state)
{
    (void)state;
    refuse("..", EINVAL);
    refuse("../out/file", EINVAL);
    refuse("dir/../../out/file", EINVAL);
    refuse("/etc", EINVAL);
    refuse("", EINVAL);
    refuse("dir//file", EINVAL);
    refuse("dir/", EINVAL);
}

static void test_other_faults_are_those_of_openat(void **state)
{
    char name[PATH_MAX + 2];
    (void)state;
    refuse("dir/file/more", ENOTDIR);
    refuse("dir/nothing", ENOENT);
    refuse("nothing/more", ENOENT);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refuse(name, EINVAL);
    name[PATH_MAX - 1] = '\0';
    refuse(name, ENAMETOOLONG);
}

/* A directory that is moved away meanwhile, and another one or a link in its place, are what a race would give: here
 * the link comes between two calls. */
static void test_what_was_exchanged_for_a_link_is_not_followed(void **state)
{
    (void)state;
    expect("dir/deep/file", "in/dir/deep/file");
    assert_int_equal(rename(at("in/dir/deep"), at("in/dir/moved")) + symlink("../../out", at("in/dir/deep")), 0);
    refuse("dir/deep/file", ENOTDIR);
    assert_int_equal(unlink(at("in/dir/deep")) + rename(at("in/dir/moved"), at("in/dir/deep")), 0);
}

static void test_nothing_stays_open(void **state)
{
    (void)state;
    const int before = dup(base);
    assert_int_equal(close(before), 0);
    for (int i = 0; i < 20; i++) {
        expect("dir/deep/file", "in/dir/deep/file");
        refuse("dir/deep/nothing", ENOENT);
    }
    const int after = dup(base); /* the lowest that is free */
    assert_int_equal(close(after), 0);
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_lies_below_is_opened),
        cmocka_unit_test(test_a_link_on_the_way_is_not_followed),
        cmocka_unit_test(test_a_link_at_the_end_is_opened_itself),
        cmocka_unit_test(test_no_name_leads_out),
        cmocka_unit_test(test_other_faults_are_those_of_openat),
        cmocka_unit_test(test_what_was_exchanged_for_a_link_is_not_followed),
        cmocka_unit_test(test_nothing_stays_open),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
