#include "unit.h"

#include "objects/credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_PROFILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
};

/* A machine without any credentials, and without a metadata service. */
static int bare(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) (void)unsetenv(variables[i]);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    (void)setenv("HOME", "/nonexistent", 1);
    return 0;
}

static struct credentials *make(void)
{
    struct error error;
    struct credentials *credentials = NULL;
    assert_int_equal(credentials_new(&credentials, &error), STATUS_OK);
    return credentials;
}

static void expect(struct credentials *credentials, const char *source, const char *access, const char *secret,
                   const char *session)
{
    struct error error;
    const char *found = NULL;
    struct credentials_keys keys;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    assert_string_equal(keys.access, access);
    assert_string_equal(keys.secret, secret);
    assert_string_equal(keys.session, session);
    assert_int_equal(credentials_source(credentials, &found, &error), STATUS_OK);
    assert_string_equal(found, source);
    credentials_wipe(&keys);
    assert_string_equal(keys.secret, "");
}

static void expect_refused(enum status wanted, const char *words)
{
    struct error error;
    struct credentials_keys keys;
    struct credentials *credentials = make();
    assert_int_equal(credentials_take(credentials, &keys, &error), wanted);
    assert_non_null(strstr(error.detail, words));
    assert_null(strstr(error.detail, "HIDDEN"));
    credentials_free(credentials);
}

static void test_nothing_is_nobody(void **state)
{
    (void)state;
    struct credentials *credentials = make();
    expect(credentials, "none", "", "", "");
    credentials_free(credentials);
}

static void test_the_environment_comes_first(void **state)
{
    (void)state;
    (void)setenv("AWS_ACCESS_KEY_ID", "AK", 1);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/file", 1);
    expect_refused(STATUS_INVALID, "must both be set");
    (void)setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN", 1);
    (void)setenv("AWS_SESSION_TOKEN", "T", 1);
    struct credentials *credentials = make();
    expect(credentials, "environment", "AK", "HIDDEN", "T");
    credentials_free(credentials);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN\r\nX: y", 1);
    expect_refused(STATUS_INVALID, "must both be set");
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_the_shared_file_has_profiles(void **state)
{
    (void)state;
    char path[] = "/tmp/deltaq-credentials-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    write_file(path,
               "# keys\n[other]\naws_access_key_id=NO\naws_secret_access_key=NO\n\n"
               "[ default ]\r\naws_access_key_id = AK\r\n  aws_secret_access_key=SE=CRET+/ \r\n"
               "[lab]\nAWS_ACCESS_KEY_ID = LK\naws_secret_access_key = LS\naws_session_token = LT\n"
               "[role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n"
               "[half]\naws_access_key_id = HK\n[bad]\naws_access_key_id = A K\naws_secret_access_key = HIDDEN\n");
    struct credentials *credentials = make();
    expect(credentials, "shared file", "AK", "SE=CRET+/", "");
    credentials_free(credentials);
    (void)setenv("AWS_PROFILE", "lab", 1);
    credentials = make();
    expect(credentials, "shared file", "LK", "LS", "LT");
    credentials_free(credentials);
    const struct {
        const char *profile, *words;
        enum status status;
    } wrong[] = {{"role", "from a role", STATUS_UNSUPPORTED},
                 {"half", "lacks", STATUS_INVALID},
                 {"bad", "lacks", STATUS_INVALID},
                 {"none", "no profile \"none\"", STATUS_INVALID}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)setenv("AWS_PROFILE", wrong[i].profile, 1);
        expect_refused(wrong[i].status, wrong[i].words);
    }
    (void)unlink(path);
    expect_refused(STATUS_INVALID, "cannot be read");
}

/* ---- services ---- */

/* Answers like a container's service and an instance's, on its own port; what it hands out expires in `seconds`. */
struct stand_in {
    int listening;
    pthread_t thread;
    char url[64];
    atomic_int asked, seconds, broken;
    char last[4096]; /* the request before */
};

static void answer(struct stand_in *service, int connection, const char *request)
{
    char body[512] = "", head[256], end[64];
    int status = 200;
    const time_t expires = time(NULL) + atomic_load(&service->seconds);
    struct tm broken;
    (void)strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&expires, &broken));
    const bool keys = strncmp(request, "GET /role/keys ", 15) == 0 ||
                      strncmp(request, "GET /latest/meta-data/iam/security-credentials/lab-role ", 56) == 0;
    if (strncmp(request, "PUT /latest/api/token ", 22) == 0)
        (void)snprintf(body, sizeof body, "%s", strstr(request, "ttl-seconds") != NULL ? "TOKEN" : "");
    else if (strncmp(request, "GET /latest/meta-data/iam/security-credentials/ ", 48) == 0)
        (void)snprintf(body, sizeof body, "lab-role\n");
    else if (keys)
        (void)snprintf(
            body, sizeof body,
            "{\"AccessKeyId\": \"K%d\", \"SecretAccessKey\": \"S\", \"Token\": \"T\", \"Expiration\": \"%s\"}",
            atomic_fetch_add(&service->asked, 1) + 1, end);
    else
        status = 404;
    if (atomic_load(&service->broken)) status = 403;
    const int length = snprintf(head, sizeof head, "HTTP/1.1 %d x\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                                status, strlen(body));
    (void)send(connection, head, (size_t)length, MSG_NOSIGNAL);
    (void)send(connection, body, strlen(body), MSG_NOSIGNAL);
}

