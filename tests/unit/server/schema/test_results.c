/* Results as tables: the renderer, and the describer beside it: what is rendered fits what is described. */
#include "unit.h"

#include "schema/result_describe.h"
#include "schema/result_render.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct part {
    char name[8];
    double share;
};

struct named {
    const char *name;
    int64_t bits;
};

struct told {
    int64_t count, part_count;
    double loss, low, high, mean;
    bool on, has_mean, has_extra;
    int color;
    const char *shade, *note;
    double pair[2];
    int64_t drawn;
    double draws[4];
    const struct part *parts;
    struct part best, extra;
    const struct named *widths; /* [width_count] */
    int64_t width_count;
    json_t *made;
};

static const char *const colors[] = {"red", "green", NULL};
static const struct result_metric loss_metric = {
    .name = "loss", .label = "Loss", .unit = "nats", .help = "How wrong it is", .better = RESULT_LOWER};

static const struct result_field part_fields[] = {
    {.name = "name", .type = RESULT_CHARS, .offset = offsetof(struct part, name)},
    {.name = "share", .type = RESULT_NUMBER, .offset = offsetof(struct part, share), .help = "Of the whole"},
    {0},
};
static const struct result_field share_fields[] = {
    {.name = "extra_share", .type = RESULT_NUMBER, .offset = offsetof(struct part, share)},
    {0},
};
static const struct result_shape part_shape = {.name = "Part", .fields = part_fields, .size = sizeof(struct part)};
static const struct result_shape best_shape = {.help = "The best one", .fields = part_fields};
static const struct result_shape share_shape = {.fields = share_fields};
static const struct result_field part_item = {.type = RESULT_OBJECT, .shape = &part_shape};
static const struct result_field share_item = {.type = RESULT_NUMBER, .offset = offsetof(struct part, share)};
static const struct result_field number_item = {.type = RESULT_NUMBER};
static const struct result_field bits_item = {.type = RESULT_INTEGER, .offset = offsetof(struct named, bits)};

#define AT(field) offsetof(struct told, field)
static const struct result_field fields[] = {
    {.name = "count", .type = RESULT_INTEGER, .offset = AT(count)},
    {.name = "loss", .type = RESULT_NUMBER, .offset = AT(loss), .metric = &loss_metric},
    {.name = "interval", .type = RESULT_INTERVAL, .offset = AT(low), .high = AT(high)},
    {.name = "mean",
     .type = RESULT_NUMBER,
     .offset = AT(mean),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = AT(has_mean)},
    {.name = "on", .type = RESULT_BOOLEAN, .offset = AT(on), .later = true},
    {.name = "color", .type = RESULT_CHOICE, .offset = AT(color), .choices = colors},
    {.name = "shade", .type = RESULT_TEXT, .offset = AT(shade), .absence = RESULT_NULL, .choices = colors},
    {.name = "pair", .type = RESULT_ARRAY, .offset = AT(pair), .length = 2, .item = &number_item},
    {.name = "draws", .type = RESULT_ARRAY, .offset = AT(draws), .count = AT(drawn), .item = &number_item},
    {.name = "parts",
     .type = RESULT_LIST,
     .offset = AT(parts),
     .count = AT(part_count),
     .item = &part_item,
     .absence = RESULT_NULL},
    {.name = "shares",
     .type = RESULT_LIST,
     .offset = AT(parts),
     .count = AT(part_count),
     .item = &share_item,
     .stride = sizeof(struct part),
     .absence = RESULT_LEFT_OUT},
    {.name = "widths",
     .type = RESULT_MAP,
     .offset = AT(widths),
     .count = AT(width_count),
     .key = offsetof(struct named, name),
     .stride = sizeof(struct named),
     .item = &bits_item,
     .absence = RESULT_NULL},
    {.name = "best", .type = RESULT_OBJECT, .offset = AT(best), .shape = &best_shape},
    {.type = RESULT_MERGED,
     .offset = AT(extra),
     .shape = &share_shape,
     .absence = RESULT_NULL,
     .has_when = true,
     .when = AT(has_extra)},
    {.name = "made", .type = RESULT_DOCUMENT, .offset = AT(made), .absence = RESULT_NULL, .shape = &part_shape},
    {.name = "note", .type = RESULT_TEXT, .offset = AT(note), .absence = RESULT_LEFT_OUT},
    {0},
};
static const struct result_shape shape = {.name = "Told", .fields = fields};

