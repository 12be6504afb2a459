/* A body, checked by a table with a row of each type, and by that of requirements; and written as an answer. Every
 * fault can be told as JSON; what is accepted is accepted again, unchanged; an answer says the same as its document. */
#include "fuzz.h"

#include "base/utf8.h"
#include "http/json_answer.h"
#include "http/json_body.h"
#include "http/problem.h"
#include "runs/requirements.h"
#include "schema/form.h"
#include "schema/schema.h"
#include "json/tree_cost.h"

#include <math.h>
#include <string.h>

struct inner {
    int64_t depth;
    double rate;
};

struct outer {
    int64_t count, bits;
    double share;
    bool on;
    const char *name, *checkpoint, *dataset, *text;
    int color, method;
    struct inner inner, square, circle;
    struct param_list numbers, names, inners;
};

static const int64_t bits_allowed[] = {2, 4, 8, 0};
static const char *const colors[] = {"red", "green", NULL};
static const struct param inner_params[] = {
    {.name = "depth",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct inner, depth),
     .fallback = "3",
     .nullable = true},
    {.name = "rate",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct inner, rate),
     .fallback = "0.5",
     .maximum = 1,
     .null_is_negative = true,
     .nullable = true},
    {0},
};
static const struct param_variant variants[] = {
    {"square", inner_params, offsetof(struct outer, square) - offsetof(struct outer, method)},
    {"circle", inner_params, offsetof(struct outer, circle) - offsetof(struct outer, method)},
    {0},
};
static const struct param_recipe recipes[] = {{"deep", "{\"name\": \"square\", \"depth\": 9}"}, {0}};
static const struct param number_item = {.type = PARAM_NUMBER, .minimum = -1, .maximum = 1e6};
static const struct param name_item = {.type = PARAM_CHECKPOINT, .maximum = 40};
static const struct param inner_item = {.type = PARAM_OBJECT, .children = inner_params, .size = sizeof(struct inner)};
#define ROW(field, kind, ...)                                                              \
    {                                                                                      \
        .name = #field, .type = kind, .offset = offsetof(struct outer, field), __VA_ARGS__ \
    }
static const struct param table[] = {
    ROW(count, PARAM_INTEGER, .minimum = 1, .maximum = 9007199254740992.0, .help = "how many"),
    ROW(bits, PARAM_INTEGER, .allowed = bits_allowed, .fallback = "4"),
    ROW(share, PARAM_NUMBER, .fallback = "1"),
    ROW(on, PARAM_BOOLEAN, .fallback = "false"),
    ROW(name, PARAM_STRING, .fallback = "null", .nullable = true, .maximum = 20, .form = &form_name),
    ROW(checkpoint, PARAM_CHECKPOINT, .fallback = "null"),
    ROW(dataset, PARAM_DATASET, .fallback = "\"d\"", .apart = true),
    ROW(text, PARAM_JSON, .fallback = "{}"),
    ROW(color, PARAM_CHOICE, .choices = colors, .fallback = "\"green\""),
    ROW(method, PARAM_VARIANT, .variants = variants, .recipes = recipes, .fallback = "{\"name\": \"circle\"}"),
    ROW(inner, PARAM_OBJECT, .children = inner_params, .fallback = "{}"),
    ROW(numbers, PARAM_LIST, .item = &number_item, .maximum = 4, .fallback = "[]"),
    ROW(names, PARAM_LIST, .item = &name_item, .fallback = "[]"),
    ROW(inners, PARAM_LIST, .item = &inner_item, .fallback = "[]"),
    {.name = "list", .type = PARAM_ARRAY, .fallback = "[]"},
    {0},
};

static void check_text(const char *text)
{
    const size_t length = strlen(text);
    fuzz_require(utf8_check(text, length) == length);
}

static void check_faults(const struct faults *faults, const struct error *error)
{
    const struct problem problem = problem_of_status(STATUS_INVALID);
    json_t *errors = json_array();
    fuzz_require(faults->count > 0 && error->detail[0]);
    for (size_t i = 0; i < faults_kept(faults); i++) {
        check_text(faults->items[i].pointer);
        check_text(faults->items[i].detail);
        fuzz_require(faults->items[i].detail[0]);
        fuzz_require(json_array_append_new(errors, json_pack("{ss ss}", "pointer", faults->items[i].pointer, "detail",
                                                             faults->items[i].detail)) == 0);
    }
    char *said = problem_render(&problem, error, errors, "/v1/runs", "1");
    json_t *read = said != NULL ? json_loads(said, 0, NULL) : NULL;
    fuzz_require(json_array_size(json_object_get(read, "errors")) == faults_kept(faults));
    json_decref(read);
    json_decref(errors);
    free(said);
}

static enum status visit(void *context, enum param_type type, const char *pointer, json_t *value, struct error *error)
{
    (void)type, (void)context, (void)error;
    fuzz_require(pointer[0] == '/' && json_is_string(value));
    return STATUS_OK;
}

static void check_table(const struct param *rows, size_t size, const json_t *given)
{
    struct error error;
    struct faults faults = {0}, none = {0};
    struct schema_filled filled, again;
    json_t *document = json_deep_copy(given);
    const enum status status = schema_fill(rows, size, document, "", &faults, &filled, &error);
    fuzz_require(status == STATUS_OK || status == STATUS_INVALID);
    if (status == STATUS_INVALID) check_faults(&faults, &error);
    if (status == STATUS_OK) {
        json_t *before = json_deep_copy(document);
        fuzz_require(schema_fill(rows, size, document, "", &none, &again, &error) == STATUS_OK);
        fuzz_require(json_equal(before, document) && none.count == 0);
        fuzz_require(schema_references(rows, document, "", visit, NULL, &error) == STATUS_OK);
        schema_filled_reset(&again);
        schema_filled_reset(&filled);
        json_decref(before);
    }
    json_decref(document);
}

static void check_answer(const json_t *document)
{
    char *said = json_answer_dump(document);
    json_t *read = said != NULL ? json_loads(said, JSON_DECODE_ANY, NULL) : NULL;
    fuzz_require(read != NULL && json_equal(read, document));
    json_decref(read);
    free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct error error;
    json_t *body = NULL, *made = NULL;
    const enum status status = json_body_parse((const char *)bytes, size, &body, &error);
    fuzz_require((status == STATUS_OK) == (body != NULL));
    fuzz_require(status == STATUS_OK || status == STATUS_MALFORMED || status == STATUS_TOO_LARGE);
    if (status != STATUS_OK) fuzz_require(error.detail[0]);
    if (status == STATUS_OK) {
        fuzz_require(tree_cost((const char *)bytes, size) >= size);
        check_answer(body);
        check_table(table, sizeof(struct outer), body);
        check_table(requirements_params, sizeof(struct requirements), body);
        fuzz_require(requirements_make(body, &made, &error) == STATUS_OK);
        json_decref(made);
    }
    json_decref(body);
    return 0;
}
