/* Places of a database that can never be reached are told from those that may. */
#include "unit.h"

#include "postgres/connection.h"
#include "postgres/conninfo.h"

#include <stdlib.h>
#include <string.h>

/* sun_path has 108 bytes, "/.s.PGSQL.5432" and the final 0 take 15. */
enum { DIRECTORY_MOST = 93 };

static char *directory_of(size_t length, char out[200])
{
    memset(out, 'd', length);
    out[0] = '/';
    out[length] = '\0';
    return out;
}

/* Of `form`, in which each ~ stands for a directory whose path has this length. */
static enum status check(const char *form, size_t length, struct error *error)
{
    char directory[200], text[900];
    size_t used = 0;
    directory_of(length, directory);
    for (; *form != '\0'; form++) {
        const size_t size = *form == '~' ? length : 1;
        assert_true(used + size < sizeof text);
        memcpy(text + used, *form == '~' ? directory : form, size);
        used += size;
    }
    text[used] = '\0';
    return conninfo_check(text, error);
}

static void test_a_socket_whose_path_is_too_long_is_refused(void **state)
{
    static const char *const forms[] = {"host=~ dbname=deltaq", "postgresql:///deltaq?host=~",
                                        "host='~' port=5432 user=a", "host=~,~ dbname=deltaq",
                                        "host=~,~ port=5432,5433"};
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_int_equal(check(forms[i], DIRECTORY_MOST, &error), STATUS_OK);
        assert_int_equal(check(forms[i], DIRECTORY_MOST + 1, &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, "a path of 108 bytes, and the system takes 107"));
    }
    assert_int_equal(check("host=~ port=54321", DIRECTORY_MOST, &error), STATUS_INVALID);
    assert_int_equal(check("host=~ port=99", DIRECTORY_MOST + 2, &error), STATUS_OK);
}

static void test_one_host_that_can_be_tried_is_enough(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(check("host=~,db.example dbname=deltaq", 150, &error), STATUS_OK);
    assert_int_equal(check("host=db.example,~ dbname=deltaq", 150, &error), STATUS_OK);
    assert_int_equal(check("host=~, dbname=deltaq", 150, &error), STATUS_OK); /* an empty one is the default */
    assert_int_equal(check("host=~ hostaddr=127.0.0.1", 150, &error), STATUS_OK);
    assert_int_equal(check("host=~,/tmp dbname=deltaq", 150, &error), STATUS_OK);
    assert_int_equal(conninfo_check("deltaq", &error), STATUS_OK); /* the name of a database */
}

static void test_the_environment_is_part_of_the_place(void **state)
{
    char directory[200];
    struct error error;
    struct connection *connection;
    (void)state;
    assert_int_equal(setenv("PGHOST", directory_of(150, directory), 1), 0);
    assert_int_equal(conninfo_check("dbname=deltaq", &error), STATUS_INVALID);
    assert_int_equal(conninfo_check("host=db.example dbname=deltaq", &error), STATUS_OK);
    assert_int_equal(connection_new("deltaq", "test", &connection, &error), STATUS_INVALID);
    assert_null(connection);
    assert_int_equal(unsetenv("PGHOST"), 0);
    assert_int_equal(setenv("PGPORT", "54321", 1), 0);
    assert_int_equal(check("host=~", DIRECTORY_MOST, &error), STATUS_INVALID);
    assert_int_equal(unsetenv("PGPORT"), 0);
}

static void test_what_cannot_be_read_is_refused_and_not_repeated(void **state)
{
    static const char *const refused[] = {"postgresql://user:secret@[::1/deltaq", "host=a secret",
                                          "postgres://user:secret%zz@host/deltaq", "secret=1 host=a"};
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(conninfo_check(refused[i], &error), STATUS_INVALID);
        assert_non_null(strstr(error.detail, "expected a URL like"));
        assert_null(strstr(error.detail, "secret"));
    }
}

static void test_what_it_says_itself_is_found(void **state)
{
    char found[8];
    (void)state;
    assert_true(conninfo_find("host=a passfile=/a/pass", "passfile", found, sizeof found));
    assert_string_equal(found, "/a/pass");
    assert_true(conninfo_find("postgresql://u@h/d?sslkey=%2Fkey", "sslkey", found, sizeof found));
    assert_string_equal(found, "/key");
    assert_false(conninfo_find("host=a passfile=/a/longer", "passfile", found, sizeof found));
    assert_false(conninfo_find("host=a", "passfile", found, sizeof found));
    assert_false(conninfo_find("passfile", "passfile", found, sizeof found)); /* the name of a database */
    assert_false(conninfo_find("host=a b", "host", found, sizeof found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_socket_whose_path_is_too_long_is_refused),
        cmocka_unit_test(test_one_host_that_can_be_tried_is_enough),
        cmocka_unit_test(test_the_environment_is_part_of_the_place),
        cmocka_unit_test(test_what_cannot_be_read_is_refused_and_not_repeated),
        cmocka_unit_test(test_what_it_says_itself_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
