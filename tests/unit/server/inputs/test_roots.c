#include "unit.h"

#include "inputs/roots.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* base/in/dir/file, base/out/secret, links between them; the root is base/in, also under another name. The data
 * directory is base/in/data, and its backups lead to base/in/safe. */
static char base[64], inside[128], alias[128], data[128];

static const char *at(const char *rest)
{
    static char paths[2][256];
    static int turn; /* two may be needed in one call */
    turn = !turn;
    (void)snprintf(paths[turn], sizeof paths[turn], "%s/%s", base, rest);
    return paths[turn];
}

/* Old kernels, emulators, valgrind and filters of containers do not know openat2, so the process does without it. */
static void forbid_openat2(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof rules / sizeof rules[0], .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        print_message("no seccomp here: openat2 stays\n"); /* under an emulator, which has none */
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
    forbid_openat2();
    (void)snprintf(base, sizeof base, "/tmp/deltaq-roots-XXXXXX");
    assert_non_null(mkdtemp(base));
    assert_int_equal(mkdir(at("in"), 0700) + mkdir(at("in/dir"), 0700) + mkdir(at("out"), 0700) +
                         mkdir(at("inner"), 0700) + mkdir(at("in/ner"), 0700),
                     0);
    make_file("in/dir/file");
    make_file("out/secret");
    make_file("inner/file");
    make_file("in/ner/file");
    assert_int_equal(symlink("dir", at("in/good")), 0);
    assert_int_equal(symlink(at("out"), at("in/bad")), 0);
    assert_int_equal(symlink("../../out/secret", at("in/dir/leak")), 0);
    assert_int_equal(symlink(at("in"), at("alias")), 0);
    assert_int_equal(mkdir(at("in/data"), 0700) + mkdir(at("in/data/pg"), 0700) + mkdir(at("in/data/hub"), 0700) +
                         mkdir(at("in/data/hub/blobs"), 0700) + mkdir(at("in/data/hub/snapshots"), 0700) +
                         mkdir(at("in/data/hub/snapshots/.key"), 0700) + mkdir(at("in/data/pgs"), 0700) +
                         mkdir(at("in/safe"), 0700),
                     0);
    make_file("in/data/pg/hba");
    make_file("in/data/pgs/file");
    make_file("in/data/hub/blobs/oid");
    make_file("in/data/hub/snapshots/file");
    make_file("in/data/hub/snapshots/.key/file");
    make_file("in/data/file");
    make_file("in/safe/dump");
    assert_int_equal(symlink("../safe", at("in/data/backups")), 0);
    assert_int_equal(symlink("data/pg", at("in/toward")), 0);
    assert_int_equal(mkfifo(at("in/fifo"), 0600), 0);
    (void)snprintf(inside, sizeof inside, "%s/in", base);
    (void)snprintf(data, sizeof data, "%s/in/data", base);
    (void)snprintf(alias, sizeof alias, "%s/alias", base);
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"in/dir/leak",
                                        "in/dir/file",
                                        "in/good",
                                        "in/bad",
                                        "in/fifo",
                                        "out/secret",
                                        "inner/file",
                                        "alias",
                                        "in/ner/file",
                                        "in/data/pg/hba",
                                        "in/data/pgs/file",
                                        "in/data/hub/blobs/oid",
                                        "in/data/hub/snapshots/file",
                                        "in/data/hub/snapshots/.key/file",
                                        "in/data/file",
                                        "in/safe/dump",
                                        "in/data/backups",
                                        "in/toward"};
    static const char *const directories[] = {"in/data/pg",
                                              "in/data/pgs",
                                              "in/data/hub/blobs",
                                              "in/data/hub/snapshots/.key",
                                              "in/data/hub/snapshots",
                                              "in/data/hub",
                                              "in/data",
                                              "in/safe",
                                              "in/dir",
                                              "in/ner",
                                              "in",
                                              "out",
                                              "inner",
                                              ""};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) (void)unlink(at(files[i]));
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) (void)rmdir(at(directories[i]));
    return 0;
}

static enum status resolve(const char *root, const char *path, char out[4096], struct error *error)
{
    const char *const paths[] = {root, NULL};
    const struct roots roots = {.paths = paths, .data_directory = data};
    return roots_resolve(&roots, path, "/path", out, 4096, error);
}

static void expect_inside(const char *root, const char *path, const char *wanted)
{
    char out[4096];
    struct error error;
    assert_int_equal(resolve(root, path, out, &error), STATUS_OK);
    assert_string_equal(out, wanted);
}

static void expect_refused(const char *root, const char *path, const char *told)
{
    char out[4096];
    struct error error;
    assert_int_equal(resolve(root, path, out, &error), STATUS_INVALID);
    assert_string_equal(error.pointer, "/path");
    assert_null(strstr(error.detail, base));
    assert_non_null(strstr(error.detail, told));
}

static void expect_outside(const char *path)
{
    expect_refused(inside, path, "outside the server's roots");
}

static void expect_absent(const char *path)
{
    expect_refused(inside, path, "no such file or directory below");
}

static void test_what_lies_below_is_found(void **state)
{
    char wanted[256];
    (void)state;
    (void)snprintf(wanted, sizeof wanted, "%s/in/dir/file", base);
    expect_inside(inside, wanted, wanted);
    expect_inside(inside, "dir/file", wanted);
    expect_inside(inside, "good/file", wanted);
    expect_inside(inside, "dir/../dir//file", wanted);
    expect_inside(alias, wanted, wanted);
    expect_inside(alias, at("alias/dir/file"), wanted);
    expect_inside("/", wanted, wanted);
    expect_inside(inside, inside, inside);
}

