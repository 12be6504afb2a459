/* Where a request to the hub, or to an address that it redirects to, may connect: nothing listens at any of these. */
#include "base/directory.h"
#include "hub/hub.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool take(void *owner, const struct transfer_head *head, const char *bytes, size_t length)
{
    (void)owner, (void)head, (void)bytes, (void)length;
    return true;
}

/* Asks for `url` as for an address that `endpoint` redirects to. */
static enum status ask(const char *endpoint, bool allow_private, const char *url, struct error *error)
{
    char directory[] = "/tmp/deltaq-transfer-XXXXXX";
    struct hub *hub;
    struct transfer *transfer;
    assert_non_null(mkdtemp(directory));
    const struct hub_options options = {
        .endpoint = endpoint, .allow_private = allow_private, .data_directory = directory, .cache = "1G"};
    assert_int_equal(hub_new(&options, &hub, error), STATUS_OK);
    const struct transfer_request request = {
        .server = &hub->server, .url = url, .last = -1, .seconds = 3, .sink = take};
    enum status status = transfer_new(&request, &transfer, error);
    if (status == STATUS_OK) {
        const CURLcode code = curl_easy_perform(transfer->easy);
        const enum transfer_verdict verdict = transfer_judge(transfer, code, "x", error);
        status = error->status;
        assert_int_equal(verdict, status == STATUS_FORBIDDEN ? TRANSFER_FAILED : TRANSFER_AGAIN);
        transfer_free(transfer);
    }
    hub_free(hub);
    directory_remove(AT_FDCWD, directory);
    return status;
}

static void test_a_name_that_stands_for_a_private_address_is_not_connected_to(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(ask("https://huggingface.co", false, "https://localhost:1/x", &error), STATUS_FORBIDDEN);
    assert_non_null(strstr(error.detail, "--allow-private-hub"));
    assert_int_equal(ask("https://huggingface.co", false, "https://[::ffff:127.0.0.1]:1/x", &error), STATUS_FORBIDDEN);
    assert_int_equal(ask("https://huggingface.co", false, "https://169.254.169.254/x", &error), STATUS_FORBIDDEN);
    assert_int_equal(ask("http://127.0.0.1:1", false, "https://10.0.0.1:1/x", &error), STATUS_FORBIDDEN);
}

static void test_what_the_operator_named_is(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(ask("https://huggingface.co", true, "https://localhost:1/x", &error), STATUS_UNAVAILABLE);
    assert_int_equal(ask("https://localhost:1", false, "https://localhost:1/x", &error), STATUS_UNAVAILABLE);
    assert_int_equal(ask("http://127.0.0.1:1", false, "http://127.0.0.2:1/x", &error), STATUS_UNAVAILABLE);
}

static void test_a_private_proxy_of_the_operator_is(void **state)
{
    struct error error;
    (void)state;
    assert_int_equal(setenv("https_proxy", "http://127.0.0.3:1", 1), 0);
    assert_int_equal(ask("https://huggingface.co", false, "https://example.com/x", &error), STATUS_UNAVAILABLE);
    assert_int_equal(setenv("no_proxy", "localhost", 1), 0);
    assert_int_equal(ask("https://huggingface.co", false, "https://localhost:1/x", &error), STATUS_FORBIDDEN);
    assert_int_equal(unsetenv("https_proxy"), 0);
    assert_int_equal(unsetenv("no_proxy"), 0);
}

int main(void)
{
    static const char *const proxies[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_that_stands_for_a_private_address_is_not_connected_to),
        cmocka_unit_test(test_what_the_operator_named_is),
        cmocka_unit_test(test_a_private_proxy_of_the_operator_is),
    };
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++) (void)unsetenv(proxies[i]);
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
