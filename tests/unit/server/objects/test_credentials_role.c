/* Keys of roles: by the token of a web identity, by other keys, by profiles; and what services answer instead. */
#include "chain.h"
#include "stand_in.h"

#define ROLE      "arn:aws:iam::123456789012:role/lab"
#define ROLE_FORM "RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Flab"
#define ERRORS    "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>"

/* What the service says instead of keys. The message quotes the token where it says ECHO. */
static const struct fault {
    int http, times; /* times: until it gives keys again; 0: for ever */
    const char *code, *message, *body;
    enum status status; /* what comes of it */
    const char *words[3];
} faults[] = {
    {0},
    {400,
     0,
     "ExpiredTokenException",
     "Token expired: current date/time 1 must be before 0",
     NULL,
     STATUS_FORBIDDEN,
     {"what writes its file must renew it", "HTTP 400, ExpiredTokenException", "must be before 0"}},
    {403,
     0,
     "AccessDenied",
     "Not authorized to perform sts:AssumeRoleWithWebIdentity",
     NULL,
     STATUS_FORBIDDEN,
     {"trust policy", ROLE, "Not authorized to perform sts:AssumeRoleWithWebIdentity"}},
    {400,
     0,
     "InvalidIdentityToken",
     "Incorrect token audience",
     NULL,
     STATUS_FORBIDDEN,
     {"issuer and audience", "Incorrect token audience", ""}},
    {400, 0, "InvalidIdentityToken", "ECHO", NULL, STATUS_FORBIDDEN, {"issuer and audience", "", ""}},
    {400,
     0,
     "ValidationError",
     "1 validation error",
     NULL,
     STATUS_INVALID,
     {"a setting of the role", "1 validation", ""}},
    {400,
     0,
     "SomethingNew",
     "of which \xc3\xa9 nobody knows",
     NULL,
     STATUS_FORBIDDEN,
     {"the service refuses", "SomethingNew", "of which ?? nobody knows"}},
    {404, 0, NULL, NULL, "<html>no</html>", STATUS_INVALID, {"AWS_ENDPOINT_URL_STS", "404", ""}},
    {302, 0, NULL, NULL, "", STATUS_FORBIDDEN, {"the service refuses", "302", ""}},
    {503, 0, NULL, NULL, "", STATUS_UNAVAILABLE, {"in trouble (HTTP 503); given up after 3 tries", "", ""}},
    {0, 0, NULL, NULL, NULL, STATUS_UNAVAILABLE, {"given up after 3 tries", "", ""}},
    {400, 2, "IDPCommunicationError", "later", NULL, STATUS_OK, {NULL}},
    {503, 1, NULL, NULL, "", STATUS_OK, {NULL}},
    {0, 1, NULL, NULL, NULL, STATUS_OK, {NULL}},
    {200, 0, NULL, NULL, "", STATUS_INVALID, {"answers with nothing", "", ""}},
    {200, 0, NULL, NULL, "{\"AccessKeyId\": \"HIDDEN\"}", STATUS_INVALID, {"the answer has no keys", ROLE, ""}},
    {200,
     0,
     NULL,
     NULL,
     "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A",
     STATUS_INVALID,
     {"the answer has no keys", "", ""}},
    {200,
     0,
     NULL,
     NULL,
     "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
     "<SecretAccessKey>HIDDEN</SecretAccessKey><SessionToken>HIDDEN</SessionToken></Credentials>"
     "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
     STATUS_INVALID,
     {"the answer has no keys", "", ""}},
    {200,
     0,
     NULL,
     NULL,
     "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
     STATUS_INVALID,
     {"the answer has no keys", "", ""}},
};
enum { DENIED = 2, FAULTS = sizeof faults / sizeof faults[0] };

static const char *part_of(const char *request, const char *name)
{
    const char *found = strstr(request, name);
    return found != NULL ? found + strlen(name) : "";
}

