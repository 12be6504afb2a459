/* Lists of objects: the forms that keys have in them. */
#include "chain.h"
#include "stand_in.h"

#include "objects/listing.h"

static struct stand_in service;
static const char *listed; /* the objects, as the answer has them */

static int answer(struct stand_in *stand_in, const char *request, char body[STAND_IN_BODY])
{
    (void)stand_in;
    (void)request;
    (void)snprintf(body, STAND_IN_BODY, "<ListBucketResult><EncodingType>url</EncodingType>%s</ListBucketResult>",
                   listed);
    return 200;
}

static int set_up(void **state)
{
    (void)chain_bare(state);
    stand_in_start(&service, 0, answer);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stand_in_stop(&service);
    return 0;
}

static enum status list(const char *text, struct listing *out, struct error *error)
{
    const struct objects_options options = {.endpoint = service.url, .region = "eu-central-1"};
    const struct asking asking = {.seconds = 10, .tries = 1, .longest_wait = 1};
    struct objects_place place;
    struct objects *objects = NULL;
    struct bucket bucket;
    listed = text;
    assert_int_equal(objects_place_read("s3://lab/run", "", &place, error), STATUS_OK);
    assert_int_equal(objects_new(&options, &objects, error), STATUS_OK);
    assert_int_equal(bucket_init(objects, "lab", &bucket, error), STATUS_OK);
    const enum status status = listing_make(&bucket, &asking, &place, true, out, error);
    objects_free(objects);
    return status;
}

/* Writes the object "run/" and `count` times `part`. */
static void put(char *out, size_t size, const char *part, int count)
{
    const size_t used = strlen(out);
    (void)snprintf(out + used, size - used, "<Contents><Key>run/");
    for (int i = 0; i < count; i++) (void)snprintf(out + strlen(out), size - strlen(out), "%s", part);
    (void)snprintf(out + strlen(out), size - strlen(out), "</Key><ETag>1</ETag><Size>1</Size></Contents>");
}

/* A key has 1,024 bytes at most; escaped it is up to three times as long. */
static void test_the_longest_keys_are_listed(void **state)
{
    (void)state;
    char text[STAND_IN_BODY] = "";
    struct error error;
    struct listing listing;
    put(text, sizeof text, "%E6%BC%A2", 340); /* 3 bytes each */
    const enum status status = list(text, &listing, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(listing.count, 1);
    assert_int_equal(strlen(listing.items[0].name), 3 * 340);
    assert_memory_equal(listing.items[0].name + 3 * 339, "漢", 4);
    listing_reset(&listing);
}

/* A server may have keys that are longer than any that is used here. */
static void test_longer_ones_are_left_out_alone(void **state)
{
    (void)state;
    char text[STAND_IN_BODY] = "";
    struct error error;
    struct listing listing;
    put(text, sizeof text, "%E6%BC%A2", 341);
    put(text, sizeof text, "a", 1);
    const enum status status = list(text, &listing, &error);
    if (status != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(listing.count, 1);
    assert_string_equal(listing.items[0].name, "a");
    listing_reset(&listing);
}

static void test_keys_that_are_no_text_are_refused(void **state)
{
    (void)state;
    char text[STAND_IN_BODY] = "";
    struct error error;
    struct listing listing;
    put(text, sizeof text, "%FF", 1);
    assert_int_equal(list(text, &listing, &error), STATUS_CORRUPT);
    listing_reset(&listing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_longest_keys_are_listed),
        TEST(test_longer_ones_are_left_out_alone),
        TEST(test_keys_that_are_no_text_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