static void *serve(void *context)
{
    struct stand_in *service = context;
    for (int connection; (connection = accept(service->listening, NULL, NULL)) >= 0; (void)close(connection)) {
        char request[4096];
        size_t length = 0;
        for (ssize_t more = 1; more > 0 && length + 1 < sizeof request;) {
            more = recv(connection, request + length, sizeof request - 1 - length, 0);
            if (more > 0) length += (size_t)more;
            request[length] = '\0';
            if (strstr(request, "\r\n\r\n") != NULL) break;
        }
        (void)snprintf(service->last, sizeof service->last, "%s", request);
        answer(service, connection, request);
    }
    return NULL;
}

static void start(struct stand_in *service, int seconds)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    memset(service, 0, sizeof *service);
    atomic_store(&service->seconds, seconds);
    service->listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(service->listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(service->listening, 8), 0);
    assert_int_equal(getsockname(service->listening, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(service->url, sizeof service->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&service->thread, NULL, serve, service), 0);
}

static void stop(struct stand_in *service)
{
    (void)shutdown(service->listening, SHUT_RDWR);
    (void)pthread_join(service->thread, NULL);
    (void)close(service->listening);
}

static void test_a_container_is_asked_with_its_token_and_again_before_the_end(void **state)
{
    (void)state;
    char url[96];
    struct stand_in service;
    start(&service, 60);
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic/abc", 1);
    struct credentials *credentials = make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    assert_string_equal(keys.access, "K1");
    assert_string_equal(keys.session, "T");
    assert_non_null(strstr(service.last, "Authorization: Basic/abc\r\n"));
    atomic_store(&service.seconds, 3600); /* the first ones end within five minutes */
    expect(credentials, "container", "K2", "S", "T");
    expect(credentials, "container", "K2", "S", "T");
    assert_int_equal(atomic_load(&service.asked), 2);
    credentials_forget(credentials);
    expect(credentials, "container", "K3", "S", "T");
    credentials_free(credentials);
    stop(&service);
}

static void test_keys_that_are_good_yet_outlive_a_service_that_refuses(void **state)
{
    (void)state;
    char url[96];
    struct stand_in service;
    start(&service, 120);
    (void)snprintf(url, sizeof url, "%s/role/keys", service.url);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    struct credentials *credentials = make();
    struct credentials_keys keys;
    struct error error;
    assert_int_equal(credentials_take(credentials, &keys, &error), STATUS_OK);
    atomic_store(&service.broken, 1); /* so close to the end each use asks again */
    expect(credentials, "container", "K1", "S", "T");
    credentials_free(credentials);
    expect_refused(STATUS_FORBIDDEN, "the service refuses");
    stop(&service);
}

static void test_an_instance_is_asked_for_a_token_first(void **state)
{
    (void)state;
    struct stand_in service;
    start(&service, 3600);
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url, 1);
    struct credentials *credentials = make();
    expect(credentials, "none", "", "", ""); /* it is told not to be asked */
    credentials_free(credentials);
    (void)unsetenv("AWS_EC2_METADATA_DISABLED");
    credentials = make();
    expect(credentials, "instance", "K1", "S", "T");
    assert_non_null(strstr(service.last, "X-aws-ec2-metadata-token: TOKEN\r\n"));
    credentials_free(credentials);
    stop(&service);
}

static void test_a_containers_token_goes_to_nobody_elsewhere(void **state)
{
    (void)state;
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "HIDDEN", 1);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys", 1);
    expect_refused(STATUS_INVALID, "must be https");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_nobody, bare),
        cmocka_unit_test_setup(test_the_environment_comes_first, bare),
        cmocka_unit_test_setup(test_the_shared_file_has_profiles, bare),
        cmocka_unit_test_setup(test_a_container_is_asked_with_its_token_and_again_before_the_end, bare),
        cmocka_unit_test_setup(test_keys_that_are_good_yet_outlive_a_service_that_refuses, bare),
        cmocka_unit_test_setup(test_an_instance_is_asked_for_a_token_first, bare),
        cmocka_unit_test_setup(test_a_containers_token_goes_to_nobody_elsewhere, bare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