static int say_fault(const struct fault *fault, const char *request, char body[STAND_IN_BODY])
{
    if (fault->code == NULL)
        (void)snprintf(body, STAND_IN_BODY, "%s", fault->body != NULL ? fault->body : "");
    else if (strcmp(fault->message, "ECHO") == 0)
        (void)snprintf(body, STAND_IN_BODY, ERRORS "%s</Code><Message>no: %s</Message></Error></ErrorResponse>",
                       fault->code, part_of(request, "WebIdentityToken="));
    else
        (void)snprintf(body, STAND_IN_BODY, ERRORS "%s</Code><Message>%s</Message></Error></ErrorResponse>",
                       fault->code, fault->message);
    return fault->http;
}

/* STS, and a container's service at /role/keys. */
static int answer(struct stand_in *service, const char *request, char body[STAND_IN_BODY])
{
    char end[32];
    const int asked = atomic_fetch_add(&service->asked, 1) + 1;
    const struct fault *fault = &faults[atomic_load(&service->fault)];
    const char *action =
        strstr(request, "Action=AssumeRoleWithWebIdentity&") != NULL ? "AssumeRoleWithWebIdentity" : "AssumeRole";
    stand_in_end(service, end);
    if (fault != faults && (fault->times == 0 || asked <= fault->times)) return say_fault(fault, request, body);
    if (strncmp(request, "GET /role/keys ", 15) == 0)
        (void)snprintf(
            body, STAND_IN_BODY,
            "{\"AccessKeyId\": \"CK\", \"SecretAccessKey\": \"CS\", \"Token\": \"CT\", \"Expiration\": \"%s\"}", end);
    else if (strncmp(request, "POST / ", 7) != 0)
        return 404;
    else
        (void)snprintf(body, STAND_IN_BODY,
                       "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><%sResult>"
                       "<Audience>x</Audience><Credentials><SessionToken>T+/=</SessionToken><SecretAccessKey>S"
                       "</SecretAccessKey><Expiration>%s</Expiration><AccessKeyId>K%d</AccessKeyId></Credentials>"
                       "<AssumedRoleUser><AccessKeyId>NO</AccessKeyId></AssumedRoleUser></%sResult></%sResponse>",
                       action, action, end, asked, action, action);
    return 200;
}

/* Each test has one service, one token's file and two shared files. */
static struct stand_in service;
static char token[64], config[64], keys[64];

static void make_file(char path[64])
{
    (void)snprintf(path, 64, "/tmp/deltaq-role-XXXXXX");
    chain_file(path);
}

static int set_up(void **state)
{
    (void)chain_bare(state);
    make_file(token);
    make_file(config);
    make_file(keys);
    stand_in_start(&service, 3600, answer);
    (void)setenv("AWS_ENDPOINT_URL_STS", service.url, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stand_in_stop(&service);
    (void)unlink(token);
    (void)unlink(config);
    (void)unlink(keys);
    return 0;
}

static void put_identity(const char *text)
{
    chain_write(token, text);
    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token, 1);
    (void)setenv("AWS_ROLE_ARN", ROLE, 1);
}

static void put_profiles(const char *config_text, const char *keys_text, const char *profile)
{
    chain_write(config, config_text);
    chain_write(keys, keys_text);
    (void)setenv("AWS_CONFIG_FILE", config, 1);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", keys, 1);
    (void)setenv("AWS_PROFILE", profile, 1);
}

static const char *body_of(const char *request)
{
    return part_of(request, "\r\n\r\n");
}

/* ---- a web identity ---- */

static void test_a_token_is_exchanged_for_the_keys_of_a_role(void **state)
{
    (void)state;
    put_identity("eyJ.HIDDEN-one_1\n");
    (void)setenv("AWS_ROLE_SESSION_NAME", "worker 7", 1);
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "web identity, " ROLE, "K1", "S", "T+/=");
    assert_string_equal(body_of(service.last), "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&" ROLE_FORM
                                               "&RoleSessionName=worker%207&WebIdentityToken=eyJ.HIDDEN-one_1");
    assert_non_null(strstr(service.last, "Content-Type: application/x-www-form-urlencoded\r\n"));
    assert_null(strstr(service.last, "Authorization:"));
    chain_expect(credentials, "web identity, " ROLE, "K1", "S", "T+/=");
    assert_int_equal(atomic_load(&service.asked), 1);
    credentials_free(credentials);
}

