/* Refusals whose reason the server cannot say, because answers to HEAD have no body. */
#include "chain.h"
#include "stand_in.h"

#include "objects/bucket.h"
#include "objects/objects.h"

enum { FIRST_KEYS = 1, ALL_KEYS, OTHER_REGION }; /* whom the bucket answers 400 without a word, and with a region */

static struct stand_in service;
static atomic_int requests; /* to the bucket */

/* Answers like a container's service of credentials, and like a bucket. */
static int answer(struct stand_in *stand_in, const char *request, char body[STAND_IN_BODY])
{
    const int fault = atomic_load(&stand_in->fault);
    char end[32];
    if (strncmp(request, "GET /role/keys ", 15) == 0) {
        stand_in_end(stand_in, end);
        (void)snprintf(
            body, STAND_IN_BODY,
            "{\"AccessKeyId\": \"K%d\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"%s\"}",
            atomic_fetch_add(&stand_in->asked, 1) + 1, end);
        return 200;
    }
    (void)atomic_fetch_add(&requests, 1);
    stand_in->header = fault == OTHER_REGION ? "x-amz-bucket-region: ap-south-1\r\n" : NULL;
    return fault == FIRST_KEYS && strstr(request, "Credential=K1/") == NULL ? 200 : 400;
}

static int set_up(void **state)
{
    char url[96];
    (void)chain_bare(state);
    atomic_store(&requests, 0);
    stand_in_start(&service, 3600, answer);
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stand_in_stop(&service);
    return 0;
}

static enum status ask(enum transfer_method method, int fault, struct error *error)
{
    const struct objects_options options = {.endpoint = service.url, .region = "eu-central-1"};
    const struct asking asking = {.seconds = 10, .tries = 5, .longest_wait = 1};
    const struct bucket_request request = {.method = method, .key = "run/model", .what = "s3://lab/run/model"};
    struct objects *objects = NULL;
    struct bucket bucket;
    struct transfer_head head;
    atomic_store(&service.fault, fault);
    assert_int_equal(objects_new(&options, &objects, error), STATUS_OK);
    assert_int_equal(bucket_init(objects, "lab", &bucket, error), STATUS_OK);
    const enum status status = bucket_ask(&bucket, &asking, &request, &head, NULL, error);
    objects_free(objects);
    return status;
}

static void expect_asked(int of_bucket, int for_keys)
{
    assert_int_equal(atomic_load(&requests), of_bucket);
    assert_int_equal(atomic_load(&service.asked), for_keys);
}

static void test_a_head_with_an_expired_session_is_sent_again_with_new_keys(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(ask(TRANSFER_HEAD, FIRST_KEYS, &error), STATUS_OK);
    expect_asked(2, 2);
}

static void test_a_head_that_stays_refused_is_sent_twice(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(ask(TRANSFER_HEAD, ALL_KEYS, &error), STATUS_FORBIDDEN);
    assert_non_null(strstr(error.detail, "s3://lab/run/model: "));
    assert_non_null(strstr(error.detail, "the session of the credentials may have expired (HTTP 400)"));
    expect_asked(2, 2);
}

static void test_a_head_to_another_region_says_so(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(ask(TRANSFER_HEAD, OTHER_REGION, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "the bucket's region is ap-south-1"));
    expect_asked(1, 1);
}

static void test_other_requests_have_a_reason_or_no_keys(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(ask(TRANSFER_GET, ALL_KEYS, &error), STATUS_CORRUPT);
    expect_asked(1, 1);
    (void)unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    assert_int_equal(ask(TRANSFER_HEAD, ALL_KEYS, &error), STATUS_CORRUPT);
    expect_asked(2, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_head_with_an_expired_session_is_sent_again_with_new_keys),
        TEST(test_a_head_that_stays_refused_is_sent_twice),
        TEST(test_a_head_to_another_region_says_so),
        TEST(test_other_requests_have_a_reason_or_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
