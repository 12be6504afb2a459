#include "http/head_guard.h"
#include "unit.h"

#include <string.h>

#define LINE    "GET /a HTTP/1.1\r\n"
#define CHUNKED "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"

struct seen {
    struct head_guard guard;
    char bytes[1024];
    size_t size;
};

/* What the library is given of `size` bytes that come `part` at a time. */
static struct seen seen_of(const char *bytes, size_t size, size_t part)
{
    struct seen seen = {.size = 0};
    for (size_t at = 0; at < size; at += part) {
        const size_t here = size - at < part ? size - at : part;
        memcpy(seen.bytes + seen.size, bytes + at, here);
        seen.size += head_guard_pass(&seen.guard, seen.bytes + seen.size, here);
    }
    seen.size += head_guard_end(&seen.guard, seen.bytes + seen.size, sizeof seen.bytes - seen.size - 1);
    seen.bytes[seen.size] = '\0';
    return seen;
}

static void test_clean_messages_pass_and_are_counted(void **state)
{
    static const char text[] = "\r\n\r\n" LINE "Host: a\r\nX-Tab:\ta\tb\r\nX-High: \xc3\xa9\r\nX-Empty:\r\n\r\n"
                               "POST /b HTTP/1.1\r\ncontent-LENGTH: \t0012\r\n\r\n:\r\n\r\n\n\0 a\r\r"
                               "POST /c HTTP/1.0\r\nTransfer-encoding:Chunked\r\n\r\n"
                               "2;a=b\r\n\n\n\r\n00A\r\n0123456789\r\n0\r\nContent-Length: none\r\nX: a\r\n\r\n"
                               "PUT /d HTTP/1.1\r\nContent-Length: 0\r\n\r\n" LINE "\r\n";
    (void)state;
    for (size_t part = 1; part < sizeof text; part++) {
        const struct seen seen = seen_of(text, sizeof text - 1, part);
        assert_null(seen.guard.fault);
        assert_int_equal(seen.guard.heads, 5);
        assert_int_equal(seen.guard.messages, 5);
        assert_int_equal(seen.size, sizeof text - 1);
        assert_memory_equal(seen.bytes, text, sizeof text - 1);
        for (unsigned i = 1; i <= 5; i++) assert_null(head_guard_fault(&seen.guard, i));
        assert_non_null(head_guard_fault(&seen.guard, 6)); /* the library would have read what nobody checked */
    }
}

#define END "Host: -\r\n\r\n" /* of a head without its own */