static void test_the_token_is_read_anew_before_the_keys_end(void **state)
{
    (void)state;
    struct error error;
    struct credentials_keys found;
    put_identity("HIDDEN-one");
    atomic_store(&service.seconds, 200); /* within five minutes */
    struct credentials *credentials = chain_make();
    assert_int_equal(credentials_take(credentials, &found, &error), STATUS_OK);
    assert_non_null(strstr(service.last, "&RoleSessionName=deltaq&WebIdentityToken=HIDDEN-one"));
    put_identity("HIDDEN-two");
    atomic_store(&service.seconds, 3600);
    chain_expect(credentials, "web identity, " ROLE, "K2", "S", "T+/=");
    assert_non_null(strstr(service.last, "WebIdentityToken=HIDDEN-two"));
    put_identity("HIDDEN-three");
    credentials_forget(credentials);
    chain_expect(credentials, "web identity, " ROLE, "K3", "S", "T+/=");
    assert_non_null(strstr(service.last, "WebIdentityToken=HIDDEN-three"));
    credentials_free(credentials);
}

static void test_keys_that_are_good_yet_outlive_a_role_that_is_taken_away(void **state)
{
    (void)state;
    struct error error;
    struct credentials_keys found;
    put_identity("HIDDEN-one");
    atomic_store(&service.seconds, 200);
    struct credentials *credentials = chain_make();
    assert_int_equal(credentials_take(credentials, &found, &error), STATUS_OK);
    atomic_store(&service.fault, DENIED);
    chain_expect(credentials, "web identity, " ROLE, "K1", "S", "T+/=");
    assert_int_equal(atomic_load(&service.asked), 2);
    (void)unlink(token);
    credentials_forget(credentials); /* the server does not take the old ones any more */
    assert_int_equal(credentials_take(credentials, &found, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "AWS_WEB_IDENTITY_TOKEN_FILE: the file cannot be read"));
    credentials_free(credentials);
}

static void test_an_identity_comes_after_keys_and_before_the_files(void **state)
{
    (void)state;
    put_profiles("[default]\nrole_arn = arn:NO\nsource_profile = default\n",
                 "[default]\naws_access_key_id = FK\naws_secret_access_key = FS\n", "default");
    put_identity("HIDDEN-one");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "web identity, " ROLE, "K1", "S", "T+/=");
    credentials_free(credentials);
    (void)setenv("AWS_ACCESS_KEY_ID", "EK", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "ES", 1);
    credentials = chain_make();
    chain_expect(credentials, "environment", "EK", "ES", "");
    credentials_free(credentials);
    assert_int_equal(atomic_load(&service.asked), 1);
}

static void test_a_role_without_a_token_is_for_other_programs(void **state)
{
    (void)state;
    (void)setenv("AWS_ROLE_ARN", ROLE, 1);
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "none", "", "", "");
    credentials_free(credentials);
}

static void test_what_is_wrong_before_the_service_is_asked_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } texts[] = {
        {"", "the file is empty"}, {" \n\t\n", "the file is empty"}, {"HIDDEN HIDDEN\n", "else than one token"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_identity(texts[i].text);
        chain_expect_refused(STATUS_INVALID, texts[i].words);
    }
    char *long_one = calloc(1, 20002);
    memset(long_one, 'x', 20001);
    put_identity(long_one);
    chain_expect_refused(STATUS_INVALID, "else than one token");
    free(long_one);
    put_identity("HIDDEN-one");
    (void)unsetenv("AWS_ROLE_ARN");
    chain_expect_refused(STATUS_INVALID, "AWS_ROLE_ARN is not: set both");
    (void)setenv("AWS_ROLE_ARN", "not an arn", 1);
    chain_expect_refused(STATUS_INVALID, "no ARN");
    put_identity("HIDDEN-one");
    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token", 1);
    chain_expect_refused(STATUS_INVALID, "AWS_WEB_IDENTITY_TOKEN_FILE: the file cannot be read: No such file");
    assert_int_equal(atomic_load(&service.asked), 0);
}

