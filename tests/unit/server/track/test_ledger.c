/* The ledger of a tracker: whose it is, and what it makes of names. */
#include "base/directory.h"
#include "track/ledger.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place[40];
static char path[80];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(place, sizeof place, "/tmp/deltaq-ledger-XXXXXX");
    if (mkdtemp(place) == NULL) return -1;
    (void)snprintf(path, sizeof path, "%s/ledger", place);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    directory_remove(AT_FDCWD, place);
    return access(place, F_OK) == 0;
}

static void test_a_ledger_is_that_of_its_destination_however_long_its_name(void **state)
{
    struct ledger *ledger;
    struct error error;
    char about[3000];
    (void)state;
    memset(about, 'a', sizeof about);
    about[sizeof about - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ledger_open(path, about, false, &ledger, &error), STATUS_OK);
        ledger_close(ledger);
    }
    about[sizeof about - 2] = 'b';
    assert_int_equal(ledger_open(path, about, false, &ledger, &error), STATUS_CONFLICT);
    assert_null(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_ledger_is_that_of_its_destination_however_long_its_name, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
