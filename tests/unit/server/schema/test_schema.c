#include "unit.h"

#include "schema/form.h"
#include "schema/schema.h"

#include <stdio.h>
#include <string.h>

struct inner {
    int64_t depth;
    double rate;
};

struct other {
    bool loud;
};

struct outer {
    int64_t count, bits;
    double share;
    bool on;
    const char *name, *checkpoint, *text;
    int color, method;
    struct inner inner;
    struct inner square;
    struct other circle;
};

static const int64_t bits_allowed[] = {2, 4, 0};
static const char *const colors[] = {"red", "green", NULL};

static const struct param inner_params[] = {
    {.name = "depth", .type = PARAM_INTEGER, .offset = offsetof(struct inner, depth), .fallback = "3"},
    {.name = "rate",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct inner, rate),
     .fallback = "0.5",
     .minimum = 0,
     .maximum = 1},
    {0},
};
static const struct param other_params[] = {
    {.name = "loud", .type = PARAM_BOOLEAN, .offset = offsetof(struct other, loud), .fallback = "true"},
    {0},
};
static const struct param_variant variants[] = {
    {"square", inner_params, offsetof(struct outer, square) - offsetof(struct outer, method)},
    {"circle", other_params, offsetof(struct outer, circle) - offsetof(struct outer, method)},
    {0},
};
static const struct param table[] = {
    {.name = "count",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct outer, count),
     .minimum = 1,
     .maximum = 10,
     .help = "how many"},
    {.name = "bits",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct outer, bits),
     .allowed = bits_allowed,
     .fallback = "4"},
    {.name = "share", .type = PARAM_NUMBER, .offset = offsetof(struct outer, share), .fallback = "1"},
    {.name = "on", .type = PARAM_BOOLEAN, .offset = offsetof(struct outer, on), .fallback = "false"},
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct outer, name),
     .fallback = "null",
     .nullable = true,
     .maximum = 5},
    {.name = "checkpoint", .type = PARAM_CHECKPOINT, .offset = offsetof(struct outer, checkpoint), .fallback = "\"c\""},
    {.name = "text", .type = PARAM_JSON, .offset = offsetof(struct outer, text), .fallback = "{}"},
    {.name = "list", .type = PARAM_ARRAY, .fallback = "[]"},
    {.name = "color",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct outer, color),
     .choices = colors,
     .fallback = "\"green\""},
    {.name = "method",
     .type = PARAM_VARIANT,
     .offset = offsetof(struct outer, method),
     .variants = variants,
     .fallback = "{\"name\": \"circle\"}"},
    {.name = "inner",
     .type = PARAM_OBJECT,
     .offset = offsetof(struct outer, inner),
     .children = inner_params,
     .fallback = "{}"},
    {0},
};

static enum status fill(const char *text, struct faults *faults, struct schema_filled *filled, json_t **document)
{
    struct error error = {0};
    *document = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(*document);
    return schema_fill(table, sizeof(struct outer), *document, "/params", faults, filled, &error);
}

static void test_defaults_are_written_into_struct_and_document(void **state)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document;
    (void)state;
    assert_int_equal(fill("{\"count\": 7}", &faults, &filled, &document), STATUS_OK);
    const struct outer *outer = filled.params;
    assert_int_equal(outer->count, 7);
    assert_int_equal(outer->bits, 4);
    assert_int_equal(outer->color, 1);
    assert_int_equal(outer->method, 1);
    assert_true(outer->circle.loud);
    assert_true(outer->share == 1 && outer->inner.rate == 0.5);
    assert_null(outer->name);
    assert_string_equal(outer->text, "{}");
    char *text = json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(
        text, "{\"bits\":4,\"checkpoint\":\"c\",\"color\":\"green\",\"count\":7,\"inner\":{\"depth\":3,\"rate\":0.5},"
              "\"list\":[],"
              "\"method\":{\"loud\":true,\"name\":\"circle\"},\"name\":null,\"on\":false,\"share\":1.0,\"text\":{}}");
    free(text);
    schema_filled_reset(&filled);
    json_decref(document);
}