static void test_a_token_goes_to_nobody_in_clear(void **state)
{
    (void)state;
    static const char *const addresses[] = {"http://sts.example.com", "sts.example.com", "https://u:p@sts.example.com",
                                            "https://sts.example.com/?a=b", "ftp://127.0.0.1"};
    put_identity("HIDDEN-one");
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        (void)setenv("AWS_ENDPOINT_URL_STS", addresses[i], 1);
        chain_expect_refused(STATUS_INVALID, "AWS_ENDPOINT_URL_STS: must be an https address");
    }
}

/* A token of 60 characters: longer than any word of a message. */
static void test_each_answer_that_is_no_keys_says_what_to_do(void **state)
{
    (void)state;
    put_identity("HIDDEN.eyJhbGciOiJSUzI1NiIsImtpZCI6ImFiYyJ9.eyJpc3MiOiJodHRwcyJ9");
    for (int i = 1; i < (int)FAULTS; i++) {
        atomic_store(&service.fault, i);
        atomic_store(&service.asked, 0);
        if (faults[i].status == STATUS_OK) {
            struct error error;
            struct credentials_keys found;
            struct credentials *credentials = chain_make();
            assert_int_equal(credentials_take(credentials, &found, &error), STATUS_OK);
            assert_int_equal(atomic_load(&service.asked), faults[i].times + 1);
            credentials_free(credentials);
            continue;
        }
        for (size_t k = 0; k < 3; k++)
            if (k == 0 || faults[i].words[k][0] != '\0') chain_expect_refused(faults[i].status, faults[i].words[k]);
    }
}

static void test_keys_that_have_ended_already_are_refused(void **state)
{
    (void)state;
    put_identity("HIDDEN-one");
    atomic_store(&service.seconds, -10);
    chain_expect_refused(STATUS_INVALID, "set this machine's clock");
}

/* ---- profiles ---- */

static void test_a_profile_may_name_a_token_or_keys(void **state)
{
    (void)state;
    char text[400];
    chain_write(token, "HIDDEN-one");
    (void)snprintf(text, sizeof text,
                   "[profile lab]\nregion = x\nrole_arn = " ROLE "\nweb_identity_token_file = %s\n"
                   "role_session_name = mine\nduration_seconds = 900\n[lab]\nrole_arn = NO\n",
                   token);
    put_profiles(text, "[base]\naws_access_key_id = FK\n", "lab");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file, " ROLE, "K1", "S", "T+/=");
    assert_string_equal(body_of(service.last), "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&" ROLE_FORM
                                               "&RoleSessionName=mine&DurationSeconds=900&WebIdentityToken=HIDDEN-one");
    credentials_free(credentials);
    chain_write(token, "");
    chain_expect_refused(STATUS_INVALID, "web_identity_token_file of the profile \"lab\": the file is empty");
    put_profiles("[profile lab]\nrole_arn = " ROLE "\nsource_profile = base\nexternal_id = a/b\n",
                 "[base]\naws_access_key_id = FK\naws_secret_access_key = HIDDEN\naws_session_token = HIDDEN/+\n",
                 "lab");
    credentials = chain_make();
    chain_expect(credentials, "shared file, " ROLE, "K2", "S", "T+/=");
    assert_string_equal(body_of(service.last),
                        "Action=AssumeRole&Version=2011-06-15&" ROLE_FORM "&RoleSessionName=deltaq&ExternalId=a%2Fb");
    assert_non_null(strstr(service.last, "Authorization: AWS4-HMAC-SHA256 Credential=FK/"));
    assert_non_null(strstr(service.last, "/eu-central-1/sts/aws4_request"));
    assert_non_null(strstr(service.last, "security-token"));
    credentials_free(credentials);
    atomic_store(&service.fault, DENIED);
    chain_expect_refused(STATUS_FORBIDDEN, "trust policy");
}