static struct told sample(void)
{
    static const struct part parts[] = {{"a", 0.5}, {"b", NAN}};
    static const struct named widths[] = {{"b", 4}, {"a", 3}};
    return (struct told){.count = 3,
                         .loss = 2.5,
                         .low = 1,
                         .high = 2,
                         .mean = 4,
                         .has_mean = true,
                         .on = true,
                         .color = 1,
                         .shade = "red",
                         .note = "mind this",
                         .pair = {1, INFINITY},
                         .drawn = 3,
                         .draws = {1, 2, 3, 4},
                         .parts = parts,
                         .part_count = 2,
                         .widths = widths,
                         .width_count = 2,
                         .best = {"b", 0.25},
                         .extra = {"", 0.125},
                         .has_extra = true};
}

static void expect(const struct told *told, const char *wanted)
{
    struct error error;
    json_t *document = NULL;
    assert_int_equal(result_render(&shape, told, &document, &error), STATUS_OK);
    char *text = json_dumps(document, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
    json_decref(document);
}

static void test_every_field_in_the_order_of_the_table(void **state)
{
    struct told told = sample();
    (void)state;
    told.made = json_pack("{ss sf}", "name", "c", "share", 1.5);
    expect(&told, "{\"count\":3,\"loss\":2.5,\"interval\":[1.0,2.0],\"mean\":4.0,\"on\":true,\"color\":\"green\","
                  "\"shade\":\"red\",\"pair\":[1.0,null],"
                  "\"draws\":[1.0,2.0,3.0],\"parts\":[{\"name\":\"a\",\"share\":0.5},{\"name\":\"b\",\"share\":null}],"
                  "\"shares\":[0.5,null],"
                  "\"widths\":{\"b\":4,\"a\":3},\"best\":{\"name\":\"b\",\"share\":0.25},\"extra_share\":0.125,"
                  "\"made\":{\"name\":\"c\",\"share\":1.5},"
                  "\"note\":\"mind this\"}");
    assert_int_equal(told.made->refcount, 1);
    json_decref(told.made);
}

static void test_what_is_absent_is_null_or_left_out(void **state)
{
    struct told told = sample();
    (void)state;
    told.loss = told.high = NAN;
    told.has_mean = told.has_extra = false;
    told.parts = NULL;
    told.widths = NULL;
    told.shade = told.note = NULL;
    told.drawn = 0;
    expect(&told,
           "{\"count\":3,\"loss\":null,\"interval\":null,\"mean\":null,\"on\":true,\"color\":\"green\","
           "\"shade\":null,\"pair\":[1.0,null],"
           "\"draws\":[],\"parts\":null,\"widths\":null,\"best\":{\"name\":\"b\",\"share\":0.25},\"extra_share\":null,"
           "\"made\":null}");
}

/* Rows of one field: what its absence or its value breaks. */
static void expect_internal(const struct result_field *row, const void *from, const char *said)
{
    const struct result_field rows[] = {*row, {0}};
    const struct result_shape one = {.fields = rows};
    struct error error;
    json_t *document = (json_t *)&error;
    assert_int_equal(result_render(&one, from, &document, &error), STATUS_INTERNAL);
    assert_null(document);
    assert_non_null(strstr(error.detail, said));
}

static void test_a_promise_that_is_broken_is_said(void **state)
{
    const char *text = NULL;
    const double number = NAN;
    (void)state;
    expect_internal(&(struct result_field){.name = "note", .type = RESULT_TEXT}, &text, "note of a result is missing");
    expect_internal(&(struct result_field){.name = "share", .type = RESULT_NUMBER, .finite = true}, &number, "share");
}

/* --- Out of memory ---- */

static int64_t allowed, held;

static void *counted(size_t size)
{
    if (allowed-- <= 0) return NULL;
    held++;
    return malloc(size);
}

static void given_back(void *block)
{
    held -= block != NULL;
    free(block);
}

static void test_no_memory_anywhere_is_an_error_that_leaves_nothing(void **state)
{
    struct told told = sample();
    struct error error;
    json_t *document = NULL;
    int64_t refused = 0;
    size_t fields_there = 0;
    enum status status = STATUS_NO_MEMORY;
    (void)state;
    json_set_alloc_funcs(counted, given_back);
    for (; status != STATUS_OK; refused++) {
        allowed = refused;
        status = result_render(&shape, &told, &document, &error);
        if (status != STATUS_OK && (status != STATUS_NO_MEMORY || document != NULL || held != 0)) break;
        fields_there = json_object_size(document);
        json_decref(document);
    }
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(held, 0);
    assert_int_equal(fields_there, 16); /* none went missing */
    assert_true(refused > 30);
}

static void test_no_memory_for_a_schema(void **state)
{
    bool good = false;
    int64_t refused = 0;
    (void)state;
    json_set_alloc_funcs(counted, given_back);
    for (; !good && refused < 10000; refused++) {
        allowed = INT64_MAX;
        json_t *document = json_object();
        allowed = refused;
        good = result_describe(&shape, document);
        json_decref(document);
        if (held != 0) break;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(good);
    assert_int_equal(held, 0);
    assert_true(refused > 100);
}

/* --- The schema ---- */

static void expect_schema(const json_t *document, const char *name, const char *wanted)
{
    json_t *expected = json_loads(wanted, 0, NULL);
    const json_t *properties = json_object_get(json_object_get(document, "Told"), "properties");
    assert_non_null(expected);
    if (!json_equal(json_object_get(properties, name), expected)) fail_msg("the schema of %s", name);
    json_decref(expected);
}

static void test_the_schema_says_what_is_rendered(void **state)
{
    json_t *document = json_object();
    (void)state;
    assert_true(result_describe(&shape, document));
    assert_int_equal(json_object_size(document), 2); /* Told, and Part once */
    expect_schema(document, "count", "{\"type\": \"integer\"}");
    expect_schema(document, "loss", "{\"type\": [\"number\", \"null\"], \"description\": \"How wrong it is (nats)\"}");
    expect_schema(
        document, "interval",
        "{\"type\": [\"array\", \"null\"], \"items\": {\"type\": \"number\"}, \"minItems\": 2, \"maxItems\": 2}");
    expect_schema(document, "color", "{\"type\": \"string\", \"enum\": [\"red\", \"green\"]}");
    expect_schema(document, "shade",
                  "{\"anyOf\": [{\"type\": \"string\", \"enum\": [\"red\", \"green\"]}, {\"type\": \"null\"}]}");
    expect_schema(
        document, "pair",
        "{\"type\": \"array\", \"items\": {\"type\": [\"number\", \"null\"]}, \"minItems\": 2, \"maxItems\": 2}");
    expect_schema(document, "parts",
                  "{\"type\": [\"array\", \"null\"], \"items\": {\"$ref\": \"#/components/schemas/Part\"}}");
    expect_schema(document, "widths",
                  "{\"type\": [\"object\", \"null\"], \"additionalProperties\": {\"type\": \"integer\"}}");
    expect_schema(document, "extra_share", "{\"type\": [\"number\", \"null\"]}");
    expect_schema(document, "made", "{\"anyOf\": [{\"$ref\": \"#/components/schemas/Part\"}, {\"type\": \"null\"}]}");
    expect_schema(document, "best",
                  "{\"type\": \"object\", \"description\": \"The best one\", \"required\": [\"name\", \"share\"],"
                  " \"properties\": "
                  "{\"name\": {\"type\": \"string\"}, \"share\": {\"type\": [\"number\", \"null\"], "
                  "\"description\": \"Of the whole\"}}}");
    json_t *required =
        json_loads("[\"count\", \"loss\", \"interval\", \"mean\", \"color\", \"shade\", \"pair\", \"draws\", \"parts\","
                   " \"widths\", \"best\", "
                   "\"extra_share\", \"made\"]",
                   0, NULL);
    assert_true(json_equal(json_object_get(json_object_get(document, "Told"), "required"), required));
    json_decref(required);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_in_the_order_of_the_table),
        cmocka_unit_test(test_what_is_absent_is_null_or_left_out),
        cmocka_unit_test(test_a_promise_that_is_broken_is_said),
        cmocka_unit_test(test_no_memory_anywhere_is_an_error_that_leaves_nothing),
        cmocka_unit_test(test_no_memory_for_a_schema),
        cmocka_unit_test(test_the_schema_says_what_is_rendered),
    };
    return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