static void test_variants_fill_their_own_struct(void **state)
{
    struct schema_filled filled;
    json_t *document;
    (void)state;
    assert_int_equal(fill("{\"count\": 1, \"share\": 2, \"method\": {\"name\": \"square\", \"depth\": 9}}", NULL,
                          &filled, &document),
                     STATUS_OK);
    const struct outer *outer = filled.params;
    assert_int_equal(outer->method, 0);
    assert_int_equal(outer->square.depth, 9);
    assert_true(outer->share == 2 && outer->square.rate == 0.5);
    assert_true(json_is_real(json_object_get(document, "share")));
    schema_filled_reset(&filled);
    json_decref(document);
}

static void expect_fault(const char *text, const char *pointer)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document;
    assert_int_equal(fill(text, &faults, &filled, &document), STATUS_INVALID);
    assert_null(filled.params);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.items[0].pointer, pointer);
    json_decref(document);
}

static void test_each_fault_is_pointed_at(void **state)
{
    (void)state;
    expect_fault("{}", "/params/count");
    expect_fault("[]", "/params");
    expect_fault("{\"count\": 4.5}", "/params/count");
    expect_fault("{\"count\": 1, \"inner\": {\"depth\": 4.5}}", "/params/inner/depth");
    expect_fault("{\"count\": 0}", "/params/count");
    expect_fault("{\"count\": 11}", "/params/count");
    expect_fault("{\"count\": null}", "/params/count");
    expect_fault("{\"count\": true}", "/params/count");
    expect_fault("{\"count\": 1, \"bits\": 3}", "/params/bits");
    expect_fault("{\"count\": 1, \"bits\": 0}", "/params/bits");
    expect_fault("{\"count\": 1, \"share\": \"1\"}", "/params/share");
    expect_fault("{\"count\": 1, \"on\": 1}", "/params/on");
    expect_fault("{\"count\": 1, \"name\": \"\"}", "/params/name");
    expect_fault("{\"count\": 1, \"name\": \"sixsix\"}", "/params/name");
    expect_fault("{\"count\": 1, \"text\": []}", "/params/text");
    expect_fault("{\"count\": 1, \"list\": {}}", "/params/list");
    expect_fault("{\"count\": 1, \"color\": \"blue\"}", "/params/color");
    expect_fault("{\"count\": 1, \"color\": 0}", "/params/color");
    expect_fault("{\"count\": 1, \"method\": {}}", "/params/method/name");
    expect_fault("{\"count\": 1, \"method\": {\"name\": \"round\"}}", "/params/method/name");
    expect_fault("{\"count\": 1, \"method\": {\"name\": \"circle\", \"depth\": 1}}", "/params/method/depth");
    expect_fault("{\"count\": 1, \"inner\": {\"rate\": 2}}", "/params/inner/rate");
    expect_fault("{\"count\": 1, \"inner\": {\"a/b~c\": 2}}", "/params/inner/a~1b~0c");
}

/* Bounds belong to what is allowed, and the next number does not. */
static void test_bounds_themselves_are_taken(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{\"count\": 1}",
        "{\"count\": 10}",
        "{\"count\": 1, \"name\": \"fives\"}",
        "{\"count\": 1, \"name\": \"1\"}",
        "{\"count\": 1, \"bits\": 2}",
        "{\"count\": 1, \"inner\": {\"rate\": 0}}",
        "{\"count\": 1, \"inner\": {\"rate\": 1}}",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct faults faults = {0};
        struct schema_filled filled;
        json_t *document;
        if (fill(good[i], &faults, &filled, &document) != STATUS_OK)
            fail_msg("%s: %s", good[i], faults.items[0].detail);
        schema_filled_reset(&filled);
        json_decref(document);
    }
    expect_fault("{\"count\": 1, \"inner\": {\"rate\": 1.0000001}}", "/params/inner/rate");
    expect_fault("{\"count\": 1, \"inner\": {\"rate\": -0.0000001}}", "/params/inner/rate");
}

