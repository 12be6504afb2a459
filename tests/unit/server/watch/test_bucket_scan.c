/* When a checkpoint in a bucket counts as written: by the clock of the bucket, whatever that of this machine says. */
#include "server/objects/chain.h"
#include "server/objects/stand_in.h"
#include "server/store/database.h"

#include "watch/bucket_scan.h"

enum { QUIET = 30 };

static struct stand_in service;
static char changed[32]; /* when the weights were written */

static int answer(struct stand_in *stand_in, const char *request, char body[STAND_IN_BODY])
{
    (void)stand_in;
    (void)request;
    (void)snprintf(body, STAND_IN_BODY,
                   "<ListBucketResult><Contents><Key>run/step1/config.json</Key><ETag>1</ETag><Size>1</Size>"
                   "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents><Contents>"
                   "<Key>run/step1/model.safetensors</Key><ETag>2</ETag><Size>1</Size><LastModified>%s</LastModified>"
                   "</Contents></ListBucketResult>",
                   changed);
    return 200;
}

/* Whether the scan registers step1 into `trajectory`. */
static bool registers(struct connection *connection, const char *trajectory)
{
    struct error error;
    struct bucket_scan_found *found = NULL;
    struct hub hub = {.cache_bytes = 1};
    json_t *document = NULL;
    const struct objects_options options = {.endpoint = service.url, .region = "eu-central-1"};
    OK(objects_new(&options, &hub.objects, &error));
    const struct bucket_scan_request request = {.caller = {&hub, {.seconds = 10, .tries = 1, .longest_wait = 1}},
                                                .trajectory = trajectory,
                                                .place = "s3://lab/run",
                                                .quiet_seconds = QUIET};
    OK(bucket_scan_look(&request, &found, &error));
    OK(bucket_scan_register(connection, &request, found, &document, &error));
    const size_t count = json_array_size(json_object_get(document, "registered"));
    assert_int_equal(count + json_array_size(json_object_get(document, "pending")), 1);
    json_decref(document);
    bucket_scan_free(found);
    objects_free(hub.objects);
    return count == 1;
}

static void test_a_checkpoint_is_quiet_by_the_clock_of_the_bucket(void **state)
{
    static const struct {
        const char *date, *changed;
        bool registers;
    } cases[] = {
        {"Date: Sun, 01 Feb 2026 12:00:00 GMT\r\n", "2026-02-01T11:59:50.000Z", false}, /* behind this machine's */
        {"Date: Sun, 01 Feb 2026 12:00:00 GMT\r\n", "2026-02-01T11:59:20.000Z", true},
        {"Date: Fri, 01 Feb 2126 12:00:00 GMT\r\n", "2126-02-01T11:59:50.000Z", false}, /* ahead of it */
        {"Date: Fri, 01 Feb 2126 12:00:00 GMT\r\n", "2126-02-01T11:59:20.000Z", true},
        {"Date: Sun, 01 Feb 2026 12:00:00 GMT\r\n", "2026-02-01T12:00:02.000Z", false}, /* machines of it disagree */
        {NULL, "2020-02-01T12:00:00.000Z", true},
    };
    char trajectory[16];
    (void)chain_bare(state);
    stand_in_start(&service, 0, answer);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        service.header = cases[i].date;
        (void)snprintf(changed, sizeof changed, "%s", cases[i].changed);
        (void)snprintf(trajectory, sizeof trajectory, "run%zu", i);
        if (registers(connection_of(state), trajectory) != cases[i].registers)
            fail_msg("written at %s by %s", cases[i].changed, cases[i].date);
    }
    stand_in_stop(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_checkpoint_is_quiet_by_the_clock_of_the_bucket),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