static void test_profiles_may_stand_behind_each_other(void **state)
{
    (void)state;
    put_profiles(
        "[profile one]\nrole_arn = arn:one\nsource_profile = two\n"
        "[profile two]\nrole_arn = arn:two\nsource_profile = two\n"
        "[profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = a\n",
        "[two]\naws_access_key_id = FK\naws_secret_access_key = HIDDEN\n", "one");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file, arn:one", "K2", "S", "T+/=");
    assert_non_null(strstr(service.last, "Credential=K1/"));
    credentials_free(credentials);
    (void)setenv("AWS_PROFILE", "a", 1);
    chain_expect_refused(STATUS_INVALID, "leads through more than 4 profiles");
    assert_int_equal(atomic_load(&service.asked), 2);
}

static void test_a_containers_keys_may_ask_for_a_role(void **state)
{
    (void)state;
    char url[96];
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    put_profiles("[profile pod]\nrole_arn = " ROLE "\ncredential_source = EcsContainer\n", "", "pod");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file, " ROLE, "K2", "S", "T+/=");
    assert_non_null(strstr(service.last, "Credential=CK/"));
    credentials_free(credentials);
}

static void test_a_file_wins_with_all_its_keys(void **state)
{
    (void)state;
    put_profiles("[profile lab]\naws_access_key_id = CK\naws_secret_access_key = CS\naws_session_token = CT\n",
                 "[lab]\naws_secret_access_key = FS\naws_access_key_id = FK\naws_session_token =\n", "lab");
    struct credentials *credentials = chain_make();
    chain_expect(credentials, "shared file", "FK", "FS", "");
    credentials_free(credentials);
    (void)unsetenv("AWS_PROFILE");
    put_profiles("[default]\nregion = x\n", "", "");
    credentials = chain_make();
    chain_expect(credentials, "none", "", "", "");
    credentials_free(credentials);
}

static void test_a_profile_that_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *words;
        enum status status;
    } wrong[] = {
        {"role_arn = " ROLE "\n", "no keys that ask for it", STATUS_INVALID},
        {"role_arn = " ROLE "\ncredential_source = Environment\n", "no keys that ask for it", STATUS_INVALID},
        {"role_arn = " ROLE "\nsource_profile = x\n", "no keys that ask for it", STATUS_INVALID},
        {"role_arn = " ROLE "\nsource_profile = none\n", "no profile \"none\"", STATUS_INVALID},
        {"role_arn = " ROLE "\nsource_profile = none\nmfa_serial = arn:m\n", "mfa_serial", STATUS_UNSUPPORTED},
        {"role_arn = two words\n", "role_arn is too long, or has characters", STATUS_INVALID},
        {"web_identity_token_file = /a\n", "lacks role_arn", STATUS_INVALID},
        {"credential_process = HIDDEN\n", "a program or a login", STATUS_UNSUPPORTED},
        {"sso_start_url = HIDDEN\n", "a program or a login", STATUS_UNSUPPORTED},
        {"region = y\n", "lacks aws_access_key_id", STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "[profile x]\n%s", wrong[i].lines);
        put_profiles(text, "", "x");
        chain_expect_refused(wrong[i].status, wrong[i].words);
    }
    put_profiles("[default]\nsso_session = HIDDEN\n", "", "");
    chain_expect_refused(STATUS_UNSUPPORTED, "a program or a login");
    (void)unlink(config);
    chain_expect_refused(STATUS_INVALID, "(AWS_CONFIG_FILE) cannot be read");
    assert_int_equal(atomic_load(&service.asked), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_token_is_exchanged_for_the_keys_of_a_role),
        TEST(test_the_token_is_read_anew_before_the_keys_end),
        TEST(test_keys_that_are_good_yet_outlive_a_role_that_is_taken_away),
        TEST(test_an_identity_comes_after_keys_and_before_the_files),
        TEST(test_a_role_without_a_token_is_for_other_programs),
        TEST(test_what_is_wrong_before_the_service_is_asked_is_said),
        TEST(test_a_token_goes_to_nobody_in_clear),
        TEST(test_each_answer_that_is_no_keys_says_what_to_do),
        TEST(test_keys_that_have_ended_already_are_refused),
        TEST(test_a_profile_may_name_a_token_or_keys),
        TEST(test_profiles_may_stand_behind_each_other),
        TEST(test_a_containers_keys_may_ask_for_a_role),
        TEST(test_a_file_wins_with_all_its_keys),
        TEST(test_a_profile_that_cannot_be_used_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
