/* Directories: made with those above, removed with what is in them and nothing else. */
#include "base/directory.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[32];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof place, "/tmp/deltaq-directory-XXXXXX");
    return mkdtemp(place) == NULL || chdir(place) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    directory_remove(AT_FDCWD, place);
    return access(place, F_OK) == 0;
}

static void put(const char *path)
{
    assert_int_equal(directory_make_above(path, 0700), 0);
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
}

static void test_make_above_makes_what_is_missing_and_not_the_file(void **state)
{
    struct stat found;
    (void)state;
    assert_int_equal(directory_make_above("a//b/c", 0700), 0);
    assert_int_equal(directory_make_above("a/b/c", 0700), 0);
    assert_int_equal(stat("a/b", &found), 0);
    assert_int_equal(found.st_mode, S_IFDIR | 0700);
    assert_int_not_equal(access("a/b/c", F_OK), 0);
    assert_int_equal(directory_make_above("a/b/d/", 0700), 0);
    assert_int_equal(access("a/b/d", F_OK), 0);
}

static void test_make_above_says_what_is_in_the_way(void **state)
{
    char path[PATH_MAX + 8];
    (void)state;
    put("file");
    assert_int_equal(directory_make_above("file/below/x", 0700), -1);
    assert_int_equal(errno, ENOTDIR);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(directory_make_above(path, 0700), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

static void test_remove_takes_the_tree_and_follows_no_link(void **state)
{
    (void)state;
    put("kept/file");
    put("gone/a/b/file");
    put("gone/.hidden");
    assert_int_equal(symlink("../kept", "gone/link"), 0);
    assert_int_equal(symlink("kept", "link"), 0);
    directory_remove(AT_FDCWD, "gone");
    directory_remove(AT_FDCWD, "link");
    directory_remove(AT_FDCWD, "was never there");
    assert_int_not_equal(access("gone", F_OK), 0);
    assert_int_not_equal(access("link", F_OK), 0);
    assert_int_equal(access("kept/file", F_OK), 0);
}

static void test_remove_is_below_the_descriptor(void **state)
{
    (void)state;
    put("inner/same/file");
    put("same/file");
    const int inner = open("inner", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    directory_remove(inner, "same");
    assert_int_equal(close(inner), 0);
    assert_int_not_equal(access("inner/same", F_OK), 0);
    assert_int_equal(access("same/file", F_OK), 0);
}

static void test_a_path_fits_or_is_refused(void **state)
{
    (void)state;
    char directory[PATH_MAX], path[PATH_MAX];
    struct error error;
    assert_int_equal(directory_path("a/b", "c", "too long", path, &error), STATUS_OK);
    assert_string_equal(path, "a/b/c");
    memset(directory, 'd', sizeof directory);
    directory[PATH_MAX - 3] = '\0';
    assert_int_equal(directory_path(directory, "c", "100% too long", path, &error), STATUS_OK);
    assert_int_equal(strlen(path), PATH_MAX - 1);
    assert_string_equal(path + PATH_MAX - 3, "/c");
    assert_int_equal(directory_path(directory, "cc", "100% too long", path, &error), STATUS_INVALID);
    assert_string_equal(error.detail, "100% too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path_fits_or_is_refused),
        cmocka_unit_test_setup_teardown(test_make_above_makes_what_is_missing_and_not_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_make_above_says_what_is_in_the_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_takes_the_tree_and_follows_no_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_is_below_the_descriptor, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