static void expect_integer(const char *text, int64_t wanted)
{
    struct schema_filled filled;
    struct error error;
    json_t *document = json_loads(text, 0, NULL), *kept;
    assert_non_null(document);
    assert_int_equal(schema_fill(inner_params, sizeof(struct inner), document, "", NULL, &filled, &error), STATUS_OK);
    assert_true(((const struct inner *)filled.params)->depth == wanted);
    kept = json_object_get(document, "depth");
    assert_true(json_is_integer(kept) && json_integer_value(kept) == wanted); /* equal requests look equal */
    schema_filled_reset(&filled);
    json_decref(document);
}

static void test_integers_may_be_written_with_point_or_exponent(void **state)
{
    (void)state;
    expect_integer("{\"depth\": 256}", 256);
    expect_integer("{\"depth\": 256.0}", 256);
    expect_integer("{\"depth\": 1e9}", 1000000000);
    expect_integer("{\"depth\": -2.5e1}", -25);
    expect_integer("{\"depth\": -0.0}", 0);
    expect_integer("{\"depth\": 9007199254740991.0}", 9007199254740991);
    expect_integer("{\"depth\": 9223372036854775807}", INT64_MAX);
}

static void expect_no_integer(const char *text, const char *words)
{
    struct faults faults = {0};
    struct schema_filled filled;
    struct error error;
    json_t *document = json_loads(text, 0, NULL);
    assert_int_equal(schema_fill(inner_params, sizeof(struct inner), document, "", &faults, &filled, &error),
                     STATUS_INVALID);
    assert_string_equal(faults.items[0].pointer, "/depth");
    assert_non_null(strstr(faults.items[0].detail, words));
    json_decref(document);
}

static void test_other_numbers_are_no_integers(void **state)
{
    (void)state;
    expect_no_integer("{\"depth\": 256.5}", "found the fraction 256.5");
    expect_no_integer("{\"depth\": 1e-9}", "found the fraction 1.");
    expect_no_integer("{\"depth\": 1e300}", "1.0000000000000001e+300");
    expect_no_integer("{\"depth\": 1e300}", "write all digits");
    expect_no_integer("{\"depth\": 9007199254740992.0}", "write all digits"); /* 9007199254740993.0 reads the same */
    expect_no_integer("{\"depth\": -9007199254740992.0}", "write all digits");
    expect_no_integer("{\"depth\": \"256\"}", "found a string");
}

static void test_bounds_are_held_exactly(void **state)
{
    static const struct param exact_params[] = {{.name = "depth",
                                                 .type = PARAM_INTEGER,
                                                 .offset = offsetof(struct inner, depth),
                                                 .maximum = 9007199254740992.0},
                                                {0}};
    static const struct {
        const char *text;
        enum status status;
    } cases[] = {{"{\"depth\": 9007199254740992}", STATUS_OK},
                 {"{\"depth\": 9007199254740993}", STATUS_INVALID},
                 {"{\"depth\": -1}", STATUS_INVALID}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_filled filled = {0};
        struct error error;
        json_t *document = json_loads(cases[i].text, 0, NULL);
        assert_int_equal(schema_fill(exact_params, sizeof(struct inner), document, "", NULL, &filled, &error),
                         cases[i].status);
        schema_filled_reset(&filled);
        json_decref(document);
    }
}

