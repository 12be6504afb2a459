#include "unit.h"

#include "schema/form.h"
#include "schema/schema.h"

#include <string.h>

struct box {
    int64_t depth, bits;
    const char *name;
    int color, method;
};
#define AT(field) offsetof(struct box, field)

static const int64_t allowed[] = {2, 4, 0};
static const char *const colors[] = {"red", "green", NULL};
static const struct param_form lower = {"^[a-z]+$", NULL, "must be lower-case letters"};

static const struct param depth_params[] = {
    {.name = "depth", .type = PARAM_INTEGER, .offset = AT(depth), .fallback = "3", .minimum = 1, .maximum = 10},
    {0},
};
static const struct param width_params[] = {
    {.name = "width", .type = PARAM_INTEGER, .offset = AT(depth), .fallback = "3", .minimum = 1, .maximum = 10},
    {0},
};
static const struct param_variant variants[] = {{"square", depth_params, 0}, {"flat_circle", width_params, 0}, {0}};
static const struct param_recipe recipes[] = {{"small", "{\"name\": \"square\", \"depth\": 1}"}, {NULL, NULL}};

/* The description of `table` and of its parts. */
static json_t *describe(const struct param *table)
{
    struct error error;
    json_t *document = json_object();
    assert_int_equal(schema_describe(document, "Table", table, &error), STATUS_OK);
    return document;
}

/* The member at the end of a path: "Table properties depth". Lent. */
static const json_t *at(const json_t *node, const char *path)
{
    char key[40];
    for (; *path != '\0'; path += strspn(path, " ")) {
        const size_t length = strcspn(path, " ");
        assert_true(length < sizeof key);
        memcpy(key, path, length);
        key[length] = '\0';
        node = json_is_array(node) ? json_array_get(node, (size_t)(key[0] - '0')) : json_object_get(node, key);
        path += length;
    }
    return node;
}

#define assert_text(document, path, text) assert_string_equal(json_string_value(at(document, path)), text)

static const struct param plain_table[] = {
    {.name = "count", .type = PARAM_INTEGER, .offset = AT(depth), .minimum = 1, .maximum = 10},
    {.name = "bits", .type = PARAM_INTEGER, .offset = AT(bits), .allowed = allowed, .fallback = "4"},
    {.name = "name", .type = PARAM_STRING, .offset = AT(name), .fallback = "null", .form = &lower},
    {.name = "color",
     .type = PARAM_CHOICE,
     .offset = AT(color),
     .choices = colors,
     .fallback = "null",
     .nullable = true},
    {.name = "inner",
     .type = PARAM_OBJECT,
     .children = depth_params,
     .fallback = "null",
     .nullable = true,
     .help = "a box"},
    {.name = "method",
     .type = PARAM_VARIANT,
     .offset = AT(method),
     .variants = variants,
     .fallback = "{\"name\": \"square\"}"},
    {0},
};

static void test_tables_describe_themselves(void **state)
{
    json_t *document = describe(plain_table);
    const json_t *properties = at(document, "Table properties");
    (void)state;
    assert_int_equal(json_object_size(document), 1);
    assert_int_equal(json_array_size(at(document, "Table required")), 1);
    assert_true(json_is_false(at(document, "Table additionalProperties")));
    assert_int_equal(json_integer_value(at(properties, "count maximum")), 10);
    assert_int_equal(json_array_size(at(properties, "bits enum")), 2);
    assert_int_equal(json_array_size(at(properties, "method oneOf")), 2);
    assert_text(properties, "method oneOf 1 properties name const", "flat_circle");
    assert_text(properties, "name pattern", "^[a-z]+$");
    json_decref(document);
}

/* What may be absent but not null has no default; what may be null is itself or null. */
static void test_null_is_described_where_it_is_allowed(void **state)
{
    json_t *document = describe(plain_table);
    const json_t *properties = at(document, "Table properties");
    (void)state;
    assert_text(properties, "name type", "string");
    assert_null(at(properties, "name default"));
    assert_int_equal(json_array_size(at(properties, "color oneOf 0 enum")), 2);
    assert_text(properties, "color oneOf 1 type", "null");
    assert_true(json_is_null(at(properties, "color default")));
    assert_text(properties, "inner oneOf 0 type", "object");
    assert_text(properties, "inner oneOf 1 type", "null");
    assert_text(properties, "inner description", "a box");
    json_decref(document);
}

static const struct param item = {
    .type = PARAM_OBJECT, .schema = "Depth", .children = depth_params, .size = sizeof(struct box)};
