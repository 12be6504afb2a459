#include "unit.h"

#include "http/late_bytes.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection over the loopback address: only TCP resets when unread bytes are closed. */
struct pair {
    int client, server;
};

static struct pair connected(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const struct timeval most = {.tv_sec = 10}; /* what a client waits for in vain */
    struct pair pair;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pair.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(pair.client, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
    assert_int_equal(connect(pair.client, (struct sockaddr *)&address, sizeof address), 0);
    pair.server = accept(listener, NULL, NULL);
    assert_true(pair.server >= 0);
    assert_int_equal(close(listener), 0);
    return pair;
}

static void say(int descriptor, const char *text)
{
    assert_int_equal(send(descriptor, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The answer is sent, and the server's own descriptor closed, while `unread` bytes of the client's are there. */
static struct pair answered(struct late_bytes *late, int64_t now)
{
    const struct pair pair = connected();
    char seen;
    say(pair.client, "unread");
    assert_int_equal(recv(pair.server, &seen, 1, MSG_PEEK), 1);
    say(pair.server, "answer");
    if (late != NULL) late_bytes_expect(late, pair.server, now);
    assert_int_equal(close(pair.server), 0);
    return pair;
}

static int how_many_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 256; i++) count += fcntl(i, F_GETFD) >= 0;
    return count;
}

static struct late_bytes *new_one(void)
{
    struct late_bytes *late;
    struct error error;
    assert_int_equal(late_bytes_new(&late, &error), STATUS_OK);
    return late;
}

static void test_without_it_the_client_cannot_go_on_sending(void **state)
{
    (void)state;
    const struct pair pair = answered(NULL, 0);
    assert_int_equal(send(pair.client, "more", 4, MSG_NOSIGNAL), -1);
    assert_int_equal(close(pair.client), 0);
}

static void test_the_client_sends_all_and_reads_the_answer_and_the_end(void **state)
{
    static char body[64 << 10];
    char text[16];
    (void)state;
    struct late_bytes *late = new_one();
    const struct pair pair = answered(late, 0);
    for (int i = 0; i < 40; i++) { /* more than the buffers of both sides hold, were nothing read */
        assert_int_equal(send(pair.client, body, sizeof body, MSG_NOSIGNAL), sizeof body);
        late_bytes_discard(late, i);
    }
    assert_int_equal(recv(pair.client, text, sizeof text, 0), 6);
    assert_memory_equal(text, "answer", 6);
    assert_int_equal(recv(pair.client, text, sizeof text, 0), 0);
    assert_int_equal(close(pair.client), 0);
    late_bytes_free(late);
}

static void test_a_client_that_has_closed_is_let_go(void **state)
{
    (void)state;
    struct late_bytes *late = new_one();
    const int before = how_many_descriptors();
    const struct pair pair = answered(late, 0);
    assert_int_equal(how_many_descriptors(), before + 2);
    late_bytes_discard(late, 1);
    assert_int_equal(how_many_descriptors(), before + 2);
    assert_int_equal(close(pair.client), 0);
    late_bytes_discard(late, 2);
    assert_int_equal(how_many_descriptors(), before);
    late_bytes_free(late);
}

static void test_nobody_is_waited_for_longer_than_the_time(void **state)
{
    (void)state;
    struct late_bytes *late = new_one();
    const int before = how_many_descriptors();
    const struct pair first = answered(late, 1000), second = answered(late, 1500);
    late_bytes_discard(late, 1000 + LATE_BYTES_MILLISECONDS - 1);
    assert_int_equal(how_many_descriptors(), before + 4);
    late_bytes_discard(late, 1000 + LATE_BYTES_MILLISECONDS);
    assert_int_equal(how_many_descriptors(), before + 3);
    say(second.client, "more");
    late_bytes_discard(late, 1500 + LATE_BYTES_MILLISECONDS);
    assert_int_equal(how_many_descriptors(), before + 2);
    assert_int_equal(close(first.client) + close(second.client), 0);
    late_bytes_free(late);
}

static void test_who_never_stops_is_cut_off(void **state)
{
    static char body[64 << 10];
    int64_t sent = 0;
    (void)state;
    struct late_bytes *late = new_one();
    const struct pair pair = answered(late, 0);
    while (sent < 3 * (int64_t)LATE_BYTES_LIMIT) {
        const ssize_t more = send(pair.client, body, sizeof body, MSG_NOSIGNAL);
        if (more < 0) break;
        sent += more;
        late_bytes_discard(late, 0);
    }
    assert_in_range(sent, LATE_BYTES_LIMIT, 2 * (uint64_t)LATE_BYTES_LIMIT); /* and what the buffers hold */
    assert_int_equal(close(pair.client), 0);
    late_bytes_free(late);
}

static void test_only_so_many_are_kept(void **state)
{
    struct pair pairs[LATE_BYTES_MOST + 2];
    (void)state;
    struct late_bytes *late = new_one();
    const int before = how_many_descriptors();
    for (int i = 0; i < LATE_BYTES_MOST + 2; i++) pairs[i] = answered(late, 0);
    assert_int_equal(how_many_descriptors(), before + LATE_BYTES_MOST + 2 + LATE_BYTES_MOST);
    late_bytes_free(late);
    assert_int_equal(how_many_descriptors(), before + LATE_BYTES_MOST + 2);
    for (int i = 0; i < LATE_BYTES_MOST + 2; i++) assert_int_equal(close(pairs[i].client), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_it_the_client_cannot_go_on_sending),
        cmocka_unit_test(test_the_client_sends_all_and_reads_the_answer_and_the_end),
        cmocka_unit_test(test_a_client_that_has_closed_is_let_go),
        cmocka_unit_test(test_nobody_is_waited_for_longer_than_the_time),
        cmocka_unit_test(test_who_never_stops_is_cut_off),
        cmocka_unit_test(test_only_so_many_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
