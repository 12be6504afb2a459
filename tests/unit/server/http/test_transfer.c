/* transfer.h: what moves is never slow, what dribbles is after a second; and the kernel counts both directions. */
#include "http/transfer.h"

#include "unit.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_what_dribbles_is_slow_after_a_window(void **state)
{
    struct transfer transfer = {0};
    (void)state;
    assert_false(transfer_is_slow(&transfer, 500, 1000));
    for (int64_t now = 1100; now < 2000; now += 100)
        assert_false(transfer_is_slow(&transfer, 500 + (uint64_t)now, now));
    assert_true(transfer_is_slow(&transfer, 500 + TRANSFER_LEAST_BYTES - 1, 2000));
}

static void test_what_moves_never_is(void **state)
{
    struct transfer transfer = {0};
    uint64_t bytes = 1 << 20;
    (void)state;
    for (int64_t now = 1000; now < 100000; now += 100, bytes += TRANSFER_LEAST_BYTES / 10 + 1)
        assert_false(transfer_is_slow(&transfer, bytes, now));
    /* it stops: a window later it is slow */
    (void)transfer_is_slow(&transfer, bytes, 100500);
    assert_true(transfer_is_slow(&transfer, bytes, 102000));
}

/* A connection of this machine to itself. */
static void connect_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&address, sizeof address), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    (void)close(listener);
}

static void test_bytes_of_both_directions_count(void **state)
{
    static char block[10000];
    int pair[2];
    uint64_t before, received, sent;
    (void)state;
    connect_pair(pair);
    assert_true(transfer_bytes(pair[0], &before));
    assert_int_equal(send(pair[1], block, sizeof block, 0), sizeof block);
    assert_int_equal(recv(pair[0], block, sizeof block, MSG_WAITALL), sizeof block);
    assert_true(transfer_bytes(pair[0], &received));
    assert_int_equal(received - before, sizeof block);
    assert_int_equal(send(pair[0], block, sizeof block, 0), sizeof block);
    do assert_true(transfer_bytes(pair[0], &sent)); /* until the other end has acknowledged them */
    while (sent - received < sizeof block);
    assert_int_equal(sent - received, sizeof block);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_a_unix_socket_is_not_judged(void **state)
{
    int pair[2];
    uint64_t bytes;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_false(transfer_bytes(pair[0], &bytes));
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_dribbles_is_slow_after_a_window),
        cmocka_unit_test(test_what_moves_never_is),
        cmocka_unit_test(test_bytes_of_both_directions_count),
        cmocka_unit_test(test_a_unix_socket_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