/* `end` is what follows the last byte that passes; the library reads a whole message then. */
static void test_faults_cut_the_message_and_end_it(void **state)
{
    static const struct {
        const char *sent, *seen, *fault;
    } rows[] = {
        {"\x16\x03", "GET / HTTP/1.1\r\n" END, "method"},
        {"\n" LINE, "GET / HTTP/1.1\r\n" END, "method"},
        {"\rX", "\r\nGET / HTTP/1.1\r\n" END, "carriage return"},
        {"GE\tT", "GE / HTTP/1.1\r\n" END, "method"},
        {"GET  /a", "GET / HTTP/1.1\r\n" END, "one space"},
        {"GET /a#b", "GET /a HTTP/1.1\r\n" END, "no #"},
        {"GET /a\r\n", "GET /a HTTP/1.1\r\n" END, "METHOD TARGET VERSION"},
        {"GET /a HTTP/1.10\r\n", "GET /a HTTP/1.1\r\n" END, "HTTP/1.1"},
        {"GET /a HTT\r\n", "GET /a HTTP/1.1\r\n" END, "HTTP/1.1"},
        {"GET /a HTTP/1.1\n", "GET /a HTTP/1.1\r\n" END, "HTTP/1.1"},
        {"GET /a HTTP/1.1\rX", LINE END, "carriage return"},
        {LINE ": b\r\n\r\n", LINE END, "colon"},
        {LINE "X: a\r\n:\r\n\r\n", LINE "X: a\r\n" END, "colon"},
        {LINE "X: a\r\n b\r\n", LINE "X: a\r\n" END, "folded"},
        {LINE "X: a\r\n\tb\r\n", LINE "X: a\r\n" END, "folded"},
        {LINE "X: a\r\n\n", LINE "X: a\r\n" END, "name"},
        {LINE "X: a\r\n\rX", LINE "X: a\r\n\r\n", "carriage return"},
        {LINE "X : a\r\n", LINE "X-:\r\n" END, "blank"},
        {LINE "X\r\n", LINE "X-:\r\n" END, "no colon"},
        {LINE "X(: a\r\n", LINE "X-:\r\n" END, "not allowed"},
        {LINE "X: a\nY: b\r\n", LINE "X: a\r\n" END, "control"},
        {LINE "X: a\rY", LINE "X: a\r\n" END, "carriage return"},
        {LINE "X: \x7f", LINE "X: \r\n" END, "control"},
        {LINE "Content-Length : 2\r\n", LINE "Content-Length-:\r\n" END, "blank"},
        {LINE "Content-Length:\r\n", LINE "Content-Length:0\r\n" END, "digits"},
        {LINE "Content-Length: +2\r\n", LINE "Content-Length: 0\r\n" END, "digits"},
        {LINE "Content-Length: 2,2\r\n", LINE "Content-Length: 2\r\n" END, "digits"},
        {LINE "Content-Length: 2 \r\n", LINE "Content-Length: 2\r\n" END, "digits"},
        {LINE "Content-Length: 12345678901234567890\r\n", LINE "Content-Length: 1234567890123456789\r\n" END, "19"},
        {LINE "Content-Length: 2\r\ncontent-length: 2\r\n", LINE "Content-Length: 2\r\ncontent-length-:\r\n" END,
         "once"},
        {LINE "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
         LINE "Content-Length: 2\r\nTransfer-Encoding-:\r\n" END, "together"},
        {LINE "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
         LINE "Transfer-Encoding: chunked\r\nContent-Length-:\r\n" END, "together"},
        {LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
         LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding-:\r\n" END, "once"},
        {LINE "Transfer-Encoding: chip\r\n", LINE "Transfer-Encoding: chunked\r\n" END, "chunked"},
        {LINE "Transfer-Encoding: chunked, gzip\r\n", LINE "Transfer-Encoding: chunked\r\n" END, "chunked"},
        {LINE "Host: a\r\n: b\r\n\r\n", LINE "Host: a\r\n\r\n", "colon"},
        {LINE "hOST: \x7f", LINE "hOST: \r\n\r\n", "control"},
        {LINE "Host : a\r\n", LINE "Host-:\r\n" END, "blank"},
        {LINE "Hostess: a\r\nX(: a\r\n", LINE "Hostess: a\r\nX-:\r\n" END, "not allowed"},
        {LINE "Host: a\r\nX\r\n", LINE "Host: a\r\nX-:\r\n\r\n", "no colon"},
        {LINE "Host: a\r\nContent-Length:\r\n", LINE "Host: a\r\nContent-Length:0\r\n\r\n", "digits"},
        {LINE "Host: a\r\nTransfer-Encoding: chip\r\n", LINE "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n",
         "chunked"},
        {LINE "Host: a\r\nX: a\rY", LINE "Host: a\r\nX: a\r\n\r\n", "carriage return"},
        {CHUNKED "\r\n", CHUNKED "1\r\nx", "size"},
        {CHUNKED "2 \r\n", CHUNKED "2\r\nx", "size"},
        {CHUNKED "0000000000000002\r\n", CHUNKED "000000000000000\r\n\r\n", "size"},
        {CHUNKED "2\n", CHUNKED "2\r\nx", "size"},
        {CHUNKED "2\rx", CHUNKED "2\r\nx", "carriage return"},
        {CHUNKED "2;\n", CHUNKED "2;\r\nx", "extension"},
        {CHUNKED "0;\n", CHUNKED "0;\r\n\r\n", "extension"},
        {CHUNKED "0\rx", CHUNKED "0\r\n\r\n", "carriage return"},
        {CHUNKED "1\r\naa", CHUNKED "1\r\na\r\n1\r\nx", "longer"},
        {CHUNKED "1\r\na\rb", CHUNKED "1\r\na\r\n1\r\nx", "carriage return"},
        {CHUNKED "0\r\n:\r\n", CHUNKED "0\r\n\r\n", "colon"},
        {CHUNKED "0\r\nX: a\r\n b\r\n", CHUNKED "0\r\nX: a\r\n\r\n", "folded"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t part = 1; part <= strlen(rows[i].sent); part++) {
            const struct seen seen = seen_of(rows[i].sent, strlen(rows[i].sent), part);
            assert_string_equal(seen.bytes, rows[i].seen);
            assert_int_equal(seen.guard.messages, 1);
            assert_non_null(strstr(head_guard_fault(&seen.guard, 1), rows[i].fault));
        }
    }
}

static void test_nul_is_refused_everywhere(void **state)
{
    static const char head[] = "GET /a HTTP/1.1\r\nX-A: a\r\nContent-Length: 2\r\n\r\n";
    char bytes[sizeof head];
    (void)state;
    for (size_t i = 0; i < sizeof head - 1; i++) {
        memcpy(bytes, head, sizeof head);
        bytes[i] = '\0';
        const struct seen seen = seen_of(bytes, sizeof head - 1, sizeof head);
        assert_non_null(seen.guard.fault);
        assert_int_equal(memcmp(seen.bytes, head, i), 0);
    }
}

static void test_only_the_last_message_is_refused_and_nothing_follows(void **state)
{
    static const char sent[] = LINE "\r\n" LINE "\r\n" LINE ":\r\n" LINE "\r\n";
    (void)state;
    struct seen seen = seen_of(sent, sizeof sent - 1, sizeof sent);
    assert_string_equal(seen.bytes, LINE "\r\n" LINE "\r\n" LINE END);
    assert_null(head_guard_fault(&seen.guard, 1));
    assert_null(head_guard_fault(&seen.guard, 2));
    assert_non_null(head_guard_fault(&seen.guard, 3));
    assert_non_null(head_guard_fault(&seen.guard, 4));
    static const char after[] = LINE "Host: a\r\n\r\n\rX";
    seen = seen_of(after, sizeof after - 1, 1);
    assert_string_equal(seen.bytes, LINE "Host: a\r\n\r\n\r\nGET / HTTP/1.1\r\n" END);
    static const char trailed[] = CHUNKED "0\r\n\r\n\rX";
    seen = seen_of(trailed, sizeof trailed - 1, 1);
    assert_string_equal(seen.bytes, CHUNKED "0\r\n\r\n\r\nGET / HTTP/1.1\r\n" END);
    char more[] = LINE "\r\n";
    assert_int_equal(head_guard_pass(&seen.guard, more, sizeof more - 1), 0);
    assert_int_equal(head_guard_end(&seen.guard, more, sizeof more), 0);
}

static void test_the_end_comes_in_as_many_parts_as_there_is_space_for(void **state)
{
    struct head_guard guard = {.state = 0};
    char bytes[64] = "\n", out[64] = "";
    (void)state;
    assert_int_equal(head_guard_pass(&guard, bytes, 1), 0);
    for (size_t at = 0; head_guard_end(&guard, out + at, 1) > 0; at++) assert_true(at + 1 < sizeof out);
    assert_string_equal(out, "GET / HTTP/1.1\r\n" END);
}

static void test_the_extension_of_a_chunk_is_bounded(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        char sent[sizeof CHUNKED + 1100] = CHUNKED "1;";
        struct head_guard guard = {.state = 0};
        memset(sent + strlen(sent), 'a', 1024 + over);
        memcpy(sent + strlen(sent), "\r\n", 2);
        assert_int_equal(head_guard_pass(&guard, sent, strlen(sent)), strlen(sent) - 3 * over);
        assert_int_equal(guard.fault != NULL, over);
    }
}

