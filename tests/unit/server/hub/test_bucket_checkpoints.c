/* The directories of a bucket that are checkpoints, beside those that are none. */
#include "server/objects/chain.h"
#include "server/objects/stand_in.h"

#include "hub/bucket_checkpoints.h"

enum { LOGS = REPOSITORY_FILES_MOST + 1, PAGE = 50 };

static struct stand_in service;

static void put(char body[STAND_IN_BODY], const char *name)
{
    const size_t used = strlen(body);
    (void)snprintf(body + used, STAND_IN_BODY - used,
                   "<Contents><Key>run/%s</Key><ETag>1</ETag><Size>1</Size></Contents>", name);
}

/* The objects logs/00000, logs/00001, … and step1/…, page by page; the token is the number of the next log. */
static int answer(struct stand_in *stand_in, const char *request, char body[STAND_IN_BODY])
{
    const char *token = strstr(request, "continuation-token=");
    int at = token != NULL ? (int)strtol(token + 19, NULL, 10) : 0;
    char name[32];
    (void)stand_in;
    (void)snprintf(body, STAND_IN_BODY, "<ListBucketResult>");
    for (const int end = at + PAGE; at < end && at < LOGS; at++) {
        (void)snprintf(name, sizeof name, "logs/%05d", at);
        put(body, name);
    }
    if (at == LOGS) {
        put(body, "step1/config.json");
        put(body, "step1/model.safetensors");
    }
    const size_t used = strlen(body);
    (void)snprintf(body + used, STAND_IN_BODY - used,
                   "<IsTruncated>%s</IsTruncated><NextContinuationToken>%d</NextContinuationToken></ListBucketResult>",
                   at < LOGS ? "true" : "false", at);
    return 200;
}

/* As many objects as no checkpoint has, beside one: no fault of the place. */
static void test_a_directory_of_many_objects_keeps_no_checkpoint_from_being_found(void **state)
{
    struct error error;
    struct bucket_checkpoint *found = NULL;
    size_t count = 0;
    struct hub hub = {.cache_bytes = 1};
    (void)chain_bare(state);
    stand_in_start(&service, 0, answer);
    const struct objects_options options = {.endpoint = service.url, .region = "eu-central-1"};
    assert_int_equal(objects_new(&options, &hub.objects, &error), STATUS_OK);
    const struct repository_caller caller = {&hub, {.seconds = 10, .tries = 1, .longest_wait = 1}};
    const enum status status = bucket_checkpoints_find(&caller, "s3://lab/run", &found, &count, &error);
    objects_free(hub.objects);
    stand_in_stop(&service);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(count, 1);
    assert_string_equal(found[0].place, "s3://lab/run/step1");
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_directory_of_many_objects_keeps_no_checkpoint_from_being_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
