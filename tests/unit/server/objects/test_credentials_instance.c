/* The metadata service of an instance at its usual address, which no test can give itself: a stand-in for
 * server/objects/credentials_ask.c answers in its place. */
#include "chain.h"

#include "objects/credentials_ask.h"

#include <time.h>

#define SERVICE "http://169.254.169.254/latest/"
#define ROLES   SERVICE "meta-data/iam/security-credentials/"

/* What the service does at this moment. */
static struct {
    bool silent, roleless; /* it does not answer; the instance has no role */
    int seconds;           /* how long keys are good */
    int asked, keys;       /* how often a token, and how often keys were asked for */
} service;

enum status credentials_ask(struct credentials_question *question, const char *url, struct error *error)
{
    char text[256] = "lab-role\n", end[32];
    const time_t expires = time(NULL) + service.seconds;
    struct tm broken;
    credentials_ask_reset(question);
    question->answer.limit = sizeof text;
    (void)strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&expires, &broken));
    if (question->method == TRANSFER_PUT) {
        assert_string_equal(url, SERVICE "api/token");
        service.asked++;
        if (service.silent) return error_set(error, STATUS_UNAVAILABLE, "the service of credentials: timeout");
        (void)snprintf(text, sizeof text, "TOKEN");
    } else if (service.roleless) {
        return error_set(error, STATUS_NOT_FOUND, "there are no credentials");
    } else if (strcmp(url, ROLES) != 0) {
        assert_string_equal(url, ROLES "lab-role");
        (void)snprintf(
            text, sizeof text,
            "{\"AccessKeyId\": \"K%d\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"%s\"}",
            ++service.keys, end);
    }
    buffer_puts(&question->answer, text);
    return buffer_status(&question->answer, "an answer", error);
}

void credentials_ask_reset(struct credentials_question *question)
{
    buffer_reset(&question->answer);
}

static int set_up(void **state)
{
    memset(&service, 0, sizeof service);
    service.seconds = 120; /* so close to the end each use asks again */
    (void)chain_bare(state);
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    return 0;
}

static void test_keys_that_are_good_yet_outlive_a_service_that_is_silent(void **state)
{
    (void)state;
    struct credentials *credentials = chain_make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    service.silent = true;
    chain_expect(credentials, "instance", "K1", "S", "T");
    chain_expect(credentials, "instance", "K1", "S", "T");
    assert_int_equal(service.asked, 2); /* not again for a minute */
    credentials_free(credentials);
}

static void test_keys_that_are_good_yet_outlive_their_role(void **state)
{
    (void)state;
    struct credentials *credentials = chain_make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    service.roleless = true;
    chain_expect(credentials, "instance", "K1", "S", "T");
    credentials_forget(credentials); /* the server does not take them any more */
    chain_expect(credentials, "none", "", "", "");
    credentials_free(credentials);
}

/* Requests that are not signed would be refused for good. */
static void test_an_instance_that_had_keys_is_asked_until_it_has_some(void **state)
{
    (void)state;
    service.seconds = -10;
    struct credentials *credentials = chain_make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    service.silent = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_UNAVAILABLE);
        assert_non_null(strstr(error.detail, "which had some before, gives none now"));
    }
    credentials_forget(credentials);
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_UNAVAILABLE);
    assert_int_equal(service.asked, 5);
    service.silent = false;
    service.seconds = 3600;
    chain_expect(credentials, "instance", "K2", "S", "T");
    credentials_free(credentials);
}

static void test_a_machine_that_is_no_instance_is_asked_once(void **state)
{
    (void)state;
    service.silent = true;
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "none", "", "", "");
    chain_expect(credentials, "none", "", "", "");
    assert_int_equal(service.asked, 1);
    credentials_free(credentials);
}

static void test_a_profile_that_names_the_instance_waits_for_it(void **state)
{
    (void)state;
    char path[] = "/tmp/deltaq-credentials-XXXXXX";
    chain_file(path);
    chain_write(path, "[profile lab]\nrole_arn = arn:lab\ncredential_source = Ec2InstanceMetadata\n");
    (void)setenv("AWS_CONFIG_FILE", path, 1);
    (void)setenv("AWS_PROFILE", "lab", 1);
    service.silent = true;
    chain_expect_refused(STATUS_UNAVAILABLE, "which does not answer");
    service.silent = false;
    service.roleless = true;
    chain_expect_refused(STATUS_INVALID, "no keys that ask for it");
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_keys_that_are_good_yet_outlive_a_service_that_is_silent, set_up),
        cmocka_unit_test_setup(test_keys_that_are_good_yet_outlive_their_role, set_up),
        cmocka_unit_test_setup(test_an_instance_that_had_keys_is_asked_until_it_has_some, set_up),
        cmocka_unit_test_setup(test_a_machine_that_is_no_instance_is_asked_once, set_up),
        cmocka_unit_test_setup(test_a_profile_that_names_the_instance_waits_for_it, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
