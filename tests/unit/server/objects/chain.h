/* chain.h: the chain of credentials on a machine that has none but what the test puts there. */
#ifndef CHAIN_H
#define CHAIN_H

#include "unit.h"

#include "objects/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A machine without any credentials, and without a metadata service. */
static inline int chain_bare(void **state)
{
    static const char *const variables[] = {"AWS_ACCESS_KEY_ID",
                                            "AWS_SECRET_ACCESS_KEY",
                                            "AWS_SESSION_TOKEN",
                                            "AWS_ROLE_ARN",
                                            "AWS_ROLE_SESSION_NAME",
                                            "AWS_WEB_IDENTITY_TOKEN_FILE",
                                            "AWS_ENDPOINT_URL_STS",
                                            "AWS_SHARED_CREDENTIALS_FILE",
                                            "AWS_CONFIG_FILE",
                                            "AWS_PROFILE",
                                            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                            "AWS_EC2_METADATA_SERVICE_ENDPOINT"};
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) (void)unsetenv(variables[i]);
    (void)setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    (void)setenv("HOME", "/nonexistent", 1);
    return 0;
}

static inline struct credentials *chain_make(void)
{
    struct error error;
    struct credentials *credentials = NULL;
    assert_int_equal(credentials_new("eu-central-1", &credentials, &error), STATUS_OK);
    return credentials;
}

static inline void chain_expect(struct credentials *credentials, const char *source, const char *access,
                                const char *secret, const char *session)
{
    struct error error;
    char found[CREDENTIALS_SOURCE];
    struct credentials_keys keys;
    const enum status status = credentials_take(credentials, &keys, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_string_equal(keys.access, access);
    assert_string_equal(keys.secret, secret);
    assert_string_equal(keys.session, session);
    assert_int_equal(credentials_source(credentials, found, &error), STATUS_OK);
    assert_string_equal(found, source);
    credentials_wipe(&keys);
    assert_string_equal(keys.secret, "");
}

/* No message has a secret: what is one in these tests has HIDDEN in it. */
static inline void chain_expect_refused(enum status wanted, const char *words)
{
    struct error error;
    struct credentials_keys keys;
    struct credentials *credentials = chain_make();
    const enum status status = credentials_take(credentials, &keys, &error);
    if (status == STATUS_OK) fail_msg("not refused: %s", words);
    if (status != wanted || strstr(error.detail, words) == NULL)
        fail_msg("%s for %s with \"%s\"", error.detail, status_info(wanted)->name, words);
    assert_null(strstr(error.detail, "HIDDEN"));
    credentials_free(credentials);
}

static inline void chain_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* An empty file of a name that nobody else has, into `path`, which ends with XXXXXX. */
static inline void chain_file(char *path)
{
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
}

#endif