static void test_names_have_no_control_characters(void **state)
{
    static const char *const good[] = {"a", "step 1", "...", ".a", "\u00a0", "\u2027", "\u00e9", "\U0001f600"};
    static const char *const bad[] = {"",          "a/b",    "\n",      "a\x7f", "\xc2\x80",
                                      "a\xc2\x9f", "\u2028", "b\u2029", ".",     ".."};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(form_name.fits(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(form_name.fits(bad[i]));
}

static bool is_lower(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

struct optional {
    const char *name;
};

static const struct param_form lower = {"^[a-z]+$", is_lower, "must be lower-case letters"};
static const struct param optional_table[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct optional, name),
     .fallback = "null",
     .form = &lower},
    {0},
};

static enum status fill_optional(const char *text, struct faults *faults, json_t **document,
                                 struct schema_filled *filled)
{
    struct error error;
    *document = json_loads(text, 0, NULL);
    return schema_fill(optional_table, sizeof(struct optional), *document, "", faults, filled, &error);
}

static void test_a_field_may_be_absent_and_yet_not_null(void **state)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document;
    (void)state;
    assert_int_equal(fill_optional("{}", &faults, &document, &filled), STATUS_OK);
    assert_null(((const struct optional *)filled.params)->name);
    assert_int_equal(json_object_size(document), 0);
    schema_filled_reset(&filled);
    json_decref(document);
    assert_int_equal(fill_optional("{\"name\": null}", &faults, &document, &filled), STATUS_INVALID);
    assert_string_equal(faults.items[0].pointer, "/name");
    json_decref(document);
}

static void test_texts_have_their_form(void **state)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document;
    (void)state;
    assert_int_equal(fill_optional("{\"name\": \"abc\"}", &faults, &document, &filled), STATUS_OK);
    schema_filled_reset(&filled);
    json_decref(document);
    assert_int_equal(fill_optional("{\"name\": \"aBc\"}", &faults, &document, &filled), STATUS_INVALID);
    assert_string_equal(faults.items[0].detail, "must be lower-case letters");
    json_decref(document);
}

static void test_all_faults_are_told_at_once(void **state)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document;
    (void)state;
    assert_int_equal(fill("{\"bits\": 3, \"x\": 1, \"inner\": {\"depth\": \"\"}}", &faults, &filled, &document),
                     STATUS_INVALID);
    assert_int_equal(faults.count, 4);
    json_decref(document);
}

/* A fault that cannot be written as JSON would be left out of the answer. */
static void test_what_a_fault_quotes_is_cut_between_characters(void **state)
{
    struct faults faults = {0};
    struct schema_filled filled;
    json_t *document =
        json_pack("{s:i, s:s, s:i}", "count", 1, "color",
                  "a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                  "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                  "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
                  "x", 1);
    struct error error;
    (void)state;
    assert_non_null(document);
    assert_int_equal(schema_fill(table, sizeof(struct outer), document, "", &faults, &filled, &error), STATUS_INVALID);
    assert_int_equal(faults.count, 2);
    for (size_t i = 0; i < faults.count; i++) {
        json_t *text = json_pack("[s, s]", faults.items[i].pointer, faults.items[i].detail);
        assert_non_null(text);
        json_decref(text);
    }
    json_decref(document);
}

static void test_many_faults_are_counted_and_the_first_kept(void **state)
{
    struct faults faults = {0};
    struct error error;
    (void)state;
    for (int i = 0; i < 100; i++) faults_add(&faults, "/x", "fault %d", i);
    assert_int_equal(faults_kept(&faults), FAULTS_MAX);
    assert_int_equal(faults_status(&faults, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "100"));
}

static enum status collect(void *context, enum param_type type, const char *pointer, json_t *value, struct error *error)
{
    (void)error;
    assert_int_equal(type, PARAM_CHECKPOINT);
    assert_string_equal(pointer, "/params/checkpoint");
    assert_int_equal(json_string_set(value, "other"), 0);
    ++*(int *)context;
    return STATUS_OK;
}

static void test_references_are_visited_and_may_be_replaced(void **state)
{
    struct schema_filled filled;
    struct error error;
    json_t *document;
    int visits = 0;
    (void)state;
    assert_int_equal(fill("{\"count\": 1}", NULL, &filled, &document), STATUS_OK);
    assert_int_equal(schema_references(table, document, "/params", collect, &visits, &error), STATUS_OK);
    assert_int_equal(visits, 1);
    assert_string_equal(json_string_value(json_object_get(document, "checkpoint")), "other");
    schema_filled_reset(&filled);
    json_decref(document);
}