static void test_what_does_not_is_not(void **state)
{
    (void)state;
    expect_outside(at("out/secret"));
    expect_outside(at("in/../out/secret"));
    expect_outside("../out/secret");
    expect_outside("bad/secret");
    expect_outside("dir/leak");
    expect_outside(
        at("inner/file")); /* the root's name is only a prefix of it, though the rest lies in the root, too */
    expect_outside("/proc/self/root/etc/passwd");
    expect_outside("/dev/null");
    expect_outside("/nothing");
    expect_outside("bad/nothing"); /* as bad/secret, which is there */
    expect_outside(at("out/nothing"));
    expect_outside(at("inner/nothing"));
}

static void test_what_is_absent_is_told_from_what_is_outside(void **state)
{
    (void)state;
    expect_absent("nothing");
    expect_absent("dir/nothing/more/");
    expect_absent("nothing/../../out/secret");
    expect_absent("fifo");
    expect_absent(at("in/nothing"));
    expect_absent(at("alias/nothing"));
    expect_refused(alias, at("in/nothing"), "no such file or directory below");
    expect_refused("/", "/nothing/at/all", "no such file or directory below");
}

static void test_links_of_a_directory_are_checked(void **state)
{
    const char *const narrow[] = {inside, NULL}, *const wide[] = {base, NULL};
    struct roots roots = {.paths = narrow};
    struct error error;
    (void)state;
    assert_int_equal(roots_check_links(&roots, at("in/dir"), "/path", &error), STATUS_INVALID);
    roots.paths = wide;
    assert_int_equal(roots_check_links(&roots, at("in/dir"), "/path", &error), STATUS_OK);
}

static void expect_closed(const char *path)
{
    expect_refused(inside, path, "the server keeps for itself");
    expect_refused(data, path, "the server keeps for itself");
}

static void test_what_the_server_keeps_for_itself_is_closed(void **state)
{
    (void)state;
    expect_closed(at("in/data/pg"));
    expect_closed(at("in/data/pg/hba"));
    expect_closed(at("in/data/pg/nothing")); /* as pg/hba, which is there */
    expect_closed(at("in/dir/../data/pg/hba"));
    expect_closed(at("in/toward/hba"));
    expect_closed(at("in/data/hub"));
    expect_closed(at("in/data/hub/blobs/oid"));
    expect_closed(at("in/data/hub/snap"));
    expect_closed(at("in/data/hub/snapshots/.key")); /* one that is being made */
    expect_closed(at("in/data/hub/snapshots/.key/file"));
    expect_refused(inside, "data/pg/hba", "the server keeps for itself");
    expect_refused(inside, at("in/data/backups/dump"), "the server keeps for itself");
    expect_refused(inside, "safe/dump", "the server keeps for itself"); /* which data/backups leads to */
    expect_refused(inside, "safe", "the server keeps for itself");
    expect_refused(at("in/data/pg"), "hba", "the server keeps for itself"); /* a root within changes nothing */
}

static void test_the_rest_of_the_data_directory_is_not(void **state)
{
    char wanted[256];
    const char *const open[] = {"in/data", "in/data/file", "in/data/pgs/file", "in/data/hub/snapshots",
                                "in/data/hub/snapshots/file"};
    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        (void)snprintf(wanted, sizeof wanted, "%s/%s", base, open[i]);
        expect_inside(inside, wanted, wanted);
        expect_inside(data, wanted, wanted);
    }
    expect_absent(at("in/data/hub/snapshots/nothing"));
}

/* Wherever it lies and whatever it is called; also when another file has come in its place. */
static void test_files_with_secrets_are_closed(void **state)
{
    char out[256], secret[256];
    const char *const paths[] = {inside, NULL}, *const secrets[] = {"/nonexistent/key", secret, NULL};
    const struct roots roots = {.paths = paths, .secrets = secrets}, others = {.paths = paths};
    struct error error;
    (void)state;
    (void)snprintf(secret, sizeof secret, "%s", at("in/ner/file"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(roots_resolve(&roots, "ner/file", "/path", out, sizeof out, &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, "the server keeps for itself"));
        assert_int_equal(roots_resolve(&others, "ner/file", "/path", out, sizeof out, &error), STATUS_OK);
        assert_int_equal(roots_resolve(&roots, "dir/file", "/path", out, sizeof out, &error), STATUS_OK);
        assert_int_equal(roots_check_links(&roots, at("in/ner"), "/path", &error), STATUS_INVALID);
        assert_int_equal(roots_check_links(&others, at("in/ner"), "/path", &error), STATUS_OK);
        make_file("in/renewed");
        assert_int_equal(rename(at("in/renewed"), at("in/ner/file")), 0);
    }
}

static void test_links_into_what_is_closed_are_refused(void **state)
{
    const char *const paths[] = {base, NULL};
    struct roots roots = {.paths = paths, .data_directory = data};
    struct error error;
    (void)state;
    assert_int_equal(roots_check_links(&roots, at("in"), "/path", &error), STATUS_INVALID); /* in/toward */
    roots.data_directory = NULL;
    assert_int_equal(roots_check_links(&roots, at("in"), "/path", &error), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_lies_below_is_found),
        cmocka_unit_test(test_what_does_not_is_not),
        cmocka_unit_test(test_what_is_absent_is_told_from_what_is_outside),
        cmocka_unit_test(test_links_of_a_directory_are_checked),
        cmocka_unit_test(test_what_the_server_keeps_for_itself_is_closed),
        cmocka_unit_test(test_the_rest_of_the_data_directory_is_not),
        cmocka_unit_test(test_files_with_secrets_are_closed),
        cmocka_unit_test(test_links_into_what_is_closed_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