static const struct param named_table[] = {
    {.name = "one", .type = PARAM_OBJECT, .schema = "Depth", .children = depth_params, .help = "the first"},
    {.name = "two",
     .type = PARAM_OBJECT,
     .schema = "Depth",
     .children = depth_params,
     .fallback = "null",
     .nullable = true},
    {.name = "many", .type = PARAM_ARRAY, .item = &item},
    {.name = "bits", .type = PARAM_INTEGER, .schema = "Bits", .offset = AT(bits), .allowed = allowed, .fallback = "4"},
    {0},
};

static void test_parts_with_a_name_are_described_once(void **state)
{
    json_t *document = describe(named_table);
    const json_t *properties = at(document, "Table properties");
    (void)state;
    assert_int_equal(json_object_size(document), 3);
    assert_int_equal(json_integer_value(at(document, "Depth properties depth maximum")), 10);
    assert_null(at(document, "Depth description"));
    assert_text(properties, "one $ref", "#/components/schemas/Depth");
    assert_text(properties, "one description", "the first");
    assert_text(properties, "two oneOf 0 $ref", "#/components/schemas/Depth");
    assert_text(properties, "two oneOf 1 type", "null");
    assert_text(properties, "many items $ref", "#/components/schemas/Depth");
    assert_text(properties, "bits $ref", "#/components/schemas/Bits");
    assert_int_equal(json_integer_value(at(properties, "bits default")), 4);
    assert_null(at(document, "Bits default"));
    json_decref(document);
}

static const struct param variant_table[] = {
    {.name = "shape", .type = PARAM_VARIANT, .schema = "Shape", .offset = AT(method), .variants = variants},
    {.name = "method",
     .type = PARAM_VARIANT,
     .schema = "Method",
     .offset = AT(method),
     .variants = variants,
     .recipes = recipes},
    {0},
};

static void test_variants_with_a_name_are_told_apart_by_theirs(void **state)
{
    json_t *document = describe(variant_table);
    (void)state;
    assert_text(document, "Table properties shape $ref", "#/components/schemas/Shape");
    assert_text(document, "Shape oneOf 1 $ref", "#/components/schemas/ShapeFlatCircle");
    assert_text(document, "Shape discriminator propertyName", "name");
    assert_text(document, "Shape discriminator mapping flat_circle", "#/components/schemas/ShapeFlatCircle");
    assert_text(document, "ShapeFlatCircle properties name const", "flat_circle");
    assert_int_equal(json_integer_value(at(document, "ShapeFlatCircle properties width default")), 3);
    /* A recipe has no "name": it stands beside those that have one. */
    assert_text(document, "Method oneOf 0 $ref", "#/components/schemas/MethodNamed");
    assert_text(document, "Method oneOf 1 $ref", "#/components/schemas/MethodRecipe");
    assert_null(at(document, "Method discriminator"));
    assert_text(document, "MethodNamed discriminator mapping square", "#/components/schemas/MethodSquare");
    assert_text(document, "MethodRecipe properties recipe enum 0", "small");
    json_decref(document);
}

static const struct param absent_table[] = {
    {.name = "depth", .type = PARAM_INTEGER, .offset = AT(depth), .fallback = "3", .absent_differs = true},
    {0},
};

static void test_a_fallback_that_absence_need_not_mean_is_no_default(void **state)
{
    json_t *document = describe(absent_table);
    (void)state;
    assert_text(document, "Table properties depth type", "integer");
    assert_null(at(document, "Table properties depth default"));
    assert_null(at(document, "Table required"));
    json_decref(document);
}

static const struct param clash_table[] = {
    {.name = "one", .type = PARAM_OBJECT, .schema = "Depth", .children = depth_params},
    {.name = "two", .type = PARAM_OBJECT, .schema = "Depth", .children = width_params},
    {0},
};

/* In one table, and over tables of one document. */
static void test_a_name_stands_for_one_schema(void **state)
{
    struct error error;
    json_t *document = json_object();
    (void)state;
    assert_int_equal(schema_describe(document, "Table", clash_table, &error), STATUS_CONFLICT);
    assert_non_null(strstr(error.detail, "\"Depth\""));
    json_decref(document);
    document = describe(named_table);
    assert_int_equal(schema_describe(document, "Other", named_table, &error), STATUS_OK);
    assert_int_equal(schema_describe(document, "Depth", depth_params, &error), STATUS_OK);
    assert_int_equal(schema_describe(document, "Depth", width_params, &error), STATUS_CONFLICT);
    assert_int_equal(json_object_size(document), 4);
    json_decref(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_describe_themselves),
        cmocka_unit_test(test_null_is_described_where_it_is_allowed),
        cmocka_unit_test(test_parts_with_a_name_are_described_once),
        cmocka_unit_test(test_variants_with_a_name_are_told_apart_by_theirs),
        cmocka_unit_test(test_a_fallback_that_absence_need_not_mean_is_no_default),
        cmocka_unit_test(test_a_name_stands_for_one_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
