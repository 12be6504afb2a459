/* What the head of an answer says of when to ask again. */
#include "unit.h"

#include "transfer/transfer_head.h"

#include <string.h>

static double wait_of(const char *const *lines)
{
    static struct transfer_head head;
    transfer_head_clear(&head);
    for (; *lines != NULL; lines++) transfer_head_line(&head, *lines, strlen(*lines));
    return head.wait_seconds;
}

/* In whichever order the lines come, and however far this machine's clock is from it. */
static void test_a_moment_to_ask_again_is_of_the_servers_clock(void **state)
{
    static const struct {
        const char *lines[4];
        int wait;
    } cases[] = {
        {{"HTTP/1.1 503 x", "Date: Thu, 01 Jan 2004 12:00:00 GMT", "Retry-After: Thu, 01 Jan 2004 12:00:20 GMT"}, 20},
        {{"HTTP/1.1 503 x", "Retry-After: Fri, 01 Jan 2100 12:00:20 GMT", "Date: Fri, 01 Jan 2100 12:00:00 GMT"}, 20},
        {{"HTTP/1.1 503 x", "Retry-After: Fri, 01 Jan 2100 12:00:00 GMT", "Date: Fri, 01 Jan 2100 12:00:20 GMT"}, 0},
        {{"HTTP/1.1 503 x", "Retry-After: Thu, 01 Jan 2004 12:00:20 GMT"}, 0},
        {{"HTTP/1.1 503 x", "Date: Fri, 01 Jan 2100 12:00:00 GMT", "Retry-After: 7"}, 7},
        {{"HTTP/1.1 503 x", "Retry-After: soon"}, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if ((int)wait_of(cases[i].lines) != cases[i].wait) fail_msg("case %zu: %g", i, wait_of(cases[i].lines));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_moment_to_ask_again_is_of_the_servers_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