/* libmicrohttpd lists both, and runs out of memory for them. */
static void test_queries_and_cookies_are_hidden_from_the_library(void **state)
{
    static const char sent[] = "GET /a?b=1&c=? HTTP/1.1\r\nCOOKIE: a=b;\r\ncook: a\r\nX-Cookie: a\r\n\r\n";
    (void)state;
    for (size_t part = 1; part < sizeof sent; part++) {
        const struct seen seen = seen_of(sent, sizeof sent - 1, part);
        assert_string_equal(seen.bytes, "GET /a#b=1&c=# HTTP/1.1\r\nCOOKI-: a=b;\r\ncook: a\r\nX-Cookie: a\r\n\r\n");
    }
    char target[] = "/a#b=1&c=#";
    head_guard_restore(target);
    assert_string_equal(target, "/a?b=1&c=?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_messages_pass_and_are_counted),
        cmocka_unit_test(test_faults_cut_the_message_and_end_it),
        cmocka_unit_test(test_nul_is_refused_everywhere),
        cmocka_unit_test(test_only_the_last_message_is_refused_and_nothing_follows),
        cmocka_unit_test(test_the_end_comes_in_as_many_parts_as_there_is_space_for),
        cmocka_unit_test(test_the_extension_of_a_chunk_is_bounded),
        cmocka_unit_test(test_queries_and_cookies_are_hidden_from_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
