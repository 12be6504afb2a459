#include "chain.h"
#include "stand_in.h"

static void test_nothing_is_nobody(void **state)
{
    (void)state;
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "none", "", "", "");
    credentials_free(credentials);
}

static void test_the_environment_comes_first(void **state)
{
    (void)state;
    (void)setenv("AWS_ACCESS_KEY_ID", "AK", 1);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/file", 1);
    chain_expect_refused(STATUS_INVALID, "must both be set");
    (void)setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN", 1);
    (void)setenv("AWS_SESSION_TOKEN", "T", 1);
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "environment", "AK", "HIDDEN", "T");
    credentials_free(credentials);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN\r\nX: y", 1);
    chain_expect_refused(STATUS_INVALID, "must both be set");
}

static void test_the_shared_file_has_profiles(void **state)
{
    (void)state;
    char path[] = "/tmp/deltaq-credentials-XXXXXX";
    chain_file(path);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    chain_write(path,
                "# keys\n[other]\naws_access_key_id=NO\naws_secret_access_key=NO\n\n"
                "[ default ]\r\naws_access_key_id = AK\r\n  aws_secret_access_key=SE=CRET+/ \r\n"
                "[lab]\nAWS_ACCESS_KEY_ID = LK\naws_secret_access_key = LS\naws_session_token = LT\n"
                "[login]\nsso_session = lab\nregion = x\n"
                "[half]\naws_access_key_id = HK\n[bad]\naws_access_key_id = A K\naws_secret_access_key = HIDDEN\n");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file", "AK", "SE=CRET+/", "");
    credentials_free(credentials);
    (void)setenv("AWS_PROFILE", "lab", 1);
    credentials = chain_make();
    chain_expect(credentials, "shared file", "LK", "LS", "LT");
    credentials_free(credentials);
    const struct {
        const char *profile, *words;
        enum status status;
    } wrong[] = {{"login", "a program or a login", STATUS_UNSUPPORTED},
                 {"half", "lacks", STATUS_INVALID},
                 {"bad", "aws_access_key_id is too long", STATUS_INVALID},
                 {"none", "no profile \"none\"", STATUS_INVALID}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)setenv("AWS_PROFILE", wrong[i].profile, 1);
        chain_expect_refused(wrong[i].status, wrong[i].words);
    }
    (void)unlink(path);
    chain_expect_refused(STATUS_INVALID, "cannot be read");
}

/* ---- services ---- */

/* Answers like a container's service and an instance's. */
static int answer(struct stand_in *service, const char *request, char body[STAND_IN_BODY])
{
    char end[32];
    const bool keys = strncmp(request, "GET /role/keys ", 15) == 0 ||
                      strncmp(request, "GET /latest/meta-data/iam/security-credentials/lab-role ", 56) == 0;
    stand_in_end(service, end);
    if (strncmp(request, "PUT /latest/api/token ", 22) == 0)
        (void)snprintf(body, STAND_IN_BODY, "%s", strstr(request, "ttl-seconds") != NULL ? "TOKEN" : "");
    else if (strncmp(request, "GET /latest/meta-data/iam/security-credentials/ ", 48) == 0)
        (void)snprintf(body, STAND_IN_BODY, "lab-role\n");
    else if (keys)
        (void)snprintf(
            body, STAND_IN_BODY,
            "{\"AccessKeyId\": \"K%d\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"%s\"}",
            atomic_fetch_add(&service->asked, 1) + 1, end);
    else
        return 404;
    return atomic_load(&service->fault) != 0 ? 403 : 200;
}

static void test_a_container_is_asked_with_its_token_and_again_before_the_end(void **state)
{
    (void)state;
    char url[96];
    static struct stand_in service;
    stand_in_start(&service, 60, answer);
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic/abc", 1);
    struct credentials *credentials = chain_make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    assert_string_equal(keys.access, "K1");
    assert_string_equal(keys.session, "T");
    assert_non_null(strstr(service.last, "Authorization: Basic/abc\r\n"));
    atomic_store(&service.seconds, 3600); /* the first ones end within five minutes */
    chain_expect(credentials, "container", "K2", "S", "T");
    chain_expect(credentials, "container", "K2", "S", "T");
    assert_int_equal(atomic_load(&service.asked), 2);
    credentials_forget(credentials);
    chain_expect(credentials, "container", "K3", "S", "T");
    credentials_free(credentials);
    stand_in_stop(&service);
}

static void test_keys_that_are_good_yet_outlive_a_service_that_refuses(void **state)
{
    (void)state;
    char url[96];
    static struct stand_in service;
    stand_in_start(&service, 120, answer);
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    struct credentials *credentials = chain_make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    atomic_store(&service.fault, 1); /* so close to the end each use asks again */
    chain_expect(credentials, "container", "K1", "S", "T");
    credentials_free(credentials);
    chain_expect_refused(STATUS_FORBIDDEN, "the service refuses");
    stand_in_stop(&service);
}

static void test_an_instance_is_asked_for_a_token_first(void **state)
{
    (void)state;
    static struct stand_in service;
    stand_in_start(&service, 3600, answer);
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url, 1);
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "none", "", "", ""); /* it is told not to be asked */
    credentials_free(credentials);
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    credentials = chain_make();
    chain_expect(credentials, "instance", "K1", "S", "T");
    assert_non_null(strstr(service.last, "X-aws-ec2-metadata-token: TOKEN\r\n"));
    credentials_free(credentials);
    stand_in_stop(&service);
}

static void test_a_containers_token_goes_to_nobody_elsewhere(void **state)
{
    (void)state;
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "HIDDEN", 1);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys", 1);
    chain_expect_refused(STATUS_INVALID, "must be https");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_nobody, chain_bare),
        cmocka_unit_test_setup(test_the_environment_comes_first, chain_bare),
        cmocka_unit_test_setup(test_the_shared_file_has_profiles, chain_bare),
        cmocka_unit_test_setup(test_a_container_is_asked_with_its_token_and_again_before_the_end, chain_bare),
        cmocka_unit_test_setup(test_keys_that_are_good_yet_outlive_a_service_that_refuses, chain_bare),
        cmocka_unit_test_setup(test_an_instance_is_asked_for_a_token_first, chain_bare),
        cmocka_unit_test_setup(test_a_containers_token_goes_to_nobody_elsewhere, chain_bare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