struct references {
    const char *dataset, *trajectory;
    int source;
};

static const struct param dataset_params[] = {
    {.name = "dataset", .type = PARAM_DATASET, .offset = offsetof(struct references, dataset)},
    {0},
};
static const struct param trajectory_params[] = {
    {.name = "trajectory", .type = PARAM_TRAJECTORY, .offset = offsetof(struct references, trajectory)},
    {0},
};
static const struct param_variant sources[] = {{"text", dataset_params, 0}, {"run", trajectory_params, 0}, {0}};
static const struct param references_table[] = {
    {.name = "source", .type = PARAM_VARIANT, .offset = offsetof(struct references, source), .variants = sources},
    {.name = "object", .type = PARAM_OBJECT, .children = dataset_params},
    {0},
};

static enum status note_reference(void *context, enum param_type type, const char *pointer, json_t *value,
                                  struct error *error)
{
    char *seen = context;
    (void)error;
    (void)snprintf(seen + strlen(seen), 100 - strlen(seen), "%d %s %s;", (int)type, pointer, json_string_value(value));
    return STATUS_OK;
}

/* Of a variant those that its name calls for. */
static void test_references_of_variants_and_objects_are_visited(void **state)
{
    struct error error;
    char seen[100] = "", expected[100];
    json_t *document =
        json_loads("{\"source\": {\"name\": \"run\", \"trajectory\": \"t\", \"dataset\": \"not this\"}, \"object\":"
                   " {\"dataset\": \"d\"}}",
                   0, NULL);
    (void)state;
    assert_int_equal(schema_references(references_table, document, "/p", note_reference, seen, &error), STATUS_OK);
    (void)snprintf(expected, sizeof expected, "%d /p/source/trajectory t;%d /p/object/dataset d;",
                   (int)PARAM_TRAJECTORY, (int)PARAM_DATASET);
    assert_string_equal(seen, expected);
    json_decref(document);
}

static void test_completed_values_are_written_back(void **state)
{
    struct error error;
    const struct inner inner = {.depth = 8, .rate = 0.25};
    json_t *document = json_pack("{si sf}", "depth", 3, "rate", 0.5);
    (void)state;
    assert_int_equal(schema_write_back(inner_params, &inner, document, &error), STATUS_OK);
    assert_int_equal(json_integer_value(json_object_get(document, "depth")), 8);
    assert_true(json_real_value(json_object_get(document, "rate")) == 0.25);
    json_decref(document);
    const struct other other = {.loud = false};
    document = json_pack("{sb}", "loud", 1);
    assert_int_equal(schema_write_back(other_params, &other, document, &error), STATUS_OK);
    assert_true(json_is_false(json_object_get(document, "loud")));
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_written_into_struct_and_document),
        cmocka_unit_test(test_variants_fill_their_own_struct),
        cmocka_unit_test(test_each_fault_is_pointed_at),
        cmocka_unit_test(test_bounds_themselves_are_taken),
        cmocka_unit_test(test_integers_may_be_written_with_point_or_exponent),
        cmocka_unit_test(test_other_numbers_are_no_integers),
        cmocka_unit_test(test_bounds_are_held_exactly),
        cmocka_unit_test(test_names_have_no_control_characters),
        cmocka_unit_test(test_a_field_may_be_absent_and_yet_not_null),
        cmocka_unit_test(test_texts_have_their_form),
        cmocka_unit_test(test_all_faults_are_told_at_once),
        cmocka_unit_test(test_what_a_fault_quotes_is_cut_between_characters),
        cmocka_unit_test(test_many_faults_are_counted_and_the_first_kept),
        cmocka_unit_test(test_references_are_visited_and_may_be_replaced),
        cmocka_unit_test(test_references_of_variants_and_objects_are_visited),
        cmocka_unit_test(test_completed_values_are_written_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
