/* When a watched place is looked at again. */
#include "hub/hub.h"
#include "server/objects/stand_in.h"
#include "watch/tree.h"

#include <unistd.h>

enum { POLL = 10, USUAL = 12 * POLL, SLACK = 60 };

/* An empty bucket, or one that takes a while to refuse. */
static int answer(struct stand_in *service, const char *request, char body[STAND_IN_BODY])
{
    const struct timespec time = {.tv_nsec = 200 * 1000 * 1000};
    (void)request;
    if (atomic_load(&service->fault) == 0) {
        (void)snprintf(body, STAND_IN_BODY, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
        return 200;
    }
    (void)nanosleep(&time, NULL);
    return 403;
}

/* The time from the beginning of a look to the next one. */
static double look(struct tree *tree)
{
    struct error error;
    int64_t registered = 0;
    const double now = 1000;
    assert_int_equal(tree_look(tree, NULL, now, &registered, &error), STATUS_OK);
    return tree_due(tree) - now;
}

static void expect_between(double seconds, double least)
{
    if (seconds < least || seconds > least + SLACK) fail_msg("%g s, not %g s or a little more", seconds, least);
}

static void test_a_bucket_that_does_not_answer_is_listed_less_and_less_often(void **state)
{
    static const int times[] = {1, 2, 4, 8, 16, 16, 16};
    char directory[] = "/tmp/deltaq-tree-XXXXXX";
    struct stand_in service;
    struct hub *hub;
    struct tree *tree;
    struct error error;
    (void)state;
    assert_non_null(mkdtemp(directory));
    stand_in_start(&service, 0, answer);
    const struct hub_options options = {.endpoint = "https://huggingface.co",
                                        .data_directory = directory,
                                        .cache = "1G",
                                        .objects = {.endpoint = service.url}};
    assert_int_equal(hub_new(&options, &hub, &error), STATUS_OK);
    const struct tree_options watched = {
        .hub = hub, .trajectory = "t", .path = "s3://lab/run", .quiet_seconds = 1, .poll_seconds = POLL};
    assert_int_equal(tree_new(&watched, &tree, &error), STATUS_OK);
    expect_between(look(tree), USUAL);
    atomic_store(&service.fault, 1);
    /* The look's own 0.2 s count, since the time is reckoned from its end. */
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) expect_between(look(tree), times[i] * USUAL + 0.2);
    atomic_store(&service.fault, 0);
    expect_between(look(tree), USUAL);
    atomic_store(&service.fault, 1);
    expect_between(look(tree), USUAL + 0.2);
    tree_free(tree);
    hub_free(hub);
    stand_in_stop(&service);
}

int main(void)
{
    static const char *const proxies[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++) (void)unsetenv(proxies[i]);
    (void)setenv("AWS_ACCESS_KEY_ID", "AK", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bucket_that_does_not_answer_is_listed_less_and_less_often),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
